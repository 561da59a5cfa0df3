"""Reads the games that a player lost on 9×9: where a deep search first sees the loss, and what was lost on the board.

python read.py MATCHES.sqlite [--match 1] [--simulations 10000] [--output losses.json]      # goes on where it stopped
python read.py --table before.json now.json      # the table, and causes.png beside this file

The losing move is A's last one before which the deep search still gives A a third of the games. Chains of two stones or
more that stand then have changed hands if most rollouts from there give their points to A, and most rollouts from
twenty plies later to B. The largest of them names the cause:

ladder          it was saved from three ataris in a row
ko              a ko was taken three times before it fell or the game ended
race            it had at most five liberties when the move was played, and so had a chain of the other side beside it
life and death  any other such chain
seki            the end has a point that neither side may fill
endgame         none of these, and the move is the 45th or later; otherwise territory
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

import engram
from engram.arena.results import Results
from engram.games.go.board import point_of
from engram.plotting import new_figure, save
from engram.rng import new_rng

sys.path.insert(0, str(Path(__file__).parents[1] / "go_problems"))
from problems import beside, name, regions

REFEREE = "puct_rave(rollout=heavy,prior=game)"
CAUSES = ("ladder", "ko", "race", "life and death", "seki", "territory", "endgame")
ROLLOUTS, SHORT, LATE, OWN, OPEN, LATER = 200, 5, 45, 1000, 1 / 3, 20
POINTS = np.array([point_of(action, 9) for action in range(81)])


@dataclass(frozen=True)
class Loss:
    """A lost game.

    Attributes:
      game: its number. move: the losing one, from 1, with its name. better: the deep search's. before, after: A's share
        of won games before the losing move and at A's next move, by the deep search.
      late: plies after the losing move until a search of 1,000 simulations gives A less than a third, too.
      cause: see above.
      chain: a point of the chain that decides, or "".
    """

    game: int
    move: int
    played: str
    better: str
    before: float
    after: float
    late: int
    cause: str
    chain: str


class Reader:
    """Reads lost games with a search."""

    def __init__(self, game: engram.Game, simulations: int):
        self.game, self.simulations = game, simulations
        self.search = engram.Search(game, REFEREE)

    def look(self, state: np.ndarray, simulations: int) -> tuple[float, int]:
        """Share of won games for the player to move, and the best move."""
        self.search.clear()
        result = self.search.run(state, engram.Limit(simulations=simulations), seed=1)
        if result.stopped == "interrupted":  # no position is judged by half a search
            raise KeyboardInterrupt
        return (1.0 + result.value) / 2.0, result.action

    def read(self, record) -> Loss:
        states = [self.game.initial_state()]
        for action in record.moves:
            states.append(self.game.play(states[-1], action))
        side = "AB".index(record.first)
        own = [ply for ply in range(record.opening, len(record.moves)) if ply % 2 == side]
        deep = {ply: self.look(states[ply], self.simulations) for ply in own}
        ahead = [ply for ply in own if deep[ply][0] >= OPEN]
        losing = ahead[-1] if ahead else own[0]
        later = [ply for ply in own if ply > losing]
        discovery = next((ply for ply in later if self.look(states[ply], OWN)[0] < OPEN), len(record.moves))
        cause, chain = self.cause(record, states, losing, side)
        after = deep[later[0]][0] if later else 0.0
        named = map(self.game.action_name, (record.moves[losing], deep[losing][1]))
        return Loss(record.number, losing + 1, *named, deep[losing][0], after, discovery - losing, cause, chain)

    def cause(self, record, states, losing: int, side: int) -> tuple[str, str]:
        mine, stones, final = 1 + side, stones_of(states[losing]), stones_of(states[-1])
        expected = self.shares(states[losing])[mine]
        came = self.shares(states[min(losing + LATER, len(states) - 1)])[mine]
        changed = [
            (chain, owner) for owner in (1, 2) for chain in chains(stones, owner)
            if np.mean(expected[list(chain)]) > 0.5 > np.mean(came[list(chain)])
        ]  # fmt: skip
        if not changed:
            neutral = (owners(final) == 0) & (final == 0)
            return ("seki" if neutral.any() else "territory" if losing + 1 < LATE else "endgame"), ""
        chain, owner = max(changed, key=lambda pair: len(pair[0]))
        return self.fate(record, states, losing, chain, owner), name(min(chain))

    def fate(self, record, states, losing: int, chain: set[int], owner: int) -> str:
        """How a chain's life was decided."""
        cell, takes, ataris, longest = min(chain), {}, 0, 0
        for ply in range(losing, len(record.moves)):
            stones, action = stones_of(states[ply]), record.moves[ply]
            if stones[cell] != owner:
                break
            now = next(part for part in chains(stones, owner) if cell in part)
            if (stones_of(states[ply + 1]) != 0).sum() == (stones != 0).sum() and action < 81:
                takes[action] = takes.get(action, 0) + 1
            if states[ply]["colour"] + 1 == owner:
                runs = len(liberties(stones, now)) == 1 and action in liberties(stones, now)
                ataris = ataris + 1 if runs else 0
                longest = max(longest, ataris)
        stones = stones_of(states[losing])
        near = [other for other in chains(stones, 3 - owner) if beside(other) & chain]
        short = [other for other in near if len(liberties(stones, other)) <= SHORT]
        if longest >= 3:
            return "ladder"
        if max(takes.values(), default=0) >= 2 and sum(takes.values()) >= 3:
            return "ko"
        return "race" if short and len(liberties(stones, chain)) <= SHORT else "life and death"

    def shares(self, state: np.ndarray) -> np.ndarray:
        """Share of heavy rollouts, (3, 81), in which each point ends as neutral, Black's or White's."""
        play_out, rng = self.game.callbacks["heavy_rollout"].from_python, new_rng(1)
        shares = np.zeros((3, 81))
        for _ in range(ROLLOUTS):
            end = np.array([state])
            play_out(end.ctypes.data, rng.ctypes.data)
            owner = owners(stones_of(end[0]))
            shares[owner, np.arange(81)] += 1.0 / ROLLOUTS
        return shares


