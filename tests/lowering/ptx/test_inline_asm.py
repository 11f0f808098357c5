"""tt.elementwise_inline_asm: every form of every instruction on the host against the interpreter, formulas in NumPy, packing,
constraints, and what is refused."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import joinery as jn
import ml_dtypes
import numpy as np
import pytest
from joinery.lowering.ptx.instructions import FORMS, WIDTHS, Form

from ...support.tiers import both_tiers, share

LANES = 128
LETTER = {16: "h", 32: "r", 64: "l"}


Operation = tuple[str, str, Sequence[int], Sequence[int]]


def module(operations: Sequence[Operation], widths: Sequence[int], packed: int, lanes: int) -> str:
    """Inputs of the given widths, then operations: (assembly, constraints, places of its operands, widths of its results)."""
    inputs = [(f"p{i}", w) for i, w in enumerate(widths)]
    outputs = [(f"o{i}_{j}", w) for i, (_, _, _, results) in enumerate(operations) for j, w in enumerate(results)]
    lines = [f"%range = tt.make_range {{end = {lanes} : i32, start = 0 : i32}} : tensor<{lanes}xi32>"]
    for name, w in (*inputs, *outputs):
        block = f"tensor<{lanes}x!tt.ptr<i{w}>>"
        lines += [f"%s_{name} = tt.splat %{name} : !tt.ptr<i{w}> -> {block}"]
        lines += [f"%a_{name} = tt.addptr %s_{name}, %range : {block}, tensor<{lanes}xi32>"]
    lines += [f"%x{i} = tt.load %a_p{i} : tensor<{lanes}x!tt.ptr<i{w}>>" for i, w in enumerate(widths)]
    for i, (asm, constraints, places, results) in enumerate(operations):
        names = ", ".join(f"%x{place}" for place in places)
        types = ", ".join(f"tensor<{lanes}xi{widths[place]}>" for place in places)
        made = ", ".join(f"tensor<{lanes}xi{w}>" for w in results)
        escaped = asm.replace('"', "\\22").replace("\n", "\\0A")
        several = f":{len(results)}" if len(results) > 1 else ""
        lines += [
            f'%v{i}{several} = tt.elementwise_inline_asm "{escaped}" {{constraints = "{constraints}", '
            f"packed_element = {packed} : i32, pure = true}} {names} : {types} -> {made}"
        ]
        for j, w in enumerate(results):
            value = f"%v{i}#{j}" if several else f"%v{i}"
            lines += [f"tt.store %a_o{i}_{j}, {value} : tensor<{lanes}x!tt.ptr<i{w}>>"]
    parameters = ", ".join(f"%{name}: !tt.ptr<i{w}>" for name, w in (*inputs, *outputs))
    body = "\n    ".join(lines)
    return f"module {{\n  tt.func public @k({parameters}) {{\n    {body}\n    tt.return\n  }}\n}}\n"


def outputs(kernel: Any, how: str, inputs: Sequence[Any], widths: Sequence[int], lanes: int) -> list[Any]:
    results = [np.zeros(lanes, f"u{w // 8}") for w in widths]
    getattr(kernel, how)((1,), *inputs, *results)
    return results


def both(asm: str, constraints: str, inputs: Sequence[Any], results: Sequence[int], packed: int = 1) -> list[Any]:
    """The results of one operation; host and interpreter must agree to the bit."""
    widths = [8 * x.itemsize for x in inputs]
    lanes = len(inputs[0])
    kernel = jn.kernel.from_ttir(module([(asm, constraints, range(len(inputs)), results)], widths, packed, lanes))
    assert jn.kernel.from_ttir(kernel.ttir).ttir == kernel.ttir
    first, second = (outputs(kernel, how, inputs, results, lanes) for how in ("interpret", "launch"))
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one, other)
    return first


# -- every form of every instruction, two witnesses

SPECIALS: dict[str, list[int]] = {
    "f16": [0, 0x8000, 0x3C00, 0xBC00, 0x7C00, 0xFC00, 0x7E00, 1, 0x8001, 0x3FF, 0x400, 0x7BFF, 0xFBFF, 0x3800, 0x4248],
    "bf16": [0, 0x8000, 0x3F80, 0xBF80, 0x7F80, 0xFF80, 0x7FC0, 1, 0x8001, 0x7F, 0x80, 0x7F7F, 0xFF7F, 0x3F00],
    "f32": [0, 1 << 31, 0x3F800000, 0xBF800000, 0x7F800000, 0xFF800000, 0x7FC00000, 1, 0x80000001, 0x7FFFFF, 0x800000,
            0x7F7FFFFF, 0xFF7FFFFF, 0x3F000000, 0x4B000001, 0x4F000000, 0x5F000000, 0xCF000000, 0x33800000, 0x40200000],
    "f64": [0, 1 << 63, 0x3FF << 52, 0xBFF << 52, 0x7FF << 52, 0xFFF << 52, 0x7FF8 << 48, 1, (1 << 63) | 1, 1 << 52,
            (0x7FF << 52) - 1, 0x3FE << 52, 0x41E << 52, 0x43E << 52, 0x36A << 52, 0x380 << 52, (0x3FF << 52) + 1],
}  # fmt: skip
FLOAT_DTYPES: dict[str, Any] = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64}


def single(type_: str) -> str:
    return {"tf32": "f32"}.get(type_, type_.removesuffix("x2") if type_ in ("f16x2", "bf16x2", "f32x2") else type_)


def sample(rng: Any, type_: str) -> Any:
    """Bits of a type: special values, moderate ones, and anything."""
    width, base = WIDTHS[type_], single(type_)
    if base in SPECIALS:
        size = WIDTHS[base]
        count = LANES * width // size
        moderate = rng.normal(0, 4, count) * 2.0 ** rng.integers(-6, 7, count)
        words = moderate.astype(FLOAT_DTYPES[base]).view(f"u{size // 8}").astype(np.uint64)
        anything = rng.integers(0, (1 << size) - 1, count, np.uint64, endpoint=True)
        special = rng.choice(np.array(SPECIALS[base], np.uint64), count)
        choice = rng.random(count)
        found = np.where(choice < 0.35, special, np.where(choice < 0.8, words, anything))
        return found.astype(f"u{size // 8}").view(f"u{width // 8}")
    edges = [0, 1, 2, 3, 7, 8, 15, 16, 31, 32, 33, 63, 64, 65, 100, 255, 256, -1, -2, 1 << (width - 1), (1 << (width - 1)) - 1]
    special = rng.choice(np.array([edge % (1 << width) for edge in edges], np.uint64), LANES)
    anything = rng.integers(0, (1 << width) - 1, LANES, np.uint64, endpoint=True)
    return np.where(rng.random(LANES) < 0.5, special, anything).astype(f"u{max(width, 16) // 8}")


def spellings(rng: Any, form: Form, opcode: str) -> list[tuple[str, tuple[str, ...], list[str]]]:
    """(instruction, types, flags): all types of a form, some of the combinations of modifiers."""
    found = []
    types = list(itertools.product(*form.types))
    for index in rng.permutation(len(types))[:8]:
        options = [[*group, *([] if i in form.required else [""])] for i, group in enumerate(form.groups)]
        flags = list(itertools.product(*options))
        for chosen in rng.permutation(len(flags))[:4]:
            used = [flag for flag in flags[chosen] if flag]
            found.append((".".join([opcode, *used, *types[index]]), types[index], used))
    return found


def statement(
    form: Form, spelling: str, types: tuple[str, ...], flags: list[str]
) -> tuple[str, str, list[str], list[int], str]:
    """The assembly of one instruction on its own, its constraints, the types of its operands, result widths and type."""
    names = dict(zip("TUV", types, strict=False))
    names["W"] = {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}.get(types[0], "")

    def type_of(word: str) -> str:
        return names.get(word.rstrip("|?"), word.rstrip("|?"))

    sources = [type_of(w) for w in form.sources if not w.endswith("?") or {"and", "or", "xor"} & set(flags)]
    target = type_of(form.results[0])
    before, after, operands, constraints, inputs = [], [], [], [], []
    if target == "pred":
        places = ["d0", "d1"] if form.results[0].endswith("|") else ["d0"]
        before += [f".reg .pred {place};" for place in places]
        after += [f"selp.b32 ${i}, 1, 0, {place};" for i, place in enumerate(places)]
        results = [32] * len(places)
    else:
        places, results = ["$0"], [max(16, WIDTHS[target])]
    constraints += ["=" + LETTER[w] for w in results]
    for i, type_ in enumerate(sources):
        place = f"${len(results) + i}"
        if type_ == "pred":
            before.append(f".reg .pred s{i}; setp.gt.s32 s{i}, {place}, 0;")
            place, type_ = f"s{i}", "b32"
        operands.append(place)
        inputs.append(type_)
        constraints.append(LETTER[max(16, WIDTHS[type_])])
    asm = f"{{ {' '.join(before)}\n{spelling} {'|'.join(places)}, {', '.join(operands)};\n{' '.join(after)} }}"
    return asm, ",".join(constraints), inputs, results, target


APPROXIMATE = {"sin", "cos", "lg2", "ex2", "tanh", "rsqrt", "rcp", "sqrt", "div"}


def equal(found: Any, expected: Any, target: str, spelling: str) -> Any:
    """The same bits, any NaN for another; approximations within 4 units in the last place."""
    base = single(target)
    if base not in FLOAT_DTYPES:
        return found == expected
    x, y = found.view(f"u{WIDTHS[base] // 8}"), expected.view(f"u{WIDTHS[base] // 8}")
    a, b = x.view(FLOAT_DTYPES[base]).astype(np.float64), y.view(FLOAT_DTYPES[base]).astype(np.float64)
    good = (x == y) | (np.isnan(a) & np.isnan(b))
    if spelling.split(".")[0] in APPROXIMATE and {"approx", "full"} & set(spelling.split(".")):
        with np.errstate(all="ignore"):
            unit = np.abs(np.spacing(np.abs(y.view(FLOAT_DTYPES[base])))).astype(np.float64)
            good |= np.abs(a - b) <= 4 * unit
    return good


def opcode_groups() -> list[Any]:
    names = sorted(FORMS)
    return [pytest.param(names[i : i + 3], id="-".join(names[i : i + 3])) for i in range(0, len(names), 3)]


@pytest.mark.one_in(12)
@pytest.mark.parametrize("opcodes", opcode_groups())
@both_tiers
def test_every_form_on_host_and_interpreter(opcodes: list[str], in_full: bool) -> None:
    """The interpreter evaluates the syntax tree with NumPy, the host runs the translation: neither knows the other."""
    rng = np.random.default_rng(len(opcodes[0]) + ord(opcodes[0][0]))
    pool: dict[tuple[str, int], int] = {}
    inputs: list[Any] = []
    operations, meant = [], []
    for opcode in opcodes:
        for form in FORMS[opcode]:
            for spelling, types, flags in share(list(spellings(rng, form, opcode)), len(operations), 2, in_full):
                asm, constraints, sources, results, target = statement(form, spelling, types, flags)
                places = []
                for position, type_ in enumerate(sources):
                    if (type_, position) not in pool:
                        pool[type_, position] = len(inputs)
                        inputs.append(sample(rng, type_))
                    places.append(pool[type_, position])
                operations.append((asm, constraints, places, results))
                meant.append((spelling, target))
    widths = [8 * x.itemsize for x in inputs]
    for start in range(0, len(operations), 40):
        part = operations[start : start + 40]
        kernel = jn.kernel.from_ttir(module(part, widths, 1, LANES))
        flat = [w for _, _, _, results in part for w in results]
        defined, host = (outputs(kernel, how, inputs, flat, LANES) for how in ("interpret", "launch"))
        at = 0
        for (spelling, target), (_, _, places, results) in zip(meant[start : start + 40], part, strict=True):
            for _ in results:
                good = equal(host[at], defined[at], target, spelling)
                bad = np.flatnonzero(~good)[:1] * LANES // len(good)
                lanes = [[hex(inputs[place][i]) for place in places] + [hex(host[at][i]), hex(defined[at][i])] for i in bad]
                assert good.all(), f"{spelling}: {lanes}"
                at += 1


# -- formulas in NumPy

R = np.random.default_rng(7)
U32 = [R.integers(0, 1 << 32, LANES, np.uint32) for _ in range(3)]
U64 = [R.integers(0, 1 << 63, LANES, np.uint64) for _ in range(2)]
F32 = [R.normal(0, 3, LANES).astype(np.float32) for _ in range(3)]
F16 = [R.normal(0, 3, LANES).astype(np.float16) for _ in range(2)]


def wide(x: Any) -> Any:
    return x.astype(np.uint64)


def s32(x: Any) -> Any:
    return x.view(np.int32)


def lanes_of(x: Any, dtype: Any) -> Any:
    return x.view(dtype).reshape(len(x), -1).astype(np.int64)


FORMULAS: list[tuple[str, str, list[Any], int, Callable[..., Any]]] = [
    ("add.s32 $0, $1, $2;", "=r,r,r", U32[:2], 32, lambda a, b: a + b),
    ("sub.sat.s32 $0, $1, $2;", "=r,r,r", U32[:2], 32,
     lambda a, b: np.clip(s32(a).astype(np.int64) - s32(b), -(1 << 31), (1 << 31) - 1).astype(np.int32).view(np.uint32)),
    ("mul.hi.u32 $0, $1, $2;", "=r,r,r", U32[:2], 32, lambda a, b: wide(a) * wide(b) >> np.uint64(32)),
    ("mul.wide.s32 $0, $1, $2;", "=l,r,r", U32[:2], 64, lambda a, b: s32(a).astype(np.int64) * s32(b)),
    ("mad.lo.u32 $0, $1, $2, $3;", "=r,r,r,r", U32, 32, lambda a, b, c: a * b + c),
    ("shf.l.wrap.b32 $0, $1, $2, 7;", "=r,r,r", U32[:2], 32, lambda a, b: b << np.uint32(7) | a >> np.uint32(25)),
    ("shl.b32 $0, $1, 40;", "=r,r", U32[:1], 32, lambda a: a * 0),
    ("shr.s32 $0, $1, 40;", "=r,r", U32[:1], 32, lambda a: (s32(a) >> 31).view(np.uint32)),
    ("bfe.u32 $0, $1, 5, 9;", "=r,r", U32[:1], 32, lambda a: a >> np.uint32(5) & np.uint32(511)),
    ("bfe.s32 $0, $1, 24, 8;", "=r,r", U32[:1], 32, lambda a: (s32(a) >> 24).view(np.uint32)),
    ("bfi.b32 $0, $1, $2, 8, 8;", "=r,r,r", U32[:2], 32,
     lambda a, b: b & np.uint32(0xFFFF00FF) | (a & np.uint32(255)) << np.uint32(8)),
    ("lop3.b32 $0, $1, $2, $3, 0xe8;", "=r,r,r,r", U32, 32, lambda a, b, c: (a & b) | (a & c) | (b & c)),
    ("lop3.b32 $0, $1, $2, $3, 0x96;", "=r,r,r,r", U32, 32, lambda a, b, c: a ^ b ^ c),
    ("prmt.b32 $0, $1, 0, 0x0123;", "=r,r", U32[:1], 32, lambda a: a.byteswap()),
    ("popc.b64 $0, $1;", "=r,l", U64[:1], 32, np.bitwise_count),
    ("dp4a.s32.u32 $0, $1, $2, $3;", "=r,r,r,r", U32, 32,
     lambda a, b, c: (lanes_of(a, np.int8) * lanes_of(b, np.uint8)).sum(1) + c),
    ("vavrg4.u32.u32.u32 $0, $1, $2, 0;", "=r,r,r", U32[:2], 32,
     lambda a, b: (lanes_of(a, np.uint8) + lanes_of(b, np.uint8) + 1 >> 1).astype(np.uint8).view(np.uint32).reshape(-1)),
    ("vabsdiff4.u32.u32.u32.add $0, $1, $2, $3;", "=r,r,r,r", U32, 32,
     lambda a, b, c: abs(lanes_of(a, np.uint8) - lanes_of(b, np.uint8)).sum(1) + c),
    ("add.cc.u64 $0, $1, $2; addc.u64 $0, 0, 0;", "=l,l,l", [U64[0] * np.uint64(2), U64[1] * np.uint64(2)], 64,
     lambda a, b: (a + b < a).astype(np.uint64)),
    ("fma.rn.f32 $0, $1, $2, $3;", "=f,f,f,f", F32, 32,
     lambda a, b, c: (a.astype(np.longdouble) * b + c).astype(np.float32)),
    ("max.f32 $0, $1, $2;", "=f,f,f", F32[:2], 32, np.maximum),
    ("cvt.rni.s32.f32 $0, $1;", "=r,f", F32[:1], 32, lambda a: np.rint(a).astype(np.int32)),
    ("cvt.rz.f16.f32 $0, $1;", "=h,f", F32[:1], 16,
     lambda a: np.where(abs(a.astype(np.float16).astype(np.float32)) > abs(a),
                        a.astype(np.float16).view(np.uint16) - 1, a.astype(np.float16).view(np.uint16))),
    ("cvt.rn.bf16x2.f32 $0, $1, $2;", "=r,f,f", F32[:2], 32,
     lambda a, b: a.astype(ml_dtypes.bfloat16).view(np.uint16).astype(np.uint32) << np.uint32(16)
     | b.astype(ml_dtypes.bfloat16).view(np.uint16)),
    ("cvt.rn.satfinite.e4m3x2.f32 $0, $1, $2;", "=h,f,f", F32[:2], 16,
     lambda a, b: a.astype(ml_dtypes.float8_e4m3fn).view(np.uint8).astype(np.uint16) << np.uint16(8)
     | b.astype(ml_dtypes.float8_e4m3fn).view(np.uint8)),
    ("mul.f16 $0, $1, $2;", "=h,h,h", F16, 16, lambda a, b: a * b),
    ("mov.b64 $0, {$1, $2};", "=l,r,r", U32[:2], 64, lambda a, b: wide(b) << np.uint64(32) | a),
    ("{ .reg .pred p; setp.lt.u32 p, $1, $2; @p mov.b32 $0, $1; @!p mov.b32 $0, $2; }", "=r,r,r", U32[:2], 32, np.minimum),
    ("{ .reg .pred p, q; setp.gt.s32 p|q, $1, 0; @q add.s32 $0, $0, 1; }", "=r,r,0", [U32[0], U32[1]], 32,
     lambda a, b: b + (s32(a) <= 0)),
    ("{ .reg .b32 %t<3>; shl.b32 %t1, $1, 1; { .reg .b32 %t1; mov.b32 %t1, 0; } add.s32 $0, %t1, 1; }", "=r,r", U32[:1], 32,
     lambda a: 2 * a + 1),
]  # fmt: skip


@pytest.mark.one_in(6)
@pytest.mark.parametrize(("asm", "constraints", "inputs", "width", "formula"), FORMULAS, ids=[row[0][:40] for row in FORMULAS])
def test_formulas(asm: str, constraints: str, inputs: list[Any], width: int, formula: Any) -> None:
    words = [x.view(f"u{x.itemsize}") for x in inputs]
    (found,) = both(asm, constraints, words, [width])
    expected = np.asarray(formula(*inputs))
    expected = expected.view(f"u{width // 8}") if expected.dtype.itemsize * 8 == width else expected.astype(f"u{width // 8}")
    np.testing.assert_array_equal(found, expected)


# -- packing, several results, immediates, scalars


@pytest.mark.one_in(2)
@pytest.mark.parametrize("lanes", [1, 2, 4, 64])
@pytest.mark.parametrize("packed", [1, 2, 4, 8])
def test_elements_are_packed_in_order_from_the_low_end(packed: int, lanes: int) -> None:
    data = np.arange(lanes).astype(np.uint8) + 100
    count = max(1, packed // 4)
    asm = " ".join(f"xor.b32 ${i}, ${count + i}, 0x08040201;" for i in range(count))
    (found,) = both(asm, ",".join(["=r"] * count + ["r"] * count), [data], [8], packed)
    pattern = np.array([1, 2, 4, 8][: min(packed, 4)], np.uint8)
    np.testing.assert_array_equal(found, data ^ np.resize(pattern, lanes))


def test_sixteen_bits_two_at_a_time() -> None:
    a, b = (R.integers(0, 1 << 16, LANES, np.uint16) for _ in range(2))
    (found,) = both("add.u16x2 $0, $1, $2;", "=r,r,r", [a, b], [16], 2)
    np.testing.assert_array_equal(found, a + b)


def test_two_results_of_two_elements_each() -> None:
    a, b = U32[:2]
    text = "add.s32 $0, $4, $6; add.s32 $1, $5, $7; sub.s32 $2, $4, $6; sub.s32 $3, $5, $7;"
    total, difference = both(text, "=r,=r,=r,=r,r,r,r,r", [a, b], [32, 32], 2)
    np.testing.assert_array_equal(total, a + b)
    np.testing.assert_array_equal(difference, a - b)


def test_early_clobbers_clobbers_and_escapes() -> None:
    (found,) = both("{ .reg .b32 %%t; add.s32 %%t, ${1}, 1; mov.b32 $0, %%t; }", "=&r,r,~{memory}", [U32[0]], [32])
    np.testing.assert_array_equal(found, U32[0] + 1)


def test_immediates_and_predicates() -> None:
    text = """
