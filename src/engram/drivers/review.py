"""A game reviewed: the value of each of its positions by a search, and how much of it each move gave away."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engram.drivers.limit import Limit
from engram.drivers.lockstep import Lockstep
from engram.errors import InvalidGame, InvalidState, check_whole
from engram.games.catalogue import game as game_of
from engram.games.game import Game
from engram.games.state import State
from engram.rng import derive_seed
from engram.search.preset import Preset

_AT_ONCE = 16  # trees searched together, an evaluator's batch
_MOST_NODES = 1 << 24  # of all trees together


@dataclass(frozen=True)
class ReviewedMove:
    """A move of a game, with a search's assessment of it.

    Attributes:
      number: from 1. player: who moved. action, name: of the move.
      before, after: values of the positions before and after the move, for that player, in [-1, 1].
      best, best_name: the search's own move. loss: max(before - after, 0), or 0 if the move is the search's own.
    """

    number: int
    player: int
    action: int
    name: str
    before: float
    after: float
    best: int
    best_name: str

    @property
    def loss(self) -> float:
        """What the move cost its player, ≥ 0, in the game's units; 0 for the search's own move."""
        return 0.0 if self.action == self.best else max(self.before - self.after, 0.0)


def review(
    game: Game | str, positions: Sequence[State], actions: Sequence[int], search: Preset | str, *, simulations: int,
    seed: int = 0, progress: Callable[[int], None] | None = None,
) -> list[ReviewedMove]:  # fmt: skip
    """The moves of a game, each with the value of the position before it and after it.

    Args:
      game: for two players, without chance or rewards on the way.
      positions: n + 1 positions, from before the first move to after the last, each with the right player to move.
        actions: n.
      search: any search that a `Lockstep` takes. simulations: for each position, ≥ 1. seed: of all searches.
      progress: called with the number of positions searched so far.

    Raises:
      InvalidGame: a game of another kind. InvalidState: a game without moves, or a wrong number of positions.
      IllegalAction: an action is not legal in its position.
      EngramError: as `Lockstep` does.

    Cost: a search for each position. A loss compares the values of two searches, so small losses are noise.
    """
    game = game_of(game)
    if game.general_features:
        raise InvalidGame(f"a review compares values between the moves of two players, and {game.name} has other moves")
    check_whole("simulations", simulations, 1)
    if len(actions) == 0:
        raise InvalidState("a game without moves has nothing to review")
    if len(positions) != len(actions) + 1:
        raise InvalidState(f"{len(actions)} moves have {len(actions) + 1} positions, not {len(positions)}")
    actions = [game.legal_action(state, action) for state, action in zip(positions[:-1], actions, strict=True)]
    values = [game.outcome(state) if game.is_over(state) else 0.0 for state in positions]
    best = [-1] * len(positions)
    open_places = [place for place, state in enumerate(positions) if not game.is_over(state)]
    at_once = min(_AT_ONCE, len(open_places), max(1, _MOST_NODES // (simulations * game.num_actions)))
    trees = Lockstep(game, search, at_once)
    for first in range(0, len(open_places), at_once):
        places = open_places[first : first + at_once]
        seeds = [derive_seed(seed, "review", place) for place in places]
        for tree in range(len(places)):
            trees.clear(tree)
        roots = trees.run([positions[place] for place in places], Limit(simulations=simulations), seeds)
        for place, root in zip(places, roots, strict=True):
            values[place] = (1 - 2 * game.to_play(positions[place])) * root.root_value
            best[place] = root.action
        if progress is not None:
            progress(len(positions) - len(open_places) + first + len(places))
    moves = []
    for place, action in enumerate(actions):
        state = positions[place]
        player = game.to_play(state)
        sign = 1 - 2 * player
        names = game.action_name(action, state), game.action_name(best[place], state)
        moves.append(
            ReviewedMove(place + 1, player, action, names[0], sign * values[place], sign * values[place + 1],
                         best[place], names[1])
        )  # fmt: skip
    return moves
