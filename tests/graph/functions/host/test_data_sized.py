"""Operations whose sizes the values decide, against NumPy and plain loops, evaluated and compiled in parts."""

from __future__ import annotations

from typing import Any

import joinery as jn
import ml_dtypes
import numpy as np
import pytest

RNG = np.random.default_rng(7)


def both(graph: Any, *arrays: Any) -> list[Any]:
    """The outputs of a graph, which the evaluator and the compiled parts agree on bit by bit."""
    expected = jn.evaluate(graph, *arrays)
    found = jn.compile(graph, device="cpu", cache=False)(*arrays)
    pairs = (expected, found) if isinstance(expected, tuple) else ((expected,), (found,))
    for one, other in zip(*pairs, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
    return list(pairs[0])


@pytest.mark.parametrize("shape", [(0,), (1,), (7,), (3, 4), (2, 0, 3)])
def test_nonzero_is_that_of_numpy(shape: tuple[int, ...]) -> None:
    g = jn.Graph("g", [jn.TensorType(jn.float32, [f"n{axis}" for axis in range(len(shape))], name="x")])
    g.output(jn.nonzero(jn.relu(g.inputs[0])))
    x = RNG.standard_normal(shape).astype(np.float32)
    (found,) = both(g, x)
    np.testing.assert_array_equal(found, np.array(np.nonzero(x > 0)).reshape(len(shape), -1))


def test_a_size_from_data_is_used_like_others() -> None:
    g = jn.Graph("g", [jn.TensorType(jn.float32, ("n",), name="x")])
    (x,) = g.inputs
    positions = jn.nonzero(jn.is_finite(x))
    kept = jn.gather(x, positions[0])
    count = positions.shape[1]
    g.output(jn.sum(kept), g.dim_value(count) * 2, jn.mean(kept), jn.concat([kept, x]), kept.reshape((1, -1)) @ kept)
    assert g.outputs[3].shape == (count + x.shape[0],)
    values = np.array([1, np.nan, 2, np.inf, 4], np.float32)
    total, twice, mean, longer, product = both(g, values)
    assert (total, twice, mean) == (7, 6, np.float32(7 / 3))
    assert (longer.shape, product) == ((8,), 21)


def test_a_size_alone_keeps_what_decides_it() -> None:
    g = jn.Graph("g", [jn.TensorType(jn.int64, ("n",), name="x")])
    g.output(g.dim_value(jn.nonzero(g.inputs[0]).shape[1]))
    assert both(g, np.array([3, 0, 5, 0])) == [2]
    assert jn.evaluate(jn.from_text(*jn.to_text(g)), np.array([0, 1])) == 1


def test_sizes_decided_one_after_the_other() -> None:
    g = jn.Graph("g", [jn.TensorType(jn.int64, ("n",), name="x")])
    odd = jn.compress(g.inputs[0], g.inputs[0] % 2 == 1)
    large = jn.compress(odd * 3, odd * 3 > 10)
    g.output(large, jn.unique(large)[0] + 1)
    model = jn.compile(g, device="cpu", cache=False)
    assert len(model.parts) >= 3
    large_, distinct = both(g, np.array([1, 5, 5, 8, 7, 9]))
    assert (large_.tolist(), distinct.tolist()) == ([15, 15, 21, 27], [16, 22, 28])


@pytest.mark.parametrize("dtype", ["int32", "uint8", "bool", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_unique_is_that_of_numpy(dtype: str, axis: int | None) -> None:
    x = RNG.integers(0, 2, (6, 3)).astype(jn.DType(dtype).numpy)
    g = jn.Graph("g", [jn.TensorType(dtype, ("a", "b"), name="x")])
    g.output(*jn.unique(g.inputs[0], axis=axis))
    found = both(g, x)
    wide = x.astype(np.float64)
    expected = np.unique(wide, return_index=True, return_inverse=True, return_counts=True, axis=axis)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one.astype(np.float64), other.reshape(one.shape))


NUMBERS = {
    "few of a small range": lambda rng, kind: rng.integers(0, 7, 500),
    "small range of many": lambda rng, kind: rng.integers(0, 100, 20_000),
    "wide range": lambda rng, kind: rng.integers(0, 2**62, 500),
    "both ends": lambda rng, kind: [kind.min_value, kind.max_value, 0, kind.max_value, kind.min_value, 1],
    "the upper end": lambda rng, kind: [kind.max_value - each for each in (3, 0, 5, 0)],
    "one": lambda rng, kind: [3],
    "none": lambda rng, kind: [],
}


@pytest.mark.one_in(7)
@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("numbers", NUMBERS)
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "uint64", "float64", "float32"])
def test_unique_of_numbers_counts_or_sorts(dtype: str, numbers: str, ordered: bool) -> None:
    kind = jn.DType(dtype)
    made = NUMBERS[numbers](np.random.default_rng(3), kind)
    drawn = [int(each) % 2 ** (kind.bits - 1) if "range" in numbers else each for each in made]
    x = np.array(drawn, kind.numpy)
    g = jn.Graph("g", [jn.TensorType(dtype, ("n",), name="x")])
    g.output(*jn.unique(g.inputs[0], sorted=ordered))
    seen: dict[Any, int] = {}
    for number, each in enumerate(x.tolist()):
        seen.setdefault(each, number)
    distinct = sorted(seen) if ordered else list(seen)
    values, first, inverse, counts = both(g, x)
    assert values.tolist() == distinct
    assert first.tolist() == [seen[each] for each in distinct]
    assert inverse.tolist() == [distinct.index(each) for each in x.tolist()]
    assert counts.tolist() == [x.tolist().count(each) for each in distinct]


