#!/usr/bin/env bash
# Every backup rule against the exact values of Connect-4, six of them also with 100,000 simulations a position; goes on
# where it was stopped. About 20 core-minutes.
set -euo pipefail
cd "$(dirname "$0")"
some="average,softmax(knots=[2]),softmax(knots=[4]),monotone(knots=[2]),monotone(knots=[5]),coulom(points=42)"
truth() {
    engram truth --game connect_four --search uct --positions 2000 --seed 1 --rules "$1" --simulations "$2" \
        --workers "${WORKERS:-2}" --output .
}
truth "$some,softmax(knots=[0]),max_mcts(trace_decay=0.5),erwa(step=0.01),feedback(profile=1),td(discount=1.0),td" \
    100,300,1000,3000,10000
truth "$some" 100,300,1000,3000,10000,100000