module {
  tt.func public @k(%p: !tt.ptr<i32>, %o: !tt.ptr<i32>, %q: !tt.ptr<i8>) {
    %r = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32>
    %ps = tt.splat %p : !tt.ptr<i32> -> tensor<16x!tt.ptr<i32>>
    %pp = tt.addptr %ps, %r : tensor<16x!tt.ptr<i32>>, tensor<16xi32>
    %x = tt.load %pp : tensor<16x!tt.ptr<i32>>
    %c = arith.constant dense<7> : tensor<16xi32>
    %m = arith.cmpi slt, %x, %c : tensor<16xi32>
    %v:2 = tt.elementwise_inline_asm "selp.b32 $0, $2, $3, $4; not.pred $1, $4;"
      {constraints = "=r,=b,r,n,b", packed_element = 1 : i32, pure = true} %x, %c, %m
      : tensor<16xi32>, tensor<16xi32>, tensor<16xi1> -> tensor<16xi32>, tensor<16xi1>
    %os = tt.splat %o : !tt.ptr<i32> -> tensor<16x!tt.ptr<i32>>
    %op = tt.addptr %os, %r : tensor<16x!tt.ptr<i32>>, tensor<16xi32>
    tt.store %op, %v#0 : tensor<16x!tt.ptr<i32>>
    %b = arith.extui %v#1 : tensor<16xi1> to tensor<16xi8>
    %qs = tt.splat %q : !tt.ptr<i8> -> tensor<16x!tt.ptr<i8>>
    %qp = tt.addptr %qs, %r : tensor<16x!tt.ptr<i8>>, tensor<16xi32>
    tt.store %qp, %b : tensor<16x!tt.ptr<i8>>
    tt.return
  }
}
"""
    k = jn.kernel.from_ttir(text)
    x = np.arange(16, dtype=np.int32)
    for how in (k.launch, k.interpret):
        out, above = np.zeros(16, np.int32), np.zeros(16, np.int8)
        how((1,), x, out, above)
        np.testing.assert_array_equal(out, np.minimum(x, 7))
        np.testing.assert_array_equal(above, x >= 7)


def test_functions_and_assembly_inside_a_reduction() -> None:
    text = """
