"""Makes the models of `tests/data/onnx_models`: small nets of real kinds, exported as people export them, with what onnxruntime
computes.

    python tests/conformance/onnx_models/make_models.py tests/data/onnx_models

Needs torch 2.13.0, onnxscript and onnxruntime 1.32, in an environment of its own. Weights and inputs come from seeds.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import helper, numpy_helper
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_dynamic,
    quantize_static,
)
from onnxruntime.transformers.float16 import convert_float_to_float16
from torch import nn
from torch.nn import functional as F


def block(channels: int, out: int, stride: int = 1, groups: int = 1) -> nn.Module:
    conv = nn.Conv2d(channels, out, 3, stride, 1, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(out), nn.Hardswish())


class UNet(nn.Module):
    """Resizes to the sizes of other tensors, so that height and width stay symbolic through shape arithmetic."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.deep, self.up = block(3, 6), block(6, 8), block(14, 6)
        self.out = nn.Conv2d(6, 2, 1)

    def forward(self, x: Any) -> Any:
        wide = self.down(x)
        deep = self.deep(F.max_pool2d(wide, 2))
        near = F.interpolate(deep, size=wide.shape[2:], mode="nearest")
        smooth = F.interpolate(deep, size=wide.shape[2:], mode="bilinear", align_corners=False)
        return self.out(self.up(torch.cat([near * 0.5 + smooth * 0.5, wide], 1)))


class Decoder(nn.Module):
    """A transformer with a cache, whose causal mask is cut at a diagonal that is a size."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(20, 16), nn.Embedding(32, 16)
        self.project, self.out = nn.Linear(16, 48), nn.Linear(16, 16)
        self.norms = nn.ModuleList([nn.LayerNorm(16) for _ in range(3)])
        self.hidden = nn.Sequential(nn.Linear(16, 32), nn.GELU("tanh"), nn.Linear(32, 16))

    def forward(self, ids: Any, keys: Any, values: Any) -> Any:
        past, length = keys.shape[2], ids.shape[1]
        x = self.words(ids) + self.places(torch.arange(past, past + length))
        parts = self.project(self.norms[0](x)).chunk(3, -1)
        query, key, value = [part.view(part.shape[0], length, 2, 8).transpose(1, 2) for part in parts]
        keys, values = torch.cat([keys, key], 2), torch.cat([values, value], 2)
        scores = query @ keys.transpose(-1, -2) / math.sqrt(8)
        seen = torch.ones(length, past + length, dtype=torch.bool).tril(past)
        weights = scores.masked_fill(~seen, float("-inf")).softmax(-1)
        x = x + self.out((weights @ values).transpose(1, 2).reshape(x.shape))
        x = x + self.hidden(self.norms[1](x))
        return self.norms[2](x) @ self.words.weight.t(), keys, values


class Recurrent(nn.Module):
    """Runs steps of an open number."""

    def __init__(self) -> None:
        super().__init__()
        self.cells, self.out = nn.LSTM(6, 5, batch_first=True, bidirectional=True), nn.Linear(10, 3)

    def forward(self, x: Any) -> Any:
        return self.out(self.cells(x)[0])


class Spectrum(nn.Module):
    """A short-time Fourier transform of a batch of signals."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(16))

    def forward(self, x: Any) -> Any:
        parts = torch.view_as_real(torch.stft(x, 16, 4, 16, self.window, center=True, return_complex=True))
        return torch.log((parts**2).sum(-1) + 1e-6)


class Warp(nn.Module):
    """Samples an image at positions that it computes, for a symbolic batch."""

    def __init__(self) -> None:
        super().__init__()
        self.shift = nn.Conv2d(3, 2, 3, padding=1)

    def forward(self, x: Any) -> Any:
        maps = torch.eye(2, 3)[None].expand(x.shape[0], -1, -1)
        grid = F.affine_grid(maps, list(x.shape), align_corners=False) + self.shift(x).permute(0, 2, 3, 1) * 0.1
        return F.grid_sample(x, grid, padding_mode="border", align_corners=False)


