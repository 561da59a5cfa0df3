"""Does a cosine of features say how far values are apart? On positions that no network here has seen.

    python experiments/memory_features/correlation.py --games 150 --seed 1000 --learned FOLDER --output correlation.json
    python experiments/memory_features/correlation.py --game go:9 --network go9 --search "puct(network='go9')" \
        --label-simulations 400 --games 40 --seed 1000 --learned FOLDER --output correlation_go9.json

FOLDER is that of `engram train features`. Values are exact where there is a solver, else those of a longer search. For
each kind of features: correlation of the cosine with -|ΔV*| over pairs of one family and one mover, and the mean error
|Σ w_j·V*_j - V*| of a position's value from the values of the other members of its family, w by softmax(cos/τ), so
what a memory could say at best.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np

from engram.memory.features import Features
from engram.networks.by_name import NamedNetwork
from engram.storage import whole
from engram.training.feature_learner import correlation
from engram.training.position_groups import MEMBERS, GroupSampler, PositionGroups, Sampling

LAYERS = ("stem", "block2", "block4", "policy_head", "value_head")
TEMPERATURES = (0.02, 0.1, 0.5)


def states_of(families: PositionGroups) -> list[np.ndarray]:
    """Every position of some families."""
    game, states = families.game, []
    for first, end in zip(families.offset[:-1], families.offset[1:], strict=True):
        state = game.initial_state()
        for action in families.actions[first:end].tolist():
            state = game.play(state, action)
        states.append(state)
    return states


def embedded(families: PositionGroups, states: list[np.ndarray], name: str, layer: str | None) -> np.ndarray:
    """φ of every position by a layer of a network, as a memory has it."""
    game = families.game
    embedding, size = NamedNetwork(name).layer(layer)
    evaluator = NamedNetwork(name, embedding=embedding, precision="float32")(game, 64)
    features = Features(game, embedding_size=size)
    inner = evaluator.evaluate(np.array(states)).embedding
    return np.array([features(state, row) for state, row in zip(states, inner, strict=True)])


def own_values(families: PositionGroups, states: list[np.ndarray], name: str) -> np.ndarray:
    """A network's values as positions on a half circle, (cos πv/2, sin πv/2): what a learned value alone would say."""
    angle = NamedNetwork(name, precision="float32")(families.game, 64).evaluate(np.array(states)).value * np.pi / 2
    movers = np.array([families.game.to_play(state) for state in states])[:, None]
    pair = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    # As in a memory's features, positions of different movers are orthogonal.
    return np.concatenate([pair * (movers == 0), pair * (movers == 1)], axis=1)


def figures(phi: np.ndarray, value: np.ndarray, side: np.ndarray, number: np.ndarray, seed: int) -> dict[str, object]:
    """What a kind of features says; intervals by drawing games anew.

    Args:
      phi: (F, MEMBERS, D). value, side: (F, MEMBERS). number: (F,) of the game.
    """
    cosine = phi @ phi.transpose(0, 2, 1)
    gap = np.abs(value[:, :, None] - value[:, None, :])
    once = np.triu(side[:, :, None] == side[:, None, :], 1)
    absolute = value * side  # for player 0
    errors = {}
    for temperature in TEMPERATURES:
        weights = np.exp((cosine - 1.0) / temperature) * (1.0 - np.eye(MEMBERS))
        predictions = (weights @ absolute[:, :, None])[:, :, 0] / np.maximum(weights.sum(axis=2), 1e-300)
        errors[temperature] = np.abs(predictions - absolute).mean(axis=1)

    def both(rows: np.ndarray) -> list[float]:
        mask = once[rows]
        return [correlation(cosine[rows][mask], -gap[rows][mask]), *(errors[t][rows].mean() for t in TEMPERATURES)]

    games, rng = np.unique(number), np.random.default_rng(seed)
    by_game = {game: np.flatnonzero(number == game) for game in games}
    drawn = [both(np.concatenate([by_game[game] for game in rng.choice(games, len(games))])) for _ in range(200)]
    low, high = np.percentile(drawn, [2.5, 97.5], axis=0)
    names = ("correlation", *(f"error at τ = {temperature}" for temperature in TEMPERATURES))
    every = both(np.arange(len(value)))
    return {name: [float(every[k]), float(low[k]), float(high[k])] for k, name in enumerate(names)}


def main() -> None:
    """Prints a line a kind of features."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--games", type=int, default=150)
    parser.add_argument("--game", default="connect_four")
    parser.add_argument("--network", default="connect_four", help="whose layers are compared")
    parser.add_argument("--search", default="uct", help="whose trees the positions are drawn from")
    parser.add_argument("--label-simulations", type=int, help="of the searches that value positions")
    parser.add_argument("--seed", type=int, default=1000, help="of the games; another than the training's")
    parser.add_argument("--learned", nargs="*", default=[], help="folders or names of networks with learned features")
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    sampler = GroupSampler(
        Sampling(
            arguments.game, search=arguments.search, label_simulations=arguments.label_simulations, seed=arguments.seed
        )
    )
    while sampler.games < arguments.games:
        sampler.play()
    families = sampler.groups()
    states, game = states_of(families), families.game
    side = np.array([1.0 if game.to_play(state) == 0 else -1.0 for state in states]).reshape(-1, MEMBERS)
    kinds: dict[str, Callable[[], np.ndarray]] = {}
    for name, options in (
        ("hand-made", {}), ("planes alone", {"pattern_weight": 0.0}), ("patterns alone", {"plane_weight": 0.0})
    ):  # fmt: skip
        kinds[name] = lambda options=options: np.array([Features(game, **options)(state) for state in states])
    for layer in LAYERS:
        kinds[f"{arguments.network}, {layer}"] = lambda layer=layer: embedded(
            families, states, arguments.network, layer
        )
    kinds[f"{arguments.network}, its values"] = lambda: own_values(families, states, arguments.network)
    for folder in arguments.learned:
        kinds[f"{Path(folder).name}, features"] = lambda folder=folder: embedded(families, states, folder, None)
        kinds[f"{Path(folder).name}, its values"] = lambda folder=folder: own_values(families, states, folder)
    print(f"{len(families)} families, {families.value.size} positions of {sampler.games} games")
    table = {}
    for name, make in kinds.items():
        phi = make().reshape(len(families), MEMBERS, -1)
        table[name] = figures(phi, families.value, side, families.number, arguments.seed)
        words = "   ".join(f"{key} {row[0]:.3f} [{row[1]:.3f}, {row[2]:.3f}]" for key, row in table[name].items())
        print(f"{name:28} {words}", flush=True)
    if arguments.output:
        about = {"games": sampler.games, "families": len(families), "seed": arguments.seed}
        with whole(arguments.output) as part:
            part.write_text(json.dumps({**about, "features": table}, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
