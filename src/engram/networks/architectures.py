"""Architectures of networks of policy and value, as data: every backend builds its network from one of these.

A network is a trunk of named parts and up to three heads. Any part's output can be had from the same pass, as the
embedding that a memory compares positions by; the third head is one that was trained for that.

Sources: Silver et al., "Mastering the game of Go without human knowledge", 2017 (residual); Clark and Storkey,
"Training deep convolutional neural networks to play Go", 2015 (predictor).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from engram.errors import InvalidParameter, InvalidSpecification, nearest
from engram.games.game import Game
from engram.networks.encoding import num_planes
from engram.specification import Specification, parse

FEATURES = "features"


@dataclass(frozen=True)
class Configuration:
    """How a network was specified; stands in its file.

    Attributes:
      network: its specification, such as `residual(blocks=4,filters=32)`.
      game: the game's name without parameters.
      planes, height, width: of its input. num_actions: length of its policy.
      history: earlier positions among the planes; None: the planes are those of the game's `encode`.
    """

    network: str
    game: str
    planes: int
    height: int
    width: int
    num_actions: int
    history: int | None


@dataclass(frozen=True)
class Convolution:
    """A convolution that keeps the board's size, batch normalisation, ReLU."""

    planes: int
    filters: int
    kernel: int

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the weights by name."""
        norm = {f"norm.{name}": (self.filters,) for name in ("weight", "bias", "running_mean", "running_var")}
        weight = (self.filters, self.planes, self.kernel, self.kernel)
        return {"conv.weight": weight, **norm, "norm.num_batches_tracked": (1,)}  # files keep a number as one of one


@dataclass(frozen=True)
class ResidualBlock:
    """Two 3×3 convolutions and a way around them, the last ReLU behind the sum."""

    filters: int

    @property
    def convolution(self) -> Convolution:
        """Each of the two."""
        return Convolution(self.filters, self.filters, 3)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the weights by name."""
        return {f"{half}.{name}": s for half in ("first", "second") for name, s in self.convolution.shapes.items()}


@dataclass(frozen=True)
class Linear:
    """A linear map."""

    inputs: int
    size: int

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the weights by name."""
        return {"weight": (self.size, self.inputs), "bias": (self.size,)}


@dataclass(frozen=True)
class Flatten:
    """All planes as one row."""

    shapes: ClassVar[dict[str, tuple[int, ...]]] = {}


@dataclass(frozen=True)
class Relu:
    """The positive part."""

    shapes: ClassVar[dict[str, tuple[int, ...]]] = {}


Part = Convolution | ResidualBlock | Linear | Flatten | Relu
Head = tuple[Part, ...]


@dataclass(frozen=True)
class Architecture:
    """A trunk and its heads; the last part of each head is linear.

    Attributes:
      configuration: how it was specified.
      trunk: parts by name, one after the other.
      policy: from the trunk's output to (B, num_actions) logits.
      value: from the trunk's output to (B, 1), whose tanh is the value for the player to move; None: it has none.
      features: from the trunk's output to (B, D), for a memory alone; None: it has none.
    """

    configuration: Configuration
    trunk: dict[str, Convolution | ResidualBlock]
    policy: Head
    value: Head | None
    features: Head | None = None

    @property
    def heads(self) -> dict[str, Head]:
        """The heads by name, those that there are."""
        heads = {"policy": self.policy, "value": self.value, FEATURES: self.features}
        return {name: head for name, head in heads.items() if head is not None}

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of all weights by name, as they stand in a file."""
        parts: dict[str, Part] = {f"trunk.{name}": part for name, part in self.trunk.items()}
        parts |= {f"{name}.{number}": part for name, head in self.heads.items() for number, part in enumerate(head)}
        return {f"{place}.{name}": shape for place, part in parts.items() for name, shape in part.shapes.items()}

    @property
    def layer_sizes(self) -> dict[str, int]:
        """Layers that can be an embedding, and the numbers that each gives of one position.

        The layer of the policy's or the value's head is the input of its last linear map.
        """
        cells = self.configuration.height * self.configuration.width
        sizes = {name: part.filters * cells for name, part in self.trunk.items()}
        for name, head in self.heads.items():
            last = head[-1]
            assert isinstance(last, Linear)
            sizes |= {name: last.size} if name == FEATURES else {f"{name}_head": last.inputs}
        return sizes

    @property
    def usual_layer(self) -> str:
        """The layer that positions are best compared by: the one trained for it, or the last before the heads."""
        return list(self.trunk)[-1] if self.features is None else FEATURES

    def size_of(self, layer: str) -> int:
        """Numbers that a layer gives of one position: the length of its embedding.

        Raises:
          InvalidParameter: there is no such layer; the sentence names the nearest.
        """
        sizes = self.layer_sizes
        if layer not in sizes:
            raise InvalidParameter(
                f"the network has no layer {layer!r}{nearest(layer, sizes)}; it has {', '.join(sizes)}"
            )
        return sizes[layer]


def _head(shape: Configuration, filters: int, planes: int | None, *sizes: int) -> Head:
    """A 1×1 convolution to so many planes (None: none), then linear maps with ReLU between them."""
    parts: list[Part] = [Flatten()] if planes is None else [Convolution(filters, planes, 1), Flatten()]
    inputs = (filters if planes is None else planes) * shape.height * shape.width
    for number, size in enumerate(sizes):
        parts += [Relu(), Linear(inputs, size)] if number else [Linear(inputs, size)]
        inputs = size
    return tuple(parts)