module {
  tt.func public @k(%p: !tt.ptr<f32>, %o: !tt.ptr<f32>) {
    %r = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>
    %ps = tt.splat %p : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
    %pp = tt.addptr %ps, %r : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
    %x = tt.load %pp : tensor<64x!tt.ptr<f32>>
    %m = "tt.reduce"(%x) <{axis = 0 : i32}> ({
    ^bb0(%a: f32, %b: f32):
      %c = tt.extern_elementwise %a, %b {libname = "", libpath = "", pure = true, symbol = "__nv_fmaxf"} : (f32, f32) -> f32
      %d = tt.elementwise_inline_asm "max.f32 $0, $1, $2;"
        {constraints = "=f,f,f", packed_element = 1 : i32, pure = true} %c, %a : f32, f32 -> f32
      tt.reduce.return %d : f32
    }) : (tensor<64xf32>) -> f32
    tt.store %o, %m : !tt.ptr<f32>
    tt.return
  }
}
"""
    k = jn.kernel.from_ttir(text)
    for how in (k.launch, k.interpret):
        out = np.zeros(1, np.float32)
        how((1,), F32[0][:64].copy(), out)
        assert out[0] == F32[0][:64].max()


@pytest.mark.parametrize("packed", [1, 2])
def test_without_operands(packed: int) -> None:
    constraints = ",".join(["=r"] * packed)
    asm = " ".join(f"mov.b32 ${i}, {7 + i};" for i in range(packed))
    kernel = jn.kernel.from_ttir(module([(asm, constraints, [], [32])], [], packed, 16).replace("  :  ->", " ->"))
    for how in ("launch", "interpret"):
        (found,) = outputs(kernel, how, [], [32], 16)
        np.testing.assert_array_equal(found, np.resize(np.arange(7, 7 + packed, dtype=np.uint32), 16))


def test_floats_scalars_and_blocks_of_two_axes() -> None:
    text = """
