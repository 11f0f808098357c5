"""Inline assembly that reaches beyond its registers: memory against NumPy, special registers, the order of launches, on the
interpreter, the host, the sanitizer and a simulated GPU; and what stays refused."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import joinery as jn
import numpy as np
import pytest

from ...support.tiers import both_tiers, share

N = 64
HOST: dict[str, Any] = {}
GPU: dict[str, Any] = {"device": "ptxsim", "target": "sm_90a"}
NOT_PURE = "packed_element = 1 : i32, pure = false"


def assembly(text: str, constraints: str, operands: str, types: str, facts: str = NOT_PURE) -> str:
    given = f"{operands} : " if operands else ""
    return f'tt.elementwise_inline_asm "{text}" {{constraints = "{constraints}", {facts}}} {given}{types}'


def blocks(elements: dict[str, str]) -> list[str]:
    lines = [f"%r = tt.make_range {{end = {N} : i32, start = 0 : i32}} : tensor<{N}xi32>"]
    for name, element in elements.items():
        type_ = f"tensor<{N}x!tt.ptr<{element}>>"
        lines += [f"%{name}s = tt.splat %{name} : !tt.ptr<{element}> -> {type_}"]
        lines += [f"%{name}p = tt.addptr %{name}s, %r : {type_}, tensor<{N}xi32>"]
    return lines


def function(parameters: dict[str, str], lines: Sequence[str]) -> Any:
    given = ", ".join(f"%{name}: {type_}" for name, type_ in parameters.items())
    return jn.kernel.from_ttir(f"module {{ tt.func public @k({given}) {{\n" + "\n".join(lines) + "\ntt.return\n} }")


@cache
def kernel(text: str, elements: tuple[str, str, str] = ("i32", "i32", "i32"), facts: str = NOT_PURE) -> Any:
    """Assembly over two blocks of pointers ($1 into a, $2 into b) and positions ($3), whose result goes to o."""
    a, b, o = elements
    constraints = {"i64": "=l", "f32": "=f"}.get(o, "=r") + ",l,l,r"
    types = f"tensor<{N}x!tt.ptr<{a}>>, tensor<{N}x!tt.ptr<{b}>>, tensor<{N}xi32> -> tensor<{N}x{o}>"
    lines = blocks({"a": a, "b": b, "o": o})
    lines += [f"%v = {assembly(text, constraints, '%ap, %bp, %r', types, facts)}"]
    lines += [f"tt.store %op, %v : tensor<{N}x!tt.ptr<{o}>>"]
    return function({"a": f"!tt.ptr<{a}>", "b": f"!tt.ptr<{b}>", "o": f"!tt.ptr<{o}>"}, lines)


def everywhere(k: Any, grid: Any, *arrays: Any, numbers: Sequence[int] = ()) -> list[Any]:
    """What a kernel makes of copies of the arrays, the same on every device and without a finding."""

    def made(run: Callable[..., Any], **how: Any) -> list[Any]:
        own = [array.copy() for array in arrays]
        report = run(grid, *own, *numbers, **how)
        assert report is None or not report.findings, report
        return own

    first = made(k.interpret)
    for run, how in ((k.launch, HOST), (k.sanitize, HOST), (k.launch, {**GPU, "sanitize": True})):
        for one, other in zip(first, made(run, **how), strict=True):
            np.testing.assert_array_equal(one, other)
    return first


# -- memory, against NumPy

AT = "{ .reg .b64 x, y; .reg .b32 u<4>; .reg .b16 h<4>; mul.wide.u32 x, $3, %d; add.u64 y, $2, x; add.u64 x, $1, x; "
LANE = np.arange(N)
WORDS = np.random.default_rng(5).integers(-(1 << 31), 1 << 31, 4 * N, np.int64).astype(np.int32)
NOTHING = np.zeros(4 * N, np.int32)


def placed(index: Any, values: Any) -> Any:
    found = NOTHING.copy()
    found[index] = values
    return found


ACCESSES: list[tuple[str, Any, Any]] = [
    # text, the result, and b afterwards
    ("ld.global.b32 $0, [$1];", WORDS[:N], NOTHING),
    ("ld.b32 $0, [$1+4];", WORDS[1 : N + 1], NOTHING),
    ("ld.global.cg.u32 $0, [$1]; st.global.wt.b32 [$2], $0; add.s32 $0, $0, 1;", WORDS[:N] + 1, placed(LANE, WORDS[:N])),
    ("ld.global.nc.L1::no_allocate.L2::128B.s32 $0, [$1];", WORDS[:N], NOTHING),
    ("ld.global.L1::evict_last.b32 $0, [$1]; st.global.L1::evict_first.b32 [$2], $3;", WORDS[:N], placed(LANE, LANE)),
    ("ld.volatile.global.b32 $0, [$1]; st.volatile.global.b32 [$2], $3;", WORDS[:N], placed(LANE, LANE)),
    ("ld.relaxed.sys.global.b32 $0, [$1]; st.relaxed.gpu.b32 [$2], $3;", WORDS[:N], placed(LANE, LANE)),
    ("ld.global.acquire.gpu.b32 $0, [$1]; st.release.cta.global.b32 [$2], $3;", WORDS[:N], placed(LANE, LANE)),
    ("ld.acquire.cluster.global.b32 $0, [$1]; st.global.b32 [$2], -1;", WORDS[:N], placed(LANE, -1)),
    ("ld.global.u8 $0, [$1];", WORDS.view(np.uint8)[: 4 * N : 4], NOTHING),
    ("ld.global.s8 $0, [$1+1];", WORDS.view(np.int8)[1 : 4 * N : 4], NOTHING),
    ("ld.global.s16 $0, [$1+2]; st.global.u8 [$2+3], $3;", WORDS.view(np.int16)[1 : 2 * N : 2], placed(LANE, LANE << 24)),
    ("{ .reg .pred p; setp.gt.s32 p, $3, 20; mov.b32 $0, 7; @p ld.global.b32 $0, [$1]; @!p st.global.b32 [$2], $3; }",
     np.where(LANE > 20, WORDS[:N], 7), placed(LANE, np.where(LANE > 20, 0, LANE))),
    (AT % 4 + "ld.global.v2.b32 {$0, u1}, [x]; st.global.v2.u32 [y], {u1, $3}; }",
     WORDS[: 2 * N : 2], placed(slice(0, 2 * N), np.stack([WORDS[1 : 2 * N : 2], LANE], 1).reshape(-1))),
    (AT % 12 + "ld.global.v4.b32 {_, u1, u2, $0}, [x]; st.global.v4.b32 [y], {u2, 0, u1, $3}; }",
     WORDS[3::4], np.stack([WORDS[2::4], LANE * 0, WORDS[1::4], LANE], 1).reshape(-1)),
    (AT % 0 + "ld.relaxed.gpu.v4.u8 {h0, h1, h2, h3}, [x]; mov.b32 $0, {h3, h0}; st.global.v2.b16 [y], {h0, h1}; }",
     WORDS.view(np.uint8)[3 : 4 * N : 4] | WORDS.view(np.uint8)[: 4 * N : 4].astype(np.int32) << 16,
     placed(LANE, WORDS.view(np.uint8)[: 4 * N : 4] | WORDS.view(np.uint8)[1 : 4 * N : 4].astype(np.int32) << 16)),
    # several lanes at one place
    ("{ .reg .b64 z; mul.wide.u32 z, $3, 4; sub.u64 z, $2, z; red.global.add.u32 [z], $3; mov.b32 $0, 0; }",
     LANE * 0, placed(0, LANE.sum())),
    ("atom.global.add.u32 $0, [$1], $3; red.relaxed.gpu.global.max.s32 [$2], 9;", WORDS[:N], placed(LANE, 9)),
    ("atom.acq_rel.sys.global.exch.b32 $0, [$1], 3; st.b32 [$2], $0;", WORDS[:N], placed(LANE, WORDS[:N])),
    ("st.b32 [$2], 5; atom.min.s32 $0, [$2], $3;", LANE * 0 + 5, placed(LANE, np.minimum(LANE, 5))),
    ("st.b32 [$2], -5; atom.acquire.gpu.min.u32 $0, [$2], $3;", LANE * 0 - 5, placed(LANE, LANE)),
    ("st.b32 [$2], 12; atom.and.b32 $0, [$2], $3;", LANE * 0 + 12, placed(LANE, LANE & 12)),
    ("red.or.b32 [$2], $3; atom.global.cas.b32 $0, [$2], 5, 77;", LANE, placed(LANE, np.where(LANE == 5, 77, LANE))),
    ("{ .reg .pred p; setp.lt.s32 p, $3, 9; mov.b32 $0, 0; @p atom.add.u32 $0, [$2], $3; @!p red.xor.b32 [$2], 1; }",
     LANE * 0, placed(LANE, np.where(LANE < 9, LANE, 1))),
    ("{ .reg .f32 f; cvt.rn.f32.s32 f, $3; atom.add.f32 f, [$2], f; mov.b32 $0, f; }",
     LANE * 0, placed(LANE, LANE.astype(np.float32).view(np.int32))),
]  # fmt: skip


@pytest.mark.one_in(3)
@pytest.mark.parametrize("part", range(5))
@both_tiers
def test_accesses(part: int, in_full: bool) -> None:
    for text, result, stored in share(ACCESSES[part::5], part, 2, in_full):
        _, b, o = everywhere(kernel(text), 1, WORDS, NOTHING, np.zeros(N, np.int32))
        np.testing.assert_array_equal(o, np.asarray(result).astype(np.int32), text)
        np.testing.assert_array_equal(b, np.asarray(stored).astype(np.int32), text)


FREE = {8: ("u", "$0", "h"), 16: ("h", "u"), 32: ("u", "$0", "v"), 64: ("w",)}
LOADED = ("b8", "u8", "s8", "b16", "u16", "s16", "b32", "u32", "s32", "f32", "b64", "u64", "s64")
LOADS = ("", ".global", ".cg", ".relaxed.gpu.global", ".acquire.sys.global", ".volatile.global", ".global.cv", ".nc.global")
STORES = ("", ".global", ".global.wt", ".relaxed.gpu.global", ".release.sys.global", ".volatile.global", ".global.cs")
UPDATES = ("add.u32", "min.s32", "max.u32", "and.b32", "or.b32", "xor.b32", "exch.b32", "add.u64", "min.s64", "exch.b64")


def random_access(rng: Any) -> str:
    """One access to the 16 bytes behind x or y, perhaps under a guard."""

    def pick(choices: Sequence[str]) -> str:
        return choices[rng.integers(len(choices))]

    def address(width: int) -> str:
        return f"[{pick('xy')}+{width // 8 * rng.integers(128 // width)}]"

    guard, kind, type_ = pick(("", "", "@p ", "@!q ")), rng.random(), pick(LOADED)
    width = int(type_[1:])
    free = [name for name in FREE[width] if type_ != "f32" or name != "h"]
    if kind < 0.35:
        return f"{guard}ld{pick(LOADS)}.{type_} {pick(free)}, {address(width)};"
    if kind < 0.45:
        return f"{guard}ld.global.v4.u8 {{u, $0, h, v}}, {address(32)};"
    if kind < 0.75:
        return f"{guard}st{pick(STORES)}.{type_} {address(width)}, {pick(free)};"
    update = pick(UPDATES)
    width = int(update[-2:])
    source = pick(("u", "v", "7", "$3")) if width == 32 else "w"
    order = pick(("", ".acquire.gpu", ".acq_rel.sys"))
    return f"{guard}atom{order}.global.{update} {pick(FREE[width])}, {address(width)}, {source};"


@pytest.mark.one_in(4)
@pytest.mark.parametrize("part", range(3))
@both_tiers
def test_random_accesses(part: int, in_full: bool) -> None:
    """Every lane has 16 bytes of each array to itself; all devices must agree on memory and registers."""
    begin = (AT % 12).replace("u<4>", "u, v").replace("h<4>", "h").replace(".b64 x", ".b64 w, x") + ".reg .pred p, q; "
    begin += "mov.b32 $0, 0; mov.b32 v, $3; mov.b32 u, 3; mov.b16 h, 5; mov.b64 w, 77; "
    end = "add.s32 $0, $0, u; xor.b32 $0, $0, v; cvt.u32.u16 v, h; xor.b32 $0, $0, v; cvt.u32.u64 v, w; add.u32 $0, $0, v; }"
    for number in range(20 if in_full else 2):
        rng = np.random.default_rng(100 * part + number)
        bounds = f"setp.lt.s32 p, $3, {rng.integers(N)}; setp.gt.s32 q, $3, {rng.integers(N)}; "
        text = begin + bounds + " ".join(random_access(rng) for _ in range(rng.integers(1, 6))) + end
        everywhere(kernel(text), 1, WORDS, WORDS[::-1], np.zeros(N, np.int32))


def test_sixty_four_bits_and_floats() -> None:
    long = np.random.default_rng(6).integers(-(1 << 63), 1 << 63, N, np.int64)
    text = "ld.global.b64 $0, [$1]; st.global.u64 [$2], $0; atom.add.u64 $0, [$2], 1;"
    _, b, o = everywhere(kernel(text, ("i64",) * 3), 1, long, long * 0, long * 0)
    np.testing.assert_array_equal(b, long + 1)
    np.testing.assert_array_equal(o, long)
    halves = np.linspace(-3, 3, N).astype(np.float32)
    text = "{ .reg .f32 f; ld.global.f32 f, [$1]; add.f32 f, f, 0f3F000000; st.global.f32 [$2], f; mov.f32 $0, f; }"
    _, b, o = everywhere(kernel(text, ("f32",) * 3), 1, halves, halves * 0, halves * 0)
    np.testing.assert_array_equal(o, halves + np.float32(0.5))
    np.testing.assert_array_equal(b, o)


def test_two_elements_at_a_time() -> None:
    lines = blocks({"a": "i32", "o": "i32"})
    types = f"tensor<{N}x!tt.ptr<i32>> -> tensor<{N}xi32>"
    text = "ld.global.b32 $0, [$2]; ld.global.b32 $1, [$3]; st.global.b32 [$2], $1; st.global.b32 [$3], $0;"
    lines += [f"%v = {assembly(text, '=&r,=&r,l,l', '%ap', types, NOT_PURE.replace('1', '2', 1))}"]
    lines += [f"tt.store %op, %v : tensor<{N}x!tt.ptr<i32>>"]
    swapped, found = everywhere(function({"a": "!tt.ptr<i32>", "o": "!tt.ptr<i32>"}, lines), 1, WORDS[:N], NOTHING[:N])
    np.testing.assert_array_equal(found, WORDS[:N])
    np.testing.assert_array_equal(swapped, WORDS[:N].reshape(-1, 2)[:, ::-1].reshape(-1))


@pytest.mark.parametrize("operand", ["pointer", "integer"])
def test_a_load_before_reads_what_was_there(operand: str) -> None:
    """A load of the block, a store by assembly to the same memory, and another load: in this order."""
    type_ = f"tensor<{N}x!tt.ptr<i32>>"
    lines = blocks({"a": "i32", "o": "i32"})
    lines += [f"%x = tt.load %ap : {type_}"]
    given = "%ap"
    if operand == "integer":
        lines += [f"%n = tt.ptr_to_int %ap : {type_} -> tensor<{N}xi64>"]
        given, type_ = "%n", f"tensor<{N}xi64>"
    text = "st.global.b32 [$1], $2; mov.b32 $0, 0;"
    lines += [f"%u = {assembly(text, '=r,l,r', f'{given}, %r', f'{type_}, tensor<{N}xi32> -> tensor<{N}xi32>')}"]
    lines += [f"%y = tt.load %ap : tensor<{N}x!tt.ptr<i32>>", f"%z = arith.subi %x, %y : tensor<{N}xi32>"]
    lines += [f"tt.store %op, %z : tensor<{N}x!tt.ptr<i32>>"]
    a, o = everywhere(function({"a": "!tt.ptr<i32>", "o": "!tt.ptr<i32>"}, lines), 1, WORDS[:N], NOTHING[:N])
    np.testing.assert_array_equal(a, LANE)
    np.testing.assert_array_equal(o, WORDS[:N] - LANE)


def test_stores_to_read_only_arrays_are_refused() -> None:
    closed = WORDS[:N].copy()
    closed.flags.writeable = False
    kernel("ld.global.b32 $0, [$1];").launch(1, closed, NOTHING[:N].copy(), NOTHING[:N].copy())
    for run in (kernel("st.global.b32 [$1], 1;").launch, kernel("st.global.b32 [$1], 1;").interpret):
        with pytest.raises(jn.UserError, match="read-only"):
            run(1, closed, NOTHING[:N].copy(), NOTHING[:N].copy())


# -- flags that programs wait for

SPIN = """
  %pid = tt.get_program_id x : i32
  %one = arith.constant 1 : i32
  %zero = arith.constant 0 : i32
  %value = arith.constant 42 : i32
  %writes = arith.cmpi eq, %pid, %writer : i32
  scf.if %writes {
    tt.store %data, %value : !tt.ptr<i32>
    %u = STORE
  } else {
    %w = scf.while (%a = %zero) : (i32) -> i32 {
      %c = arith.cmpi ne, %a, %one : i32
      scf.condition(%c) %a : i32
    } do {
    ^bb0(%a: i32):
      %f = LOAD
      scf.yield %f : i32
    }
    %v = tt.load %data : !tt.ptr<i32>
    tt.store %out, %v : !tt.ptr<i32>
  }"""


@cache
def spin(load: str, store: str) -> Any:
    text = SPIN.replace("LOAD", assembly(load, "=r,l", "%flag", "!tt.ptr<i32> -> i32"))
    text = text.replace("STORE", assembly(store, "=r,l,r", "%flag, %one", "!tt.ptr<i32>, i32 -> i32"))
    pointers = dict.fromkeys(("data", "flag", "out"), "!tt.ptr<i32>")
    return function({**pointers, "writer": "i32"}, text.split("\n"))


ORDERED = [
    ("ld.global.acquire.gpu.b32 $0, [$1];", "st.release.gpu.global.b32 [$1], $2;"),
    ("ld.acquire.sys.b32 $0, [$1];", "red.release.sys.global.add.u32 [$1], $2;"),
    ("ld.acquire.gpu.b32 $0, [$1];", "atom.add.release.gpu.global.u32 $0, [$1], $2;"),
]
UNORDERED = [
    ("ld.volatile.global.b32 $0, [$1];", "st.volatile.global.b32 [$1], $2;"),
    ("ld.global.cv.b32 $0, [$1];", "st.release.gpu.b32 [$1], $2;"),
    ("ld.global.b32 $0, [$1];", "st.global.b32 [$1], $2;"),
]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("load", "store"), [*ORDERED, *UNORDERED])
def test_a_program_sees_the_flag_that_another_one_sets(load: str, store: str) -> None:
    """On two threads, and on a GPU, whichever program comes first."""
    for how in ({"threads": 2}, GPU):
        for writer in (0, 1):
            data, flag, out = (np.zeros(1, np.int32) for _ in range(3))
            spin(load, store).launch(2, data, flag, out, writer, **how)
            assert (flag[0], out[0]) == (1, 42)


@pytest.mark.parametrize(("load", "store"), [*ORDERED, *UNORDERED])
def test_the_sanitizer_knows_which_accesses_order_programs(load: str, store: str) -> None:
    arrays = [np.zeros(1, np.int32) for _ in range(3)]
    report = spin(load, store).sanitize(2, *arrays, 0)
    assert arrays[2][0] == 42
    kinds = {finding.kind for finding in report.findings}
    assert kinds == (set() if (load, store) in ORDERED else {"race"}), report


# -- special registers


def reads(registers: Sequence[str], parameters: dict[str, str] | None = None, facts: str = NOT_PURE) -> Any:
    """Stores each register as 64 bits, one row per program."""
    lines = [f"%{what}{axis} = tt.get_{name} {axis} : i32" for what, name in (("p", "program_id"), ("n", "num_programs"))
             for axis in "xyz"]  # fmt: skip
    lines += ["%l0 = arith.muli %pz, %ny : i32", "%l1 = arith.addi %l0, %py : i32", "%l2 = arith.muli %l1, %nx : i32"]
    lines += ["%l3 = arith.addi %l2, %px : i32", f"%count = arith.constant {len(registers)} : i32"]
    lines += ["%l4 = arith.muli %l3, %count : i32", "%row = tt.addptr %o, %l4 : !tt.ptr<i64>, i32"]
    for i, name in enumerate(registers):
        wide = name in ("%globaltimer", "%clock64")
        bits, constraint = (64, "=l") if wide else (32, "=r")
        lines += [f"%v{i} = {assembly(f'mov.u{bits} $0, {name};', constraint, '', f'-> i{bits}', facts)}"]
        lines += [] if wide else [f"%w{i} = arith.extui %v{i} : i32 to i64"]
        lines += [f"%c{i} = arith.constant {i} : i32", f"%q{i} = tt.addptr %row, %c{i} : !tt.ptr<i64>, i32"]
        lines += [f"tt.store %q{i}, %{'v' if wide else 'w'}{i} : !tt.ptr<i64>"]
    return function(parameters or {"o": "!tt.ptr<i64>"}, lines)


def test_the_position_of_a_program() -> None:
    names = [f"%{what}.{axis}" for what in ("ctaid", "nctaid") for axis in "xyz"] + ["%smid"]
    (found,) = everywhere(reads(names), (2, 3, 2), np.zeros((12, 7), np.int64))
    z, y, x = np.unravel_index(np.arange(12), (2, 3, 2))
    expected = [x, y, z, x * 0 + 2, x * 0 + 3, x * 0 + 2]
    np.testing.assert_array_equal(found[:, :6], np.stack(expected, 1))
    assert not found[:, 6].any() or found[:, 6].max() < 1024


@pytest.mark.one_in(4)
@pytest.mark.parametrize("how", ["interpret", "sanitize", "launch", "ptxsim"])
@pytest.mark.parametrize("pure", ["true", "false"])
def test_clocks_go_on_between_reads(how: str, pure: str) -> None:
    """No pass makes one read of two, whatever `pure` says."""
    names = ["%globaltimer"] * 20 + ["%clock64"] * 20
    k, found = reads(names, facts=NOT_PURE.replace("false", pure)), np.zeros((1, 40), np.int64)
    start = time.monotonic_ns()
    if how == "ptxsim":
        k.launch(1, found, **GPU)
    else:
        getattr(k, how)(1, found)
        assert start <= found[0, 0] <= found[0, -1] <= time.monotonic_ns()
    assert (np.diff(found) >= 0).all()
    assert len(np.unique(found)) > 4


@pytest.mark.parametrize("how", ["interpret", "launch", "ptxsim"])
def test_a_clock_in_a_loop_is_read_each_time(how: str) -> None:
    lines = ["%low = arith.constant 0 : i32", "%high = arith.constant 50 : i32", "%step = arith.constant 1 : i32"]
    lines += ["scf.for %i = %low to %high step %step : i32 {", f"%t = {assembly('mov.u64 $0, %clock64;', '=l', '', '-> i64')}"]
    lines += ["%p = tt.addptr %o, %i : !tt.ptr<i64>, i32", "tt.store %p, %t : !tt.ptr<i64>", "}"]
    k, found = function({"o": "!tt.ptr<i64>"}, lines), np.zeros(50, np.int64)
    getattr(k, "launch" if how == "ptxsim" else how)(1, found, **(GPU if how == "ptxsim" else {}))
    assert (np.diff(found) >= 0).all()
    assert len(np.unique(found)) > 4


def test_halves_of_clocks_and_blocks_of_them() -> None:
    lines = blocks({"o": "i32"})
    text = "mov.u32 $0, %globaltimer_hi;"
    lines += [f"%v = {assembly(text, '=r', '', f'-> tensor<{N}xi32>')}", f"tt.store %op, %v : tensor<{N}x!tt.ptr<i32>>"]
    k, found = function({"o": "!tt.ptr<i32>"}, lines), np.zeros(N, np.int32)
    for run in (k.interpret, k.launch):
        before = time.monotonic_ns() >> 32
        run(1, found)
        assert before <= found.min() <= found.max() <= time.monotonic_ns() >> 32
    k.launch(1, found, **GPU)
    assert not found.any()  # its clock starts at a million
    (low,) = everywhere(reads(["%smid"]), 1, np.ones((1, 1), np.int64))
    assert low[0, 0] == 0


def test_the_worker_that_runs_a_program() -> None:
    """Two programs wait for each other, so two workers run them."""
    k = function(
        {"flag": "!tt.ptr<i32>", "o": "!tt.ptr<i32>"},
        [
            "%pid = tt.get_program_id x : i32", "%one = arith.constant 1 : i32", "%two = arith.constant 2 : i32",
            f"%u = {assembly('red.global.add.u32 [$1], $2;', '=r,l,r', '%flag, %one', '!tt.ptr<i32>, i32 -> i32')}",
            "%w = scf.while (%a = %one) : (i32) -> i32 {", "%c = arith.cmpi ne, %a, %two : i32",
            "scf.condition(%c) %a : i32", "} do {", "^bb0(%a: i32):",
            f"%f = {assembly('ld.acquire.gpu.b32 $0, [$1];', '=r,l', '%flag', '!tt.ptr<i32> -> i32')}",
            "scf.yield %f : i32", "}",
            f"%s = {assembly('mov.u32 $0, %smid;', '=r', '', '-> i32')}",
            f"%n = {assembly('mov.u32 $0, %nsmid;', '=r', '', '-> i32')}",
            "%p = tt.addptr %o, %pid : !tt.ptr<i32>, i32", "tt.store %p, %s : !tt.ptr<i32>",
            "%q = tt.addptr %p, %two : !tt.ptr<i32>, i32", "tt.store %q, %n : !tt.ptr<i32>",
        ],
    )  # fmt: skip
    found = np.full(4, -1, np.int32)
    k.launch(2, np.zeros(1, np.int32), found, threads=2)
    assert sorted(found[:2]) == [0, 1]
    assert found[2:].tolist() == [2, 2]
    alone = np.full((1, 2), -1, np.int64)
    reads(["%smid", "%nsmid"]).launch(1, alone, threads=1)
    assert alone.tolist() == [[0, 1]]


# -- the order of launches


def test_the_order_of_launches_is_kept_without_doing_anything() -> None:
    text = "griddepcontrol.wait; // dummy $0\nmov.b32 $0, 3; griddepcontrol.launch_dependents;".replace("\n", "\\0A")
    k = kernel(text)
    _, _, found = everywhere(k, 1, WORDS, NOTHING, np.zeros(N, np.int32))
    assert (found == 3).all()
    for what in ("wait", "launch_dependents"):
        assert f"griddepcontrol.{what};" in k.ptx("sm_90a")
        assert f"griddepcontrol.{what};" not in k.ptx("sm_80")


# -- findings and refusals


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("ld.global.b32 $0, [$1+4];", "out-of-bounds", f"reads outside the array: %a + 4 * {N}"),
        ("ld.acquire.gpu.b32 $0, [$1-4];", "out-of-bounds", "reads outside the array: %a + 4 * -1"),
        ("st.global.b32 [$2+4], $3;", "out-of-bounds", f"writes outside the array: %b + 4 * {N}"),
        ("red.global.add.u32 [$2+4], $3;", "out-of-bounds", f"updates outside the array: %b + 4 * {N}"),
        ("ld.global.v2.b32 {$0, _}, [$1];", "misaligned", "no multiple of 8"),
    ],
)
def test_a_wrong_access_is_found(text: str, kind: str, message: str) -> None:
    arrays = [WORDS[:N].copy(), NOTHING[:N].copy(), NOTHING[:N].copy()]
    with pytest.raises(jn.UserError, match=r"element|no multiple"):
        kernel(text).interpret(1, *arrays)
    report = kernel(text).sanitize(1, *arrays)
    (finding,) = [each for each in report.findings if each.kind == kind]
    assert message in finding.message
    assert text in finding.operation
    (line,) = [number for number, each in enumerate(kernel(text).ttir.split("\n"), 1) if text in each]
    assert finding.line == f"ttir:{line}"


def test_the_array_is_that_of_the_argument() -> None:
    """An address between two arrays is outside of the one that its pointer was made from, inside the other one or not."""
    memory = np.zeros(2 * N, np.int32)
    report = kernel(f"st.global.b32 [$1+{4 * N}], $3;").sanitize(1, memory[:N], memory[N:], NOTHING[:N].copy())
    assert [finding.kind for finding in report.findings] == ["out-of-bounds"]
    assert not memory.any()


def test_undefined_values_are_followed_through_registers() -> None:
    type_ = f"tensor<{N}x!tt.ptr<i32>>"
    lines = [*blocks({"a": "i32", "b": "i32"}), f"%ten = arith.constant dense<10> : tensor<{N}xi32>"]
    lines += [f"%m = arith.cmpi slt, %r, %ten : tensor<{N}xi32>", f"%x = tt.load %ap, %m : {type_}"]
    text = "{ .reg .b32 t; add.s32 t, $2, 1; st.global.b32 [$1], t; mov.b32 $0, 0; }"
    lines += [f"%u = {assembly(text, '=r,l,r', '%bp, %x', f'{type_}, tensor<{N}xi32> -> tensor<{N}xi32>')}"]
    k = function({"a": "!tt.ptr<i32>", "b": "!tt.ptr<i32>"}, lines)
    (finding,) = k.sanitize(1, WORDS[:N].copy(), NOTHING[:N].copy()).findings
    assert finding.kind == "uninitialised"
    assert "the stored value is undefined" in finding.message
    assert finding.count == N - 10


REFUSED = [
    ("ld.shared.b32 $0, [$1];", "ld.shared.b32: reaches for .shared memory"),
    ("st.local.b32 [$1], $3;", "st.local.b32: reaches for .local memory"),
    ("ld.param.b32 $0, [$1];", "reaches for .param memory"),
    ("ld.const.b32 $0, [$1];", "reaches for .const memory"),
    ("atom.shared.add.u32 $0, [$1], 1;", "reaches for .shared memory"),
    ("cp.async.ca.shared.global [$1], [$2], 4;", "cp.async"),
    ("mbarrier.init.shared.b64 [$1], 1;", "mbarrier.init"),
    ("fence.acq_rel.gpu;", "fence.acq_rel.gpu: reaches for memory"),
    ("ld.global.b128 $0, [$1];", "ld.global.b128"),
    ("ld.weak.global.L2::cache_hint.b32 $0, [$1];", ".L2::cache_hint is not known"),
    ("atom.global.inc.u32 $0, [$1], 7;", "atom.global.inc.u32"),
    ("{ .reg .pred p; setp.eq.s32 p, $3, 0; @p atom.cas.b32 $0, [$1], 0, 1; }", "cas under a guard"),
    ("ld.global.b32 $0, [1024];", "an address that is no register"),
    ("mov.u32 $0, %tid.x;", "PTX line 1: mov.u32: the special register %tid.x tells the threads .* fix: take positions"),
    ("mov.u32 $0, %laneid;", "%laneid tells the threads"),
    ("mov.u32 $0, %nwarpid;", "%nwarpid tells the threads"),
    ("mov.u32 $0, 0; mov.u32 $0, %gridid;", "%gridid is not known .* %globaltimer, %clock64"),
    ("mov.u32 $0, 0;\\0A\\0Amov.u32 $0, %pm0;", "PTX line 3: mov.u32: the special register %pm0"),
    ("bar.sync 0;", "bar.sync: reaches for other threads"),
]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("text", "message"), REFUSED, ids=[text for text, _ in REFUSED])
def test_the_rest_is_read_and_refused_by_name(text: str, message: str) -> None:
    k = kernel(text)
    assert jn.kernel.from_ttir(k.ttir).ttir == k.ttir
    arrays = [WORDS[:N].copy(), NOTHING[:N].copy(), NOTHING[:N].copy()]
    for run, how in ((k.launch, HOST), (k.interpret, HOST), (k.sanitize, HOST), (k.launch, GPU)):
        with pytest.raises(jn.UnsupportedError, match=message):
            run(1, *arrays, **how)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ld.global.b32 $0, [$3];", r"the address \$3 is b32, expected 64 bits; fix: .* constraint \"l\""),
        ("ld.global.b32 $0, $1;", r"expected an address \[register \+ offset\]"),
        ("ld.global.b64 $0, [$1];", r"register \$0 is b32, expected 64 bits"),
        ("ld.global.v2.b32 $0, [$1];", "1 registers, expected 2"),
        ("ld.global.b32 $0, [$1], 5;", "3 operands, expected 2"),
        ("ld.relaxed.acquire.gpu.b32 $0, [$1];", ".relaxed and .acquire exclude each other"),
        ("atom.global.add.u32 [$1], 5;", "2 operands, expected 3"),
        ("mov.u64 $1, %smid;", "%smid has 32 bits, expected 64"),
        ("griddepcontrol.stop;", "expected griddepcontrol.wait or"),
        ("griddepcontrol.wait $0;", "without operands"),
    ],
)
def test_operands_that_do_not_fit_are_refused_when_read(text: str, message: str) -> None:
    with pytest.raises(jn.UserError, match=message) as caught:
        kernel(text)
    assert "PTX line 1" in str(caught.value)


def test_combinations_may_only_compute() -> None:
    lines = [*blocks({"a": "i32"}), f"%x = tt.load %ap : tensor<{N}x!tt.ptr<i32>>"]
    lines += ['%s = "tt.reduce"(%x) <{axis = 0 : i32}> ({', "^bb0(%p: i32, %q: i32):", "%t = arith.addi %p, %q : i32"]
    lines += [f"%v = {assembly('ld.global.b32 $0, [$1]; add.s32 $0, $0, $2;', '=r,l,r', '%a, %t', '!tt.ptr<i32>, i32 -> i32')}"]
    lines += ["tt.reduce.return %v : i32", f"}}) : (tensor<{N}xi32>) -> i32", "tt.store %a, %s : !tt.ptr<i32>"]
    k = function({"a": "!tt.ptr<i32>"}, lines)
    for how in (HOST, GPU):
        with pytest.raises(jn.UnsupportedError, match="in the region of a reduction or a scan, which may only compute; fix"):
            k.launch(1, WORDS[:N].copy(), **how)
