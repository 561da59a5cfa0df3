"""Backgammon against rules in plain Python, OpenSpiel's, and published chances."""

from __future__ import annotations

import random

import numpy as np
import pytest

import engram
from engram.errors import InvalidSpecification, InvalidState
from engram.games.record import NATURE

GAME = engram.game("backgammon")


# ------------------------------------------------------------------------------- rules in plain Python
def moved(mine, theirs, source, die):
    """The boards after a move of a checker, or None. Points as `mine` counts; `theirs` by its own count."""
    if not mine[source] or (mine[25] and source != 25):
        return None
    target = source - die
    if target <= 0:
        if any(mine[7:]) or (target < 0 and any(mine[source + 1 :])):
            return None
        target = 0
    elif theirs[25 - target] > 1:
        return None
    mine, theirs = list(mine), list(theirs)
    mine[source] -= 1
    mine[target] += 1
    if target and theirs[25 - target]:
        theirs[25 - target] -= 1
        theirs[25] += 1
    return tuple(mine), tuple(theirs)


def plays(mine, theirs, dice):
    """All sequences of (source, die) and the boards behind them, each as long as it goes."""
    lines = {((), mine, theirs)}
    for place, die in enumerate(dice):
        rest = dice[:place] + dice[place + 1 :]
        for source in range(1, 26):
            after = moved(mine, theirs, source, die)
            if after is not None:
                lines |= {(((source, die), *line), *boards) for line, *boards in plays(*after, rest)}
        if len(set(dice)) == 1:
            break
    longest = max(len(line) for line, *_ in lines)
    return {entry for entry in lines if len(entry[0]) == longest}


def legal_plays(mine, theirs, dice):
    """Those that use as many dice as can be, and the higher if only one of them can."""
    lines = plays(mine, theirs, dice)
    if len(set(dice)) == 2 and {len(line) for line, *_ in lines} == {1}:
        highest = max(line[0][1] for line, *_ in lines)
        lines = {entry for entry in lines if entry[0][0][1] == highest}
    return lines


# -------------------------------------------------------------------------------------- the game's own
def boards(state):
    return tuple(tuple(row) for row in np.asarray(state["checkers"]).tolist())


def turn(state, game=GAME):
    """All sequences of (source, die) of a turn as the player counts, and the states behind them."""
    player = int(state["player"])
    lines, ends = [((), state)], []
    while lines:
        line, at = lines.pop()
        if game.is_over(at) or at["rolls"]:
            ends.append((line, at))
            continue
        for action in game.legal_actions(at):
            relative = action - 150 * player
            source = relative // 6 + 1 if player == 0 else 25 - relative // 6
            lines.append(((*line, (source, relative % 6 + 1)), game.play(at, action)))
    return ends


def test_turns_are_those_of_plain_python():
    """From random games, so with the bar, bearing off, doubles and turns without a move."""
    draw, kinds = random.Random(7), set()
    for _ in range(12):
        state = GAME.initial_state()
        while not GAME.is_over(state):
            if GAME.to_play(state) != NATURE:
                state = GAME.play(state, draw.choice(GAME.legal_actions(state)))
                continue
            mover, before = int(state["player"]), boards(state)
            action = GAME.drawn(state, draw.random())
            state = GAME.play(state, action)
            high, low = map(int, GAME.action_name(action).split("-"))
            dice = (high, low) if high != low else (high,) * 4
            if int(state["num_rolls"]) == 1:
                mover = 0 if high > low else 1
            if draw.random() > 0.15:
                continue
            mine, theirs = before[mover], before[1 - mover]
            expected = legal_plays(mine, theirs, dice)
            if state["rolls"]:  # the turn has passed
                assert {line for line, *_ in expected} == {()} and boards(state) == before
                kinds.add("pass")
                continue
            ends = turn(state)
            assert {(line, boards(end)[mover], boards(end)[1 - mover]) for line, end in ends} == expected
            assert all(GAME.is_over(end) or int(end["player"]) == 1 - mover for _, end in ends)
            kinds |= {"bar"} if mine[25] else set()
            kinds |= {"off"} if any(boards(end)[mover][0] > mine[0] for _, end in ends) else set()
            kinds |= {"hit"} if any(boards(end)[1 - mover][25] > theirs[25] for _, end in ends) else set()
            kinds |= {"double"} if len(dice) == 4 else set()
            kinds |= {"one die"} if len(dice) == 2 and {len(line) for line, _ in ends} == {1} else set()
    assert kinds == {"pass", "bar", "off", "hit", "double", "one die"}


