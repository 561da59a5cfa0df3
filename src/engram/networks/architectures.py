"""Networks of policy and value for any game with `encode`, and their files.

A network is a trunk of named layers and up to three heads. Any layer's output can be had from the same pass,
as the embedding that a memory compares positions by; the third head is one that was trained for that.

Sources: Silver et al., "Mastering the game of Go without human knowledge", 2017 (residual); Clark and Storkey,
"Training deep convolutional neural networks to play Go", 2015 (predictor).
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from engram import storage as durable
from engram.errors import InvalidFile, InvalidParameter, InvalidSpecification, nearest
from engram.games.game import Game
from engram.specification import Specification, parse

KIND = "network"
FEATURES = "features"


@dataclass(frozen=True)
class Configuration:
    """What a network is made from; stands in its file.

    Attributes:
      network: its specification, such as `residual(blocks=4,filters=32)`.
      game: the game's name without parameters.
      planes, height, width: what it sees. num_actions: length of its policy.
      history: earlier positions among the planes; None: the planes are those of the game's `encode`.
    """

    network: str
    game: str
    planes: int
    height: int
    width: int
    num_actions: int
    history: int | None


class ConvNorm(nn.Module):
    """A convolution that keeps the board's size, and batch normalisation."""

    def __init__(self, planes: int, filters: int, kernel: int):
        super().__init__()
        self.conv = nn.Conv2d(planes, filters, kernel, padding=kernel // 2, bias=False)
        self.norm: nn.Module = nn.BatchNorm2d(filters)

    def forward(self, planes: Tensor) -> Tensor:
        found: Tensor = self.norm(self.conv(planes))
        return found

    def fuse(self) -> None:
        """Takes the normalisation into the convolution's weights, for use without training."""
        if isinstance(self.norm, nn.BatchNorm2d):
            self.conv = fuse_conv_bn_eval(self.conv, self.norm)
            self.norm = nn.Identity()


class Layer(ConvNorm):
    """Convolution, normalisation, ReLU."""

    def forward(self, planes: Tensor) -> Tensor:
        return torch.relu_(super().forward(planes))


class Block(nn.Module):
    """Two layers with a way around them."""

    def __init__(self, filters: int):
        super().__init__()
        self.first = Layer(filters, filters, 3)
        self.second = ConvNorm(filters, filters, 3)

    def forward(self, planes: Tensor) -> Tensor:
        return torch.relu_(self.second(self.first(planes)).add_(planes))


class Network(nn.Module):
    """A trunk and its heads.

    Args:
      configuration: what it was made from.
      trunk: named layers, one after the other.
      policy: from the trunk's output to (B, num_actions) logits.
      value: from the trunk's output to (B, 1), in [-1, 1] for the player to move; None: it has none.
      features: from the trunk's output to (B, D), for a memory alone; None: it has none.
    """

    def __init__(
        self, configuration: Configuration, trunk: OrderedDict[str, nn.Module], policy: nn.Module,
        value: nn.Module | None, features: nn.Module | None = None,
    ):  # fmt: skip
        super().__init__()
        self.configuration = configuration
        self.trunk = nn.ModuleDict(trunk)
        self.policy = policy
        self.value = value
        self.features = features

    @property
    def layers(self) -> list[str]:
        """Names of the layers that can be an embedding."""
        heads = ["policy"] if self.value is None else ["policy", "value"]
        last = [] if self.features is None else [FEATURES]
        return [*self.trunk, *(f"{head}_head" for head in heads), *last]

    @property
    def usual_layer(self) -> str:
        """The layer that positions are best compared by: the one trained for it, or the last before the heads."""
        return list(self.trunk)[-1] if self.features is None else FEATURES

    def size_of(self, layer: str) -> int:
        """Numbers that a layer gives of one position: the length of its embedding.

        Raises:
          InvalidParameter: there is no such layer; the sentence names the nearest.
        """
        if layer not in self.layers:
            known = f"{nearest(layer, self.layers)}; it has {', '.join(self.layers)}"
            raise InvalidParameter(f"the network has no layer {layer!r}{known}")
        shape = self.configuration
        with torch.inference_mode():
            inner = self.fused().cpu()(torch.zeros(1, shape.planes, shape.height, shape.width), layer)[2]
        return int(inner.shape[1])

    def forward(self, planes: Tensor, layer: str | None = None) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Logits (B, num_actions), values (B,) or None, and what `layer` gave (B, D), or None.

        The layer of a head is what its last linear map is taken of.
        """
        kept = None
        for name, part in self.trunk.items():
            planes = part(planes)
            if name == layer:
                kept = planes
        answers: list[Tensor | None] = []
        for name, head in (("policy_head", self.policy), ("value_head", self.value)):
            if head is None:
                answers.append(None)
                continue
            inner = head[:-1](planes)  # type: ignore[index]
            if name == layer:
                kept = inner
            answers.append(head[-1](inner))  # type: ignore[index]
        if layer == FEATURES and self.features is not None:
            kept = self.features(planes)
        logits, value = answers
        return (
            logits,
            None if value is None else torch.tanh(value).flatten(),
            None if kept is None else kept.flatten(1),
        )

    def fused(self) -> Network:
        """A copy for use without training: the same function but for rounding, and faster."""
        made = copy.deepcopy(self).eval()
        for part in made.modules():
            if isinstance(part, ConvNorm):
                part.fuse()
        return made


def residual(shape: Configuration, *, blocks: int = 4, filters: int = 32, hidden: int = 64) -> Network:
    """The network of AlphaGo Zero, of any size.

    Args:
      blocks: residual blocks, ≥ 1. filters: of every convolution in the trunk, ≥ 1.
      hidden: width of the value head's inner layer.

    Deviation: the policy head has as many planes as keep it small (2), the value head 4 instead of 1.
    """
    cells = shape.height * shape.width
    trunk: OrderedDict[str, nn.Module] = OrderedDict(stem=Layer(shape.planes, filters, 3))
    for number in range(1, blocks + 1):
        trunk[f"block{number}"] = Block(filters)
    policy = nn.Sequential(Layer(filters, 2, 1), nn.Flatten(), nn.Linear(2 * cells, shape.num_actions))
    value = nn.Sequential(
        Layer(filters, 4, 1), nn.Flatten(), nn.Linear(4 * cells, hidden), nn.ReLU(), nn.Linear(hidden, 1)
    )
    return Network(shape, trunk, policy, value)


def features(
    shape: Configuration, *, blocks: int = 3, filters: int = 32, hidden: int = 64, inner: int = 128, size: int = 64
) -> Network:
    """A residual network with a third head, whose cosines are trained to say how far values are apart.

    Args:
      blocks, filters, hidden: as in `residual`. inner: width of the third head's inner layer. size: D of its output.

    Until a policy is trained or taken over, its policy says nothing: all actions alike.
    """
    net = residual(shape, blocks=blocks, filters=filters, hidden=hidden)
    nn.init.zeros_(net.policy[-1].weight)  # type: ignore[index]
    nn.init.zeros_(net.policy[-1].bias)  # type: ignore[index]
    cells = shape.height * shape.width
    net.features = nn.Sequential(
        Layer(filters, 16, 1), nn.Flatten(), nn.Linear(16 * cells, inner), nn.ReLU(), nn.Linear(inner, size)
    )
    return net


def predictor(shape: Configuration) -> Network:
    """The move predictor of the memory paper: seven convolutions and one fully connected layer; no value.

    Deviations: batch normalisation; symmetries by turning the data instead of tied weights.
    """
    sizes = [(7, 64), (5, 64), (5, 64), (5, 48), (5, 48), (5, 32), (5, 32)]
    trunk: OrderedDict[str, nn.Module] = OrderedDict()
    planes = shape.planes
    for number, (kernel, filters) in enumerate(sizes, 1):
        trunk[f"layer{number}"] = Layer(planes, filters, kernel)
        planes = filters
    policy = nn.Sequential(nn.Flatten(), nn.Linear(planes * shape.height * shape.width, shape.num_actions))
    return Network(shape, trunk, policy, None)


NETWORKS: dict[str, tuple[Callable[..., Network], dict[str, Any], int]] = {
    "residual": (residual, {"blocks": 4, "filters": 32, "hidden": 64}, 4),
    "predictor": (predictor, {}, 8),
    "features": (features, {"blocks": 3, "filters": 32, "hidden": 64, "inner": 128, "size": 64}, 4),
}
"""By name: how it is built, its options, and the earlier positions that it sees where the game keeps them."""


def family(game: Game) -> str:
    """The game's name without parameters."""
    return game.name.split(":")[0].split("(")[0]


def num_planes(game: Game, history: int | None) -> int:
    """Planes that a network of this history sees."""
    assert game.planes_shape is not None
    if history is None:
        return game.planes_shape[0]
    _, height, width = game.planes_shape
    room = np.zeros((2 * (history + 1) + 8, height, width), np.float32)
    buffer = game.new_buffer()
    game.write(buffer, game.initial_state())
    return int(game.callbacks["encode_history"].from_python(buffer.ctypes.data, room.ctypes.data, history))


def network(text: str, game: Game) -> Network:
    """A new network for a game, its weights drawn with torch's generator.

    Args:
      text: such as `residual(blocks=4,filters=32,history=4)`; `history` is the number of earlier positions seen,
        0 or more, in games that keep them.

    Raises:
      InvalidSpecification: no such network or option. InvalidParameter: a number out of range.
    """
    specification = parse(text)
    if specification.name not in NETWORKS:
        raise InvalidSpecification(
            f"no network is called {specification.name!r}{nearest(specification.name, NETWORKS)}; "
            f"there are {', '.join(NETWORKS)}"
        )
    if not game.compiled:
        raise InvalidParameter(
            f"{game.name} is not compiled: its positions are Python objects, and networks see records"
        )
    if not game.address("encode") or game.planes_shape is None:
        raise InvalidParameter(f"{game.name} has no encode with planes_shape, which a network needs")
    build, defaults, usual = NETWORKS[specification.name]
    options = specification.bind({**defaults, "history": min(usual, game.max_history)})
    history = options.pop("history")
    if not 0 <= history <= game.max_history:
        raise InvalidParameter(f"{game.name} keeps {game.max_history} earlier positions, not {history}")
    if any(number < 1 for number in options.values()):
        raise InvalidParameter(f"{text}: every number but history is 1 or more")
    past = history if game.max_history else None
    planes = num_planes(game, past)
    named = Specification(specification.name, (), {**options, **({"history": history} if game.max_history else {})})
    shape = Configuration(named.text, family(game), planes, *game.planes_shape[1:], game.num_actions, past)
    return build(shape, **options)


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


def save_network(path: str | Path, net: Network, *, half: bool = False, about: dict[str, Any] | None = None) -> None:
    """Writes a network's weights and configuration; whole or not at all.

    Args:
      half: in float16, half the size. about: more to be kept with it, plain data.
    """
    arrays = {}
    for name, tensor in net.state_dict().items():
        array = tensor.detach().cpu().numpy()
        arrays[name] = array.astype(np.float16) if half and array.dtype == np.float32 else array
    durable.save(path, KIND, {"configuration": asdict(net.configuration), **(about or {})}, arrays)


def load_network(path: str | Path) -> Network:
    """The network of a file, in float32 and ready for use.

    Raises:
      InvalidFile: no such file, damaged, or not a network's.
    """
    about, arrays = durable.load(path, KIND)
    try:
        shape = Configuration(**about["configuration"])
        specification = parse(shape.network)
        build, defaults, _ = NETWORKS[specification.name]
        options = specification.bind({**defaults, "history": 0})
        options.pop("history")
        net = build(shape, **options)
        weights = {
            name: torch.from_numpy(array.astype(np.float32) if array.dtype == np.float16 else array)
            for name, array in arrays.items()
        }
        net.load_state_dict(weights)
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise InvalidFile(f"{path} holds no network that this engram can build: {error}") from error
    return net.eval()
