"""Writes docs/onnx_export.md: what each op becomes in ONNX, by writing it for every dtype."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from joinery.graph.onnx.export.body import Body, OpsetNeeded, Refused
from joinery.graph.onnx.export.functions import Written, written
from joinery.graph.onnx.export.registry import UNWRITTEN, Call
from joinery.graph.onnx.export.table import REASONS, SIZED, WRITERS
from joinery.graph.ops.table import OPS
from joinery.promotion.dtype import DTYPES, DType, bool_, float32, int32, int64

DOCS = Path(__file__).resolve().parent
NOTE = "<!-- Written by docs/onnx_export.py (make docs) from the code. Do not edit. -->"
INTRO = """# Operations in ONNX

What [`jn.to_onnx`](guides/onnx.md) writes for each operation ([why](design/017-onnx.md)). **One node** names the operator that
means the operation, and the dtypes for which it is written as it is. For other dtypes that it takes, and where there is no such
operator, it is a **function** of the model, in the domain `joinery`: the column has the operators it is made of. One that has
`Cast` computes in another dtype. *Sizes* are rows whose nodes read shapes: they stand in the graph itself. A `gather` at
constant positions inside the axis is the operator Gather.

Windows are gathered, except those of convolutions, poolings and norms, which are Conv, ConvTranspose, MaxPool, AveragePool,
LpPool (with an integer for p) and LRN (over an odd number of channels of images with four axes), together with the product or
reduction and the padding. Axes of float32 images that `resize` interpolates or repeats are one Resize, but for `antialias`,
crops, cubic images with channels last, beside a Transpose or of other than four axes, and scales of
symbolic sizes with `align_corners` or `half_pixel_symmetric`.

Functions of several operations on float32 that ONNX has as one operator are that operator: LSTM, GRU and RNN (also of a few
steps in a row), GridSample, RoiAlign, DynamicQuantizeLinear, MatMulInteger, LeakyRelu, Elu, Celu, Selu, PRelu, Softplus,
Softsign, Mish, HardSigmoid, HardSwish, Shrink and ThresholdedRelu; from opset 23 on Attention (with masks, caches, and heads
that share keys) and RotaryEmbedding, in 24 Swish; RoiAlign up to 21. With other opsets, numbers that are no float32, and other
dtypes they are what they are made of, and so are all others. So are these:

* Gemm: products of matrices of float32 and float64 that come first in a sum, or whose operands are transposed for them alone
* QLinearMatMul: products of int8 and uint8 that become codes, with one scale for the left operand, and those of MatMulInteger
* OneHot: two values of float32, float16 and int64 at positions, as import makes them; of `one_hot` 0 and 1 at positions that
  are known not to be negative; where there are axes of positions, and the depth is known not to be 0
* NegativeLogLikelihoodLoss, SoftmaxCrossEntropyLoss: `nll_loss` and `cross_entropy` of float32 and float64, classes on axis 1
* DFT, STFT: `fft`, `ifft`, `rfft` and `stft` of lengths that are powers of two, and forward ones of float64; of imported
  models all of float32 but for inverse halves with a stated length
* DeformConv, opset 19: `deform_conv` of float32 and float64
* MaxUnpool: elements of float32 that positions in all of the result are written to; `max_unpool`, whose positions are those
  in one image, is a scatter
* Clip: a maximum and a minimum with two constants
* Split, Tile, Trilu, DepthToSpace, SpaceToDepth: slices side by side that are all of a tensor; `tile`; `tril` and `triu`;
  permuted blocks
* InstanceNormalization, GroupNormalization (opset 21), LayerNormalization, RMSNormalization (23): norms of float32 with a
  scale, the last two over several axes
* LpNormalization, ReduceL1, ReduceL2, ReduceLogSum, ReduceSumSquare: float32 and float64
* Tan, Sinh, Cosh, Asinh, Acosh, Atanh: float32

