"""Scans along rows in texts: masks of loads and stores that differ, stores where is loaded from, carries that are none."""

from __future__ import annotations

import joinery as jn
import numpy as np
import pytest

ROWS, COLUMNS, CHUNKS = 32, 64, 3
BLOCK = f"tensor<{ROWS}x{COLUMNS}x"
POSITIONS = f"""
    %r = tt.make_range {{end = {ROWS} : i32, start = 0 : i32}} : tensor<{ROWS}xi32>
    %c = tt.make_range {{end = {COLUMNS} : i32, start = 0 : i32}} : tensor<{COLUMNS}xi32>
    %r2 = tt.expand_dims %r {{axis = 1 : i32}} : tensor<{ROWS}xi32> -> tensor<{ROWS}x1xi32>
    %c2 = tt.expand_dims %c {{axis = 0 : i32}} : tensor<{COLUMNS}xi32> -> tensor<1x{COLUMNS}xi32>
    %w = arith.constant dense<{COLUMNS * CHUNKS}> : tensor<{ROWS}x1xi32>
    %rw = arith.muli %r2, %w : tensor<{ROWS}x1xi32>
    %ra = tt.broadcast %rw : tensor<{ROWS}x1xi32> -> {BLOCK}i32>
    %bx = tt.splat %x : !tt.ptr<f32> -> {BLOCK}!tt.ptr<f32>>
    %bo = tt.splat %o : !tt.ptr<f32> -> {BLOCK}!tt.ptr<f32>>
"""
MASK = """
    %limit{0} = tt.splat %{0} : i32 -> tensor<1x{1}xi32>
    %in{0} = arith.cmpi slt, %c2, %limit{0} : tensor<1x{1}xi32>
    %mask{0} = tt.broadcast %in{0} : tensor<1x{1}xi1> -> {2}i1>
"""


def block(other: str, unmasked_store: bool, chosen: bool = False) -> str:
    """Scans a block whose columns count up to n and are stored up to m. chosen: the block is loaded without a mask."""
    load = f"""%v = tt.load %px, %maskn, %other : {BLOCK}!tt.ptr<f32>>"""
    if chosen:
        load = f"""%l = tt.load %px : {BLOCK}!tt.ptr<f32>>
    %v = arith.select %maskn, %l, %other : {BLOCK}i1>, {BLOCK}f32>"""
    store = "tt.store %po, %s" if unmasked_store else "tt.store %po, %s, %maskm"
    return f"""tt.func public @f(%x: !tt.ptr<f32>, %o: !tt.ptr<f32>, %n: i32, %m: i32) {{
    {POSITIONS}
    %ca = tt.broadcast %c2 : tensor<1x{COLUMNS}xi32> -> {BLOCK}i32>
    %at = arith.addi %ra, %ca : {BLOCK}i32>
    {MASK.format("n", COLUMNS, BLOCK)}{MASK.format("m", COLUMNS, BLOCK)}
    %px = tt.addptr %bx, %at : {BLOCK}!tt.ptr<f32>>, {BLOCK}i32>
    %other = arith.constant dense<{other}> : {BLOCK}f32>
    {load}
    %s = "tt.scan"(%v) <{{axis = 1 : i32, reverse = false}}> ({{
    ^bb0(%a: f32, %b: f32):
      %t = arith.addf %a, %b : f32
      tt.scan.return %t : f32
    }}) : ({BLOCK}f32>) -> {BLOCK}f32>
    %po = tt.addptr %bo, %at : {BLOCK}!tt.ptr<f32>>, {BLOCK}i32>
    {store} : {BLOCK}!tt.ptr<f32>>
    tt.return
  }}"""


def numbers() -> np.ndarray:
    return np.random.default_rng(8).integers(-9, 9, (ROWS, COLUMNS * CHUNKS)).astype(np.float32)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("chosen", [False, True])
