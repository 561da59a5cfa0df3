"""Plans: the best complete line of a one-player game, against all lines of small games and against its own replay."""

import itertools
import json
import signal
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

import engram
from engram.cli.app import app
from engram.drivers.limit import Limit
from engram.drivers.planning import plan
from engram.drivers.search import Search
from engram.errors import EngramError, InvalidGame, InvalidLimit, InvalidParameter, InvalidState
from engram.games.catalogue import game as game_of
from engram.presets.catalogue import preset
from engram.search.extensions.best_line import BestLine


class Knapsack:
    """Objects are taken or left in turn; the values count, at the end or on the way, less a fine for excess weight."""

    VALUES, WEIGHTS, ROOM = (60, 50, 40, 30, 20), (10, 9, 8, 4, 3), 21

    def __init__(self, taken=()):
        self.taken = taken

    def legal_actions(self):
        return [] if len(self.taken) == 5 else [0] if len(self.taken) == 3 else [0, 1]  # the fourth cannot be taken

    def play(self, action):
        self.taken = (*self.taken, action)

    def copy(self):
        return Knapsack(self.taken)

    def to_play(self):
        return 0

    def outcome(self):
        return worth(self.taken)


def worth(taken):
    weight = sum(weight for weight, is_in in zip(Knapsack.WEIGHTS, taken, strict=True) if is_in)
    value = sum(value for value, is_in in zip(Knapsack.VALUES, taken, strict=True) if is_in)
    return float(value if weight <= Knapsack.ROOM else -weight)


def knapsack(**options):
    return engram.PythonGame("knapsack", Knapsack, num_actions=2, max_moves=5, players=1, bounds=None, **options)


@pytest.mark.parametrize(
    "search", ["uct(bounds=learnt)", "uct(bounds=learnt,exploration=0.1)", "td_uct(bounds=learnt)"]
)
def test_the_best_of_all_lines_is_the_plan(search):
    best = max(worth(taken) for taken in itertools.product((0, 1), repeat=5) if not taken[3])
    better = []
    best_plan = plan(knapsack(), search, Limit(simulations=400), seed=3, progress=better.append)
    assert best_plan.value == best == worth(best_plan.actions)
    assert best_plan.simulations <= 400 and len(best_plan.actions) == 5 and best_plan.actions[3] == 0
    values = [step.value for step in best_plan.improvements]
    assert values == sorted(set(values)) == sorted({each.value for each in better})
    assert best_plan.improvements[-1].simulation <= best_plan.simulations
    again = plan(knapsack(), search, Limit(simulations=400), seed=3)
    assert again.actions == best_plan.actions and again.simulations == best_plan.simulations
    part = plan(knapsack(), search, Limit(simulations=50), start=Knapsack((0, 0, 0)))
    assert part.value == 20 and part.actions == (0, 1)


def test_rewards_on_the_way_and_a_discount_count():
    best_plan = plan("same_game:seed=3,rows=4,columns=4,colours=2", "uct(rollout=heavy)", Limit(simulations=3000))
    game = game_of(best_plan.game)
    assert best_plan.value == game.line_return(best_plan.actions) and list(best_plan.names) == game.move_names(
        best_plan.actions
    )
    lines, best = [((), game.initial_state())], 0.0
    while lines:
        line, state = lines.pop()
        if game.is_over(state):
            best = max(best, game.line_return(line))
        else:
            lines += [((*line, action), game.play(state, action)) for action in game.legal_actions(state)]
    assert best_plan.value == best > 0


@pytest.mark.parametrize("rollout", ["uniform", "heavy"])
def test_rollouts_of_same_game_write_their_moves(rollout):
    game = game_of("same_game")
    line = BestLine(game)
    base = preset(f"uct(rollout={rollout})")
    search, keeps = Search(game, base), Search(game, replace(base, extensions=(line.extension,)))
    first, second = (each.run(game.initial_state(), Limit(simulations=300), seed=4) for each in (search, keeps))
    assert [move.visits for move in first.moves] == [move.visits for move in second.moves], "the same draws"
    best = game.line_return(line.actions)
    assert best >= max(move.value for move in second.moves if move.visits) and 1 <= line.simulation <= 300
    line.clear()
    assert line.actions == []


