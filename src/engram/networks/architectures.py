"""Architectures of networks of policy and value, as data: every backend builds its network from one of these.

A network is a trunk of named parts and up to three heads: policy, value, and features. The same pass gives the output
of any part, as the embedding by which a memory compares positions. The head of features is trained for this purpose.

Sources: Silver et al., "Mastering the game of Go without human knowledge", 2017 (residual); Clark and Storkey,
"Training deep convolutional neural networks to play Go", 2015 (predictor).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from engram.errors import InvalidParameter, choices
from engram.games.game import Game
from engram.networks.encoding import num_planes
from engram.registry import Registry, defaults_of
from engram.specification import Specification, parse

FEATURES = "features"
EPSILON = 1e-5
"""ε of batch normalisation, as in training with PyTorch."""
MAX_OPTION, MAX_WEIGHTS = 4096, 1 << 28
"""The largest option of a network, and the most weights (1 GiB): a file that asks for more is refused unread."""


@dataclass(frozen=True)
class Configuration:
    """The specification of a network, as its file holds it.

    Attributes:
      network: its text, such as `residual(blocks=4,filters=32)`. game: the game's name without parameters.
      planes, height, width: of its input. num_actions: length of its policy.
      history: number of earlier positions among the planes, ≥ 0; None: the planes are those of the game's `encode`.

    Raises:
      InvalidParameter: a field of another type, or a number below its range.
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
        numbers = (self.planes, self.height, self.width, self.num_actions, steps + 1)
        are_whole = all(type(number) is int and number >= 1 for number in numbers)
        if not isinstance(self.game, str) or not self.game or not are_whole:
            raise InvalidParameter("its configuration is not a game's name and whole numbers in range")


Shapes = dict[str, tuple[int, ...]]
"""Shapes of weights by name."""


@dataclass(frozen=True)
class Convolution:
    """A convolution that keeps the board's size (zeros around it, no bias), batch normalisation (`EPSILON`), ReLU."""

    planes: int
    filters: int
    kernel: int

    @property
    def shapes(self) -> Shapes:
        """Shapes of the weights by name; a single number has the shape (1,)."""
        norm = {f"norm.{name}": (self.filters,) for name in ("weight", "bias", "running_mean", "running_var")}
        weight = (self.filters, self.planes, self.kernel, self.kernel)
        return {"conv.weight": weight, **norm, "norm.num_batches_tracked": (1,)}


@dataclass(frozen=True)
class ResidualBlock:
    """Two 3×3 convolutions and a connection that skips them; the last ReLU comes after the sum."""

    filters: int

    @property
    def convolution(self) -> Convolution:
        """Each of the two convolutions."""
        return Convolution(self.filters, self.filters, 3)

    @property
    def shapes(self) -> Shapes:
        """Of the weights by name."""
        return {f"{half}.{name}": s for half in ("first", "second") for name, s in self.convolution.shapes.items()}


