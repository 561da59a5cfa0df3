#!/usr/bin/env bash
# Softmax and Monotone tuned with a network, then confirmed on fresh games. Goes on where it was stopped.
#   experiments/bayesopt_backup/run.sh connect_four|go9 softmax|monotone [FOLDER for the database]
set -euo pipefail
study=$1 rule=$2 folder=${3:-.}
case $study in
    connect_four)
        game=connect_four player="network='connect_four'"
        options=(-n 100 --knots 6 --max-games 5000 --confirm-games 2000 --trial-games 200 --seed 3) ;;
    go9)
        game=go:9 player="network='go9', num_leaves=4"
        options=(-n 400 --knots 2 --max-games 5600 --confirm-games 4000 --trial-games 1200 --resign 0.9 --seed 41) ;;
esac
engram tune -g "$game" -s "puct($player, backup=$rule)" --against "puct($player)" "${options[@]}" \
    --storage "$folder/bayesopt_${study}_$rule.sqlite" --report "$(dirname "$0")/${study}_$rule"
