"""ONNX Runtime as the backend of networks, on the processor; the architecture becomes an ONNX graph."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from engram.errors import InvalidParameter
from engram.networks.architectures import Convolution, Flatten, Head, Linear, Part, Relu, ResidualBlock
from engram.networks.network import Network
from engram.search.evaluation import Evaluation

_OPSET, _FORMAT = 17, 8  # old versions, which every ONNX Runtime of recent years reads


class _Graph:
    """Writes a network as ONNX operations; each method adds a part of it, and takes and returns names of tensors."""

    def __init__(self, network: Network):
        self.network = network
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def write(self, operation: str, *inputs: str, **attributes: Any) -> str:
        output = f"{operation}{len(self.nodes)}"
        self.nodes.append(helper.make_node(operation, inputs, [output], **attributes))
        return output

    def constant(self, array: np.ndarray) -> str:
        name = f"constant{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(array, np.float32), name))
        return name

    def convolution(self, place: str, planes: str) -> str:
        weight, bias = self.network.folded(place)
        arrays = self.constant(weight), self.constant(bias)
        return self.write("Conv", planes, *arrays, pads=[weight.shape[2] // 2] * 4)

    def part(self, place: str, part: Part, tensor: str) -> str:
        match part:
            case Convolution():
                return self.write("Relu", self.convolution(place, tensor))
            case ResidualBlock():
                inner = self.write("Relu", self.convolution(f"{place}.first", tensor))
                return self.write("Relu", self.write("Add", self.convolution(f"{place}.second", inner), tensor))
            case Linear():
                weight, bias = (self.constant(self.network.weights[f"{place}.{name}"]) for name in ("weight", "bias"))
                return self.write("Gemm", tensor, weight, bias, transB=1)
            case Relu() | Flatten():
                return self.write(type(part).__name__, tensor)

    def head(self, place: str, head: Head, tensor: str) -> tuple[str, str]:
        """Returns the input and the output of the head's last linear map."""
        for number, part in enumerate(head[:-1]):
            tensor = self.part(f"{place}.{number}", part, tensor)
        return tensor, self.part(f"{place}.{len(head) - 1}", head[-1], tensor)


def graph_of(network: Network, layer: str | None = None) -> onnx.ModelProto:
    """A network as an ONNX model: from `planes` (B, C, H, W) to `policy`, `value` (B, 1) and `embedding` (B, D)."""
    architecture, graph = network.architecture, _Graph(network)
    shape = network.configuration
    sizes = {"policy": shape.num_actions, "value": 1, "embedding": architecture.size_of(layer) if layer else 0}
    layers, tensor = dict[str, str](), "planes"
    for name, part in architecture.trunk.items():
        tensor = layers[name] = graph.part(f"trunk.{name}", part, tensor)
    ends = {}
    for name, head in architecture.heads.items():
        layers[f"{name}_head"], ends[name] = graph.head(name, head, tensor)
    outputs = {"policy": graph.write("Softmax", ends["policy"], axis=1)}
    if "value" in ends:
        outputs["value"] = graph.write("Tanh", ends["value"])
    if layer is not None:
        outputs["embedding"] = graph.write("Flatten", (layers | ends)[layer])
    named = [helper.make_node("Identity", [tensor], [name]) for name, tensor in outputs.items()]
    declare = partial(helper.make_tensor_value_info, elem_type=TensorProto.FLOAT)
    inputs = [declare("planes", shape=["B", shape.planes, shape.height, shape.width])]
    answers = [declare(name, shape=["B", sizes[name]]) for name in outputs]
    body = helper.make_graph(graph.nodes + named, shape.game, inputs, answers, graph.constants)
    model = helper.make_model(body, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_FORMAT)
    onnx.checker.check_model(model)
    return model


class OnnxBackend:
    """Computes a network with ONNX Runtime, on one thread of the processor, in float32.

    Args:
      layer: as in `open_backend`. precision: `auto` or `float32`.

    Raises:
      InvalidParameter: there is no such layer, or another precision is asked for.
    """

    precision = "float32"

    def __init__(self, network: Network, *, layer: str | None = None, precision: str = "auto"):
        if precision not in ("auto", self.precision):
            raise InvalidParameter(f"the backend onnx computes in float32, not in {precision!r}")
        self.architecture = network.architecture
        self.layer = layer
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        model = graph_of(network, layer).SerializeToString()
        self._session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        self._names = [output.name for output in self._session.get_outputs()]

    def forward(self, planes: np.ndarray) -> Evaluation:
        """See `Backend`."""
        answers = dict(zip(self._names, self._session.run(self._names, {"planes": planes}), strict=True))
        # Because of rounding errors its tanh can exceed 1.
        value = np.clip(answers["value"].reshape(-1), -1.0, 1.0) if "value" in answers else None
        return Evaluation(value, answers["policy"], answers.get("embedding"))
