"""Rollouts by a network's policy: a game played out from each leaf of a batch, all side by side."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from typing import Any

import numpy as np

from engram.errors import InvalidParameter, OperatorError
from engram.games.game import Game
from engram.games.record import SLACK
from engram.native.intrinsics import call, call_float
from engram.native.jit import compiled
from engram.networks.encoding import as_bytes
from engram.networks.evaluator import NetworkEvaluator
from engram.rng import mix
from engram.search.evaluation import Evaluation


@compiled
def _begin(games, states, keys, signs):
    for row in range(len(states)):
        state = states[row].ctypes.data
        keys[row] = mix(np.uint64(call(games[0].hash, (state,))))
        signs[row] = 1.0 - 2.0 * call(games[0].to_play, (state,))


@compiled
def _advance(games, states, policy, rows, keys, ply, legal, values):
    """Plays a move drawn by `policy` in each of `rows`, and drops games that are over.

    Returns the number of games that continue, or -1 if `play` failed.
    """
    game, num_playing = games[0], 0
    for k in range(len(rows)):
        row = rows[k]
        state = states[row].ctypes.data
        if game.endings != 0:
            value = call_float(game.endings, (state, policy[k].ctypes.data))
            if not isnan(value):
                values[row] = value * (1.0 - 2.0 * call(game.to_play, (state,)))
                continue
        count = call(game.legal_actions, (state, legal.ctypes.data))
        total = 0.0
        for index in range(count):
            total += policy[k, legal[index]]
        # The draw depends on leaf and ply, not on the call, so a leaf's rollout does not depend on the rest of the
        # batch.
        number = np.float64(mix(keys[row] + np.uint64(ply)) >> np.uint64(11)) * 2.0**-53
        action = np.int64(legal[np.int64(number * count)])
        if total > 0.0:
            number *= total
            for index in range(count):
                number -= policy[k, legal[index]]
                action = np.int64(legal[index])
                if number < 0.0:
                    break
        status = call(game.play, (state, action))
        if status < 0:
            return -1
        if status != 0:
            values[row] = call_float(game.outcome, (state,))
        else:
            rows[num_playing] = row
            num_playing += 1
    return num_playing


class PolicyRollouts:
    """An evaluator whose values are the outcomes of games that a network's policy plays out.

    Args:
      network: its policy draws the moves, and is also the prior. game: compiled.

    The same leaf always has the same rollout. A game longer than `max_moves` counts as a draw. Values are for the
    player to move.

    Raises:
      InvalidParameter: the game is a plain Python game, or not the network's.

    Cost: as many batches of the network as the longest game has moves.
    """

    def __init__(self, network: NetworkEvaluator, game: Game):
        if not game.compiled:
            raise InvalidParameter(f"{game.name} is a plain Python game: rollouts of a network need a compiled one")
        if isinstance(network, NetworkEvaluator):
            network.check_game(game)
        self._network, self._game = network, game
        self._legal = np.zeros(game.num_actions + SLACK, np.int32)

    def evaluate(self, states: Sequence[Any] | np.ndarray) -> Evaluation:
        """Policies (B, num_actions) of B positions, and the outcomes (B,) of a game from each.

        Raises:
          OperatorError: the game's `play` or `encode` failed.
        """
        game = self._game
        answer = self._network.evaluate(states)
        positions = np.array(states, ndmin=1)
        keys, signs, values = np.zeros(len(positions), np.uint64), np.zeros(len(positions)), np.zeros(len(positions))
        record, state_bytes = game.record("endings"), as_bytes(positions)
        _begin(record, state_bytes, keys, signs)
        policy: Any
        rows, policy = np.arange(len(positions)), np.array(answer.policy, np.float32)
        for ply in range(game.max_moves):
            num_playing = _advance(record, state_bytes, policy, rows, keys, ply, self._legal, values)
            if num_playing < 0:
                raise OperatorError(f"{game.name}: its play failed")
            rows = rows[:num_playing]
            if not num_playing:
                break
            policy = self._network.evaluate(positions[rows]).policy
        return Evaluation(values * signs, answer.policy, answer.embedding)
