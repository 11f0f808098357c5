"""Finds Fourier transforms, of an axis and of frames of signals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from .....promotion.dataclass import dataclass
from .....promotion.dtype import DType, float32, float64, int64
from ....functions.signal import fourier
from ....graph import Graph
from ....symbol import Symbol
from ...handlers.signal import OWN_DTYPE, parts_of
from ..body import Constant
from ..equality import found_among
from .composed import Composed, Operand, Size, Unsqueezed, plain, walked

_AXIS_IS_INPUT = 20
"""The opset from which on the axis of DFT is an input."""
_MAX_STEPS = 400
_MAX_LEAVES = 6


@dataclass(frozen=True, slots=True, eq=False)
class _Spectrum:
    """Real, or real and imaginary parts of transforms, on a last axis.

    Attributes:
        root: the result, cast from the dtype of the computation.
        core: the real part with the transformed axis at the end.
        axis: where that is in the result.
        work: the dtype of the computation.
        is_real: whether the result has no imaginary part.
    """

    root: Symbol
    core: Symbol
    axis: int
    work: DType
    is_real: bool

    def accepts(self, length: int, sign: int = -1) -> bool:
        """Return whether onnxruntime computes such a transform as precisely as it is computed here, or a model has it anyway.

        What import makes of DFT and STFT of float32 computes in float64, and is that operator again. Lengths that are no powers
        of two are good to 3e-4 of the largest element in float32, to 2e-12 in float64, and to 5e-8 if these are inverse.
        """
        if length & (length - 1) == 0 or self.root.dtype is not self.work:
            return True
        return self.work is float64 and sign < 0

    @property
    def facts(self) -> Mapping[str, str]:
        """What tells import the dtype of the computation."""
        return {"joinery.row": OWN_DTYPE} if self.work is float32 else {}


def transform(root: Symbol, graph: Graph, opset: int) -> Composed | None:
    """Return the node of a Fourier transform."""
    found = _spectrum(root)
    if found is None:
        return None
    inner = list(walked(found.core, _MAX_STEPS))
    if not any([_is_transform(each) for each in inner]):
        return None
    made = None if found.is_real else _of_frames(found, inner, graph)
    return made or _along_axis(found, graph, opset)


def _spectrum(root: Symbol) -> _Spectrum | None:
    stacked, work = root, root.dtype
    if root.op.name == "cast" and root.inputs[0].dtype is float64:
        stacked, work = root.inputs[0], float64
    if root.dtype not in (float32, float64) or len(root.shape) < 2:
        return None
    if stacked.op.name == "reshape" and root.shape[-1] == 2 and len(stacked.inputs[0].shape) == len(root.shape) - 1:
        core, axis = stacked.inputs[0], len(root.shape) - 2  # neighbours along the last axis
        return _Spectrum(root, core, axis, work, False) if isinstance(root.shape[axis], int) else None
    if stacked.op.name == "reshape" and root.shape[-1] == 1:
        part, is_real = stacked, True
    elif stacked.op.name == "concat" and len(stacked.inputs) == 2 and stacked.attrs["axis"] == len(root.shape) - 1:
        part, is_real = stacked.inputs[0], False
    else:
        return None
    if part.op.name != "reshape" or part.shape != (*root.shape[:-1], 1) or part.inputs[0].shape != root.shape[:-1]:
        return None
    core, axis = part.inputs[0], len(root.shape) - 2
    if core.op.name == "permute":
        axes = core.attrs["axes"]
        axis = axes.index(axis)
        core = core.inputs[0]
    if not isinstance(root.shape[axis], int):
        return None
    return _Spectrum(root, core, axis, work, is_real)


def _is_transform(symbol: Symbol) -> bool:
    """Return whether a symbol may be a step of a transform."""
    if symbol.op.name in ("fft_lines", "rfft_lines", "irfft_lines", "fft_pairs"):
        return True
    return symbol.op.name == "matmul" and any([_is_matrix(operand) for operand in symbol.inputs])


def _is_matrix(symbol: Symbol) -> bool:
    """Return whether a constant may be cosines of a transform, whose first row and column are 1."""
    if symbol.op.name != "constant" or len(symbol.shape) != 2 or not symbol.dtype.is_float:
        return False
    array = np.asarray(symbol.attrs["value"])
    return bool(array.size) and bool((array[0] == 1).all()) and bool((array[:, 0] == 1).all())


# -- along an axis -----------------------------------------------------------------------------------------------------


def _along_axis(found: _Spectrum, graph: Graph, opset: int) -> Composed | None:
    root, axis, work = found.root, found.axis, found.work
    size = int(root.shape[axis])  # type: ignore[arg-type]
    for x in _sources(found):
        is_complex = len(x.shape) == len(root.shape)
        for length, sign, onesided in _ways(found, is_complex, size):
            if not found.accepts(length, sign):
                continue

            def make(_: Graph, value: Symbol, given: tuple[int, int, bool] = (length, sign, onesided)) -> Symbol:
                parts = parts_of(value) if is_complex else (value, None)  # noqa: B023
                return fourier.along_axis(parts, axis, *given, work).cast(root.dtype)

            usual = 2 * (x.shape[axis] - 1) if sign > 0 and onesided else x.shape[axis]
            if sign > 0 and onesided and usual != length:
                continue  # onnxruntime 1.32 computes something else if a length is stated
            if found_among(graph, make, (x,), (root,)) is not None:
                return _dft(found, x, is_complex, (length, sign, onesided), opset)
    return None


def _sources(found: _Spectrum) -> list[Symbol]:
    """Return what may be transformed: real numbers, or pairs of the axes of the result; before it is filled up or cut."""
    shape, axis = found.root.shape[:-1], found.axis
    others = (*shape[:axis], *shape[axis + 1 :])
    leaves: list[Symbol] = []
    for each in _passed(found.core):
        is_complex = len(each.shape) == len(shape) + 1
        lead = each.shape[:-1] if is_complex else each.shape
        if each.dtype is not found.root.dtype or len(lead) != len(shape) or (*lead[:axis], *lead[axis + 1 :]) != others:
            continue
        if not is_complex or each.shape[-1] == 2:
            leaves.append(each)
    return leaves[:_MAX_LEAVES][::-1]


def _passed(core: Symbol) -> Iterator[Symbol]:
    """Yield the symbols through which all that is no constant goes, the nearest first."""
    pending = {core.id: core}
    for _ in range(_MAX_STEPS):
        if not pending:
            return
        each = pending.pop(max(pending))
        if not pending:
            yield each
        pending.update({operand.id: operand for operand in each.inputs if operand.op.name != "constant"})


def _ways(found: _Spectrum, is_complex: bool, size: int) -> Iterator[tuple[int, int, bool]]:
    """Yield lengths, signs, and whether only a half is given or returned."""
    if found.is_real:
        if is_complex and found.work is float64:
            yield size, 1, True
        return
    last = found.core.inputs[0] if found.core.op.name == "slice" else found.core  # of both parts
    sign = 1 if last.op.name == "mul" and not last.inputs[1].shape else -1
    yield size, sign, False
    if not is_complex and sign < 0:
        yield from ((length, -1, True) for length in (2 * size - 2, 2 * size - 1) if length > 0)


def _with_axis(x: Symbol) -> Operand:
    """Return real numbers with a last axis of one element: as they had it before, or with a new one."""
    if x.op.name == "reshape" and x.inputs[0].shape == (*x.shape, 1):
        source = x.inputs[0]
        if source.op.name != "reshape" or source.inputs[0].shape != x.shape:
            return source
    return Unsqueezed(x)


def _dft(found: _Spectrum, x: Symbol, is_complex: bool, way: tuple[int, int, bool], opset: int) -> Composed:
    length, sign, onesided = way
    attributes: dict[str, Any] = {"inverse": int(sign > 0), "onesided": int(onesided)}
    extent = x.shape[found.axis]
    usual = 2 * (extent - 1) if sign > 0 and onesided else extent
    operands: list[Operand] = [x if is_complex else _with_axis(x), None if usual == length else Size((length,), True)]
    if opset >= _AXIS_IS_INPUT:
        operands.append(Constant(np.array(found.axis, np.int64), int64))
    else:
        attributes["axis"] = found.axis
    return Composed("DFT", tuple(operands), ((found.root,),), attributes, {}, None, False, found.facts)


# -- of frames ---------------------------------------------------------------------------------------------------------


def _of_frames(found: _Spectrum, inner: list[Symbol], graph: Graph) -> Composed | None:
    root, work = found.root, found.work
    if len(root.shape) != 4 or found.axis != 2:
        return None
    framed = next((each for each in inner if each.op.name in ("windows", "gather") and len(each.shape) == 3), None)
    if framed is None or not isinstance(framed.shape[2], int) or not found.accepts(int(framed.shape[2])):
        return None
    length, step = int(framed.shape[2]), _step(framed)
    if step is None or framed.attrs.get("axis", 1) != 1:
        return None
    signal = framed.inputs[0]
    products = [each for each in inner if each.op.name == "mul" and each.inputs[0] is framed]
    windows: list[Symbol | None] = [each.inputs[1] for each in products if each.inputs[1].shape == (length,)]
    for window in (*windows, None):
        for x, onesided in _signals(signal, found, length):
            leaves = (x,) if window is None else (x, window)

            def make(_: Graph, value: Symbol, *given: Symbol, onesided: bool = onesided) -> Symbol:
                parts = parts_of(value) if len(value.shape) == 3 else (value, None)
                by = given[0] if given else None
                return fourier.spectra(parts, length, step, by, onesided, work).cast(root.dtype)

            if found_among(graph, make, leaves, (root,)) is not None:
                numbers = [Constant(np.array(number, np.int64), int64) for number in (step, length)]
                operands = (x if len(x.shape) == 3 else _with_axis(x), numbers[0], window, numbers[1])
                made = plain("STFT", operands, root, onesided=int(onesided))
                return Composed(made.op, made.operands, made.results, made.attributes, {}, None, False, found.facts)
    return None


def _step(framed: Symbol) -> int | None:
    """Return how far apart frames begin."""
    if framed.op.name == "windows":
        attrs = framed.attrs
        return int(attrs["strides"][0]) if attrs["axes"] == (1,) and attrs["dilations"] == (1,) else None
    positions = framed.inputs[1]
    starts = positions.inputs[0] if positions.op.name == "add" else positions
    while starts.op.name == "reshape":
        starts = starts.inputs[0]
    if starts.op.name != "mul" or starts.inputs[1].op.name != "constant" or starts.inputs[1].shape:
        return None
    return int(starts.inputs[1].attrs["value"])


def _signals(signal: Symbol, found: _Spectrum, length: int) -> Iterator[tuple[Symbol, bool]]:
    """Yield what may be the signal, and whether half of its transforms are taken."""
    if found.root.shape[2] == length // 2 + 1:
        yield signal, True
    if found.root.shape[2] == length:
        yield signal, False
        source = signal
        for _ in range(2):
            source = source.inputs[0] if source.inputs else source
            if len(source.shape) == 3 and source.shape[2] == 2:
                yield source, False