# Different positions after each roll from the start; the rules in plain Python count the same.
OPENINGS = {
    "1-1": 42, "2-1": 15, "2-2": 75, "3-1": 16, "3-2": 17, "3-3": 73, "4-1": 14, "4-2": 18, "4-3": 17, "4-4": 52,
    "5-1": 8, "5-2": 8, "5-3": 9, "5-4": 9, "5-5": 4, "6-1": 10, "6-2": 14, "6-3": 14, "6-4": 14, "6-5": 7, "6-6": 11,
}  # fmt: skip


def opened(roll):
    """The start with a roll, doubles too, as in a later turn."""
    state = GAME.initial_state()
    state["rolls"], state["num_rolls"] = 1, 1
    return GAME.play(state, roll)


def theirs_of(peer):
    """The boards (X's, O's), as their owners count, of a state of OpenSpiel, whose X moves up from 0."""
    tensor = np.array(peer.observation_tensor(0))
    points = tensor[:192].reshape(2, 24, 4)
    numbers = (points * [1, 2, 3, 1]).sum(axis=2) + 3 * (points[:, :, 3] > 0)
    own = [0] * 26, [0] * 26
    for point in range(24):
        own[0][24 - point] = int(numbers[0, point])
        own[1][point + 1] = int(numbers[1, point])
    own[0][25], own[0][0], own[1][25], own[1][0] = (int(tensor[place]) for place in (192, 193, 195, 196))
    return tuple(map(tuple, own))


def test_every_turn_is_that_of_open_spiel():
    """All ends of all turns of random games; OpenSpiel's first player is ours, with the board turned round."""
    pyspiel = pytest.importorskip("pyspiel", reason="OpenSpiel is not installed")
    draw, turns = random.Random(3), 0
    for number in range(12):
        scoring = ("winloss_scoring", "full_scoring")[number % 2]
        game = engram.game("backgammon" if number % 2 == 0 else "backgammon:gammons=true")
        peer = pyspiel.load_game(f"backgammon(scoring_type={scoring})").new_initial_state()
        while not peer.is_terminal():
            before = theirs_of(peer)
            peer.apply_action(draw.choice([action for action, _ in peer.chance_outcomes()]))
            player, dice = peer.current_player(), sorted(map(int, np.array(peer.observation_tensor(0))[-2:]))
            state = game.initial_state()
            state["checkers"], state["player"], state["rolls"], state["num_rolls"] = before, player, 1, 1
            state = game.play(state, f"{dice[1]}-{dice[0]}")
            ends, lines = set(), [peer.clone()]
            while lines:
                at = lines.pop()
                if at.is_terminal() or at.is_chance_node():
                    ends.add((theirs_of(at), at.returns()[0] if at.is_terminal() else None))
                else:
                    lines += [at.child(action) for action in at.legal_actions()]
            if not (state["rolls"] and not game.is_over(state)):
                ours = {(boards(end), game.outcome(end) if game.is_over(end) else None) for _, end in turn(state, game)}
            else:
                ours = {(boards(state), None)}
            assert ours == ends
            turns += 1
            while not peer.is_terminal() and not peer.is_chance_node():
                peer.apply_action(draw.choice(peer.legal_actions()))
    assert turns > 500