@pytest.mark.parametrize("unmasked", [False, True])
@pytest.mark.parametrize("other", [-0.0, 2.0])
def test_masks_of_loads_and_of_stores(agree, other: float, unmasked: bool, chosen: bool) -> None:
    x = numbers()
    for n, m in ((64, 64), (17, 17), (17, 40), (40, 17), (0, 64), (64, 0), (-1, 16)):
        found = agree(block(str(other), unmasked, chosen), 1, x, np.zeros_like(x), n, m)[1]
        wanted = np.zeros_like(x)
        read = 64 if unmasked else max(m, 0)
        inside = np.where(np.arange(64) < n, x[:, :64], np.float32(other))
        wanted[:, :read] = np.cumsum(inside, 1, dtype=np.float32)[:, :read]
        np.testing.assert_array_equal(found, wanted, err_msg=f"{n}, {m}")


@pytest.mark.one_in(2)
@pytest.mark.parametrize("offset", [0, 1, 5, 192, 193])
def test_results_where_operands_lie(offset: int) -> None:
    """All is loaded before anything is stored, wherever that is."""
    kernel = jn.kernel.from_ttir(block("0.0", False))
    x = numbers().reshape(-1)
    memory = np.concatenate([x, np.zeros(400, np.float32)])
    wanted = memory.copy()
    rows = wanted[offset : offset + x.size].reshape(ROWS, -1)
    rows[:, :60] = np.cumsum(x.reshape(ROWS, -1)[:, :60], 1, dtype=np.float32)
    kernel.launch((1,), memory[: x.size], memory[offset:], 60, 60)
    np.testing.assert_array_equal(memory, wanted)


def chunks(first: int, last: int, padding: str, masked_load: bool, used: str = "", before: str = "") -> str:
    """Scans rows in chunks, of each n columns; `first` and `last` are the positions that take the carry and give it."""
    load = "tt.load %px, %maskn, %zeros" if masked_load else "tt.load %px"
    terms = f"%v = arith.select %maskn, %v_, %nothing : {BLOCK}i1>, {BLOCK}f32>" if masked_load else \
        f"%v = arith.addf %v_, %nothing : {BLOCK}f32>"  # fmt: skip
    return f"""tt.func public @f(%x: !tt.ptr<f32>, %o: !tt.ptr<f32>, %n: i32) {{
    {POSITIONS}
    %zeros = arith.constant dense<0.0> : {BLOCK}f32>
    %nothing = arith.constant dense<-0.0> : {BLOCK}f32>
    %padding = arith.constant dense<{padding}> : {BLOCK}f32>
    %initial = arith.constant dense<-0.0> : tensor<{ROWS}xf32>
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %three = arith.constant {CHUNKS} : i32
    %width = arith.constant {COLUMNS} : i32
    %first = arith.constant dense<{first}> : tensor<{COLUMNS}xi32>
    %last = arith.constant dense<{last}> : tensor<{COLUMNS}xi32>
    %end = scf.for %chunk = %zero to %three step %one iter_args(%carry = %initial) -> (tensor<{ROWS}xf32>) : i32 {{
      %start = arith.muli %chunk, %width : i32
      %starts = tt.splat %start : i32 -> tensor<1x{COLUMNS}xi32>
      %column = arith.addi %c2, %starts : tensor<1x{COLUMNS}xi32>
      %ca = tt.broadcast %column : tensor<1x{COLUMNS}xi32> -> {BLOCK}i32>
      %at = arith.addi %ra, %ca : {BLOCK}i32>
      %limit = tt.splat %n : i32 -> tensor<1x{COLUMNS}xi32>
      %inside = arith.cmpi slt, %c2, %limit : tensor<1x{COLUMNS}xi32>
      %maskn = tt.broadcast %inside : tensor<1x{COLUMNS}xi1> -> {BLOCK}i1>
      %px = tt.addptr %bx, %at : {BLOCK}!tt.ptr<f32>>, {BLOCK}i32>
      %v_ = {load} : {BLOCK}!tt.ptr<f32>>
      {terms}
      %c0 = tt.expand_dims %carry {{axis = 1 : i32}} : tensor<{ROWS}xf32> -> tensor<{ROWS}x1xf32>
      %c1 = tt.broadcast %c0 : tensor<{ROWS}x1xf32> -> {BLOCK}f32>
      %joined = arith.addf %c1, %v : {BLOCK}f32>
      %f0 = arith.cmpi eq, %c, %first : tensor<{COLUMNS}xi32>
      %f1 = tt.expand_dims %f0 {{axis = 0 : i32}} : tensor<{COLUMNS}xi1> -> tensor<1x{COLUMNS}xi1>
      %f2 = tt.broadcast %f1 : tensor<1x{COLUMNS}xi1> -> {BLOCK}i1>
      %started = arith.select %f2, %joined, %v : {BLOCK}i1>, {BLOCK}f32>
      %s = "tt.scan"(%started) <{{axis = 1 : i32, reverse = false}}> ({{
      ^bb0(%a: f32, %b: f32):
        %t = arith.addf %a, %b : f32
        tt.scan.return %t : f32
      }}) : ({BLOCK}f32>) -> {BLOCK}f32>
      %l0 = arith.cmpi eq, %c, %last : tensor<{COLUMNS}xi32>
      %l1 = tt.expand_dims %l0 {{axis = 0 : i32}} : tensor<{COLUMNS}xi1> -> tensor<1x{COLUMNS}xi1>
      %l2 = tt.broadcast %l1 : tensor<1x{COLUMNS}xi1> -> {BLOCK}i1>
      %chosen = arith.select %l2, %s, %padding : {BLOCK}i1>, {BLOCK}f32>
      %next = "tt.reduce"(%chosen) <{{axis = 1 : i32}}> ({{
      ^bb0(%a: f32, %b: f32):
        %t = arith.addf %a, %b : f32
        tt.reduce.return %t : f32
      }}) : ({BLOCK}f32>) -> tensor<{ROWS}xf32>
      {before}
      %po = tt.addptr %bo, %at : {BLOCK}!tt.ptr<f32>>, {BLOCK}i32>
      tt.store %po, %s, %maskn : {BLOCK}!tt.ptr<f32>>
      {used}
      scf.yield {"%kept" if used else "%next"} : tensor<{ROWS}xf32>
    }}
    tt.return
  }}"""