class Corridor:
    """Of twenty moves each fourth has a choice; games may be longer than they say, if a move 2 is there."""

    def __init__(self, places=0, bonus=0, wanders=False):
        self.places, self.bonus, self.wanders = places, bonus, wanders

    def legal_actions(self):
        return [0, 1] if self.places % 4 == 0 else [0, 2] if self.wanders else [0]

    def play(self, action):
        self.places += 1 - (action == 2)
        self.bonus += action == 1

    def to_play(self):
        return 0

    def is_over(self):
        return self.places == 20

    def outcome(self):
        return self.bonus / 5

    def copy(self):
        return Corridor(self.places, self.bonus, self.wanders)


def corridor(wanders=False, max_moves=20):
    def start():
        return Corridor(wanders=wanders)

    return engram.PythonGame("corridor", start, num_actions=3, max_moves=max_moves, players=1, is_over=Corridor.is_over)


def test_the_whole_budget_is_spent_where_there_is_a_choice():
    for seed in range(6):
        best_plan = plan(corridor(), "uct", Limit(simulations=1000), seed=seed)
        assert best_plan.simulations == 1000 and best_plan.value == 1.0 and best_plan.complete
        numbers = [step.simulation for step in best_plan.improvements]
        assert numbers == sorted(set(numbers)) and numbers[0] >= 1 and numbers[-1] <= 1000


def test_a_game_longer_than_it_says_harms_nothing():
    try:
        assert plan(corridor(wanders=True, max_moves=21), "uct(exploration=0.05)", Limit(simulations=20_000)).value > 0
    except EngramError as error:
        assert "max_moves" in str(error) or "a random game" in str(error), error


def test_an_interrupted_plan_says_so():
    def interrupt(_):
        signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    try:
        with pytest.raises(KeyboardInterrupt):
            plan(corridor(), "uct", Limit(simulations=1000), progress=interrupt)
    finally:
        signal.signal(signal.SIGINT, before)
    with pytest.raises(InvalidLimit, match="takes a Limit"):
        plan(corridor(), "uct", 100)


def test_a_limit_in_seconds_and_a_tiny_one():
    timed = plan("same_game:seed=2,rows=5,columns=5,colours=3", "uct", Limit(seconds=0.3))
    assert timed.seconds < 60 and timed.value == game_of(timed.game).line_return(timed.actions)
    assert len(plan("same_game", "uct", Limit(simulations=1)).improvements) == 1


@pytest.mark.parametrize(
    ("game", "search", "error", "words"),
    [
        ("connect_four", "uct", InvalidGame, "unlike connect_four"),
        ("2048", "uct", InvalidGame, "unlike 2048"),
        ("same_game", "uct(threads=2)", InvalidParameter, "threads"),
        ("same_game", "nothing", EngramError, "nothing"),
    ],
)
def test_what_has_no_plan(game, search, error, words):
    with pytest.raises(error, match=words):
        plan(game, search, Limit(simulations=10))
    refused = CliRunner().invoke(app, ["plan", "-g", game, "-s", search, "-n", "10"])
    assert refused.exit_code == 2 and words in refused.output


def test_a_rollout_without_moves_and_a_game_that_is_over():
    own = knapsack(rollout=lambda state, seed: 0.0)
    with pytest.raises(InvalidParameter, match="whose moves are not known"):
        plan(own, "uct(bounds=learnt)")
    with pytest.raises(InvalidState, match="is over"):
        plan(knapsack(), "uct(bounds=learnt)", start=Knapsack((0,) * 5))


def test_the_command_prints_the_plan_and_goes_on_from_moves():
    words = ["plan", "-g", "same_game:seed=2,rows=5,columns=5,colours=3", "-n", "500"]
    data = json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)
    assert data["value"] == game_of(data["game"]).line_return(data["actions"])
    text = CliRunner().invoke(app, words).stdout
    assert " ".join(data["names"]) in text and f"{data['value']:,.10g} with" in text
    rest = json.loads(CliRunner().invoke(app, [*words, "--json", "-m", data["names"][0]]).stdout)
    assert len(rest["actions"]) >= 1 and np.isfinite(rest["value"])
