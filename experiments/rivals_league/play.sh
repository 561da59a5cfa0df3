#!/bin/sh
# Plays the leagues into a folder; the same command again goes on where it stopped. Then `python table.py FOLDER`.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=${1:?name a folder for the results}
mkdir -p "$out"
league() {  # name, game, seconds a move, games of a match, players
    engram league -g "$2" --seconds "$3" --games "$4" --players "$here/$5" --seed 26 --workers 1 \
        -d "$out/league.sqlite" --json > "$out/$1.json"
}
league connect_four connect_four 0.02 8 players.txt
league hex hex:11 0.02 4 players.txt
league go9 go:9 0.05 4 players.txt
league othello othello:8 0.02 6 players.txt
league p_game p_game:branching=4,depth=12 0.01 16 players.txt
league 2048 2048 0.003 6 one_player.txt
