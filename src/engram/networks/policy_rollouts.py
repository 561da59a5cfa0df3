"""Rollouts by a network's policy: a game played out from each leaf of a batch, all side by side."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from typing import Any

import numpy as np

from engram.errors import InvalidParameter, OperatorError
from engram.games.game import SLACK, Game
from engram.native.intrinsics import call, call_float
from engram.native.jit import compiled
from engram.networks.encoding import as_bytes
from engram.networks.evaluator import NetworkEvaluator
from engram.rng import mix
from engram.search.evaluation import Evaluation


@compiled
def _begin(games, states, names, signs):
    for row in range(len(states)):
        state = states[row].ctypes.data
        names[row] = mix(np.uint64(call(games[0].hash, (state,))))
        signs[row] = 1.0 - 2.0 * call(games[0].to_play, (state,))


@compiled
def _advance(games, states, policy, rows, names, ply, legal, values):
    """Plays a move drawn by `policy` in each of `rows`, and drops those that are over; how many are left, or -1."""
    game, left = games[0], 0
    for k in range(len(rows)):
        row = rows[k]
        state = states[row].ctypes.data
        if game.endings != 0:
            won = call_float(game.endings, (state, policy[k].ctypes.data))
            if not isnan(won):
                values[row] = won * (1.0 - 2.0 * call(game.to_play, (state,)))
                continue
        count = call(game.legal_actions, (state, legal.ctypes.data))
        total = 0.0
        for at in range(count):
            total += policy[k, legal[at]]
        # By leaf and ply, not by call: a leaf's rollout does not depend on what else is asked.
        drawn = np.float64(mix(names[row] + np.uint64(ply)) >> np.uint64(11)) * 2.0**-53
        action = np.int64(legal[np.int64(drawn * count)])
        if total > 0.0:
            drawn *= total
            for at in range(count):
                drawn -= policy[k, legal[at]]
                action = np.int64(legal[at])
                if drawn < 0.0:
                    break
        over = call(game.play, (state, action))
        if over < 0:
            return -1
        if over != 0:
            values[row] = call_float(game.outcome, (state,))
        else:
            rows[left] = row
            left += 1
    return left


class PolicyRollouts:
    """An evaluator whose values are the outcomes of games that a network's policy plays out.

    Args:
      network: whose policy draws the moves, and answers as the prior. game: compiled.

    A leaf's rollout is the same whenever it is asked for. A game longer than `max_moves` counts as a draw. Values are
    for the player to move.

    Raises:
      InvalidParameter: a plain Python game.

    Cost: as many batches of the network as the longest game has moves.
    """

    def __init__(self, network: NetworkEvaluator, game: Game):
        if not game.compiled:
            raise InvalidParameter(f"{game.name} is a plain Python game: a network's rollouts need a compiled one")
        self._network, self._game = network, game
        self._legal = np.zeros(game.num_actions + SLACK, np.int32)

    def evaluate(self, states: Sequence[Any] | np.ndarray) -> Evaluation:
        """Policies of B positions, and the outcome of a game from each.

        Raises:
          OperatorError: the game's `play` or `encode` failed.
        """
        game = self._game
        answer = self._network.evaluate(states)
        playing = np.array(states, copy=True)
        names, signs, values = np.zeros(len(playing), np.uint64), np.zeros(len(playing)), np.zeros(len(playing))
        record, state_bytes = game.record("endings"), as_bytes(playing)
        _begin(record, state_bytes, names, signs)
        policy: Any
        rows, policy = np.arange(len(playing)), np.array(answer.policy, np.float32)
        for ply in range(game.max_moves):
            left = _advance(record, state_bytes, policy, rows, names, ply, self._legal, values)
            if left < 0:
                raise OperatorError(f"{game.name}: its play failed")
            rows = rows[:left]
            if not left:
                break
            policy = self._network.evaluate(playing[rows]).policy
        return Evaluation(values * signs, answer.policy, answer.embedding)
