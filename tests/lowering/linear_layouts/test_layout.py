"""The algebra of linear layouts against enumeration and against NumPy's reshape, transpose and indexing."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from joinery.lowering.linear_layouts import f2
from joinery.lowering.linear_layouts.coordinates import axis_mask
from joinery.lowering.linear_layouts.distributed import blocked
from joinery.lowering.linear_layouts.layout import LinearLayout
from joinery.lowering.linear_layouts.linear import expand_unique, to_unique

BLOCKED = blocked((16, 64), (1, 4), (2, 16), (4, 1), (1, 0))


def positions(layout: LinearLayout) -> list[dict[str, int]]:
    names = layout.dims
    return [
        dict(zip(names, each, strict=True))
        for each in itertools.product(*(range(layout.size(n)) for n in names))
    ]


def random_layout(
    rng: random.Random, bits: int, counts: tuple[int, int, int], *, normal: bool
) -> LinearLayout:
    """A surjective layout of 2^bits elements with so many register, lane and warp bits."""
    total = sum(counts)
    while True:
        if normal:
            pool = [1 << bit for bit in range(bits)] + [0] * (total - bits)
            rng.shuffle(pool)
        else:
            pool = [rng.randrange(1 << bits) for _ in range(total)]
        r, lanes, _ = counts
        layout = LinearLayout.of(
            {"register": pool[:r], "lane": pool[r : r + lanes], "warp": pool[r + lanes :]}, (1 << bits,)
        )
        if layout.is_surjective:
            return layout


# ---------------------------------------------------------------- F2


@pytest.mark.parametrize("seed", range(20))
def test_linear_algebra_against_enumeration(seed: int) -> None:
    rng = random.Random(seed)
    columns = [rng.randrange(32) for _ in range(rng.randrange(7))]
    others = [rng.randrange(32) for _ in range(rng.randrange(5))]
    image = {f2.combine(columns, c): c for c in range(1 << len(columns))}
    assert 1 << f2.rank(columns) == len(image)
    for vector in range(32):
        found = f2.solve(columns, vector)
        assert (found is None) == (vector not in image)
        assert found is None or f2.combine(columns, found) == vector
    zero = {c for c in range(1 << len(columns)) if f2.combine(columns, c) == 0}
    kernel = f2.kernel(columns)
    assert {f2.combine(kernel, c) for c in range(1 << len(kernel))} == zero
    assert len(zero) == 1 << len(kernel)
    both = {f2.combine(others, c) for c in range(1 << len(others))} & set(image)
    common = f2.intersect(columns, others)
    assert {f2.combine(common, c) for c in range(1 << len(common))} == both
    assert len(both) == 1 << len(common)
    rest = f2.complement(columns, 5)
    assert f2.rank([*columns, *rest]) == 5 == f2.rank(columns) + len(rest)
    independent = f2.extend((), columns)
    for i, mask in enumerate(f2.dual(independent, 5)):
        assert [f2.parity(mask & each) for each in independent] == [
            int(i == j) for j in range(len(independent))
        ]


def test_dependent_columns_stay_out_of_solutions() -> None:
    assert f2.solve([3, 3, 1], 2) == 0b101
    assert f2.Span([0, 5, 5]).kernel == [0b001, 0b110]
    with pytest.raises(ValueError, match="independent"):
        f2.dual([1, 1], 2)
    with pytest.raises(ValueError, match="power of two"):
        f2.log2(6)


# ---------------------------------------------------------------- application, predicates


def test_application_is_linear_and_row_major() -> None:
    for place in positions(BLOCKED):
        r, lane, warp = place["register"], place["lane"], place["warp"]
        assert BLOCKED.apply(**place) == (
            (lane // 16 + 2 * warp + 8 * (r // 4)) % 16,
            r % 4 + 4 * (lane % 16),
        )
    assert [BLOCKED.apply_flat(register=i & 7, lane=i >> 3 & 31, warp=i >> 8) for i in range(1024)] == list(
        BLOCKED.table()
    )
    assert BLOCKED.apply_flat(lane=3) == BLOCKED.flatten(BLOCKED.apply(lane=3))


@pytest.mark.parametrize("seed", range(12))
def test_predicates_and_free_masks_against_enumeration(seed: int) -> None:
    rng = random.Random(seed)
    pool = [rng.randrange(16) for _ in range(5)]
    layout = LinearLayout.of({"register": pool[:2], "lane": pool[2:4], "warp": pool[4:]}, (4, 4))
    table = layout.table()
    assert layout.is_surjective == (len(set(table)) == 16)
    assert layout.is_injective == (len(set(table)) == len(table))
    assert layout.is_invertible == (layout.is_surjective and layout.is_injective)
    masks = layout.free_masks()
    writers = [
        layout.apply_flat(**place)
        for place in positions(layout)
        if all(place[name] & masks[name] == 0 for name in place)
    ]
    assert sorted(writers) == sorted(set(table))


def test_normal_form_and_equality_as_maps() -> None:
    assert BLOCKED.is_normal_form
    assert not LinearLayout.of({"lane": [1], "warp": [1]}, (2,)).is_normal_form
    assert not LinearLayout.of({"lane": [1, 3]}, (4,)).is_normal_form
    one = LinearLayout((("lane", (1,)), ("register", (2,)), ("warp", ())), (4,))
    two = LinearLayout.of({"register": [2], "lane": [1]}, (4,))
    assert one.same_map(two)
    assert not one.same_map(two.with_bases(warp=[0]))
    assert not one.same_map(two.reshape((2, 2)))
    assert hash(two) == hash(LinearLayout.of({"lane": (1,), "register": (2,)}, (4,)))


# ---------------------------------------------------------------- algebra


def test_the_product_is_block_diagonal_and_not_commutative() -> None:
    identity, copies = LinearLayout.identity(4), LinearLayout.zeros(2)
    assert (identity * copies)["register"] == (1, 2, 0)
    assert (copies * identity)["register"] == (0, 1, 2)
    assert (LinearLayout.empty(1) * identity).same_map(identity)
    a = LinearLayout.from_coordinates((2, 4), {"register": [(0, 1)], "lane": [(1, 0), (0, 2)]})
    b = LinearLayout.from_coordinates((4, 2), {"register": [(2, 1)], "warp": [(1, 0)]})
    both = a * b
    assert both.shape == (8, 8)
    for r1, lane, r2, warp in itertools.product(range(2), range(4), range(2), range(2)):
        minor, major = a.apply(register=r1, lane=lane), b.apply(register=r2, warp=warp)
        want = tuple(x + y * s for x, y, s in zip(minor, major, a.shape, strict=True))
        assert both.apply(register=r1 | r2 << 1, lane=lane, warp=warp) == want
    assert ((a * b) * a).same_map(a * (b * a))


def test_division_undoes_the_product() -> None:
    rng = random.Random(3)
    for _ in range(50):
        a = random_layout(rng, 3, (2, 2, 1), normal=rng.random() < 0.5).reshape((2, 4))
        b = random_layout(rng, 2, (1, 1, 1), normal=rng.random() < 0.5).reshape((2, 2))
        left = (a * b).divide_left(a)
        assert left is not None
        assert left.same_map(b)
    tile = LinearLayout.identity(4)
    good = LinearLayout.of({"register": [1, 2, 8], "lane": [4, 16]}, (32,)).divide_left(tile)
    assert good is not None
    assert good["register"] == (2,)
    assert good["lane"] == (1, 4)
    assert LinearLayout.of({"register": [1, 2, 9], "lane": [4, 16]}, (32,)).divide_left(tile) is None
    assert LinearLayout.of({"register": [2, 1, 8], "lane": [4, 16]}, (32,)).divide_left(tile) is None


def test_composition_inversion_and_pseudo_inverse() -> None:
    rng = random.Random(4)
    for trial in range(60):
        a = random_layout(rng, 4, (2, 2, 1), normal=trial % 2 == 0)
        b = random_layout(rng, 4, (1, 3, 2), normal=trial % 3 == 0)
        between = a.invert_and_compose(b)
        assert between.shape == (4, 8, 2)
        assert b.compose(between).same_map(a)
        for place in positions(a):
            index = between.apply_flat(**place)
            assert b.apply_flat(register=index & 1, lane=index >> 1 & 7, warp=index >> 4) == a.apply_flat(
                **place
            )
        inverse = b.pseudo_inverse()
        masks = b.free_masks()
        for element in range(16):
            index = inverse.apply_flat(offset=element)
            place = {"register": index & 1, "lane": index >> 1 & 7, "warp": index >> 4}
            assert b.apply_flat(**place) == element
            assert not any(place[name] & masks[name] for name in place)


# ---------------------------------------------------------------- shape operations against NumPy


@pytest.mark.parametrize("seed", range(6))
def test_shape_operations_against_numpy(seed: int) -> None:
    rng = random.Random(seed)
    layout = random_layout(rng, 6, (3, 3, 1), normal=seed % 2 == 0).reshape((2, 8, 1, 4))
    block = np.arange(64).reshape(layout.shape)
    order = (3, 0, 2, 1)
    pairs = [
        (layout.reshape((4, 16)), block.reshape(4, 16)),
        (layout.transpose(order), block.transpose(order)),
        (layout.expand_dims(2), np.expand_dims(block, 2)),
        (layout.expand_dims(-1), np.expand_dims(block, -1)),
        (layout.reshape((64,)), block.reshape(64)),
    ]
    for place in positions(layout):
        value = block[layout.apply(**place)]
        for result, array in pairs:
            assert result.shape == array.shape
            assert array[result.apply(**place)] == value


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_a_slice_drops_the_coordinate_and_the_copies(axis: int) -> None:
    layout = blocked((4, 8, 2), (2, 2, 1), (1, 2, 2), (2, 1, 1), (2, 1, 0))
    result = layout.slice(axis)
    assert result.is_surjective
    assert len(f2.extend((), result["register"])) == len(result["register"])
    for lane, warp in itertools.product(range(4), range(2)):
        mine = {
            tuple(np.delete(layout.apply(register=r, lane=lane, warp=warp), axis))
            for r in range(layout.size("register"))
        }
        assert {
            result.apply(register=r, lane=lane, warp=warp) for r in range(result.size("register"))
        } == mine


def test_the_slice_of_the_specification() -> None:
    result = BLOCKED.slice(1)
    assert result["register"] == (8,)
    assert result["lane"] == (0, 0, 0, 0, 1)
    assert result["warp"] == (2, 4)


@pytest.mark.parametrize("seed", range(8))
def test_a_broadcast_needs_no_other_thread(seed: int) -> None:
    rng = random.Random(seed)
    source = random_layout(rng, 3, (2, 3, 2), normal=seed % 2 == 0).reshape((4, 1, 2))
    for size in (1, 2, 16):
        result = source.broadcast(1, size)
        assert result.shape == (4, size, 2)
        assert result.is_surjective
        assert result.collapse(1).unique_registers().same_map(source.unique_registers())


def test_a_broadcast_fills_copies_before_registers() -> None:
    source = LinearLayout.of({"register": [1], "lane": [0, 2], "warp": [0]}, (4, 1))
    assert (
        str(source.broadcast(1, 8)) == "4x8: register [(1, 0), (0, 4)], lane [(0, 1), (2, 0)], warp [(0, 2)]"
    )


def test_join_and_split() -> None:
    layout = random_layout(random.Random(1), 4, (2, 2, 1), normal=True).reshape((4, 4))
    first, second = np.arange(16).reshape(4, 4), np.arange(16, 32).reshape(4, 4)
    joined = layout.join()
    block = np.stack([first, second], axis=-1)
    for place in positions(joined):
        half = place["register"] & 1
        inner = {**place, "register": place["register"] >> 1}
        assert block[joined.apply(**place)] == (second if half else first)[layout.apply(**inner)]
    assert joined.split() == (layout, 0)
    moved = joined.with_bases(
        register=[joined["register"][1], joined["register"][0], *joined["register"][2:]]
    )
    assert moved.split() == (layout, 1)
    for bad in (
        LinearLayout.of({"lane": [1], "register": [2]}, (2, 2)),
        LinearLayout.of({"register": [3, 2]}, (2, 2)),
        LinearLayout.of({"register": [1, 2], "lane": [1]}, (2, 2)),
    ):
        with pytest.raises(ValueError, match="convert"):
            bad.split()


def test_unique_registers_keep_every_value() -> None:
    layout = LinearLayout.of({"register": [1, 2, 3, 0, 4], "lane": [8]}, (16,))
    unique = layout.unique_registers()
    assert unique["register"] == (1, 2, 4)
    there, back = expand_unique(layout), to_unique(layout)
    for r in range(32):
        assert unique.apply_flat(register=back[r]) == layout.apply_flat(register=r)
    for r in range(8):
        assert layout.apply_flat(register=there[r]) == unique.apply_flat(register=r)


def test_rank_zero() -> None:
    scalar = LinearLayout.of({"register": [], "lane": [0] * 5, "warp": [0]}, ())
    assert scalar.is_surjective
    assert scalar.apply(lane=7) == ()
    assert scalar.free_masks() == {"register": 0, "lane": 31, "warp": 1, "block": 0}
    assert scalar.expand_dims(0).broadcast(0, 64).apply(lane=31, warp=1) == (63,)
    assert scalar.reshape((1, 1)).reshape(()).same_map(scalar)


def test_axis_mask() -> None:
    assert axis_mask((2, 8, 4), 1) == 0b011100
    assert axis_mask((2, 8, 4), 0) == 0b100000


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LinearLayout.of({"lane": [4]}, (4,)), "outside the shape"),
        (lambda: LinearLayout.of({"lane": [1]}, (3,)), "3 is not a power of two"),
        (lambda: LinearLayout((("lane", ()), ("lane", ())), ()), "named twice"),
        (lambda: LinearLayout.from_coordinates((2, 2), {"lane": [(2, 0)]}), "outside shape"),
        (lambda: LinearLayout.from_coordinates((2, 2), {"lane": [(1,)]}), "no coordinate"),
        (lambda: BLOCKED.apply(lane=32), "lane 32 is outside 0..31"),
        (lambda: BLOCKED.apply(block=1), "block 1 is outside 0..0"),
        (lambda: BLOCKED * LinearLayout.identity(2), "equal ranks"),
        (lambda: BLOCKED.divide_left(LinearLayout.identity(2)), "equal ranks"),
        (lambda: BLOCKED.compose(LinearLayout.identity(2)), "do not fit"),
        (lambda: BLOCKED.invert_and_compose(LinearLayout.identity(2)), "output shapes differ"),
        (
            lambda: LinearLayout.identity(4).invert_and_compose(LinearLayout.of({"lane": [1]}, (4,))),
            r"\(2,\) is not in",
        ),
        (lambda: LinearLayout.of({"lane": [1]}, (4,)).pseudo_inverse(), "surjective"),
        (lambda: BLOCKED.reshape((5,)), "cannot reshape"),
        (lambda: BLOCKED.transpose((0, 0)), "no permutation"),
        (lambda: BLOCKED.slice(2), "axis 2 is outside 2 dims"),
        (lambda: BLOCKED.broadcast(0, 4), "has size 16"),
        (lambda: BLOCKED.split(), "not size 2"),
    ],
)
def test_misuse_is_named(make, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
