"""Searches of engram against OpenSpiel's own Python MCTS, and its C++ one, on the same games.

python benchmarks/openspiel.py [game ...]            (needs open_spiel)
    OpenSpiel's games through engram's adapter
python benchmarks/openspiel.py --built-in [SIMULATIONS] [game ...]
    engram's own games, where OpenSpiel has the same one, with 1,000 simulations a search or another number;
    their Python search always has 1,000
python benchmarks/openspiel.py --score SIDE FIRST-LAST [SIMULATIONS]
    2048 played to the end, a game for each seed: by a preset of engram, such as "uct(bounds=learnt)", or by
    `openspiel`, its Python MCTS. A game of theirs would take hours at 1,000 simulations a move. So engram's compiled
    rollout stands in for theirs, as uniformly random as theirs: the first lines compare their means
python benchmarks/openspiel.py --difference LOG LOG
    the difference of mean scores between two such logs, with Welch's interval

One process, in turns, by processor time; UCT with one random rollout a simulation on all sides, from the first
position where a player moves. The exploration of OpenSpiel's search is 1, and 1,000 points in 2048, about that of
engram.
"""

from __future__ import annotations

import statistics
import sys
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyspiel
import scipy.stats
from open_spiel.python.algorithms import mcts

import engram
from engram.games.record import NATURE
from engram.games.twenty_forty_eight import state_dtype
from engram.rng import rng_dtype, seed_rng

GAMES = ["breakthrough", "hex(board_size=7)", "clobber", "tic_tac_toe", "othello", "pig", "backgammon"]
TWINS = {
    "tic_tac_toe": "tic_tac_toe", "connect_four": "connect_four", "othello:8": "othello", "hex:11": "hex",
    "breakthrough:8": "breakthrough", "dots_and_boxes:rows=2,columns=2": "dots_and_boxes",
    "dots_and_boxes:rows=4,columns=4": "dots_and_boxes(num_rows=4,num_cols=4)", "pig": "pig",
    "go:9": "go(board_size=9)", "2048": "2048",
}  # fmt: skip
SIMULATIONS = 1000
ROUNDS = 9
EXPLORATION_2048 = 1000.0
EXPONENTS = {"0": 0} | {str(1 << exponent): exponent for exponent in range(1, 18)}


def to_a_player(game: engram.Game):
    """The first position of engram's game where a player moves."""
    state, draws = game.initial_state(), np.random.default_rng(1)
    while game.has("chance") and game.to_play(state) == NATURE:
        state = game.play(state, game.drawn(state, draws.random()))
    return state


def to_their_player(state, draws):
    """Draws nature's moves of OpenSpiel's state until a player moves."""
    while state.is_chance_node():
        actions, weights = zip(*state.chance_outcomes(), strict=True)
        state.apply_action(int(draws.choice(actions, p=weights)))
    return state


def preset_of(game: engram.Game) -> str:
    """UCT; with learnt bounds where those of the game are unknown, or far wider than its returns."""
    return "uct(bounds=learnt)" if game.bounds is None or game.name == "2048" else "uct"


def ours(game: engram.Game, simulations: int, repeats: int = 1) -> float:
    search, state = engram.Search(game, preset_of(game)), to_a_player(game)
    seconds = 0.0
    for repeat in range(repeats):
        search.clear()
        start = time.process_time()
        search.run(state, engram.Limit(simulations=simulations), seed=repeat)
        seconds += time.process_time() - start
    return repeats * simulations / seconds


class Terminal:
    """A game that declares no rewards on the way.

    OpenSpiel's Python search then takes 2048, and needs no more: it reads the returns of whole games alone.
    """

    def __init__(self, game):
        self._game = game

    def get_type(self):
        return SimpleNamespace(
            reward_model=pyspiel.GameType.RewardModel.TERMINAL, dynamics=pyspiel.GameType.Dynamics.SEQUENTIAL
        )

    def max_utility(self) -> float:
        return self._game.max_utility()


def python_bot(game, seed: int, simulations: int = SIMULATIONS, evaluator=None):
    rng = np.random.RandomState(seed)
    exploration = EXPLORATION_2048 if game.get_type().short_name == "2048" else 1.0
    evaluator = evaluator or mcts.RandomRolloutEvaluator(1, rng)
    return mcts.MCTSBot(Terminal(game), exploration, simulations, evaluator, solve=False, random_state=rng)


def in_python(game) -> float:
    """At 1,000 simulations, whatever the others run: it is too slow for more."""
    return timed(python_bot(game, 1), game, SIMULATIONS)


def in_cpp(game, simulations: int) -> float:
    """nan where its C++ search refuses the game, which it does with rewards on the way."""
    if game.get_type().reward_model == pyspiel.GameType.RewardModel.REWARDS:
        return np.nan
    evaluator = pyspiel.RandomRolloutEvaluator(1, 1)
    return timed(pyspiel.MCTSBot(game, evaluator, 1.0, simulations, 1000, False, 1, False), game, simulations)


def timed(bot, game, simulations: int) -> float:
    state = to_their_player(game.new_initial_state(), np.random.default_rng(1))
    start = time.process_time()
    bot.mcts_search(state)
    return simulations / (time.process_time() - start)