def residual(shape: Configuration, *, blocks: int = 4, filters: int = 32, hidden: int = 64) -> Architecture:
    """The network of AlphaGo Zero, of any size.

    Args:
      blocks: residual blocks, ≥ 1. filters: of every convolution in the trunk, ≥ 1.
      hidden: width of the value head's inner layer.

    Deviation: the policy head has as many planes as keep it small (2), the value head 4 instead of 1.
    """
    trunk: dict[str, Convolution | ResidualBlock] = {"stem": Convolution(shape.planes, filters, 3)}
    trunk |= {f"block{number}": ResidualBlock(filters) for number in range(1, blocks + 1)}
    return Architecture(shape, trunk, _head(shape, filters, 2, shape.num_actions), _head(shape, filters, 4, hidden, 1))


def features(
    shape: Configuration, *, blocks: int = 3, filters: int = 32, hidden: int = 64, inner: int = 128, size: int = 64
) -> Architecture:
    """A residual network with a third head, whose cosines are trained to say how far values are apart.

    Args:
      blocks, filters, hidden: as in `residual`. inner: width of the third head's inner layer. size: D of its output.

    Until a policy is trained or taken over, its policy says nothing: all actions alike.
    """
    base = residual(shape, blocks=blocks, filters=filters, hidden=hidden)
    return Architecture(shape, base.trunk, base.policy, base.value, _head(shape, filters, 16, inner, size))


def predictor(shape: Configuration) -> Architecture:
    """The move predictor of the memory paper: seven convolutions and one fully connected layer; no value.

    Deviations: batch normalisation; symmetries by turning the data instead of tied weights.
    """
    trunk: dict[str, Convolution | ResidualBlock] = {}
    planes = shape.planes
    for number, (kernel, filters) in enumerate([(7, 64), (5, 64), (5, 64), (5, 48), (5, 48), (5, 32), (5, 32)], 1):
        trunk[f"layer{number}"] = Convolution(planes, filters, kernel)
        planes = filters
    return Architecture(shape, trunk, _head(shape, planes, None, shape.num_actions), None)


ARCHITECTURES: dict[str, tuple[Callable[..., Architecture], dict[str, Any], int]] = {
    "residual": (residual, {"blocks": 4, "filters": 32, "hidden": 64}, 4),
    "predictor": (predictor, {}, 8),
    "features": (features, {"blocks": 3, "filters": 32, "hidden": 64, "inner": 128, "size": 64}, 4),
}
"""By name: how it is built, its options, and the earlier positions that it sees where the game keeps them."""


def family(game: Game) -> str:
    """The game's name without parameters."""
    return game.name.split(":")[0].split("(")[0]


def architecture(text: str, game: Game) -> Architecture:
    """The architecture of a new network for a game.

    Args:
      text: such as `residual(blocks=4,filters=32,history=4)`; `history` is the number of earlier positions seen,
        0 or more, in games that keep them.

    Raises:
      InvalidSpecification: no such network or option. InvalidParameter: a number out of range.
    """
    specification = parse(text)
    if specification.name not in ARCHITECTURES:
        raise InvalidSpecification(
            f"no network is called {specification.name!r}{nearest(specification.name, ARCHITECTURES)}; "
            f"there are {', '.join(ARCHITECTURES)}"
        )
    if not game.compiled:
        raise InvalidParameter(
            f"{game.name} is not compiled: its positions are Python objects, and networks see records"
        )
    if not game.address("encode") or game.planes_shape is None:
        raise InvalidParameter(f"{game.name} has no encode with planes_shape, which a network needs")
    build, defaults, usual = ARCHITECTURES[specification.name]
    options = specification.bind({**defaults, "history": min(usual, game.max_history)})
    history = options.pop("history")
    if not 0 <= history <= game.max_history:
        raise InvalidParameter(f"{game.name} keeps {game.max_history} earlier positions, not {history}")
    if any(number < 1 for number in options.values()):
        raise InvalidParameter(f"{text}: every number but history is 1 or more")
    past = history if game.max_history else None
    planes = num_planes(game, past)
    full = Specification(specification.name, (), {**options, **({"history": history} if game.max_history else {})})
    shape = Configuration(full.text, family(game), planes, *game.planes_shape[1:], game.num_actions, past)
    return build(shape, **options)


def rebuilt(configuration: Configuration) -> Architecture:
    """The architecture that a configuration was written for.

    Raises:
      KeyError, ValueError: this engram builds none of that specification.
    """
    specification = parse(configuration.network)
    build, defaults, _ = ARCHITECTURES[specification.name]
    options = specification.bind({**defaults, "history": 0})
    options.pop("history")
    return build(configuration, **options)


def fit(configuration: Configuration, game: Game, whose: str) -> None:
    """Sees that a network belongs to a game.

    Raises:
      InvalidParameter: it sees other planes, or answers other actions.
    """
    shape = game.planes_shape
    if family(game) != configuration.game:
        raise InvalidParameter(f"{whose} is a network for {configuration.game}, not for {game.name}")
    if shape is None or shape[1:] != (configuration.height, configuration.width):
        raise InvalidParameter(
            f"{whose} is for a board of {configuration.height} by {configuration.width}, not for {game.name}"
        )
    planes = num_planes(game, configuration.history)
    if planes != configuration.planes or game.num_actions != configuration.num_actions:
        raise InvalidParameter(
            f"{whose} sees {configuration.planes} planes and knows {configuration.num_actions} actions; "
            f"{game.name} has {planes} and {game.num_actions}"
        )