# ------------------------------------------------------------------------------------ published chances
def place(mine, theirs, roll=None):
    """Player 0 to roll, or with a roll, from two dictionaries of points; the rest of the checkers is off."""
    state = GAME.initial_state()
    state["checkers"] = 0
    for player, points in enumerate((mine, theirs)):
        for point, number in points.items():
            state["checkers"][player, point] = number
        state["checkers"][player, 0] = 15 - sum(points.values())
    state["rolls"], state["num_rolls"], state["player"] = 1, 10, 0
    return state if roll is None else GAME.play(state, roll)


# Chances in 36 to bear off two checkers in one roll, as every book has them.
TWO_OFF = {
    (1, 1): 36, (1, 2): 36, (1, 3): 34, (1, 4): 29, (1, 5): 23, (1, 6): 15, (2, 2): 26, (2, 3): 25, (2, 4): 23,
    (2, 5): 19, (2, 6): 13, (3, 3): 17, (3, 4): 17, (3, 5): 14, (3, 6): 10, (4, 4): 11, (4, 5): 10, (4, 6): 8,
    (5, 5): 6, (5, 6): 6, (6, 6): 4,
}  # fmt: skip


def in_36(state, holds):
    """Rolls of 36 after which some play reaches a state that holds."""
    total = 0
    for action, share in zip(GAME.legal_actions(state), GAME.probabilities(state), strict=True):
        after = GAME.play(state, action)
        ends = [after] if after["rolls"] or GAME.is_over(after) else [end for _, end in turn(after)]
        total += round(36 * share) * any(holds(end) for end in ends)
    return total


@pytest.mark.parametrize("points", TWO_OFF, ids=str)
def test_the_chances_to_bear_off_two_checkers(points):
    mine = {point: points.count(point) for point in points}
    assert in_36(place(mine, {1: 1}), GAME.is_over) == TWO_OFF[points]


@pytest.mark.parametrize(("closed", "chances"), list(enumerate([36, 35, 32, 27, 20, 11, 0])))
def test_the_chances_to_enter_from_the_bar(closed, chances):
    """With k points closed 36 - k² rolls enter."""
    state = place({25: 1, 1: 1}, dict.fromkeys(range(1, closed + 1), 2) or {20: 1})
    assert in_36(state, lambda end: end["checkers"][0, 25] == 0) == chances


def test_a_search_takes_the_play_with_the_best_chances():
    """From the points 5 and 4 with 2 and 1: all but 3-3 leave 23 of 36, if the enemy throws no double (30 of 36)."""
    state = place({5: 1, 4: 1}, {1: 3}, "2-1")
    result = engram.Search(GAME, "uct(exploration=0.7)").run(state, engram.Limit(simulations=30_000))
    assert result.moves[0].value == pytest.approx(2 * (30 / 36) * (23 / 36) - 1, abs=0.04)
    worst = GAME.play_moves("5/3 4/3", state)
    assert boards(worst)[0][3] == 2
    best = GAME.play(state, result.action)
    again = engram.Search(GAME, "uct(exploration=0.7)").run(best, engram.Limit(simulations=10_000))
    assert boards(GAME.play(best, again.action))[0][3] < 2


# ------------------------------------------------------------------------------------------ the details
def test_the_first_roll_has_no_doubles_and_the_higher_begins():
    state = GAME.initial_state()
    assert GAME.to_play(state) == NATURE and len(GAME.legal_actions(state)) == 30
    assert GAME.probabilities(state) == pytest.approx([1 / 30] * 30)
    assert GAME.to_play(GAME.play(state, "6-1")) == 0 and GAME.to_play(GAME.play(state, "1-6")) == 1
    later = GAME.play_moves("6-1 13/7 8/7", state)
    assert len(GAME.legal_actions(later)) == 21 and sum(GAME.probabilities(later)) == pytest.approx(1.0)
    names = {GAME.action_name(action): share for action, share in zip(
        GAME.legal_actions(later), GAME.probabilities(later), strict=True)}  # fmt: skip
    assert names["6-5"] == pytest.approx(2 / 36) and names["4-4"] == pytest.approx(1 / 36)


