"""Architectures of networks of policy and value, as data: every backend builds its network from one of these.

A network is a trunk of named parts and up to three heads. Any part's output can be had from the same pass, as the
embedding that a memory compares positions by; the third head is one that was trained for that.

Sources: Silver et al., "Mastering the game of Go without human knowledge", 2017 (residual); Clark and Storkey,
"Training deep convolutional neural networks to play Go", 2015 (predictor).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from engram.errors import InvalidParameter, InvalidSpecification, choices
from engram.games.game import Game
from engram.networks.encoding import num_planes
from engram.specification import Specification, parse

FEATURES = "features"
MAX_OPTION, MAX_WEIGHTS = 4096, 1 << 28
"""Largest option of a network, and the most weights (1 GiB): a file that asks for more is refused, not allocated."""


@dataclass(frozen=True)
class Configuration:
    """How a network was specified; stands in its file.

    Attributes:
      network: its specification, such as `residual(blocks=4,filters=32)`. game: the game's name without parameters.
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

    def __post_init__(self) -> None:
        steps = 0 if self.history is None else self.history
        whole = (self.planes, self.height, self.width, self.num_actions, steps + 1)
        if not isinstance(self.game, str) or any(type(number) is not int or number < 1 for number in whole):
            raise InvalidParameter("its configuration is not of a game's name and whole numbers")


Shapes = dict[str, tuple[int, ...]]
"""Shapes of weights by name."""


@dataclass(frozen=True)
class Convolution:
    """A convolution that keeps the board's size (zeros around it, no bias), batch normalisation (ε = 10⁻⁵), ReLU."""

    planes: int
    filters: int
    kernel: int

    @property
    def shapes(self) -> Shapes:
        """By name; files keep a number as one of one."""
        norm = {f"norm.{name}": (self.filters,) for name in ("weight", "bias", "running_mean", "running_var")}
        weight = (self.filters, self.planes, self.kernel, self.kernel)
        return {"conv.weight": weight, **norm, "norm.num_batches_tracked": (1,)}


@dataclass(frozen=True)
class ResidualBlock:
    """Two 3×3 convolutions and a way around them, the last ReLU behind the sum."""

    filters: int

    @property
    def convolution(self) -> Convolution:
        """Each of the two."""
        return Convolution(self.filters, self.filters, 3)

    @property
    def shapes(self) -> Shapes:
        """By name."""
        return {f"{half}.{name}": s for half in ("first", "second") for name, s in self.convolution.shapes.items()}


@dataclass(frozen=True)
class Linear:
    """A linear map."""

    inputs: int
    size: int

    @property
    def shapes(self) -> Shapes:
        """By name."""
        return {"weight": (self.size, self.inputs), "bias": (self.size,)}


@dataclass(frozen=True)
class Flatten:
    """All planes as one row."""

    shapes: ClassVar[Shapes] = {}


@dataclass(frozen=True)
class Relu:
    """The positive part."""

    shapes: ClassVar[Shapes] = {}


Part = Convolution | ResidualBlock | Linear | Flatten | Relu
Head = tuple[Part, ...]


@dataclass(frozen=True)
class Architecture:
    """A trunk and its heads; the last part of each head is linear.

    Attributes:
      configuration: its specification. trunk: parts by name, one after the other.
      policy: to (B, num_actions) logits. value: to (B, 1), whose tanh is the value for the player to move, or None.
      features: to (B, D), for a memory alone, or None.
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
    def shapes(self) -> Shapes:
        """Of all weights, as they stand in a file."""
        parts: dict[str, Part] = {f"trunk.{name}": part for name, part in self.trunk.items()}
        parts |= {f"{name}.{number}": part for name, head in self.heads.items() for number, part in enumerate(head)}
        return {f"{place}.{name}": shape for place, part in parts.items() for name, shape in part.shapes.items()}

    @property
    def layer_sizes(self) -> dict[str, int]:
        """Layers that can be an embedding, with their sizes; a head's layer is the input of its last linear map."""
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
        """Length of a layer's embedding of one position. Raises InvalidParameter: there is no such layer."""
        sizes = self.layer_sizes
        if layer not in sizes:
            raise InvalidParameter(f"the network has no layer {layer!r}{choices(layer, sizes, 'it has')}")
        return sizes[layer]


