"""The sampler: it knows how noisy trials are, keeps those that stopped early, and finds a known optimum."""

from __future__ import annotations

import math

import numpy as np
import pytest

optuna = pytest.importorskip("optuna")
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution  # noqa: E402

pytest.importorskip("botorch")

from engram.tuning.charts import paper_profiles  # noqa: E402
from engram.tuning.findings import importance, profile  # noqa: E402
from engram.tuning.sampler import (  # noqa: E402
    Knots,
    NoisySampler,
    Observation,
    Surrogate,
    best_of,
    coordinates,
    gain_per_game,
    observations,
    observe,
    places_of,
    surrogate_of,
    unit_of,
    units,
    values_at,
)
from engram.tuning.space import space  # noqa: E402

SPACE = space("uct", tune=["exploration=0:1", "first_play_urgency=0:1"])
RANGES = SPACE.ranges


@pytest.fixture(autouse=True)
def quiet():
    optuna.logging.set_verbosity(optuna.logging.ERROR)


def told(study, score, variance, games, **values):
    study.enqueue_trial(values)
    trial = study.ask(RANGES)
    observe(trial, score, variance, games)
    return trial


def test_the_posterior_heeds_the_known_noise():
    points = np.array([[0.0], [0.5], [1.0]])
    scores = [0.5, 0.7, 0.5]
    sure = Surrogate(points, scores, [1e-5] * 3)
    unsure = Surrogate(points, scores, [1e-5, 0.05, 1e-5])
    assert sure.mean(points)[1] == pytest.approx(0.7, abs=0.02)
    assert unsure.mean(points)[1] < 0.62
    deviations = [math.sqrt(surrogate.joint(points)[1][1, 1]) for surrogate in (sure, unsure)]
    assert deviations[1] > 4 * deviations[0]


def test_more_games_pay_where_they_can_change_the_choice():
    mean = np.array([0.55, 0.54, 0.30])
    unsure_second = np.diag([0.01, 0.05, 0.05]) ** 2
    worth = [gain_per_game(mean, unsure_second, place, [40, 80]) for place in range(3)]
    assert worth[1] > worth[0]
    assert worth[1] > 100 * worth[2]  # far behind: nothing that it may show changes the choice
    assert gain_per_game(mean, np.zeros((3, 3)), 0, [40]) == pytest.approx(0.0, abs=1e-9)


def test_trials_of_every_state_count_as_what_they_are():
    study = optuna.create_study(direction="maximize")
    running = told(study, 0.4, 0.01, 20, exploration=0.1, first_play_urgency=0.2)
    stopped = told(study, 0.3, 0.02, 10, exploration=0.3, first_play_urgency=0.2)
    study.tell(stopped, state=optuna.trial.TrialState.PRUNED)
    full = told(study, 0.6, 0.001, 400, exploration=0.9, first_play_urgency=0.2)
    study.tell(full, 0.6)
    study.ask(RANGES)  # nothing seen of it yet
    observe(running, 0.45, 0.005, 40)
    entries = observations(RANGES, study.get_trials())
    assert [(entry.score, entry.variance, entry.games) for entry in entries] == [
        (0.45, 0.005, 40),
        (0.3, 0.02, 10),
        (0.6, 0.001, 400),
    ]
    assert entries[1].point == pytest.approx((0.3, 0.2))
    best = best_of(surrogate_of(entries), RANGES)
    assert np.abs(np.array(best.point) - entries[2].point).max() < 0.2
    assert best.mean > 0.5 and best.deviation < 0.06


@pytest.mark.parametrize("acquisition", ["gain", "ei", "ucb"])
def test_a_known_optimum_is_found_with_few_noisy_trials(acquisition):
    generator = np.random.default_rng(3)
    sampler = NoisySampler(RANGES, trial_games=400, slice_games=400, seed=4, acquisition=acquisition)
    study = optuna.create_study(direction="maximize", sampler=sampler)

    def truth(values):
        return 0.6 - 0.5 * ((values["exploration"] - 0.7) ** 2 + (values["first_play_urgency"] - 0.2) ** 2)

    for _ in range(14):
        trial = study.ask(RANGES)
        score = generator.binomial(400, truth(trial.params)) / 400
        observe(trial, score, 0.25 / 400, 400)
        study.tell(trial, score)
    entries = observations(RANGES, study.get_trials())
    best = best_of(surrogate_of(entries), RANGES)
    assert truth(values_at(RANGES, best.point)) > 0.58


