"""Every form of the table of arithmetic instructions: array code against the exact evaluator of inline assembly."""

from __future__ import annotations

from itertools import product

import ml_dtypes
import numpy as np
import pytest
from joinery.lowering.ptx.evaluate import compute
from joinery.lowering.ptx.instructions import FORMS, WIDTHS, Form, decode
from joinery.lowering.ptx.module_parser import parse_module
from joinery.runtime.ptxsim import Module

from ....support.tiers import both_tiers, share

THREADS = 128
FLOATS = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64}
CHAINED = {"addc", "subc", "madc"}
SPECIAL64 = [0.0, -0.0, 1.0, -1.0, 1.5, 2.5, -2.5, 0.5, 448.0, 57344.0, 65504.0, 65520.0, 3.4e38, 2.0**-24, 2.0**-126,
             2.0**-149, 2.0**-140, np.inf, -np.inf, np.nan, 2.0**31, -(2.0**31), 2.0**32, 2.0**63, 255.5, -128.5, 1e-3,
             1 + 2.0**-9]  # fmt: skip


def spellings(form: Form) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """(types, flags) of a form; long lists are thinned out."""
    options = [
        (() if i in form.required else ((),)) + tuple((w,) for w in group)
        for i, group in enumerate(form.groups)
    ]
    found = [(types, sum(flags, ())) for types in product(*form.types) for flags in product(*options)]
    step = max(1, len(found) // 40)
    return found[::step]


def operand_types(form: Form, types: tuple[str, ...]) -> tuple[list[str], list[str]]:
    names = dict(zip("TUV", types, strict=False))
    if types:
        names["W"] = {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}.get(types[0], "")

    def known(words: tuple[str, ...]) -> list[str]:
        return [names.get(w.rstrip("|?"), w.rstrip("|?")) for w in words]

    return known(form.results), known(form.sources)


def inputs(type_: str, rng: np.random.Generator) -> np.ndarray:
    """Bits: special values, then random ones."""
    width = WIDTHS[type_]
    single = type_[:-2] if type_.endswith("x2") else type_
    if single in FLOATS:
        with np.errstate(all="ignore"):
            values = rng.permutation(np.array(SPECIAL64 * 3)).astype(FLOATS[single])
            rest = (
                rng.standard_normal(THREADS - values.size) * 2.0 ** rng.integers(-8, 9, THREADS - values.size)
            ).astype(FLOATS[single])
        bits = np.concatenate([values, rest])
        words = bits.view(f"u{bits.dtype.itemsize}").astype(np.uint64)
        if type_.endswith("x2"):
            words |= rng.permutation(words) << np.uint64(WIDTHS[single])
        return words
    words = rng.integers(0, 1 << 64, THREADS, dtype=np.uint64)
    words[:40] = rng.choice(np.array([0, 1, 2, 7, 31, 32, 33, 63, 64, 127, 128, 255, 256, (1 << 64) - 1, 1 << 31, (1 << 31) - 1,
                                      1 << 63, (1 << 63) - 1, 0x7FFF, 0x8000, 0xFFFF, 5], np.uint64), 40)  # fmt: skip
    if width >= 32:
        words[40:70] = rng.integers(0, 40, 30, dtype=np.uint64)
    return words & np.uint64((1 << width) - 1)


def text_of(
    name: str,
    types: tuple[str, ...],
    flags: tuple[str, ...],
    results: list[str],
    sources: list[str],
    guarded: bool,
) -> str:
    body, operands = [], []
    for index, type_ in enumerate(sources):
        width = WIDTHS[type_]
        body.append(f"ld.global.b64 %w{index}, [%base+{index * 8 * THREADS}];")
        if name == "lop3" and index == 3:
            operands.append("0x5a")
        elif type_ == "pred":
            body.append(f"setp.ne.u64 %q{index}, %w{index}, 0;")
            operands.append(f"%q{index}")
        else:
            body.append(
                f"cvt.u{width}.u64 %s{width}_{index}, %w{index};"
                if width < 64
                else f"mov.b64 %s64_{index}, %w{index};"
            )
            operands.append(f"%s{width}_{index}")
    outs = []
    for index, type_ in enumerate(results):
        out = f"%q{8 + index}" if type_ == "pred" else f"%s{WIDTHS[type_]}_{8 + index}"
        outs.append(out)
        if guarded and type_ != "pred":
            body.append(f"cvt.u8.u64 {out}, 0;" if WIDTHS[type_] == 8 else f"mov.b{WIDTHS[type_]} {out}, 0;")
    guard = "@%odd " if guarded and "pred" not in results else ""
    body.append(f"{guard}{'.'.join([name, *flags, *types])} {', '.join(outs + operands)};")
    for index, (type_, out) in enumerate(zip(results, outs, strict=True)):
        place = f"[%to+{index * 8 * THREADS}]"
        if type_ == "pred":
            body.append(f"selp.b32 %one, 1, 0, {out}; st.global.b32 {place}, %one;")
        else:
            body.append(f"st.global.b{WIDTHS[type_]} {place}, {out};")
    registers = "".join(f".reg .b{w} %s{w}_<16>;" for w in (8, 16, 32, 64))
    lines = "\n  ".join(body)
    return (
        ".version 8.6\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 a, .param .u64 b)\n"
        f".reqntid {THREADS}\n{{\n  .reg .pred %q<16>, %odd; .reg .b64 %w<8>, %base, %to, %off; {registers}\n"
        "  .reg .b32 %tid, %one, %bit;\n"
        "  ld.param.u64 %base, [a];\n  ld.param.u64 %to, [b];\n  mov.u32 %tid, %tid.x;\n  mul.wide.u32 %off, %tid, 8;\n"
        "  add.u64 %base, %base, %off;\n  add.u64 %to, %to, %off;\n  and.b32 %bit, %tid, 1;\n  setp.ne.u32 %odd, %bit, 0;\n"
        f"  {lines}\n  ret;\n}}\n"
    )


def is_nan(bits: np.ndarray, type_: str) -> np.ndarray:
    single = type_[:-2] if type_.endswith("x2") else type_
    if single not in FLOATS:
        return np.zeros(bits.shape, bool)
    dtype = np.dtype(FLOATS[single])
    return np.isnan(bits.astype(f"u{dtype.itemsize}").view(dtype).astype(np.float64))


def same(got: np.ndarray, want: np.ndarray, type_: str) -> np.ndarray:
    """Equal bits, NaN equal to NaN, in every half."""
    if type_ in ("f16x2", "bf16x2"):
        low, high = np.uint64(0xFFFF), np.uint64(16)
        return same(got & low, want & low, type_[:-2]) & same(got >> high, want >> high, type_[:-2])
    return (got == want) | (is_nan(got, type_) & is_nan(want, type_))


@pytest.mark.one_in(128)
@pytest.mark.parametrize("guarded", [False, True], ids=["all", "odd"])
@pytest.mark.parametrize("name", sorted(set(FORMS) - CHAINED))
@both_tiers
def test_array_code_is_the_evaluator(name: str, guarded: bool, in_full: bool) -> None:
    rng = np.random.default_rng(len(name) + 7 * ord(name[0]) + guarded)
    for form in FORMS[name]:
        if "f32x2" in sum(form.types, ()):
            continue
        for types, flags in share(spellings(form), int(guarded), 4, in_full):
            if "cc" in flags:
                continue
            results, sources = operand_types(form, types)
            if "pred" in sources and name in ("set", "setp") and not {"and", "or", "xor"} & set(flags):
                sources = [s for s in sources if s != "pred"]
            text = text_of(name, types, flags, results, sources, guarded)
            function = parse_module(text).functions["k"]
            assert function.code is not None
            spelled = ".".join([name, *flags, *types])
            count = len(results) + len(sources)
            instruction = [i for i in function.code if i.spelling == spelled and len(i.operands) == count][-1]
            data = np.stack([inputs(t, rng) for t in sources])
            if name in ("div", "rem") and types[0] not in FLOATS:
                data[1] |= np.uint64(1)
            out = np.zeros((len(results), THREADS), np.uint64)
            d = decode(instruction, function.registers)
            bits = [(row != 0) if t == "pred" else row for row, t in zip(data, sources, strict=True)]
            if name == "lop3":
                bits[3] = np.full(THREADS, 0x5A, np.uint64)
            with np.errstate(all="ignore"):
                want = compute(d, bits)
            Module(text).kernel().launch(1, None, [data, out])
            for row, expected, type_ in zip(out, want, results, strict=False):
                expected = np.asarray(expected).astype(np.uint64) & np.uint64((1 << WIDTHS[type_]) - 1)
                if guarded and "pred" not in results:
                    expected = np.where(np.arange(THREADS) & 1, expected, np.uint64(0))
                wrong = ~same(row, expected, type_)
                assert not wrong.any(), (
                    f"{spelled}: {[hex(v) for v in data[:, wrong][:, 0]]} -> {int(row[wrong][0]):#x}, "
                    f"expected {int(expected[wrong][0]):#x}; {wrong.sum()} lanes"
                )
