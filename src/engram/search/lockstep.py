"""Many games side by side: every tree takes one step, and an evaluator sees all their leaves as one batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engram.errors import InvalidLimit, InvalidState
from engram.games.game import Game, State
from engram.games.registry import game as game_of
from engram.search.decision import final_move
from engram.search.limit import Limit
from engram.search.presets import Preset, preset
from engram.search.workspace import Workspace

SLICE = 256


@dataclass(frozen=True)
class RootStatistics:
    """What one tree of a lockstep search found.

    Attributes:
      action: the move chosen by the preset's decision.
      actions, visits, value: (A,) each, of every legal move; values for the player to move.
      root_value: in [-1, 1] for the player to move.
      simulations: backed up.
    """

    action: int
    actions: np.ndarray
    visits: np.ndarray
    value: np.ndarray
    root_value: float
    simulations: int


class Lockstep:
    """Searches of up to `num_games` states at once, with one preset.

    Args:
      game, preset: as for `Search`. num_games: trees side by side, ≥ 1.
      max_nodes: bound on the nodes of each tree.

    With compiled evaluation each tree is, bit for bit, the tree that `Search` would grow.
    """

    def __init__(self, game: Game | str, preset_: Preset | str, num_games: int, *, max_nodes: int | None = None):
        self.game = game_of(game)
        self.preset = preset(preset_)
        self._workspace = Workspace(self.game, self.preset, num_games, max_nodes=max_nodes)

    def run(self, states: Sequence[State], limit: Limit, seeds: Sequence[int]) -> list[RootStatistics]:
        """Searches every state with `limit.simulations` each; as many seeds as states.

        Raises:
          InvalidLimit: no number of simulations (games side by side cannot share a clock).
          InvalidState: a game is over, or there are more states than trees.
          OperatorError: an operator or the evaluator failed.
        """
        work = self._workspace
        if not isinstance(limit, Limit) or limit.simulations is None or limit.seconds is not None:
            raise InvalidLimit(f"a lockstep search takes a Limit in simulations alone, not {limit!r}")
        simulations = limit.simulations
        if len(states) > len(work.trees) or len(seeds) != len(states):
            raise InvalidState(f"{len(states)} states and {len(seeds)} seeds for {len(work.trees)} trees")
        work.warm_up()
        work.prepare(simulations)
        for number in range(len(work.trees)):
            work.start(number, 0, 0)
        for number, (state, seed) in enumerate(zip(states, seeds, strict=True)):
            if self.game.is_over(state):
                raise InvalidState(f"{self.game.name}: game {number} is over, there is nothing to search")
            work.set_root(number, state)
            work.start(number, simulations, seed, limit.stop_early)
        while not work.finished():
            work.step(SLICE)
        return [self._statistics(number) for number in range(len(states))]

    def _statistics(self, number: int) -> RootStatistics:
        moves = self._workspace.root(number)
        chosen = final_move(self.preset.decision, moves.value, moves.visits, moves.proven)
        return RootStatistics(
            action=int(moves.action[chosen]),
            actions=moves.action,
            visits=moves.visits,
            value=moves.value,
            root_value=self._workspace.root_value(number),
            simulations=self._workspace.done(number),
        )