def test_the_bound_looks_where_little_is_known_and_improvement_where_the_best_is():
    """Scores fall from a well-known summit at 0.2; nothing is known beyond 0.5."""
    points = np.linspace(0.0, 0.5, 11)[:, None]
    surrogate = Surrogate(points, 0.6 - 0.5 * (points[:, 0] - 0.2) ** 2, [1e-4] * 11)
    place = float(surrogate.propose(by_bound=True)[0])
    mean, covariance = surrogate.joint(np.linspace(0.0, 1.0, 101)[:, None])
    bound = mean + 2.0 * np.sqrt(covariance.diagonal())
    assert place == pytest.approx(np.argmax(bound) / 100, abs=0.03)
    apart = surrogate.propose([[place]], by_bound=True)
    assert abs(float(apart[0]) - place) > 0.02  # another process plays there at the moment


def test_each_acquisition_plays_its_own_point_and_no_other_is_taken():
    points = {}
    for acquisition in ("gain", "ei", "ucb"):
        sampler = NoisySampler(RANGES, num_initial=3, seed=1, acquisition=acquisition)
        study = optuna.create_study(direction="maximize", sampler=sampler)
        for place in (0.1, 0.3, 0.5):
            study.tell(told(study, 0.5 + place / 5, 0.001, 200, exploration=place, first_play_urgency=0.5), 0.5)
        points[acquisition] = tuple(study.ask(RANGES).params.values())
    assert len(set(points.values())) == 3
    with pytest.raises(ValueError, match="there are gain, ei, ucb"):
        NoisySampler(RANGES, acquisition="entropy")


def test_spaces_and_studies_that_it_cannot_sample_are_refused():
    with pytest.raises(ValueError, match="too wide"):
        NoisySampler({"x": optuna.distributions.FloatDistribution(1e-300, 1e300, log=True)})
    with pytest.raises(ValueError, match="nothing to sample"):
        NoisySampler({})
    with pytest.raises(ValueError, match="direction='maximize'"):
        optuna.create_study(sampler=NoisySampler(RANGES)).ask(RANGES)


def test_a_range_of_one_value_is_that_value():
    space = {
        "x": optuna.distributions.FloatDistribution(2.0, 2.0),
        "y": optuna.distributions.FloatDistribution(0.0, 1.0),
    }
    study = optuna.create_study(direction="maximize", sampler=NoisySampler(space, num_initial=2))
    for _ in range(4):
        trial = study.ask(space)
        assert trial.params["x"] == 2.0
        observe(trial, trial.params["y"], 0.01, 40)
        study.tell(trial, trial.params["y"])


def test_a_hopeless_trial_is_not_extended_and_a_hopeful_one_is():
    sampler = NoisySampler(RANGES, trial_games=200, slice_games=20, num_initial=3, seed=1)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    for place in np.linspace(0.0, 1.0, 5):
        for other in np.linspace(0.0, 1.0, 4):
            score = 0.6 - 0.4 * abs(place - 0.5)
            study.tell(told(study, score, 0.25 / 200, 200, exploration=place, first_play_urgency=other), score)
    hopeless = told(study, 0.1, 0.09 / 20, 20, exploration=0.02, first_play_urgency=0.5)
    assert not sampler.pays(study, hopeless)
    full = told(study, 0.6, 0.25 / 200, 200, exploration=0.5, first_play_urgency=0.5)
    assert not sampler.pays(study, full)


def test_profiles_and_importance():
    u = np.array([0.0, 0.5, 1.0])
    assert profile("monotone", [math.log(9.0)] * 2, u) == pytest.approx([1.0, 5.5, 10.0])
    assert paper_profiles("softmax", u)["S2"][-1] == pytest.approx(3.57, abs=0.01)  # docs/methods/backup.md
    shares = importance(SPACE, lambda points: 3.0 * points[:, 0] + 0.0 * points[:, 1], 1)
    assert shares["exploration"] == pytest.approx(1.0, abs=0.1)
    assert shares["first_play_urgency"] == pytest.approx(0.0, abs=1e-9)


def test_more_processes_than_first_points_look_around_too():
    sampler = NoisySampler(RANGES, num_initial=2, seed=3)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    begun = [study.ask(RANGES).params for _ in range(7)]
    assert len({tuple(params.values()) for params in begun}) == 7


WHOLE = {"expand_after": IntDistribution(1, 5)}


