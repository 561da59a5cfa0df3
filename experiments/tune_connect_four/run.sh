#!/usr/bin/env bash
# Both studies, 5,000 games together; goes on where it was stopped.
set -euo pipefail
cd "$(dirname "$0")"
common=(-g connect_four -n 400 --tune exploration=0.2:3:log --storage study.sqlite)
engram tune "${common[@]}" --search "uct()" --against "uct()" --max-games 1200 --confirm-games 400 --trial-games 200 \
    --seed 1 --report average
tuned=$(python -c "import json; print(json.load(open('average/tuning.json'))['best'])")
engram tune "${common[@]}" --search "uct(backup=softmax)" --against "$tuned" --knots 4 --max-games 3800 \
    --confirm-games 1000 --trial-games 400 --seed 2 --report softmax
