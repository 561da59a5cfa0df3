"""Does an engine keep its time? Moves of `--seconds`, and whole games on its own clock, as a referee measures them.

    python benchmarks/clocks.py [--search "uct"] [--moves 60] [--seconds 1] [--games 5] [--main 20]

`moves` prints by how much moves exceed their seconds, by the clock and in processor time of the engine. `games` plays
an engine against itself over the Go Text Protocol, one process a side. The referee sends `time_settings` once and
never `time_left`; a side loses on time if its answers take longer than the main time together.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from subprocess import PIPE, Popen

import engram

ENGINE = [sys.executable, "-c", "from engram.cli.app import main; main()", "gtp", "-g", "go:9", "-s"]


def overruns(search: str, moves: int, seconds: float) -> tuple[list[float], list[float]]:
    """What each move of a game took beyond its seconds: by the clock, and of processor time."""
    game = engram.game("go:9")
    player, state = engram.Search(game, search), game.initial_state()
    player.run(state, engram.Limit(seconds=0.1))
    clock, processor = [], []
    for _ in range(moves):
        start, used = time.perf_counter(), time.process_time()
        action = player.run(state, engram.Limit(seconds=seconds)).action
        processor.append(time.process_time() - used - seconds)
        clock.append(time.perf_counter() - start - seconds)
        state = game.play(state, action)
        player.advance(action)
        if game.is_over(state):
            state = game.initial_state()
    return clock, processor


def ask(engine: Popen[str], command: str) -> str:
    """The answer to a command."""
    assert engine.stdin is not None
    assert engine.stdout is not None
    engine.stdin.write(command + "\n")
    engine.stdin.flush()
    answer = engine.stdout.readline().strip()
    engine.stdout.readline()
    return answer.removeprefix("=").strip()


def clocked_game(engines: list[Popen[str]], main_s: float) -> list[float]:
    """Seconds that each side took for all its moves."""
    for engine in engines:
        for command in ("clear_board", "komi 7.5", f"time_settings {main_s:g} 0 0"):
            ask(engine, command)
    seconds, passes, mover = [0.0, 0.0], 0, 0
    while passes < 2:
        colour = "bw"[mover]
        start = time.perf_counter()
        move = ask(engines[mover], f"genmove {colour}")
        seconds[mover] += time.perf_counter() - start
        if move == "resign":
            break
        ask(engines[1 - mover], f"play {colour} {move}")
        passes = passes + 1 if move == "pass" else 0
        mover = 1 - mover
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--search", default="uct")
    parser.add_argument("--moves", type=int, default=60)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--games", type=int, default=5)
    parser.add_argument("--main", type=float, default=20.0)
    options = parser.parse_args()
    if options.moves:
        for name, extra in zip(
            ("clock", "processor"), overruns(options.search, options.moves, options.seconds), strict=True
        ):
            shares = [x / options.seconds for x in extra]
            long = sum(share > 0.01 for share in shares)
            spread = f"{statistics.median(shares):+.2%} median, {max(shares):+.2%} most"
            print(f"{name}: {spread}, {long} of {len(shares)} moves over 1 %", flush=True)
    engines = [Popen([*ENGINE, options.search], stdin=PIPE, stdout=PIPE, text=True) for _ in range(2)]
    slowest = 0.0
    for number in range(options.games):
        seconds = clocked_game(engines, options.main)
        slowest = max(slowest, *seconds)
        print(json.dumps({"game": number, "seconds": [round(x, 2) for x in seconds]}), flush=True)
    for engine in engines:
        ask(engine, "quit")
    if options.games:
        print(f"the slowest side took {slowest:.2f} of {options.main:g} s")


if __name__ == "__main__":
    main()