TYPE = f"tensor<{ROWS}xf32>"
LONG = "\n".join([f"%n0 = arith.addf %next, %carry : {TYPE}",
                  *[f"%n{i + 1} = arith.addf %n{i}, %carry : {TYPE}" for i in range(100)]])  # fmt: skip
USES = {
    "alone": ("", "", 0), "after": (f"%kept = arith.addf %next, %carry : {TYPE}", "", 1),
    "before": (f"%kept = arith.addf %n100, %carry : {TYPE}", LONG, 102),
}  # fmt: skip
"""What else is made of the carry after the store and before it, and how many times the carry before it is added."""


@pytest.mark.one_in(12)
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(("first", "last", "padding"), [(0, 63, "-0.0"), (0, 63, "1.0"), (0, 62, "-0.0"), (1, 63, "-0.0")])
def test_carries_of_chunks(agree, first: int, last: int, padding: str, masked: bool, use: str) -> None:
    """What only looks like a carry is computed as written: another position, another padding, elements beyond the store."""
    used, before, times = USES[use]
    text = chunks(first, last, padding, masked, used, before)
    x = numbers()
    for n in (0, 1, 16, 17, 63, 64):
        found = agree(text, 1, x, np.zeros_like(x), n)[1]
        carry, wanted = np.zeros(ROWS, np.float32), np.zeros_like(x)
        for start in range(0, x.shape[1], COLUMNS):
            part = x[:, start : start + COLUMNS].copy()
            if masked:
                part[:, n:] = 0
            part[:, first] += carry
            sums = np.cumsum(part, 1, dtype=np.float32)
            wanted[:, start : start + n] = sums[:, :n]
            following = sums[:, last] + float(padding) * (COLUMNS - 1)
            carry = following + times * carry
        np.testing.assert_array_equal(found, wanted, err_msg=str(n))
