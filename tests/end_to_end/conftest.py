"""Compiled code against the reference evaluator: buffers with guards, values that hurt, and how close is close."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import joinery as jn
import numpy as np
import pytest

from ..support.error_bounds import propagation as error_bounds

Array = np.ndarray[Any, Any]

GUARD = 256
PATTERN = 0xA5

BOOLS = ("bool",)
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64", "index")
FLOATS = ("float16", "bfloat16", "float32", "tensor_float32", "float64")
DTYPES = (*BOOLS, *SIGNED, *UNSIGNED, *FLOATS)
SIZES = (0, 1, 3, 31, 33, 63, 64, 65, 257, 1000, 1023, 1024, 1025)


def guarded(shape: Sequence[int], dtype: Any) -> tuple[Array, Array]:
    """A 64-byte aligned array of PATTERN bytes, and the buffer it lies in, GUARD bytes from either end."""
    dtype = np.dtype(dtype)
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    raw = np.full(size + 2 * GUARD + 64, PATTERN, np.uint8)
    start = -raw.ctypes.data % 64
    raw = raw[start : start + size + 2 * GUARD]
    return raw[GUARD : GUARD + size].view(dtype).reshape(shape), raw


def lattice(values: Array, dtype: jn.DType) -> Array:
    """The number of representable values between 0 and each value, with its sign: differences are distances in ulp."""
    word = {2: np.int16, 4: np.int32, 8: np.int64}[dtype.itemsize]
    bits = np.ascontiguousarray(values).view(word).astype(np.int64)
    magnitude = bits & np.int64(np.iinfo(word).max)
    if dtype.name == "tensor_float32":
        magnitude >>= 13
    return np.where(bits < 0, -magnitude, magnitude)


def is_nan(values: Array) -> Array:
    if values.dtype.kind in "biu":
        return np.zeros(values.shape, bool)
    with np.errstate(all="ignore"):
        return np.isnan(values.astype(np.float64))


def describe(bad: Array, pairs: Mapping[str, Array]) -> str:
    places = np.argwhere(bad)[:5]
    lines = [f"{int(bad.sum())} of {bad.size} elements differ"]
    for place in places:
        at = tuple(place)
        lines.append(f"  at {at}: " + ", ".join(f"{name} {value[at]!r}" for name, value in pairs.items()))
    return "\n".join(lines)


class Agreement:
    """Compiles graphs, runs them between guards, and compares with the reference evaluator."""

    DTYPES, SIZES, FLOATS, SIGNED, UNSIGNED = DTYPES, SIZES, FLOATS, SIGNED, UNSIGNED

    # -- values ---------------------------------------------------------------------------------------------------------

    def special(self, dtype: jn.DType) -> Array:
        """The values of a dtype at which things go wrong."""
        if dtype.is_bool:
            return np.array([False, True])
        if dtype.is_integer:
            low, high = int(dtype.min_value), int(dtype.max_value)
            near = [
                0,
                1,
                2,
                3,
                5,
                7,
                8,
                dtype.bits - 1,
                dtype.bits,
                dtype.bits + 1,
                high,
                high - 1,
                high // 2,
                low,
                low + 1,
            ]
            negative = [-value for value in near[1:9]] if low < 0 else [high // 3]
            return np.array([value for value in (*near, *negative) if low <= value <= high], dtype.numpy)
        tiny, normal, top = dtype.smallest_subnormal, dtype.smallest_normal, float(dtype.max_value)
        step = 2.0**-dtype.mantissa_bits
        positive = [
            0.0, tiny, 3 * tiny, normal - tiny, normal, normal + tiny, 1.0, 1 - step / 2, 1 + step, 0.5, 1.5, 2.5, 3.5, 2.0,
            3.0, 7.0, 10.0, 100.0, 0.1, 0.7, np.pi / 2, np.pi, 1000.0, 2.0 ** (dtype.mantissa_bits + 1), 88.0, top, top / 2,
            top**0.5, np.inf,
        ]  # fmt: skip
        values = np.array([*positive, *[-value for value in positive], np.nan])
        return self.rounded(values, dtype)

    def rounded(self, values: Array, dtype: jn.DType) -> Array:
        """float64 values in a dtype, by the reference's own conversion."""
        from joinery.graph.reference.numerics import convert

        with np.errstate(all="ignore"):
            return np.asarray(
                convert(np.asarray(values), jn.DType.from_numpy(np.asarray(values).dtype), dtype)
            )

    def random(
        self, dtype: jn.DType, count: int | tuple[int, ...], seed: int = 0, *, tame: bool = False
    ) -> Array:
        """Values over the whole range, small ones and special ones mixed; `tame`: finite, of moderate size."""
        rng = np.random.default_rng([seed, dtype.bits, len(dtype.name)])
        shape = (count,) if isinstance(count, int) else count
        size = int(np.prod(shape, dtype=np.int64))
        if dtype.is_bool:
            return rng.integers(0, 2, shape).astype(np.bool_)
        if dtype.is_integer:
            low, high = int(dtype.min_value), int(dtype.max_value)
            small = rng.integers(max(low, -9), min(high, 9) + 1, shape)
            if tame:
                return small.astype(dtype.numpy)
            wide = rng.integers(
                low, high, shape, dtype=np.uint64 if low == 0 and high > 2**62 else np.int64, endpoint=True
            )
            mixed = np.where(rng.random(shape) < 0.5, small.astype(dtype.numpy), wide.astype(dtype.numpy))
        else:
            mixed = rng.standard_normal(shape)
            if not tame:
                exponent = rng.uniform(
                    dtype.min_exponent - dtype.mantissa_bits, 2 - dtype.min_exponent, shape
                )
                mixed = np.where(rng.random(shape) < 0.4, mixed * np.exp2(exponent), mixed * 3)
            mixed = self.rounded(mixed, dtype)
        if tame:
            return mixed
        return np.where(rng.random(shape) < 0.2, rng.choice(self.special(dtype), size).reshape(shape), mixed)

    def pairs(self, dtype: jn.DType) -> tuple[Array, Array]:
        """Every special value with every other, and random pairs."""
        special = self.special(dtype)
        x, y = (part.ravel() for part in np.meshgrid(special, special))
        return np.concatenate([x, self.random(dtype, 1500, 1)]), np.concatenate(
            [y, self.random(dtype, 1500, 2)]
        )

    # -- running --------------------------------------------------------------------------------------------------------

    def run(self, model: Any, *arrays: Array) -> tuple[Array, ...]:
        """The outputs of a compiled model, whose inputs and outputs lie between guards that must survive."""
        inputs, outputs, frames = [], [], []
        for array in arrays:
            inside, frame = guarded(array.shape, array.dtype)
            inside[...] = array
            inputs.append(inside)
            frames.append((frame, frame.copy(), array.nbytes))
        shapes = [out.shape for out in self.tuple(model(*inputs))]
        for spec, shape in zip(model.outputs, shapes, strict=True):
            inside, frame = guarded(shape, jn.DType(spec.dtype).numpy)
            outputs.append(inside)
            frames.append((frame, None, inside.nbytes))
        self.tuple(model.bind(*inputs, outputs=outputs)())
        for frame, before, size in frames:
            if before is None:
                assert (frame[:GUARD] == PATTERN).all(), "bytes before an output were overwritten"
                assert (frame[GUARD + size :] == PATTERN).all(), "bytes after an output were overwritten"
            else:
                assert (frame == before).all(), "an input was overwritten"
        return tuple(outputs)

    def tuple(self, value: Any) -> tuple[Array, ...]:
        return value if isinstance(value, tuple) else (value,)

    def evaluate(self, graph: jn.Graph, *arrays: Array) -> tuple[Array, ...]:
        with np.errstate(all="ignore"):
            return self.tuple(jn.evaluate(graph, *arrays))

    def compile(self, graph: jn.Graph, threads: int = 1) -> Any:
        return jn.compile(graph, device="cpu", cache=False, threads=threads)

    def both(
        self, graph: jn.Graph, *arrays: Array, model: Any = None
    ) -> dict[str, tuple[Array, Array, jn.DType]]:
        """Compiled and reference value of every output by name, with its dtype. Shapes and dtypes are checked."""
        model = model or self.compile(graph)
        actual, expected = self.run(model, *arrays), self.evaluate(graph, *arrays)
        result = {}
        for name, symbol, ours, theirs in zip(
            graph.output_names, graph.outputs, actual, expected, strict=True
        ):
            assert ours.shape == theirs.shape, name
            assert ours.dtype == theirs.dtype, name
            result[name] = (ours, theirs, symbol.dtype)
        return result

    # -- comparing ------------------------------------------------------------------------------------------------------

    def same(
        self, actual: Array, expected: Array, *, any_zero: bool = False, what: str = "", **about: Array
    ) -> None:
        """Equal bit for bit; all NaNs are one value, and with `any_zero` both zeros."""
        assert actual.dtype == expected.dtype, what
        assert actual.shape == expected.shape, what
        word = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64, 16: np.dtype("V16")}[
            actual.dtype.itemsize
        ]
        differ = np.ascontiguousarray(actual).view(word) != np.ascontiguousarray(expected).view(word)
        if actual.dtype.kind not in "biu":
            differ &= ~(is_nan(actual) & is_nan(expected))
            if any_zero:
                differ &= ~((actual == 0) & (expected == 0))
        assert not differ.any(), f"{what}: " + describe(
            differ, {"compiled": actual, "reference": expected, **about}
        )

    def near(
        self,
        actual: Array,
        expected: Array,
        dtype: jn.DType,
        *,
        ulp: float = 0.0,
        bound: Array | float = 0.0,
        what: str = "",
        **about: Array,
    ) -> None:
        """NaNs and infinities agree; numbers differ by at most `ulp` units in the last place, or by `bound`."""
        assert actual.dtype == expected.dtype, what
        assert actual.shape == expected.shape, what
        ours, theirs = is_nan(actual), is_nan(expected)
        distance = np.abs(lattice(actual, dtype) - lattice(expected, dtype))
        with np.errstate(all="ignore"):
            error = np.abs(actual.astype(np.float64) - expected.astype(np.float64))
            far = (distance > ulp) & ~(error <= bound)
        differ = (ours != theirs) | (~ours & ~theirs & far)
        assert not differ.any(), f"{what}: " + describe(
            differ, {"compiled": actual, "reference": expected, "ulp": distance, **about}
        )

    def bounded(self, graph: jn.Graph, *arrays: Array, model: Any = None) -> Any:
        """Compiles, runs and compares all outputs, each within the bound of a running error analysis. Returns the model."""
        model = model or self.compile(graph)
        outputs = self.run(model, *arrays)
        nodes = error_bounds.propagate(graph, *arrays)
        for name, symbol, ours in zip(graph.output_names, graph.outputs, outputs, strict=True):
            node = nodes[symbol.id]
            assert ours.shape == node.value.shape, name
            assert ours.dtype == node.value.dtype, name
            what = f"{name} = {symbol!r}"
            if not node.error.any():
                self.same(ours, node.value, any_zero=True, what=what)
                continue
            with np.errstate(all="ignore"):
                far = ~(np.abs(ours.astype(np.float64) - node.wide) <= node.error) & (node.error < np.inf)
            far &= ~(is_nan(ours) & is_nan(node.value)) & ~(ours == node.value)
            about = {"compiled": ours, "reference": node.value, "bound": node.error}
            assert not far.any(), f"{what}: " + describe(far, about)
        return model

    def agrees(
        self, graph: jn.Graph, *arrays: Array, model: Any = None, ulp: Callable[[str], float] | float = 0.0
    ) -> Any:
        """Compiles, runs and compares all outputs. Returns the model."""
        model = model or self.compile(graph)
        for name, (ours, theirs, dtype) in self.both(graph, *arrays, model=model).items():
            allowed = ulp(name) if callable(ulp) else ulp
            if dtype.is_float and dtype.bits >= 16 and allowed:
                self.near(ours, theirs, dtype, ulp=allowed, what=name)
            else:
                self.same(ours, theirs, what=name)
        return model


@pytest.fixture(scope="session")
def agreement() -> Agreement:
    return Agreement()