def test_whole_numbers_are_valued_where_they_are():
    """Between two high neighbours the posterior has a summit that no whole number reaches."""
    places = [unit_of(WHOLE["expand_after"], value) for value in range(1, 6)]
    scores = [0.45, 0.6, 0.6, 0.45, 0.4]
    entries = [
        Observation(n, (place,), score, 1e-4, 2000) for n, (place, score) in enumerate(zip(places, scores, strict=True))
    ]
    surrogate = surrogate_of(entries)
    best = best_of(surrogate, WHOLE)
    assert best.point[0] in (places[1], places[2])
    assert best.mean == pytest.approx(float(surrogate.mean(np.array([best.point]))[0]))
    assert best.mean < float(surrogate.mean(surrogate.summit()[None])[0])


WORDS = {
    "x": FloatDistribution(0.0, 1.0),
    "word": CategoricalDistribution(("a", "b", "c", "d")),
    "n": IntDistribution(1, 3),
}


def test_words_have_a_coordinate_each_and_come_back():
    values = {"x": 0.25, "word": "c", "n": 2}
    point = units(WORDS, values)
    assert point == [0.25, 0.0, 0.0, 1.0, 0.0, 0.5] and values_at(WORDS, point) == values
    assert coordinates(WORDS) == {"x": slice(0, 1), "word": slice(1, 5), "n": slice(5, 6)}
    inner = np.array([[0.3, 0.2, 0.6, 0.1, 0.55, 0.4]])
    assert places_of(WORDS, inner).tolist() == [[0.3, 0.0, 1.0, 0.0, 0.0, 0.5]]
    with pytest.raises(ValueError, match="6 coordinates"):
        values_at(WORDS, point[:-1])


def test_choices_of_any_plain_value_are_stored_and_others_refused(tmp_path):
    choices = CategoricalDistribution((None, True, 2, math.nan, "x"))
    study = optuna.create_study(direction="maximize", storage=f"sqlite:///{tmp_path}/s")
    for value in choices.choices:
        study.enqueue_trial({"c": value})
        observe(study.ask({"c": choices}), 0.5, 0.01, 10)
    points = [entry.point for entry in observations({"c": choices}, study.get_trials())]
    assert np.array_equal(points, np.eye(5))
    with pytest.raises(ValueError, match="Optuna does not store"), pytest.warns(UserWarning):
        NoisySampler({"c": CategoricalDistribution(((1, 2), "x"))})


def test_words_are_no_knots():
    with pytest.raises(ValueError, match="knots are numbers"):
        NoisySampler(WORDS, knots=Knots(2, 0.0, 1.0))


def test_no_word_is_nearer_to_one_than_to_another():
    points = np.array([units(WORDS, {"x": 0.5, "word": word, "n": 2}) for word in "abcd"])
    surrogate = Surrogate(points, [0.5, 0.6, 0.4, 0.5], [1e-3] * 4)
    covariance = Surrogate(points[:1], [0.5], [1e-3]).joint(points)[1]
    assert covariance[1, 2] == pytest.approx(covariance[1, 3]) == pytest.approx(covariance[2, 3])
    assert np.argmax(surrogate.mean(points)) == 1


@pytest.mark.parametrize("seed", [1, 2])
def test_the_best_word_is_found_with_its_number(seed):
    """The words' order says nothing, and each has another best x."""
    words = {"a": (0.50, 0.2), "b": (0.62, 0.8), "c": (0.52, 0.1), "d": (0.55, 0.5)}

    def truth(values):
        top, place = words[values["word"]]
        return top - 0.3 * (values["x"] - place) ** 2

    space_of_words = {name: WORDS[name] for name in ("x", "word")}
    generator = np.random.default_rng(seed)
    sampler = NoisySampler(space_of_words, trial_games=400, slice_games=400, seed=seed)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    for _ in range(20):
        trial = study.ask()
        values = {"word": trial.suggest_categorical("word", list("abcd")), "x": trial.suggest_float("x", 0.0, 1.0)}
        score = generator.binomial(400, truth(values)) / 400
        observe(trial, score, 0.25 / 400, 400)
        study.tell(trial, score)
    best = best_of(surrogate_of(observations(space_of_words, study.get_trials())), space_of_words)
    assert values_at(space_of_words, best.point)["word"] == "b" and sorted(best.point[1:]) == [0, 0, 0, 1]
    assert truth(values_at(space_of_words, best.point)) > 0.58


@pytest.mark.filterwarnings("ignore:Fixed parameter")
def test_a_trial_outside_the_space_asks_for_no_more_games():
    sampler = NoisySampler({"x": FloatDistribution(0.0, 1.0)}, trial_games=400, slice_games=40, seed=0)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    study.enqueue_trial({"x": 1.5})
    trial = study.ask({"x": FloatDistribution(0.0, 1.0)})
    assert sampler.pays(study, trial), "nothing is known of it"
    observe(trial, 0.5, 0.01, 40)
    assert not sampler.pays(study, trial)


