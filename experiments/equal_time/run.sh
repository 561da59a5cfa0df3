#!/bin/sh
# What helps at equal time: each search against the plain one, the same seconds a move. Resumes when started again.
#   sh experiments/equal_time/run.sh [DATABASE] [WORKERS]      (no more workers than free cores)
set -e
database=${1:-equal_time.sqlite}
workers=${2:-1}
go() {
    engram match --game "$1" --a "$2" --b "$3" --seconds "$4" --games "$5" --seed 11 --workers "$workers" --database "$database" $6
}
go go:9 "rave(rollout=heavy,prior=game,equivalence=400)" "uct" 0.1 100
go go:9 "rave(rollout=heavy)" "uct" 0.1 100
go go:9 "puct(network='go9')" "uct(rollout=heavy)" 0.1 100
go connect_four "uct(solver=true)" "uct" 0.01 600
go connect_four "uct(transpositions=true)" "uct" 0.01 600
go connect_four "rave" "uct" 0.01 400
go go:9 "rave" "uct" 0.05 100
go go:9 "uct(rollout=heavy)" "uct" 0.1 100 "--resign 0.8"
go go:9 "uct(transpositions=true)" "uct" 0.05 200 "--resign 0.8"