def speeds(pairs: dict[str, str], simulations: int = SIMULATIONS) -> None:
    print(f"{'simulations/s':32} {'engram':>10} {'Python MCTS':>12} {'ratio':>7} {'C++ MCTS':>10} {'ratio':>7}")
    for name, twin in pairs.items():
        game, spiel = engram.game(name), pyspiel.load_game(twin)
        ours(game, simulations)  # compiles
        repeats = max(1, round(0.2 * ours(game, simulations) / simulations))
        sides = [
            partial(ours, game, simulations, repeats), partial(in_python, spiel), partial(in_cpp, spiel, simulations),
        ]  # fmt: skip
        rounds = np.array([[side() for side in sides] for _ in range(ROUNDS)])
        a, b, c = (statistics.median(column) for column in rounds.T)
        python, cpp = np.median(rounds[:, :1] / rounds[:, 1:], axis=0)
        print(f"{name:32} {a:>10,.0f} {b:>12,.0f} {python:>7.1f} {c:>10,.0f} {cpp:>7.2f}", flush=True)


class Rollouts(mcts.RandomRolloutEvaluator):
    """Uniform rollouts of 2048 from OpenSpiel's positions, by engram's compiled function."""

    def __init__(self, seed: int):
        super().__init__()
        self._play_out = engram.game("2048").callbacks["rollout"].from_python
        self._state, self._rng = np.zeros((), state_dtype), np.zeros(1, rng_dtype)
        seed_rng(self._rng[0], seed)

    def evaluate(self, state):
        cells = [EXPONENTS[tile] for tile in str(state).split()]
        self._state["cells"] = cells
        self._state["free"], self._state["pending"] = cells.count(0), state.is_chance_node()
        return np.array([state.returns()[0] + self._play_out(self._state.ctypes.data, self._rng.ctypes.data)])


def compare_rollouts(count: int) -> None:
    """Prints the mean returns of both rollouts from one position."""
    state = to_their_player(pyspiel.load_game("2048").new_initial_state(), np.random.default_rng(1))
    rollouts = {"OpenSpiel": mcts.RandomRolloutEvaluator(1, np.random.RandomState(1)), "engram": Rollouts(1)}
    for name, evaluator in rollouts.items():
        returns = np.array([evaluator.evaluate(state)[0] for _ in range(count)])
        print(f"a rollout of {name}: mean {returns.mean():.0f} ± {1.96 * returns.std() / count**0.5:.0f}", flush=True)


def our_game(preset: str, number: int, simulations: int) -> tuple[float, float, int]:
    """A game of 2048 by engram: score, seconds of search a move, and moves."""
    game = engram.game("2048")
    search, draws, state = engram.Search(game, preset), np.random.default_rng(number), game.initial_state()
    score, seconds, moves = 0.0, 0.0, 0
    while not game.is_over(state):
        if game.to_play(state) == NATURE:
            action = game.drawn(state, draws.random())
        else:
            result = search.run(state, engram.Limit(simulations=simulations), seed=moves)
            action, seconds, moves = result.action, seconds + result.seconds, moves + 1
        state = game.play(state, action)
        search.clear()  # OpenSpiel's search keeps no tree either
        score += game.reward(state)
    return score, seconds / moves, moves


def their_game(number: int, simulations: int) -> tuple[float, float, int]:
    """A game of 2048 by OpenSpiel's Python MCTS with engram's rollouts, which goes on after a tile of 2048."""
    game, draws = pyspiel.load_game("2048(max_tile=131072)"), np.random.default_rng(number)
    bot = python_bot(game, number, simulations, Rollouts(number))
    state = to_their_player(game.new_initial_state(), draws)
    seconds, moves = 0.0, 0
    while not state.is_terminal():
        start = time.perf_counter()
        state.apply_action(bot.step(state))
        seconds, moves = seconds + time.perf_counter() - start, moves + 1
        if not state.is_terminal():
            to_their_player(state, draws)
    return state.returns()[0], seconds / moves, moves


def scores(side: str, seeds: range, simulations: int) -> None:
    compare_rollouts(1000)
    totals = []
    for number in seeds:
        play = their_game if side == "openspiel" else partial(our_game, side)
        score, pace, moves = play(number, simulations)
        totals.append(score)
        print(f"{number} {side}: {score:.0f} in {moves} moves, {1000 * pace:.1f} ms each", flush=True)
    error = statistics.stdev(totals) / len(totals) ** 0.5 if len(totals) > 1 else np.nan
    print(f"{side}: mean score {statistics.mean(totals):.0f} ± {1.96 * error:.0f} (95 %), {len(totals)} games")


def difference(*logs: str) -> None:
    lines = [Path(log).read_text().splitlines() for log in logs]
    first, second = ([float(line.split(": ")[1].split()[0]) for line in log if " ms each" in line] for log in lines)
    test = scipy.stats.ttest_ind(first, second, equal_var=False)
    low, high = test.confidence_interval()
    means = statistics.mean(first), statistics.mean(second)
    print(f"{len(first)} games of mean {means[0]:.0f}, {len(second)} of mean {means[1]:.0f}")
    print(f"difference {means[0] - means[1]:+.0f}, 95 % interval {low:+.0f} to {high:+.0f}, p = {test.pvalue:.2g}")


def main() -> None:
    words = sys.argv[1:]
    if words[:1] == ["--score"]:
        first, last = map(int, words[2].split("-"))
        scores(words[1], range(first, last + 1), int(words[3]) if len(words) > 3 else SIMULATIONS)
    elif words[:1] == ["--difference"]:
        difference(*words[1:])
    elif words[:1] == ["--built-in"]:
        simulations = int(words.pop(1)) if words[1:] and words[1].isdecimal() and words[1] not in TWINS else SIMULATIONS
        speeds({name: TWINS[name] for name in words[1:] or TWINS}, simulations)
    else:
        speeds({f"openspiel:{name}": name for name in words or GAMES})


if __name__ == "__main__":
    main()