Complex numbers that a graph makes and takes apart inside are their real and imaginary parts; those that enter or leave it, go
into loops and branches, or are joined, chosen or looked up are refused. Fourier transforms that are no DFT are products with
matrices then.

Written for opset 21, the default. `bitcast` of floats needs opset 26, unless nothing depends on the bits of NaN: what `erfc`,
`copysign`, `atan2`, `angle` and the complex logarithm do with bits is computed before it. `cumprod` is CumProd from opset 26
on.
"""
OTHERS = ("tensor_float32", "float8_e8m0fnu")
TRIED = tuple(dtype for dtype in DTYPES.values() if dtype.names.onnx and dtype.name not in OTHERS)
ATTRS: dict[str, dict[str, Any]] = {
    "axes": {"axes": (0,)}, "keepdims": {"keepdims": True}, "axis": {"axis": 0}, "exclusive": {"exclusive": False},
    "reverse": {"reverse": False}, "correction": {"correction": 0}, "approximate": {"approximate": "none"},
    "epsilon": {"epsilon": 1e-5}, "has_scale": {"has_scale": True}, "has_bias": {"has_bias": True},
    "accumulate": {"accumulate": float32}, "precision": {"precision": "ieee"}, "rounding": {"rounding": "nearest"},
    "saturate": {"saturate": True}, "reduction": {"reduction": "none"}, "descending": {"descending": False}, "k": {"k": 1},
    "largest": {"largest": True}, "batch_dims": {"batch_dims": 0}, "side": {"side": "left"},
}  # fmt: skip
OPSET = 21


def calls(row: str) -> Iterator[tuple[DType, Call]]:
    """Yields a call of a row for each dtype of its first operand that has arithmetic, as promotion would make it."""
    definition = OPS[row]
    attrs: dict[str, Any] = {}
    for name in definition.attrs:
        attrs |= ATTRS.get(name, {})
    for dtype in TRIED:
        if not definition.accepts(dtype) or not dtype.has_arithmetic or dtype.name in ("index", "address"):
            continue
        is_float_only = definition.promote.name in ("JOIN_FLOAT", "MEAN", "JOIN_QUOTIENT")
        if (is_float_only and not dtype.is_float) or (definition.promote.name == "BOOL_ONLY" and dtype is not bool_):
            continue
        count = 2 if definition.arity < 0 else definition.arity
        operands, result = (dtype,) * count, dtype
        if row in ("layer_norm", "rms_norm"):
            operands = (dtype,) * (3 if row == "layer_norm" else 2)
        elif row == "where":
            operands = (bool_, dtype, dtype)
        elif row in ("gather", "take_along_axis", "gather_nd"):
            operands = (dtype, int64)
        elif row == "scatter":
            operands = (dtype, int64, dtype)
        elif definition.promote.name == "JOIN_TO_BOOL":
            result = bool_
        elif definition.promote.name in ("POSITION", "SEARCHED"):
            result = int64
        elif row == "matmul" and dtype.bits <= 8:
            result = int32
        if row in ("cast", "bitcast"):
            for target in TRIED:
                if row == "cast" or target.bits == dtype.bits:
                    yield dtype, Call(row, operands, target, {**attrs, "dtype": target}, OPSET)  # type: ignore[typeddict-item]
            continue
        yield dtype, Call(row, operands, result, attrs, 26 if row == "cumprod" else OPSET)  # type: ignore[arg-type]


def operators(found: Written) -> list[str]:
    names: dict[str, None] = {}

    def walk(body: Body) -> None:
        for node in body.nodes:
            names[node.op] = None
            for value in node.attributes.values():
                if hasattr(value, "body"):
                    walk(value.body)

    walk(found.body)
    return sorted(names, key=lambda name: (name != "Cast", name))


def cells(row: str) -> list[str]:
    if row in ("input", "constant", "weight", "text_constant"):
        return ["an input of the graph" if row == "input" else "an initializer", ""]
    if row in HOST:
        return list(HOST[row])
    if row in SIZED and row not in WRITERS:
        operator = OPS[row].onnx
        if row == "windows":
            return ["Gather and Transpose (sizes)", ""]
        if row in QUANTIZED:
            return [QUANTIZED[row], "others are operators in the graph itself"]
        return [f"{operator[0]} (sizes)" if operator else "Shape, Squeeze and arithmetic (sizes)", ""]
    if row in REASONS or row not in WRITERS:
        return ["–", f"refused: {REASONS.get(row, UNWRITTEN)[0]}"]
    single: dict[str, list[str]] = {}
    made: dict[str, list[str]] = {}
    for dtype, call in calls(row):
        name = f"{dtype} → {call.result}" if row in ("cast", "bitcast") else str(dtype)
        try:
            found = written(call)
        except (Refused, OpsetNeeded):
            continue
        text = " ".join(operators(found))
        (single if found.is_single else made).setdefault(text, []).append(name)
    if row in ("cast", "bitcast"):
        return [CASTS[row], " · ".join(f"`{text}`" for text in sorted(made))]
    one = "; ".join(f"{text}: {' '.join(dtypes)}" for text, dtypes in single.items())
    several = "; ".join(f"`{text}`: {' '.join(dtypes)}" for text, dtypes in made.items())
    return [one, several]


HOST = {
    "string_concat": ("StringConcat, opset 20", ""),
    "string_equal": ("", "`Equal` on strings, opset 19"),
    "string_split": ("StringSplit, opset 20, which `string_split_count` shares", ""),
    "string_split_count": ("StringSplit", ""),
    "regex_full_match": ("RegexFullMatch, opset 20", ""),
    "string_normalize": ("StringNormalizer", ""),
    "tf_idf": ("TfIdfVectorizer: string int32 int64", "`Cast TfIdfVectorizer`: other integers, but for uint64"),
    "encode_labels": ("", "`LabelEncoder` of ai.onnx.ml 4: tables of strings, int64, float32, float64; others with `Cast`"),
    "parse_numbers": ("", "`Cast` from strings"),
    "print_numbers": ("", "`Cast` to strings"),
    "nonzero": ("NonZero: bool uint8 int32 int64 float32; of a bool for other dtypes", ""),
    "unique": ("Unique, whose outputs are shared: int8 int64 float32 float64 string; others with Cast", ""),
    "non_max_suppression": ("NonMaxSuppression", ""),
    "image_decode": ("ImageDecoder, opset 20", ""),
    "empty_rows": ("ConstantOfShape", ""),
    "positions_in_range": ("Identity: Gather, GatherElements and ScatterElements refuse positions themselves", ""),
    "host_loop": ("Loop", ""),
    "host_branch": ("If", ""),
    "host_result": ("an output of its loop or branch", ""),
    "loop": ("Scan where only sequences say how often it runs and no index is read, else Loop", ""),
    "branch": ("If", ""),
    "region_result": ("an output of its loop or branch", ""),
}
"""Rows of the host, and of loops and branches: what they are written as; those that stand in the graph itself name the node
in the first column."""
QUANTIZED = {
    "quantize": "QuantizeLinear: float32 to codes of 4, 8 and 16 bits",
    "dequantize": "DequantizeLinear: codes of 4, 8, 16 and 32 bits to float32",
}
CASTS = {
    "cast": "Cast: where ONNX says what it does: to bool, between integers, from integers, between floats of 16 bits and more",
    "bitcast": "",
}


def page() -> str:
    lines = ["| operation | one node | function of |", "|---|---|---|"]
    for row in OPS:
        one, several = cells(row)
        lines.append(f"| `{row}` | {one} | {several} |")
    return "\n\n".join([NOTE, INTRO.strip(), "\n".join(lines)]) + "\n"


if __name__ == "__main__":
    (DOCS / "onnx_export.md").write_text(page(), encoding="utf-8")