module {
  tt.func public @k(%a: f32, %p: !tt.ptr<f32>, %o: !tt.ptr<f32>) {
    %s = tt.elementwise_inline_asm "ex2.approx.ftz.f32 $0, $1;"
      {constraints = "=f,f", packed_element = 1 : i32, pure = true} %a : f32 -> f32
    %r = tt.make_range {end = 32 : i32, start = 0 : i32} : tensor<32xi32>
    %ps = tt.splat %p : !tt.ptr<f32> -> tensor<32x!tt.ptr<f32>>
    %pp = tt.addptr %ps, %r : tensor<32x!tt.ptr<f32>>, tensor<32xi32>
    %x = tt.load %pp : tensor<32x!tt.ptr<f32>>
    %y = tt.reshape %x : tensor<32xf32> -> tensor<4x8xf32>
    %b = tt.splat %s : f32 -> tensor<4x8xf32>
    %z = tt.elementwise_inline_asm "mul.f32 $0, $2, $4; mul.f32 $1, $3, $5;"
      {constraints = "=f,=f,f,f,f,f", packed_element = 2 : i32, pure = false} %y, %b
      : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
    %w = tt.reshape %z : tensor<4x8xf32> -> tensor<32xf32>
    %os = tt.splat %o : !tt.ptr<f32> -> tensor<32x!tt.ptr<f32>>
    %op = tt.addptr %os, %r : tensor<32x!tt.ptr<f32>>, tensor<32xi32>
    tt.store %op, %w : tensor<32x!tt.ptr<f32>>
    tt.return
  }
}
"""
    k = jn.kernel.from_ttir(text)
    assert jn.kernel.from_ttir(k.ttir).ttir == k.ttir
    for how in (k.launch, k.interpret):
        out = np.zeros(32, np.float32)
        how((1,), 3.0, F32[0][:32].copy(), out)
        np.testing.assert_array_equal(out, F32[0][:32] * np.float32(8))


# -- what is refused


def attempt(asm: str, constraints: str = "=r,r", packed: int = 1) -> Any:
    return jn.kernel.from_ttir(module([(asm, constraints, [0], [32])], [32], packed, 16))


@pytest.mark.one_in(11)
@pytest.mark.parametrize(
    ("asm", "keywords", "message"),
    [
        ("{ mov.b32 $0, $1;", {}, "PTX line 1: '{' without '}'"),
        ("mov.b32 $0, $1; }", {}, "'}' without '{'"),
        ("{" * 1000, {}, "nested deeper"),
        ("mov.b32 $0, $7;", {}, r"operand $7 of 2"),
        ("mov.b32 $0, $99999;", {}, "'$' stands before"),
        ("mov.b32 $0, $x;", {}, "'$' stands before"),
        ("\n\nmov.b32 $0 $1;", {}, "PTX line 3: expected ';'"),
        ("add.s32 $0, $1;", {}, "2 operands, expected 3"),
        ("mov.b64 $0, $1;", {}, "expected 64 bits"),
        ("mov.b32 $0, zz;", {}, "zz is no register"),
        ("mov.b32 $0, $1;", {"constraints": "=r"}, "name 1 results and 0 operands; the operation has 1 and 1"),
        ("mov.b32 $0, $1;", {"constraints": "r,=r"}, "stands after an operand"),
        ("mov.b32 $0, $1;", {"constraints": "=r,k"}, "'k' is not known"),
        ("mov.b32 $0, $1;", {"constraints": "=r,5"}, "tied to result 5 of 1"),
        ("mov.b32 $0, $1;", {"constraints": "=r,h"}, "a register of 16"),
        ("mov.b32 $0, $1;", {"constraints": ""}, "name 0 results"),
        ("mov.b32 $0, $1;", {"packed": 3}, "power of two"),
        ("mov.b32 $0, $1;", {"packed": 64}, "power of two"),
        ("mov.b32 $0, $1;", {"packed": 2}, "the operation has 2 and 2 registers"),
        ("x" * 70_000, {}, "characters"),
        ("nop;" * 16_000, {"constraints": "=r,r"}, None),
    ],
)
def test_hostile_assembly_is_refused_when_read(asm: str, keywords: dict[str, Any], message: str | None) -> None:
    if message is None:
        with pytest.raises(jn.UnsupportedError, match="no such instruction"):
            attempt(asm, **keywords).launch((1,), np.zeros(16, np.uint32), np.zeros(16, np.uint32))
        return
    with pytest.raises(jn.UserError, match=r"tt\.elementwise_inline_asm") as caught:
        attempt(asm, **keywords)
    assert message in str(caught.value)
    assert "in: %" in str(caught.value)


@pytest.mark.parametrize(
    ("asm", "message"),
    [
        ("ld.shared.b32 $0, [$1];", "ld.shared.b32: reaches for .shared memory"),
        ("bar.sync 0; mov.b32 $0, $1;", "bar.sync"),
        ("mov.u32 $0, %tid.x;", "%tid.x"),
        ("here: mov.b32 $0, $1; bra here;", "label here"),
        (".shared .b32 x; mov.b32 $0, $1;", r"directive \.shared"),
        ("v_mov_b32 $0, $1;", "v_mov_b32"),
    ],
)
def test_what_reaches_beyond_registers_is_read_and_refused_by_name(asm: str, message: str) -> None:
    kernel = attempt(asm)
    assert jn.kernel.from_ttir(kernel.ttir).ttir == kernel.ttir
    for how in (kernel.launch, kernel.interpret):
        with pytest.raises(jn.UnsupportedError, match=message):
            how((1,), np.zeros(16, np.uint32), np.zeros(16, np.uint32))


def test_a_long_chain_of_instructions_runs() -> None:
    """Hundreds of instructions that follow one from another: neither recursion nor scratch gives out."""
    asm = "mov.b32 $0, $1; " + "mad.lo.u32 $0, $0, 3, 1; " * 600
    (found,) = both(asm, "=r,r", [U32[0]], [32])
    expected = U32[0].copy()
    for _ in range(600):
        expected = expected * np.uint32(3) + np.uint32(1)
    np.testing.assert_array_equal(found, expected)