def test_unique_takes_the_first_of_equal_numbers() -> None:
    x = np.array([[1.0, -0.0, 0.0, np.nan, -0.0, np.nan, -np.inf]])
    g = jn.Graph("g", [jn.TensorType(jn.float64, (1, "n"), name="x")])
    g.output(*jn.unique(g.inputs[0], axis=1))
    values, first, inverse, counts = both(g, x)
    assert values.shape == (1, 4)
    assert str(values[0].tolist()) == "[-inf, -0.0, 1.0, nan]"
    assert first.tolist() == [6, 1, 0, 3]
    assert (inverse.tolist(), counts.tolist()) == ([2, 1, 1, 3, 1, 3, 0], [1, 3, 1, 2])


def test_unique_in_order_of_appearance_and_with_nan() -> None:
    g = jn.Graph("g", [jn.TensorType(jn.float32, ("n",), name="x")])
    g.output(*jn.unique(g.inputs[0], sorted=False))
    values, first, inverse, counts = both(g, np.array([3, np.nan, 1, 3, np.nan], np.float32))
    np.testing.assert_array_equal(values, [3, np.nan, 1])
    assert (first.tolist(), inverse.tolist(), counts.tolist()) == ([0, 1, 2], [0, 1, 2, 0, 1], [2, 2, 1])
    assert [each.size for each in both(g, np.zeros(0, np.float32))] == [0, 0, 0, 0]


def overlap(a: Any, b: Any) -> float:
    """Intersection over union of two boxes of corners in any order."""
    low, high = np.minimum(a[:2], a[2:]), np.maximum(a[:2], a[2:])
    low_, high_ = np.minimum(b[:2], b[2:]), np.maximum(b[:2], b[2:])
    sides = np.maximum(np.minimum(high, high_) - np.maximum(low, low_), 0)
    shared = sides[0] * sides[1]
    union = np.prod(high - low) + np.prod(high_ - low_) - shared
    return float(shared / union) if union > 0 else 0.0


@pytest.mark.parametrize(("limit", "iou", "score"), [(3, 0.3, 0.2), (100, 0.5, -np.inf), (0, 0.5, 0.0), (2, 0.0, 0.9)])
def test_non_max_suppression_by_hand(limit: int, iou: float, score: float) -> None:
    boxes, scores = RNG.random((2, 12, 4), np.float32), RNG.random((2, 3, 12), np.float32)
    g = jn.Graph("g", [jn.TensorType(jn.float32, ("b", "n", 4)), jn.TensorType(jn.float32, ("b", "c", "n"))])
    g.output(jn.non_max_suppression(*g.inputs, limit, iou, score))
    expected = []
    for batch in range(2):
        for number in range(3):
            kept: list[int] = []
            for box in np.argsort(-scores[batch, number], kind="stable"):
                free = all(overlap(boxes[batch, box], boxes[batch, other]) <= iou for other in kept)
                if scores[batch, number, box] > score and free and len(kept) < limit:
                    kept.append(int(box))
            expected += [(batch, number, box) for box in kept]
    np.testing.assert_array_equal(both(g, boxes, scores)[0], np.array(expected, np.int64).reshape(-1, 3))


@pytest.mark.one_in(36)
@pytest.mark.parametrize("boxes", [0, 1, 63, 64, 65, 200, 3000])
@pytest.mark.parametrize(("limit", "iou", "size"), [(3, 0.5, 0.05), (600, 0.5, 0.02), (10**6, 0.3, 0.5), (40, 0.0, 0.01)])
def test_non_max_suppression_of_many_boxes(boxes: int, limit: int, iou: float, size: float) -> None:
    """With equal scores, scores that are NaN, and more boxes than are looked at first."""
    rng = np.random.default_rng(boxes)
    corners, scores = rng.random((1, boxes, 4), np.float32), np.round(rng.random((1, 1, boxes), np.float32) * 500) / 500
    corners[..., 2:] = corners[..., :2] + corners[..., 2:] * np.float32(size)
    scores[..., 1:2] = np.nan
    g = jn.Graph("g", [jn.TensorType(jn.float32, (1, "n", 4)), jn.TensorType(jn.float32, (1, 1, "n"))])
    g.output(jn.non_max_suppression(*g.inputs, limit, iou, 0.1))
    low, high = corners[0, :, :2].astype(np.float64), corners[0, :, 2:].astype(np.float64)
    kept: list[int] = []
    for box in np.argsort(-np.nan_to_num(scores[0, 0], nan=-1), kind="stable"):
        sides = np.clip(np.minimum(high[box], high[kept]) - np.maximum(low[box], low[kept]), 0, None).prod(-1)
        union = (high[box] - low[box]).prod() + (high[kept] - low[kept]).prod(-1) - sides
        if scores[0, 0, box] > np.float32(0.1) and len(kept) < limit and not (sides / union > iou).any():
            kept.append(int(box))
    np.testing.assert_array_equal(jn.evaluate(g, corners, scores), [(0, 0, box) for box in kept] or np.zeros((0, 3)))