@pytest.mark.parametrize("roll", OPENINGS)
def test_the_number_of_positions_after_an_opening_roll(roll):
    before, (high, low) = boards(GAME.initial_state()), map(int, roll.split("-"))
    dice = (high, low) if high != low else (high,) * 4
    assert len({boards(end) for _, end in turn(opened(roll))}) == OPENINGS[roll]
    assert len({line[1:] for line in legal_plays(*before, dice)}) == OPENINGS[roll]


def test_both_players_see_the_same_board():
    """The same play from the other side, in the numbers of the board."""
    black, white = GAME.play_moves("6-1 13/7 8/7"), GAME.play_moves("1-6 12/18 17/18")
    assert boards(black) == boards(white)[::-1]
    assert GAME.hash(black) != GAME.hash(white)


def test_hits_bars_and_names():
    state = GAME.play_moves("2-1 13/11 6/5 4-3")
    names = {GAME.action_name(action) for action in GAME.legal_actions(state)}
    assert "1/5" in names  # the enemy's checker at the 5-point is hit
    state = GAME.play(state, "1/5")
    assert boards(state)[0][25] == 1
    state = GAME.play_moves("12/15 3-1", state)
    assert {GAME.action_name(action) for action in GAME.legal_actions(state)} == {"bar/22", "bar/24"}
    off = place({3: 1, 2: 1}, {1: 1}, "5-3")
    assert {GAME.action_name(action) for action in GAME.legal_actions(off)} == {"3/off(5)", "3/off"}
    assert GAME.same(GAME.parse_state(GAME.render(off)), off)
    for diagram in ("", GAME.render(off).replace("1X", "2X", 1), GAME.render(off).replace("5 3", "5 5 5 5 5")):
        with pytest.raises(InvalidState, match="backgammon"):
            GAME.parse_state(diagram)


def test_gammons_count_twice_and_with_a_checker_behind_thrice():
    game = engram.game("backgammon:gammons=true")
    for theirs, points in (
        ({1: 14}, 1.0),
        ({6: 15}, 2.0),
        ({18: 15}, 2.0),
        ({19: 1, 6: 14}, 3.0),
        ({25: 1, 6: 14}, 3.0),
    ):
        state = place({1: 1}, theirs)
        state["gammons"] = 1
        end = game.play_moves("2-1 1/off(2)", state)
        assert game.is_over(end) and game.outcome(end) == points and game.outcome(end, 1) == -points
    assert game.bounds == (-3.0, 3.0)
    assert engram.check_game(game, games=3).general_features == ("chance", "bounds of its own")
    with pytest.raises(InvalidSpecification, match="gammons"):
        engram.game("backgammon:gammons=7")


@pytest.mark.parametrize("dice", ["63", "6 3", "36"])
def test_dice_of_a_diagram_may_stand_together(dice):
    state = GAME.play_moves("6-3")
    diagram = GAME.render(state)
    assert "has 6 3" in diagram
    assert GAME.same(GAME.parse_state(diagram.replace("has 6 3", f"has {dice}")), state)
    with pytest.raises(InvalidState, match="a turn two dice"):
        GAME.parse_state(diagram.replace("has 6 3", "has 464"))


def test_the_contract_the_file_and_the_end(tmp_path):
    assert engram.check_game(GAME, games=5).general_features == ("chance",)
    state = GAME.play_moves("6-5 24/18 18/13 4-4 1/5")
    search = engram.Search(GAME, "uct")
    search.run(state, engram.Limit(simulations=200))
    search.save(tmp_path / "tree")
    other = engram.Search(GAME, "uct")
    other.load(tmp_path / "tree")
    assert GAME.same(other.root, state)
    late = GAME.play_moves("6-5 24/18")
    late["num_rolls"] = 2000
    end = GAME.play(late, "18/13")
    assert GAME.is_over(end) and GAME.outcome(end) == 0.0
