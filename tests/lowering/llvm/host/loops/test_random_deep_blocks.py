"""Random operations on blocks of many dimensions, launched and interpreted."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from .....support.kernels.deep_blocks import Text

INTEGERS = {"i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64}
OPS = ("arith.addi", "arith.subi", "arith.muli", "arith.xori", "arith.maxsi", "arith.minui")


def random_text(random_: random.Random) -> tuple[Text, int]:
    """A kernel that works on one line of numbers in several shapes, and how many it writes."""
    elem = random_.choice(list(INTEGERS))
    t = Text(elem)
    bits = random_.randint(3, 9)
    blocks = [t.load("%x", _shape(random_, bits))]
    for _ in range(random_.randint(3, 14)):
        v = random_.choice(blocks[-3:])
        shape = t.shapes[v]
        axis = random_.randrange(len(shape))
        match random_.randrange(8):
            case 0 | 1:
                v = t.map(random_.choice(OPS), v, t.partner(v, axis, _combination(random_, shape[axis])))
            case 2:
                v = t.map(random_.choice(OPS), v, t.along(_converted(t, t.range(shape[axis]), elem), shape, axis))
            case 3:
                v = t.trans(v, random_.sample(range(len(shape)), len(shape)))
            case 4:
                v = t.reshape(v, _shape(random_, bits))
            case 5:
                same = [other for other in blocks if t.shapes[other] == shape]
                v = t.map(random_.choice(OPS), v, random_.choice(same))
            case 6:
                positive = t.map("arith.cmpi sgt,", v, t.constant("3", shape, elem), elem="i1")
                if random_.random() < 0.5:
                    positive = t.map("arith.xori", positive, t.partner(positive, axis, "arith.ori"))
                other = random_.choice([o for o in blocks if t.shapes[o] == shape])
                v = t.select(positive, v, other)
            case 7:
                y = t.add(f"tt.load {(p := t.places('%y', elem, t.range(shape[axis])))} : {t.type(p)}", [shape[axis]], elem)
                for d in range(len(shape)):
                    if d != axis:
                        y = t.moved("tt.expand_dims", y, [*t.shapes[y][:d], 1, *t.shapes[y][d:]], f" {{axis = {d} : i32}}")
                v = t.map(random_.choice(OPS), v, t.spread(y, shape))
        blocks.append(v)
    last = blocks[-1]
    if random_.random() < 0.3:
        axis = random_.randrange(len(t.shapes[last]))
        last = t.reduce(last, axis, _combination(random_, t.shapes[last][axis]))
    t.store(last)
    return t, math.prod(t.shapes[last])


def _combination(random_: random.Random, extent: int) -> str:
    """What the order does not matter to, but for two."""
    return random_.choice([op for op in OPS if op != "arith.subi" or extent == 2])


def _converted(t: Text, name: str, elem: str) -> str:
    if elem == "i32":
        return name
    return t.cast("arith.extsi" if elem == "i64" else "arith.trunci", name, elem)


def _shape(random_: random.Random, bits: int) -> list[int]:
    """Powers of two with this product, and extents of one between them."""
    shape: list[int] = []
    while bits:
        part = random_.choice([1, 1, 1, 2, 3, bits])
        part = min(part, bits)
        shape.append(1 << part)
        bits -= part
    for _ in range(max(random_.choice([0, 0, 1, 2]), 2 - len(shape))):
        shape.insert(random_.randrange(len(shape) + 1), 1)
    return shape


def check(agree, seed: int) -> None:
    t, count = random_text(random.Random(seed))
    rng = np.random.default_rng(seed)
    dtype = INTEGERS[t.elem]
    x, y = (rng.integers(-100, 100, 512).astype(dtype) for _ in range(2))
    agree(t.text(), 1, x, y, np.zeros(count, dtype), 0)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("seed", range(40))
def test_random_operations(agree, seed) -> None:
    check(agree, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 600))
def test_many_random_operations(agree, seed) -> None:
    check(agree, seed)