def test_centers_and_sizes_mean_the_same_boxes() -> None:
    boxes, scores = RNG.random((1, 20, 4), np.float32), RNG.random((1, 1, 20), np.float32)
    low, size = boxes[..., :2], boxes[..., 2:]
    g = jn.Graph("g", [jn.TensorType(jn.float32, (1, 20, 4)), jn.TensorType(jn.float32, (1, 1, 20))])
    g.output(jn.non_max_suppression(*g.inputs, 20, 0.4, center_point_box=True))
    h = jn.Graph("h", [jn.TensorType(jn.float32, (1, 20, 4)), jn.TensorType(jn.float32, (1, 1, 20))])
    h.output(jn.non_max_suppression(*h.inputs, 20, 0.4))
    corners = np.concatenate([low - size / 2, low + size / 2], -1)
    np.testing.assert_array_equal(both(g, boxes, scores)[0], both(h, corners, scores)[0])


def test_pictures_are_decoded() -> None:
    images = pytest.importorskip("PIL.Image")
    import io

    pixels = RNG.integers(0, 256, (5, 7, 3)).astype(np.uint8)
    file = io.BytesIO()
    images.fromarray(pixels).save(file, "PNG")
    data = np.frombuffer(file.getvalue(), np.uint8)
    g = jn.Graph("g", [jn.TensorType(jn.uint8, ("n",), name="file")])
    picture = jn.image_decode(g.inputs[0], "BGR")
    g.output(picture, picture.cast(jn.float32) / 255)
    np.testing.assert_array_equal(both(g, data)[0], pixels[..., ::-1])
    with pytest.raises(jn.UserError, match=r"image_decode: cannot identify .*fix: pass the bytes of a file of BMP"):
        jn.evaluate(g, data[3:])


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda x, f: jn.unique(x, axis=2), "axis 2 is out of range"),
        (lambda x, f: jn.non_max_suppression(x, x, 1), "boxes .* scores"),
        (lambda x, f: jn.non_max_suppression(f, f, -1), "option limit is -1"),
        (lambda x, f: jn.non_max_suppression(f.cast(jn.float16), f, 1), "not defined for float16; fix: pass float32"),
        (lambda x, f: jn.image_decode(x), "not defined for float32; fix: pass bytes"),
        (lambda x, f: jn.nonzero(x.cast(jn.float8_e5m2)), "not defined for float8_e5m2"),
        (lambda x, f: jn.image_decode(x.cast(jn.uint8), "CMYK"), "option pixels"),
    ],
)
def test_mistakes(build: Any, message: str) -> None:
    g = jn.Graph("g", [jn.TensorType(jn.float32, ("n", 2)), jn.TensorType(jn.float32, (1, 2, 4))])
    with pytest.raises(jn.UserError, match=message):
        build(*g.inputs)


@pytest.mark.parametrize(
    "change",
    [
        ("<unique_1>", "<n + 1>"), ('\\"part\\": \\"values\\"', '\\"part\\": \\"all\\"'), ("dtype = float32", "dtype = int8"),
        ('\\"axis\\": 0', '\\"axis\\": -1'), ('{\\"axis\\"', '[\\"axis\\"'),
    ],
)  # fmt: skip
def test_texts_are_checked(change: tuple[str, str]) -> None:
    g = jn.Graph("g", [jn.TensorType(jn.float32, ("n",), name="x")])
    g.output(jn.unique(g.inputs[0])[0])
    text, arrays = jn.to_text(g)
    assert change[0] in text
    with pytest.raises(jn.UserError):
        jn.from_text(text.replace(*change), arrays)


def test_bfloat16_values_survive() -> None:
    g = jn.Graph("g", [jn.TensorType(jn.bfloat16, ("n",), name="x")])
    g.output(jn.unique(g.inputs[0])[0])
    assert both(g, np.array([2, 1, 2], ml_dtypes.bfloat16))[0].tolist() == [1, 2]


def test_compress_of_nothing() -> None:
    for shape, axis in (((0,), None), ((0,), 0), ((3, 0), 1), ((0, 3), 0)):
        g = jn.Graph("g", inputs=[jn.TensorType(jn.float32, shape, "x"), jn.TensorType(jn.bool, (0,), "keep")])
        g.output(jn.compress(*g.inputs, axis=axis))
        x, keep = np.zeros(shape, np.float32), np.zeros(0, bool)
        expected = np.compress(keep, x, axis)
        assert np.asarray(jn.compile(g, device="cpu")(x, keep)).shape == expected.shape