class Head(nn.Module):
    """Boxes and scores, to which `suppressed` adds the selection."""

    def __init__(self) -> None:
        super().__init__()
        self.base, self.boxes, self.classes = block(3, 8, 2), nn.Conv2d(8, 4, 1), nn.Conv2d(8, 3, 1)

    def forward(self, x: Any) -> Any:
        base = self.base(x)
        return self.boxes(base).flatten(2).transpose(1, 2), self.classes(base).flatten(2).sigmoid()


class Classifier(nn.Module):
    """A depthwise block and a classifier, for quantisation."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.deep, self.out = block(3, 8, 2), block(8, 8, 1, 8), nn.Linear(8, 5)

    def forward(self, x: Any) -> Any:
        return self.out(self.deep(self.first(x)).mean((2, 3)))


@torch.jit.script
def halved(x: torch.Tensor, most: int) -> torch.Tensor:
    """A loop without a trip count, which the values end."""
    count, going = 0, True
    while going and count < most:
        x = x * 0.5 + 1.0
        count += 1
        going = bool(x.sum() > 4.5)
    return x


class EarlyExit(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return halved(x, 8)


class Edits(nn.Module):
    """Writes slices and sums at positions, for a symbolic batch."""

    def forward(self, x: Any) -> Any:
        y = x.clone()
        y[:, 1:3] = 0
        y[:, 4] += 1
        values, order = torch.sort(x, 1, descending=True)
        return y, values, order, torch.roll(x, 1, 1), x.unfold(1, 3, 2), torch.cumsum(x, 1)


class Batches(CalibrationDataReader):
    def __init__(self) -> None:
        rng = np.random.default_rng(5)
        self.left = iter([{"x0": rng.normal(size=(1, 3, 12, 12)).astype(np.float32)} for _ in range(3)])

    def get_next(self) -> Any:
        return next(self.left, None)


def recorded(folder: Path, name: str, model: Any, feeds: dict[str, Any]) -> None:
    """Write a model, what it was given and what onnxruntime made of it."""
    data = model.SerializeToString(deterministic=True)
    (folder / f"{name}.onnx").write_bytes(data)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    found = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"]).run(None, feeds)
    arrays = {**{f"in_{key}": value for key, value in feeds.items()}, **{f"out_{at}": value for at, value in enumerate(found)}}
    np.savez_compressed(folder / f"{name}.npz", **arrays)
    print(name, len(data))


def exported(folder: Path, name: str, net: Any, *inputs: Any, opset: int, dynamo: bool, sizes: Any = None) -> dict[str, Any]:
    """Export a net, with `sizes` as {input: {axis: name}}, and record it."""
    path, names = folder / f"{name}.onnx", [f"x{number}" for number in range(len(inputs))]
    sizes = sizes or {}
    if dynamo:
        axes = tuple([dict.fromkeys(sizes.get(number, ()), torch.export.Dim.DYNAMIC) for number in range(len(inputs))])
        more = {"dynamo": True, "external_data": False, "dynamic_shapes": axes}
    else:
        more = {"dynamo": False, "dynamic_axes": {names[number]: axes for number, axes in sizes.items()}}
    with torch.no_grad():
        torch.onnx.export(net, inputs, str(path), input_names=names, opset_version=opset, **more)
    model = onnx.load(path)
    for node in model.graph.node:
        node.ClearField("doc_string")
        del node.metadata_props[:]
    for value in model.graph.value_info:
        del value.metadata_props[:]
    feeds = {name: tensor.numpy() for name, tensor in zip(names, inputs, strict=True)}
    recorded(folder, name, model, feeds)
    return feeds


def suppressed(model: Any) -> Any:
    """Add non-maximum suppression, and a gather of the boxes that it keeps."""
    graph = model.graph
    boxes, scores = [output.name for output in graph.output]
    numbers = {"most": [4], "third": [2]}
    graph.initializer.extend([numpy_helper.from_array(np.array(value, np.int64), name) for name, value in numbers.items()])
    limits = {"overlap": 0.5, "least": 0.4}
    graph.initializer.extend([numpy_helper.from_array(np.array([value], np.float32), name) for name, value in limits.items()])
    graph.node.extend([
        helper.make_node("NonMaxSuppression", [boxes, scores, "most", "overlap", "least"], ["kept"]),
        helper.make_node("Gather", ["kept", "third"], ["column"], axis=1),
        helper.make_node("Squeeze", ["column"], ["which"], axes=[1]),
        helper.make_node("Gather", [boxes, "which"], ["found"], axis=1),
        helper.make_node("Shape", ["found"], ["shape"]),
    ])  # fmt: skip
    del graph.output[:]
    graph.output.extend([
        helper.make_tensor_value_info("kept", onnx.TensorProto.INT64, ["kept", 3]),
        helper.make_tensor_value_info("found", onnx.TensorProto.FLOAT, [1, "kept", 4]),
        helper.make_tensor_value_info("shape", onnx.TensorProto.INT64, [3]),
    ])  # fmt: skip
    return model


def main(folder: Path) -> None:
    torch.manual_seed(0)
    rand = torch.randn
    frame = {0: {2: "height", 3: "width"}}
    exported(folder, "unet_script", UNet().eval(), rand(1, 3, 9, 12), opset=17, dynamo=False, sizes=frame)
    exported(folder, "unet_dynamo", UNet().eval(), rand(1, 3, 9, 12), opset=18, dynamo=True, sizes=frame)
    cache = {0: {0: "batch", 1: "length"}, 1: {0: "batch", 2: "past"}, 2: {0: "batch", 2: "past"}}
    ids, keys = torch.randint(0, 20, (2, 3)), rand(2, 2, 4, 8)
    exported(folder, "decoder_dynamo", Decoder().eval(), ids, keys, rand(2, 2, 4, 8), opset=21, dynamo=True, sizes=cache)
    exported(folder, "decoder_script", Decoder().eval(), ids, keys, rand(2, 2, 4, 8), opset=15, dynamo=False, sizes=cache)
    exported(folder, "decoder_double", Decoder().double().eval(), ids, keys.double(), keys.double() + 1, opset=17, dynamo=False)
    steps = {0: {0: "batch", 1: "steps"}}
    exported(folder, "recurrent", Recurrent().eval(), rand(2, 4, 6), opset=11, dynamo=False, sizes=steps)
    exported(folder, "spectrum", Spectrum().eval(), rand(2, 40), opset=20, dynamo=True, sizes={0: {0: "batch"}})
    exported(folder, "warp", Warp().eval(), rand(2, 3, 6, 6), opset=20, dynamo=False, sizes={0: {0: "batch"}})
    exported(folder, "edits", Edits().eval(), rand(3, 6), opset=18, dynamo=True, sizes={0: {0: "batch"}})
    early = torch.jit.script(EarlyExit())
    exported(folder, "early_exit", early, torch.tensor([9.0, 3.0]), opset=13, dynamo=False)
    feeds = exported(folder, "detector", Head().eval(), rand(1, 3, 12, 12), opset=12, dynamo=False)
    recorded(folder, "detector", suppressed(onnx.load(folder / "detector.onnx")), feeds)
    feeds = exported(folder, "plain", Classifier().eval(), rand(1, 3, 12, 12), opset=17, dynamo=False)
    plain, quantised = str(folder / "plain.onnx"), folder / "quantised_qdq.onnx"
    kinds = {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8, "per_channel": True}
    quantize_static(plain, str(quantised), Batches(), quant_format=QuantFormat.QDQ, **kinds)
    recorded(folder, "quantised_qdq", onnx.load(quantised), feeds)
    quantize_dynamic(plain, str(folder / "quantised_dynamic.onnx"), op_types_to_quantize=["Gemm", "MatMul"])
    recorded(folder, "quantised_dynamic", onnx.load(folder / "quantised_dynamic.onnx"), feeds)
    recorded(folder, "half", convert_float_to_float16(onnx.load(plain)), {"x0": feeds["x0"].astype(np.float16)})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
