"""A position and its images share one canonical hash; other positions do not."""

from __future__ import annotations

import random

import numpy as np
import pytest

import engram
from engram.errors import InvalidGame
from tests.games.test_contract import one_heap

TEXTS = ["tic_tac_toe", "connect_four", "line:rows=3,columns=5,run=3", "gomoku:9", "go:4", "go:5,komi=3",
         "line:rows=5,columns=14,run=4,gravity=true"]  # fmt: skip


def random_line(game, seed):
    rng, state, moves = random.Random(seed), game.initial_state(), []
    for _ in range(rng.randint(1, min(30, game.max_moves))):
        if game.is_over(state):
            break
        moves.append(rng.choice(game.legal_actions(state)))
        state = game.play(state, moves[-1])
    return moves, state


@pytest.mark.parametrize("text", TEXTS)
def test_images_share_one_hash(text):
    game = engram.game(text)
    plain = set()
    for seed in range(30):
        moves, state = random_line(game, seed)
        for symmetry in game.symmetries:
            turned = game.play_moves([int(symmetry.actions[move]) for move in moves])
            assert game.canonical_hash(turned) == game.canonical_hash(state), (moves, symmetry.actions)
            plain.add(game.hash(turned))
    assert len(game.symmetries) == {"connect_four": 2, TEXTS[-1]: 2, TEXTS[2]: 4}.get(text, 8)
    assert len(plain) > 30


def test_the_number_of_tic_tac_toe_positions_is_the_known_one():
    # 5,478 positions can be reached; up to turning and mirroring 765 (OEIS A008907 summed).
    game = engram.game("tic_tac_toe")
    plain, canonical, queue = {}, set(), [game.initial_state()]
    while queue:
        state = queue.pop()
        if game.hash(state) in plain:
            continue
        plain[game.hash(state)] = True
        canonical.add(game.canonical_hash(state))
        queue += [game.play(state, action) for action in game.legal_actions(state)]
    assert (len(plain), len(canonical)) == (5478, 765)


@pytest.mark.parametrize(("text", "plies"), [("connect_four", 6), ("go:3", 4)])
def test_different_positions_keep_different_hashes(text, plies):
    # Brute force: two positions share a canonical hash exactly when a symmetry's hash joins them.
    game = engram.game(text)
    groups = {}
    layer = [((), game.initial_state())]
    for _ in range(plies):
        layer = [((*moves, a), game.play(state, a)) for moves, state in layer for a in game.legal_actions(state)]
        layer = random.Random(plies).sample(layer, min(len(layer), 300))
        for moves, state in layer:
            images = set()
            for symmetry in game.symmetries:
                images.add(game.hash(game.play_moves([int(symmetry.actions[move]) for move in moves])))
            groups.setdefault(game.canonical_hash(state), []).append(frozenset(images))
    assert all(len(set(images)) == 1 for images in groups.values())
    assert len({frozenset(images[0]) for images in groups.values()}) == len(groups)


def test_a_game_without_it_has_its_hash():
    game = one_heap()
    state = game.initial_state()
    assert game.canonical_hash(state) == game.hash(state)


def test_check_game_refuses_a_canonical_hash_that_joins_too_much():
    def nothing(state):
        return np.uint64(7)

    def heap_only(state):
        return np.uint64(state.left + 1)

    for wrong, what in ((nothing, "players to move|apart"), (heap_only, "players to move|outcomes")):
        with pytest.raises(InvalidGame, match=what):
            engram.check_game(one_heap(canonical_hash=wrong), games=60)
