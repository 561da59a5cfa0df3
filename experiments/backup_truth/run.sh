#!/usr/bin/env bash
# Every backup rule against the exact values of Connect-4; goes on where it was stopped. About 5 core-minutes.
set -euo pipefail
cd "$(dirname "$0")"
engram truth --game connect_four --search uct --positions 2000 --seed 1 \
    --rules "average,softmax(knots=[0]),softmax(knots=[2]),softmax(knots=[4]),monotone(knots=[2]),monotone(knots=[5]),coulom(points=42),max_mcts(trace_decay=0.5),erwa(step=0.01),feedback(profile=1),td(discount=1.0),td" \
    --simulations 100,300,1000,3000,10000 --workers "${WORKERS:-2}" --output . "$@"