def stones_of(state: np.ndarray) -> np.ndarray:
    """0 empty, 1 Black, 2 White on each of 81 points."""
    return state["chain"][POINTS] & 3


def chains(stones: np.ndarray, colour: int) -> list[set[int]]:
    """The chains of a colour with two stones or more."""
    parts = regions({cell for cell in range(81) if stones[cell] == colour})
    return [part for part in parts if len(part) >= 2]


def liberties(stones: np.ndarray, chain: set[int]) -> set[int]:
    return {cell for cell in beside(chain) if stones[cell] == 0}


def owners(stones: np.ndarray) -> np.ndarray:
    """The owner of each point by area: 1, 2, or 0 for a point between both."""
    owner = stones.copy()
    for part in regions({cell for cell in range(81) if stones[cell] == 0}):
        colours = {int(stones[cell]) for cell in beside(part)}
        owner[list(part)] = colours.pop() if len(colours) == 1 else 0
    return owner


def read(database: str, number: int, simulations: int, output: Path) -> None:
    with Results(database) as results:
        configuration = results.match(number).configuration
        lost = [record for record in results.games(number) if record.outcome < 0]
    reader = Reader(engram.game(configuration["game"]), simulations)
    losses = json.loads(output.read_text()) if output.exists() else []
    numbers = {loss["game"] for loss in losses}
    for record in lost:
        if record.number not in numbers:
            losses.append(asdict(reader.read(record)))
            output.write_text(json.dumps(losses, indent=1))
            print(len(losses), "of", len(lost), losses[-1], flush=True)


def table(files: list[Path]) -> None:
    sets = {file.stem: json.loads(file.read_text()) for file in files}
    figure = new_figure("the picture", figsize=(7.0, 3.2), layout="constrained")
    axes = figure.subplots()
    for place, (title, losses) in enumerate(sets.items()):
        shares = [sum(loss["cause"] == cause for loss in losses) / len(losses) for cause in CAUSES]
        heights = [row + 0.35 * place for row in range(len(CAUSES))]
        axes.barh(heights, shares, 0.35, label=f"{title}, {len(losses)} games")
    axes.set_yticks(range(len(CAUSES)), CAUSES)
    axes.set_xlabel("share of the lost games")
    axes.legend()
    save(figure, Path(__file__).with_name("causes.png"))
    print("| cause |", " | ".join(sets), "|")
    print("|---|" + "---|" * len(sets))
    for cause in CAUSES:
        counts = [sum(loss["cause"] == cause for loss in losses) for losses in sets.values()]
        print(f"| {cause} | {' | '.join(map(str, counts))} |")
    for label, key in (("losing move, median", "move"), ("plies until 1,000 simulations see it, median", "late")):
        middles = [np.median([loss[key] for loss in losses]) for losses in sets.values()]
        print(f"| {label} | {' | '.join(f'{middle:g}' for middle in middles)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("database", nargs="?")
    parser.add_argument("--match", type=int, default=1)
    parser.add_argument("--simulations", type=int, default=10_000)
    parser.add_argument("--output", type=Path, default=Path("losses.json"))
    parser.add_argument("--table", type=Path, nargs="+")
    options = parser.parse_args()
    if options.table:
        table(options.table)
    else:
        read(options.database, options.match, options.simulations, options.output)


if __name__ == "__main__":
    main()
