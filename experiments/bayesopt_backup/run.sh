#!/usr/bin/env bash
# Softmax and Monotone tuned with a network, then confirmed on fresh games. Goes on where it was stopped.
#   experiments/bayesopt_backup/run.sh connect_four|go9 softmax|monotone|joint|exploration [FOLDER for the database]
# joint: Monotone and the exploration constant together; exploration: the constant alone, which joint is measured by.
set -euo pipefail
study=$1 rule=$2 folder=${3:-.}
case $study in
    connect_four)
        game=connect_four player="network='connect_four'"
        knots=6 options=(-n 100 --max-games 5000 --confirm-games 2000 --trial-games 200 --seed 3) ;;
    go9)
        game=go:9 player="network='go9', num_leaves=4"
        knots=2 options=(-n 400 --max-games 5600 --confirm-games 4000 --trial-games 1200 --resign 0.9 --seed 41) ;;
esac
case $rule in
    joint) search="puct($player, backup=monotone)" options+=(--knots $knots --tune exploration=0.4:4:log) ;;
    exploration) search="puct($player)" options+=(--tune exploration=0.4:4:log) ;;
    *) search="puct($player, backup=$rule)" options+=(--knots $knots) ;;
esac
engram tune -g "$game" -s "$search" --against "puct($player)" "${options[@]}" \
    --storage "$folder/bayesopt_${study}_$rule.sqlite" --report "$(dirname "$0")/${study}_$rule"