@dataclass(frozen=True)
class Linear:
    """A linear map."""

    inputs: int
    size: int

    @property
    def shapes(self) -> Shapes:
        """Of the weights by name."""
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
      configuration: its specification. trunk: parts by name, in the order of the pass.
      policy: ends in logits (B, num_actions).
      value: ends in (B, 1), whose tanh is the value for the player to move; None: there is no value.
      features: ends in (B, D), only for a memory; None: there are no features.
    """

    configuration: Configuration
    trunk: dict[str, Convolution | ResidualBlock]
    policy: Head
    value: Head | None
    features: Head | None = None

    @property
    def heads(self) -> dict[str, Head]:
        """The heads of this network by name."""
        heads = {"policy": self.policy, "value": self.value, FEATURES: self.features}
        return {name: head for name, head in heads.items() if head is not None}

    @property
    def shapes(self) -> Shapes:
        """Shapes of all weights, under the names in a file."""
        parts: dict[str, Part] = {f"trunk.{name}": part for name, part in self.trunk.items()}
        parts |= {f"{name}.{number}": part for name, head in self.heads.items() for number, part in enumerate(head)}
        return {f"{place}.{name}": shape for place, part in parts.items() for name, shape in part.shapes.items()}

    @property
    def multiplications(self) -> int:
        """The number of multiplications in the convolutions, for one position."""
        cells = self.configuration.height * self.configuration.width
        return cells * sum(math.prod(shape) for shape in self.shapes.values() if len(shape) == 4)

    @property
    def layer_sizes(self) -> dict[str, int]:
        """Layers whose output can be an embedding, and the sizes of these outputs for one position.

        The layer `policy_head` or `value_head` is the input of that head's last linear map.
        """
        cells = self.configuration.height * self.configuration.width
        sizes = {name: part.filters * cells for name, part in self.trunk.items()}
        for name, head in self.heads.items():
            last = head[-1]
            assert isinstance(last, Linear)
            sizes |= {name: last.size} if name == FEATURES else {f"{name}_head": last.inputs}
        return sizes

    @property
    def default_layer(self) -> str:
        """The layer by which positions are best compared: the features, or, without these, the end of the trunk."""
        return list(self.trunk)[-1] if self.features is None else FEATURES

    def size_of(self, layer: str) -> int:
        """The length of a layer's embedding of one position. Raises InvalidParameter: there is no such layer."""
        sizes = self.layer_sizes
        if layer not in sizes:
            raise InvalidParameter(f"the network has no layer {layer!r}{choices(layer, sizes, 'it has')}")
        return sizes[layer]


def _head(configuration: Configuration, filters: int, planes: int | None, *sizes: int) -> Head:
    """A 1×1 convolution to `planes` (None: none), then linear maps with ReLU between them."""
    parts: list[Part] = [Flatten()] if planes is None else [Convolution(filters, planes, 1), Flatten()]
    inputs = (filters if planes is None else planes) * configuration.height * configuration.width
    for number, size in enumerate(sizes):
        parts += [Relu(), Linear(inputs, size)] if number else [Linear(inputs, size)]
        inputs = size
    return tuple(parts)


ARCHITECTURES: Registry[Callable[..., Architecture]] = Registry("network")
"""By name, the function that builds an architecture from a configuration and options, which are whole numbers."""
HISTORY = {"predictor": 8}
"""By name, the number of earlier positions that a network sees by default, if the game keeps them; otherwise 4."""


@ARCHITECTURES.named("residual")
def residual(configuration: Configuration, *, blocks: int = 4, filters: int = 32, hidden: int = 64) -> Architecture:
    """The network of AlphaGo Zero, of any size.

    Args:
      blocks: residual blocks, ≥ 1. filters: number in every convolution of the trunk, ≥ 1.
      hidden: width of the value head's inner layer.

    Deviations: the value head has 4 planes instead of 1. Go has a plane of komi, so the input has 11 planes, not the 10
    of the backup paper. The networks that come with engram learnt from records, the paper's from self-play.
    """
    trunk: dict[str, Convolution | ResidualBlock] = {"stem": Convolution(configuration.planes, filters, 3)}
    trunk |= {f"block{number}": ResidualBlock(filters) for number in range(1, blocks + 1)}
    return Architecture(
        configuration,
        trunk,
        _head(configuration, filters, 2, configuration.num_actions),
        _head(configuration, filters, 4, hidden, 1),
    )


@ARCHITECTURES.named("features")
def features(
    configuration: Configuration,
    *,
    blocks: int = 3,
    filters: int = 32,
    hidden: int = 64,
    inner: int = 128,
    size: int = 64,
) -> Architecture:
    """A residual network with a head of features, trained so that their cosines tell how much two values differ.

    Args:
      blocks, filters, hidden: as in `residual`. inner: width of the inner layer of the features. size: D of the output.

    Its policy gives all actions the same share until a policy is trained or copied from another network.
    """
    base = residual(configuration, blocks=blocks, filters=filters, hidden=hidden)
    return Architecture(
        configuration, base.trunk, base.policy, base.value, _head(configuration, filters, 16, inner, size)
    )


