"""Measures convolutions, poolings and ResNet-50 beside onnxruntime: the same ONNX models with random weights, timed in turn.

python benchmarks/convolution.py                    all cases
python benchmarks/convolution.py depthwise resnet   some of them

Ratios are times over those of onnxruntime, formed in each round; a model with few operations is timed with all of its calls. It
needs `onnx` and `onnxruntime` (the environment of `make bench`).
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import joinery as jn
import numpy as np
import onnxruntime
from harness import Contender, Measurement, sample
from onnx import TensorProto, helper, numpy_helper
from run import load_average, processor

RESULTS = Path(__file__).resolve().parent / "results"
JOINERY, PEER = "joinery", "onnxruntime"


class Builder:
    """Nodes and weights of a model with one input `x` of shape (N, C, …), whose last value is the output."""

    def __init__(self, *shape: int) -> None:
        self.shape = shape
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self.rng = np.random.default_rng(0)

    def weight(self, array: np.ndarray) -> str:
        name = f"w{len(self.weights)}"
        data = array.astype(np.float32)
        self.weights.append(helper.make_tensor(name, TensorProto.FLOAT, data.shape, data.tobytes(), raw=True))
        return name

    def constant(self, array: Any) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def coded(self, x: str, scale: float, zero: int = 128) -> str:
        """Make x codes of uint8, and what these stand for."""
        parameters = self.constant(np.float32(scale)), self.constant(np.uint8(zero))
        return self.node("DequantizeLinear", self.node("QuantizeLinear", x, *parameters), *parameters)

    def quantized_conv(self, x: str, channels: int, filters: int, size: int, stride: int = 1) -> str:
        """Convolve with codes of int8 of a scale for each filter, between codes."""
        fan = channels * size * size
        codes = self.constant(self.rng.integers(-127, 128, (filters, channels, size, size)).astype(np.int8))
        scales = self.constant(((self.rng.random(filters) + 0.5) / (74 * np.sqrt(fan))).astype(np.float32))
        factors = self.node("DequantizeLinear", codes, scales, self.constant(np.zeros(filters, np.int8)), axis=0)
        bias = self.constant((self.rng.standard_normal(filters) / 8).astype(np.float32))
        result = self.node("Conv", x, factors, bias, pads=[size // 2] * 4, strides=[stride] * 2)
        return self.coded(result, 0.03)

    def node(self, op: str, *inputs: str, **attributes: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], **attributes))
        return name

    def conv(
        self, x: str, channels: int, filters: int, size: int, stride: int = 1, group: int = 1, pad: int | None = None
    ) -> str:
        fan = channels // group * size * size
        weights = self.rng.standard_normal((filters, channels // group, size, size)) / np.sqrt(fan)
        pads = [size // 2 if pad is None else pad] * 4
        return self.node("Conv", x, self.weight(weights), pads=pads, strides=[stride] * 2, group=group)

    def norm(self, x: str, channels: int) -> str:
        scale, shift, centre = (self.rng.standard_normal(channels) * 0.1 + offset for offset in (1, 0, 0))
        spread = self.rng.random(channels) + 0.5
        return self.node("BatchNormalization", x, *[self.weight(each) for each in (scale, shift, centre, spread)])

    def relu(self, x: str) -> str:
        return self.node("Relu", x)

    def model(self) -> bytes:
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)
        y = helper.make_tensor_value_info(self.nodes[-1].output[0], TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, "g", [x], [y], self.weights)
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        return bytes(made.SerializeToString())


def layer(
    channels: int, extent: int, filters: int, size: int, stride: int = 1, group: int = 1, pad: int | None = None
) -> Callable[[], tuple[bytes, tuple[int, ...]]]:
    def build() -> tuple[bytes, tuple[int, ...]]:
        b = Builder(1, channels, extent, extent)
        b.relu(b.conv("x", channels, filters, size, stride, group, pad))
        return b.model(), b.shape

    return build


def stacked(channels: int, extent: int, size: int, group: int) -> Callable[[], tuple[bytes, tuple[int, ...]]]:
    """Makes a model of eight equal layers: what reordering the input costs counts for an eighth."""

    def build() -> tuple[bytes, tuple[int, ...]]:
        b = Builder(1, channels, extent, extent)
        x = "x"
        for _ in range(8):
            x = b.relu(b.conv(x, channels, channels, size, 1, group))
        return b.model(), b.shape

    return build


def quantized(channels: int, extent: int, size: int, count: int = 8) -> Callable[[], tuple[bytes, tuple[int, ...]]]:
    """Makes a model of equal layers in floats between codes of 8 bits (QDQ)."""

    def build() -> tuple[bytes, tuple[int, ...]]:
        b = Builder(1, channels, extent, extent)
        x = b.coded("x", 0.03)
        for _ in range(count):
            x = b.quantized_conv(x, channels, channels, size)
        return b.model(), b.shape

    return build


def expanded(channels: int, extent: int, filters: int) -> Callable[[], tuple[bytes, tuple[int, ...]]]:
    """Makes four residual pairs of 1x1 layers in floats between codes: to few channels and back, with a sum."""

    def build() -> tuple[bytes, tuple[int, ...]]:
        b = Builder(1, filters, extent, extent)
        x = b.coded("x", 0.03)
        for _ in range(4):
            y = b.quantized_conv(b.quantized_conv(x, filters, channels, 1), channels, filters, 1)
            x = b.coded(b.relu(b.node("Add", x, y)), 0.03, 0)
        return b.model(), b.shape

    return build


def pooling(op: str, channels: int, extent: int, size: int, stride: int) -> Callable[[], tuple[bytes, tuple[int, ...]]]:
    def build() -> tuple[bytes, tuple[int, ...]]:
        b = Builder(1, channels, extent, extent)
        b.node(op, "x", kernel_shape=[size] * 2, strides=[stride] * 2, pads=[size // 2] * 4)
        return b.model(), b.shape

    return build


def resnet50() -> tuple[bytes, tuple[int, ...]]:
    b = Builder(1, 3, 224, 224)
    x = b.relu(b.norm(b.conv("x", 3, 64, 7, 2), 64))
    x = b.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    channels = 64
    for blocks, width, first in ((3, 64, 1), (4, 128, 2), (6, 256, 2), (3, 512, 2)):
        for number in range(blocks):
            stride = first if number == 0 else 1
            y = b.relu(b.norm(b.conv(x, channels, width, 1), width))
            y = b.relu(b.norm(b.conv(y, width, width, 3, stride), width))
            y = b.norm(b.conv(y, width, 4 * width, 1), 4 * width)
            if number == 0:
                x = b.norm(b.conv(x, channels, 4 * width, 1, stride), 4 * width)
            x, channels = b.relu(b.node("Add", y, x)), 4 * width
    x = b.node("Flatten", b.node("GlobalAveragePool", x))
    b.node("Gemm", x, b.weight(b.rng.standard_normal((1000, 2048)) / 45), b.weight(np.zeros(1000)), transB=1)
    return b.model(), b.shape


CASES: dict[str, Callable[[], tuple[bytes, tuple[int, ...]]]] = {
    "3x3 64-64, 56²": layer(64, 56, 64, 3),
    "3x3 64-64, 56², 8 times": stacked(64, 56, 3, 1),
    "1x1 256-64, 56²": layer(256, 56, 64, 1),
    "depthwise 3x3, 32, 112²": layer(32, 112, 32, 3, 1, 32),
    "depthwise 3x3, 32, 112², 8 times": stacked(32, 112, 3, 32),
    "depthwise 3x3 / 2, 64, 112²": layer(64, 112, 64, 3, 2, 64),
    "7x7 / 2 3-64, 224²": layer(3, 224, 64, 7, 2),
    "3x3 256-256, 14²": layer(256, 14, 256, 3),
    "3x3 512-512, 7²": layer(512, 7, 512, 3),
    "11x11 / 4 3-96, 227²": layer(3, 227, 96, 11, 4, 1, 0),
    "codes 3x3 64-64, 56², 8 times": quantized(64, 56, 3),
    "codes 3x3 256-256, 14², 8 times": quantized(256, 14, 3),
    "codes 3x3 512-512, 7², 8 times": quantized(512, 7, 3),
    "codes 1x1 256-256, 28², 8 times": quantized(256, 28, 1),
    "codes 1x1 256-64-256, 56², with a sum, 4 times": expanded(64, 56, 256),
    "codes 1x1 1024-256-1024, 14², with a sum, 4 times": expanded(256, 14, 1024),
    "max pool 3x3 / 2, 64, 112²": pooling("MaxPool", 64, 112, 3, 2),
    "average pool 3x3, 192, 28²": pooling("AveragePool", 192, 28, 3, 1),
    "resnet50": resnet50,
}


def session(model: bytes, threads: int) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.add_session_config_entry("session.intra_op.allow_spinning", "1")
    return onnxruntime.InferenceSession(model, options, ["CPUExecutionProvider"])


def timed(make: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    made = make()
    return time.perf_counter() - start, made


def measure(name: str, seconds: float, threads: int) -> tuple[Measurement, dict[str, float]]:
    """Returns times of both, and seconds to import, to compile, and to load from the cache."""
    model, shape = CASES[name]()
    x = np.random.default_rng(1).standard_normal(shape, dtype=np.float32)
    imported, graph = timed(lambda: jn.from_onnx(model))
    compiled, ours = timed(lambda: jn.compile(graph, "cpu", threads=threads, cache=False))
    jn.compile(graph, "cpu", threads=threads)
    cached, _ = timed(lambda: jn.compile(jn.from_onnx(model), "cpu", threads=threads))
    loaded, peer = timed(lambda: session(model, threads))
    expected = peer.run(None, {"x": x})[0]
    scale = float(np.abs(expected).max())
    if name.startswith("codes"):  # one that lies between two codes may become either, and so may what is computed of it
        assert float(np.abs(ours(x) - expected).mean()) < 0.01 * scale
    else:
        np.testing.assert_allclose(ours(x), expected, rtol=0, atol=1e-4 * scale)
    contenders = [
        Contender(JOINERY, "m(x)", {"m": ours, "x": x}, ours=True),
        Contender(PEER, "s.run(None, {'x': x})", {"s": peer, "x": x}, spins=True),
    ]
    starts = {"import": imported, "compile": compiled, "import and load from the cache": cached, "session": loaded}
    return Measurement(name, "", sample(contenders, seconds), (JOINERY, PEER)), starts


def chosen(words: Sequence[str]) -> list[str]:
    return [name for name in CASES if not words or any(word in name for word in words)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", help="words that names of cases hold; all of them when none is given")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=4.0, help="sampling time per case")
    parser.add_argument("--output", type=Path, help="result file (default: benchmarks/results/DATE-convolution.json)")
    options = parser.parse_args()
    before, rows = load_average(), []
    print(f"{'':34} {JOINERY:>11} {PEER:>11}  ratio (quartiles)")
    for name in chosen(options.cases):
        found, starts = measure(name, options.seconds, options.threads)
        ratio = found.ratio(JOINERY, PEER)
        times = {each: found.summary(each) for each in (JOINERY, PEER)}
        shown = "  ".join(f"{1000 * each.median:8.3f} ms" for each in times.values())
        print(f"{name:34} {shown}  {ratio.median:.2f} ({ratio.lower_quartile:.2f}-{ratio.upper_quartile:.2f})", flush=True)
        rows.append(
            {
                "name": name,
                "seconds": {each: summary.median for each, summary in times.items()},
                "ratio": [ratio.median, ratio.lower_quartile, ratio.upper_quartile],
                "start": starts,
            }
        )
        if name == "resnet50":
            print("  " + ", ".join(f"{what} {1000 * spent:.0f} ms" for what, spent in starts.items()))
    date = datetime.datetime.now(datetime.UTC)
    output = options.output or RESULTS / f"{date:%Y-%m-%d-%H%M}-convolution.json"
    result = {
        "date": date.isoformat(timespec="seconds"), "threads": options.threads, "processor": processor(),
        "python": platform.python_version(), "onnxruntime": onnxruntime.__version__,
        "load_average": {"before": before, "after": load_average()}, "cases": rows,
    }  # fmt: skip
    output.write_text(json.dumps(result, indent=1) + "\n")
    print(f"written to {output.name}")


if __name__ == "__main__":
    main()