@pytest.mark.parametrize("unit", [1e-9, 1e9])
def test_the_posterior_has_the_unit_of_its_scores(unit):
    points = np.random.default_rng(0).random((12, 1))
    scores = 0.6 - 0.5 * (points[:, 0] - 0.3) ** 2
    first, other = (Surrogate(points, scale * scores, np.full(12, scale**2 * 4e-4)) for scale in (1.0, unit))
    np.testing.assert_allclose(other.mean(points) / unit, first.mean(points), atol=1e-3)
    with pytest.raises(ValueError, match="another unit"):
        Surrogate(points, 1e155 * scores, np.ones(12))


def test_scores_of_zero_alone_have_a_posterior():
    assert np.abs(Surrogate(np.array([[0.1], [0.9]]), [0.0, 0.0], [0.1, 0.1]).mean(np.array([[0.5]]))).max() < 1e-6


def test_the_unit_of_the_score_changes_nothing():
    def chosen(scale):
        sampler = NoisySampler(RANGES, trial_games=80, slice_games=40, seed=1)
        study = optuna.create_study(direction="maximize", sampler=sampler)
        generator, points = np.random.default_rng(5), []
        for _ in range(9):
            trial = study.ask(RANGES)
            score = generator.normal(1.0 - abs(trial.params["exploration"] - 0.7), 0.1)
            observe(trial, scale * score, scale**2 * 0.01, 40)
            points.append((*trial.params.values(), sampler.pays(study, trial)))
            study.tell(trial, scale * score)
        best = best_of(surrogate_of(observations(RANGES, study.get_trials())), RANGES)
        return np.array(points, float), best.deviation / scale

    (points, deviation), (again, again_deviation) = chosen(1.0), chosen(1000.0)
    np.testing.assert_allclose(again, points, atol=1e-3)
    assert again_deviation == pytest.approx(deviation, rel=1e-2)


@pytest.mark.parametrize("numbers", [(float("nan"), 0.1, 4), (0.5, -0.1, 4), (0.5, float("inf"), 4), (0.5, 0.1, -1)])
def test_an_impossible_observation_is_refused_at_once(numbers):
    study = optuna.create_study(direction="maximize")
    trial = study.ask(RANGES)
    with pytest.raises(ValueError, match="impossible"):
        observe(trial, *numbers)
    observe(trial, np.float32(0.5), np.float64(0.1), np.int64(4))
    assert study.trials[0].user_attrs == {"engram:score": 0.5, "engram:variance": 0.1, "engram:games": 4}
    assert type(study.trials[0].user_attrs["engram:games"]) is int


@pytest.mark.parametrize(
    "options", [{"trial_games": 0}, {"slice_games": 0}, {"num_initial": 0}, {"knots": Knots(3, -1.0, 1.0)}]
)
def test_numbers_of_the_sampler_are_checked(options):
    with pytest.raises(ValueError, match=r"must be 1 or more|do not fit"):
        NoisySampler(RANGES, **options)


def test_trials_outside_the_space_are_left_out():
    study = optuna.create_study(direction="maximize")
    wide, narrow = {"x": FloatDistribution(0.0, 10.0)}, {"x": FloatDistribution(0.0, 5.0)}
    for ranges, count in ((wide, 8), (narrow, 6)):
        study.sampler = NoisySampler(ranges, trial_games=100, slice_games=100, seed=0)
        for _ in range(count):
            trial = study.ask(ranges)
            score = 0.9 - (trial.params["x"] - 8.0) ** 2 / 100.0
            observe(trial, score, 1e-4, 100)
            study.tell(trial, score)
    entries = observations(narrow, study.trials)
    assert 6 <= len(entries) < 14 and all(0.0 <= entry.point[0] <= 1.0 for entry in entries)


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_many_trials_of_few_games_have_their_mean(rate):
    rng, errors = np.random.default_rng(0), []
    for _ in range(20):
        entries = []
        for number in range(20):
            wins = int(rng.binomial(4, rate))
            likely = (wins + 1) / 6
            entries.append(Observation(number, (0.5,), wins / 4, likely * (1 - likely) / 4, 4))
        mean = surrogate_of(entries).joint(np.array([[0.5]]))[0][0]
        errors.append(mean - np.mean([entry.score for entry in entries]))
    assert abs(np.mean(errors)) < 0.01