def _head(shape: Configuration, filters: int, planes: int | None, *sizes: int) -> Head:
    """A 1×1 convolution to `planes` (None: none), then linear maps with ReLU between them."""
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

    Deviations: the value head has 4 planes instead of 1. Go has a plane of komi, so 11 planes for the backup paper's
    10; the shipped networks learnt from records, its own from self-play.
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
    build.__name__: (build, dict(build.__kwdefaults__ or {}), history)
    for build, history in ((residual, 4), (predictor, 8), (features, 4))
}
"""By name: how it is built, its options, and the earlier positions that it sees where the game keeps them."""


def family(game: Game) -> str:
    """The game's name without parameters."""
    return game.name.split(":")[0].split("(")[0]


def architecture(text: str, game: Game) -> Architecture:
    """The architecture of a new network for a game, such as `residual(blocks=4,filters=32,history=4)`.

    `history` is the number of earlier positions seen, ≥ 0, in games that keep them.

    Raises:
      InvalidSpecification: no such network or option. InvalidParameter: a number out of range.
    """
    specification = parse(text)
    name = specification.name
    if name not in ARCHITECTURES:
        raise InvalidSpecification(f"no network is called {name!r}{choices(name, ARCHITECTURES)}")
    if not game.compiled:
        raise InvalidParameter(f"{game.name} is a plain Python game, and networks see the records of compiled ones")
    game.require_plain("a network")
    if not game.address("encode") or game.planes_shape is None:
        raise InvalidParameter(f"{game.name} has no encode with planes_shape, which a network needs")
    options = specification.bind({**ARCHITECTURES[name][1], "history": min(ARCHITECTURES[name][2], game.max_history)})
    history = options.pop("history")
    past = history if game.max_history or history else None
    planes = num_planes(game, past)
    full = Specification(name, (), options if past is None else {**options, "history": history})
    shape = Configuration(full.text, family(game), planes, *game.planes_shape[1:], game.num_actions, past)
    return _built(shape, name, options)


def rebuilt(configuration: Configuration) -> Architecture:
    """The architecture of a file's configuration; raises KeyError or ValueError if this engram builds none."""
    specification = parse(configuration.network)
    options = specification.bind({**ARCHITECTURES[specification.name][1], "history": 0})
    options.pop("history")
    return _built(configuration, specification.name, options)


def _built(configuration: Configuration, name: str, options: dict[str, int]) -> Architecture:
    """An architecture of a size that can be; raises InvalidParameter before anything of another size is made."""
    if any(not 1 <= number <= MAX_OPTION for number in options.values()):
        raise InvalidParameter(f"{configuration.network}: every number but history is 1 to {MAX_OPTION:,}")
    network = ARCHITECTURES[name][0](configuration, **options)
    size = sum(math.prod(shape) for shape in network.shapes.values())
    if size > MAX_WEIGHTS:
        raise InvalidParameter(f"{configuration.network} asks for {size:,} weights, more than {MAX_WEIGHTS:,}")
    return network


def fit(configuration: Configuration, game: Game, whose: str) -> None:
    """Raises InvalidParameter if a network belongs to another game, or sees other planes or answers other actions."""
    shape, board = game.planes_shape, (configuration.height, configuration.width)
    if family(game) != configuration.game:
        raise InvalidParameter(f"{whose} is a network for {configuration.game}, not for {game.name}")
    if shape is None or shape[1:] != board:
        raise InvalidParameter(f"{whose} is for a board of {board[0]} by {board[1]}, not for {game.name}")
    planes = num_planes(game, configuration.history)
    if planes != configuration.planes or game.num_actions != configuration.num_actions:
        raise InvalidParameter(
            f"{whose} sees {configuration.planes} planes and knows {configuration.num_actions} actions; "
            f"{game.name} has {planes} and {game.num_actions}"
        )