@ARCHITECTURES.named("predictor")
def predictor(configuration: Configuration) -> Architecture:
    """The move predictor of the memory paper: seven convolutions and one fully connected layer; no value.

    Deviations: batch normalisation; symmetries turn the data, whereas the paper ties weights.
    """
    trunk: dict[str, Convolution | ResidualBlock] = {}
    planes = configuration.planes
    for number, (kernel, filters) in enumerate([(7, 64), (5, 64), (5, 64), (5, 48), (5, 48), (5, 32), (5, 32)], 1):
        trunk[f"layer{number}"] = Convolution(planes, filters, kernel)
        planes = filters
    return Architecture(configuration, trunk, _head(configuration, planes, None, configuration.num_actions), None)


def family(game: Game) -> str:
    """The game's name without parameters."""
    return game.name.split(":")[0].split("(")[0]


def architecture(text: str, game: Game) -> Architecture:
    """The architecture of a new network for a game.

    Args:
      text: a specification such as `residual(blocks=4,filters=32,history=4)`. `history` is the number of earlier
        positions that the network sees, ≥ 0, in games that keep them.

    Raises:
      InvalidSpecification: no such network or option.
      InvalidParameter: a number out of range, or a game that has no planes.
    """
    specification = parse(text)
    name = specification.name
    defaults = {**defaults_of(ARCHITECTURES[name]), "history": min(HISTORY.get(name, 4), game.max_history)}
    if game.compiled:
        game.require_plain("a network")
    check_encoding(game, None)
    assert game.planes_shape is not None
    options = specification.bind(defaults)
    history = options.pop("history")
    past = history if game.max_history or history else None
    planes = num_planes(game, past)
    full = Specification(name, (), options if past is None else {**options, "history": history})
    configuration = Configuration(full.text, family(game), planes, *game.planes_shape[1:], game.num_actions, past)
    return _build(configuration, name, options)


def rebuild(configuration: Configuration) -> Architecture:
    """The architecture of a file's configuration; raises ValueError if this version of engram cannot build it."""
    specification = parse(configuration.network)
    options = specification.bind({**defaults_of(ARCHITECTURES[specification.name]), "history": 0})
    options.pop("history")
    return _build(configuration, specification.name, options)


def _build(configuration: Configuration, name: str, options: dict[str, int]) -> Architecture:
    """An architecture; raises InvalidParameter, before any weight is allocated, if it would be too large."""
    if any(not 1 <= number <= MAX_OPTION for number in options.values()):
        raise InvalidParameter(f"{configuration.network}: every number but history is 1 to {MAX_OPTION:,}")
    network = ARCHITECTURES[name](configuration, **options)
    num_weights = sum(math.prod(shape) for shape in network.shapes.values())
    if num_weights > MAX_WEIGHTS:
        raise InvalidParameter(f"{configuration.network} asks for {num_weights:,} weights, more than {MAX_WEIGHTS:,}")
    return network


def check_encoding(game: Game, history: int | None) -> None:
    """Checks that a game writes planes, with earlier positions if a network sees any.

    Raises:
      InvalidParameter: it does not, or it is not a compiled game.
    """
    if not game.compiled:
        raise InvalidParameter(f"{game.name} is a plain Python game: networks need a compiled one")
    name = "encode" if history is None else "encode_history"
    if not game.has(name) or game.planes_shape is None:
        raise InvalidParameter(f"{game.name} has no {name} with planes_shape: networks need them")


def check_fit(configuration: Configuration, game: Game, name: str) -> None:
    """Checks that a network is for a game, with the game's planes and actions.

    Args:
      name: of the network, for the message.

    Raises:
      InvalidParameter: it is not, or its planes or actions differ.
    """
    shape, board = game.planes_shape, (configuration.height, configuration.width)
    if family(game) != configuration.game:
        raise InvalidParameter(f"{name} is a network for {configuration.game}, not for {game.name}")
    if shape is None or shape[1:] != board:
        raise InvalidParameter(f"{name} is for a board of {board[0]} by {board[1]}, not for {game.name}")
    check_encoding(game, configuration.history)
    planes = num_planes(game, configuration.history)
    if planes != configuration.planes or game.num_actions != configuration.num_actions:
        raise InvalidParameter(
            f"{name} has {configuration.planes} planes and {configuration.num_actions} actions; "
            f"{game.name} has {planes} and {game.num_actions}"
        )
