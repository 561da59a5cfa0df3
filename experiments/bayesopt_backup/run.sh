#!/usr/bin/env bash
# Softmax and Monotone tuned with a network, then confirmed on fresh games. Goes on where it was stopped.
#   experiments/bayesopt_backup/run.sh connect_four|go9 softmax|monotone [FOLDER for the database]
set -euo pipefail
study=$1 rule=$2 folder=${3:-.}
case $study in
    connect_four) game=connect_four network=connect_four options=(-n 100 --max-games 5000 --confirm-games 2000 --trial-games 200) ;;
    go9) game=go:9 network=go9 options=(-n 400 --max-games 1000 --confirm-games 400 --trial-games 80) ;;
esac
engram tune -g "$game" -s "puct(network='$network', backup=$rule)" --against "puct(network='$network')" --knots 6 "${options[@]}" \
    --seed 3 --storage "$folder/bayesopt_${study}_$rule.sqlite" --report "$(dirname "$0")/${study}_$rule"
