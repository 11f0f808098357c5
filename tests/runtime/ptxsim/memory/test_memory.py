"""State spaces, arguments, atomics, printing."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from joinery.promotion.errors import UserError
from joinery.runtime.ptxsim import Module, PtxCheckError

COPY = "add.u64 %rd1, %rd1, %rd0; add.u64 %rd2, %rd2, %rd0; ld.global.u32 %r1, [%rd1]; st.global.u32 [%rd2], %r1; ret;"


def u32(n: int) -> np.ndarray:
    return np.arange(n, dtype=np.uint32)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("vector", "type_"), [("", "b8"), ("", "b16"), ("", "b64"), (".v2", "b8"), (".v4", "b16"),
                                               (".v2", "b32"), (".v4", "b32"), (".v2", "b64"), (".v4", "b8")])  # fmt: skip
@pytest.mark.parametrize("space", ["global", "shared", "local", "generic"])
def test_vectors_of_all_widths_through_all_spaces(run: Any, vector: str, type_: str, space: str) -> None:
    rng = np.random.default_rng(1)
    count, width = int(vector[2:] or 1), int(type_[1:])
    size = count * width // 8
    x, out = rng.integers(0, 256, (2, 32 * size), dtype=np.uint8)
    letter = {8: "h", 16: "h", 32: "r", 64: "rd"}[width]
    names = [f"%{letter}{20 + i}" for i in range(count)]
    value = "{" + ", ".join(names) + "}" if count > 1 else names[0]
    middle = {
        "global": "", "local": f"mov.u64 %rd5, depot; st.local{vector}.{type_} [%rd5+32], {value}; ",
        "shared": f"mov.u32 %r5, tile; mad.lo.u32 %r5, %r0, {size}, %r5; st.shared{vector}.{type_} [%r5+32], {value}; "
                  "bar.sync 0; ",
        "generic": f"mov.u64 %rd6, tile; cvta.shared.u64 %rd5, %rd6; mad.wide.u32 %rd5, %r0, {size}, %rd5; "
                   f"st{vector}.{type_} [%rd5+32], {value}; bar.sync 0; ",
    }[space]  # fmt: skip
    back = {
        "global": "", "local": f"ld.local{vector}.{type_} {value}, [%rd5+32];",
        "generic": f"ld{vector}.{type_} {value}, [%rd5+32];",
        "shared": f"ld.shared{vector}.{type_} {value}, [%r5+32];",
    }[space]  # fmt: skip
    clear = "".join(f"mov.b{max(width, 16)} {name}, 0;" for name in names) if back else ""
    body = f"""
      .local .align 16 .b8 depot[64]; .shared .align 16 .b8 tile[1088];
      mad.wide.u32 %rd1, %r0, {size}, %rd1; mad.wide.u32 %rd2, %r0, {size}, %rd2;
      ld.global{vector}.{type_} {value}, [%rd1]; {middle} {clear} {back}
      st.global{vector}.{type_} [%rd2], {value}; ret;
    """
    for level in (1, 2):
        out[:] = 0
        run(body, [x, out], level=level)
        assert np.array_equal(x, out)


def test_loads_extend_and_stores_cut(run: Any) -> None:
    x = np.array([-1, 5, -128, 127] * 8, np.int8)
    out = np.zeros((3, 32), np.int64)
    body = """
      cvt.u64.u32 %rd5, %r0; add.u64 %rd1, %rd1, %rd5; shl.b64 %rd6, %rd5, 3; add.u64 %rd2, %rd2, %rd6;
      ld.global.s8 %r1, [%rd1]; cvt.s64.s32 %rd7, %r1; st.global.b64 [%rd2], %rd7;
      ld.global.u8 %rd8, [%rd1]; st.global.b64 [%rd2+256], %rd8;
      ld.global.s8 %h1, [%rd1]; cvt.s64.s16 %rd9, %h1; st.global.b64 [%rd2+512], -1; st.global.b8 [%rd2+512], %rd9; ret;
    """
    run(body, [x, out])
    assert out[0].tolist() == x.tolist()
    assert out[1].tolist() == [int(v) & 255 for v in x]
    assert out[2].tolist() == [(int(v) & 255) | ~255 for v in x]


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (
            "add.u64 %rd1, %rd1, %rd0; ld.global.u32 %r1, [%rd1+4];",
            r"bounds: 4 bytes at .* byte 128 of argument 0 with 128 bytes.*thread 31",
        ),
        ("add.u64 %rd1, %rd1, %rd0; ld.global.u32 %r1, [%rd1+-4];", "byte -4 of argument 0.*thread 0"),
        ("ld.global.u32 %r1, [%rd1+2];", "alignment: .* no multiple of 4"),
        ("ld.global.v4.u32 {%r1,%r2,%r3,%r4}, [%rd1+8];", "no multiple of 16"),
        ("ld.global.v4.u32 {%r1,%r2,%r3,%r4}, [%rd1+120];", "bounds"),
        ("mov.u64 %rd5, 0; ld.global.u32 %r1, [%rd5];", "bounds: 4 bytes at global address 0x0"),
        ("cvt.u32.u64 %r5, %rd1; cvt.u64.u32 %rd5, %r5; ld.global.u32 %r1, [%rd5];", "bounds"),
        (
            "mov.u32 %r5, tile; ld.shared.u32 %r1, [%r5+64];",
            "bounds: 4 bytes at shared address 0x40; 64 bytes of shared",
        ),
        ("mov.u32 %r5, tile; st.shared.u32 [%r5+-4], %r0;", "bounds"),
        ("mov.u32 %r5, tile; st.shared.v2.u32 [%r5+4], {%r0, %r0};", "alignment"),
        ("mov.u64 %rd5, depot; st.local.u32 [%rd5+100], %r0;", "bounds: 4 bytes at local"),
        ("ld.param.u32 %r1, [p1+8];", "bounds: 4 bytes at parameter address"),
        ("atom.global.add.u32 %r1, [%rd1+128], 1;", "bounds"),
        ("mov.u64 %rd5, tile; cvta.shared.u64 %rd5, %rd5; ld.u32 %r1, [%rd5+64];", "bounds"),
    ],
)
def test_addresses_are_checked(run: Any, body: str, problem: str) -> None:
    declared = ".shared .align 16 .b8 tile[64]; .local .align 16 .b8 depot[16];"
    with pytest.raises(PtxCheckError, match=problem) as error:
        run(f"{declared} {body} ret;", [u32(32)])
    (finding, *_) = error.value.findings
    assert finding.line > 5
    assert finding.cta == (0, 0, 0)


def test_read_only_arrays_may_be_read(run: Any) -> None:
    x, out = u32(32), np.zeros(32, np.uint32)
    x.flags.writeable = False
    run(COPY, [x, out])
    assert out.tolist() == x.tolist()
    with pytest.raises(PtxCheckError, match="read-only: a write to argument 1"):
        run(COPY, [out, x])


def test_a_finding_shows_the_statement_and_its_place(run: Any) -> None:
    body = ".loc 1 12 3\n mov.u32 %r1, 5; ld.global.u32 %r2, [%rd1+2]; add.u32 %r1, %r1, %r2; ret;"
    with pytest.raises(PtxCheckError) as error:
        run(body, [u32(32)], grid=(2, 2))
    (finding,) = error.value.findings
    assert finding.instruction == "ld.global.u32 %r2, [%rd1+2]"
    assert finding.source == ("file 1", 12)
    assert "PTX line" in str(finding)
    assert "(program (0, 0, 0), threads 0, 1" in str(finding)


def test_views_of_one_array_keep_their_places(run: Any) -> None:
    """A shift by one element, in place, through two overlapping views."""
    x = u32(40)
    run(COPY, [x[1:33], x[5:37]])
    assert x.tolist() == [*range(5), *range(1, 33), 37, 38, 39]
    with pytest.raises(PtxCheckError, match="alignment"):
        run("ld.global.v2.u32 {%r1, %r2}, [%rd1]; ret;", [x[1:]])
    run("ld.global.v2.u32 {%r1, %r2}, [%rd1]; ret;", [x[2:]])


def test_tables_of_pointers_and_null(run: Any) -> None:
    a, b, out = u32(4), u32(4) + 100, np.zeros(4, np.uint32)
    body = """
      setp.gt.u32 %p1, %r0, 3; @%p1 ret; and.b32 %r1, %r0, 1; mul.wide.u32 %rd5, %r1, 8; add.u64 %rd1, %rd1, %rd5;
      ld.global.u64 %rd6, [%rd1]; add.u64 %rd6, %rd6, %rd0; ld.global.u32 %r2, [%rd6]; add.u64 %rd2, %rd2, %rd0;
      st.global.u32 [%rd2], %r2; ret;
    """
    for table in ((a, b, None), [a, b]):
        run(body, [table, out])
        assert out.tolist() == [0, 101, 2, 103]
    run("setp.eq.u64 %p1, %rd1, 0; @%p1 ret; trap;", [None])


def test_scalars_take_the_width_of_the_parameter(run: Any, build: Any) -> None:
    out = np.zeros(6, np.uint64)
    more = (
        ".param .u32 a, .param .u64 b, .param .f32 c, .param .f64 d, .param .u8 e, .param .align 2 .b8 f[2]"
    )
    body = """
      ld.param.u32 %r1, [a]; ld.param.u64 %rd5, [b]; ld.param.b32 %r2, [c]; ld.param.b64 %rd6, [d]; ld.param.u8 %r3, [e];
      ld.param.b16 %h1, [f];
      st.global.u32 [%rd1], %r1; st.global.u64 [%rd1+8], %rd5; st.global.u32 [%rd1+16], %r2; st.global.u64 [%rd1+24], %rd6;
      st.global.u32 [%rd1+32], %r3; st.global.u16 [%rd1+40], %h1; ret;
    """
    run(body, [out], more=more, scalars=[-1, np.int64(-2), 1.5, 2, True, np.array(1.0, ml_dtypes.bfloat16)])
    assert out.tolist() == [0xFFFFFFFF, 2**64 - 2, 0x3FC00000, 0x4000000000000000, 1, 0x3F80]
    for bad, problem in (([1 << 33, 0, 0, 0, 0, bytes(2)], "does not fit 4"), ([0, 0, 0, 0, 0, bytes(3)], "3 bytes"),
                         ([None, 0, 0, 0, 0, 0], "None is a null pointer"), (["x", 0, 0, 0, 0, 0], "str for")):  # fmt: skip
        with pytest.raises(UserError, match=problem):
            run(body, [out], more=more, scalars=bad)
    with pytest.raises(UserError, match="takes 2 arguments, 1 were given"):
        Module(build("ret;", 2)).kernel().launch(1, None, [out])
    with pytest.raises(UserError, match="not C-contiguous"):
        run("ret;", [np.zeros((4, 4))[:, ::2]])


def test_variables_of_the_module(run: Any) -> None:
    out = np.zeros(8, np.uint64)
    before = """
      .global .align 8 .u64 g[3] = {1, 18446744073709551614, c};
      .const .align 4 .u32 c[4] = {10, 20, 30};
      .global .align 4 .f32 f = 0f40490FDB;
    """
    body = """
      ld.global.u64 %rd5, [g+8]; st.global.u64 [%rd1], %rd5;
      ld.const.u32 %r1, [c+4]; st.global.u32 [%rd1+8], %r1;
      ld.global.u64 %rd6, [g+16]; ld.u32 %r2, [%rd6+8]; st.global.u32 [%rd1+16], %r2;
      mov.u64 %rd7, f; ld.global.f32 %f1, [%rd7]; st.global.f32 [%rd1+24], %f1; st.global.u64 [g], 5;
      ld.global.u64 %rd8, [g]; st.global.u64 [%rd1+32], %rd8; isspacep.shared %p1, %rd7; selp.u64 %rd9, 1, 0, %p1;
      st.global.u64 [%rd1+40], %rd9; ret;
    """
    run(body, [out], before=before)
    assert out.tolist()[:6] == [2**64 - 2, 20, 30, 0x40490FDB, 5, 0]
    with pytest.raises(PtxCheckError, match="read-only: a write to variable c"):
        run("mov.u64 %rd5, c; st.global.u32 [%rd5], 1; ret;", [], before=before)


# -- atomics

ATOMICS = [
    ("add.u32", np.uint32, lambda old, v: (old + v) & 0xFFFFFFFF), ("min.s32", np.int32, min), ("max.u32", np.uint32, max),
    ("and.b32", np.uint32, lambda old, v: old & v), ("xor.b32", np.uint32, lambda old, v: old ^ v),
    ("exch.b32", np.uint32, lambda old, v: v), ("inc.u32", np.uint32, lambda old, v: 0 if old >= v else old + 1),
    ("dec.u32", np.uint32, lambda old, v: v if old == 0 or old > v else old - 1),
    ("add.u64", np.uint64, lambda old, v: old + v),
    ("add.f32", np.float32, lambda old, v: np.float32(old) + np.float32(v)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "dtype", "function"), ATOMICS, ids=[row[0] for row in ATOMICS])
@pytest.mark.parametrize("space", ["global", "shared"])
def test_lanes_that_share_an_address_take_turns(
    run: Any, name: str, dtype: Any, function: Any, space: str
) -> None:
    rng = np.random.default_rng(4)
    values = rng.integers(0, 50, 64).astype(dtype)
    cells, old = np.full(3, 7, dtype), np.zeros(64, dtype)
    size = cells.itemsize
    word, r, v = ("b64", "%rd20", "%rd21") if size == 8 else ("b32", "%r20", "%r21")
    load = f"mov.u32 %r5, cell; mad.lo.u32 %r5, %r1, {size}, %r5; mov.{word} {r}, {7 if dtype != np.float32 else '0f40E00000'};"
    load += f"st.shared.{word} [%r5], {r}; bar.sync 0; cvt.u64.u32 %rd5, %r5;" if space == "shared" else ""
    body = f"""
      .shared .align 8 .b8 cell[24];
      rem.u32 %r1, %r0, 3; mad.wide.u32 %rd5, %r1, {size}, %rd1; mad.wide.u32 %rd2, %r0, {size}, %rd2;
      mad.wide.u32 %rd3, %r0, {size}, %rd3; ld.global.{word} {v}, [%rd2]; {load if space == "shared" else ""}
      atom.{space}.{name} {r}, [%rd5], {v}; st.global.{word} [%rd3], {r}; ret;
    """
    run(body, [cells, values, old], threads=64)
    want_old = []
    state: list[Any] = [dtype(7)] * 3
    for lane in range(64):
        want_old.append(state[lane % 3])
        state[lane % 3] = dtype(function(state[lane % 3].item(), values[lane].item()))
    assert old.tolist() == [x.item() for x in want_old]
    if space == "global":
        assert cells.tolist() == [x.item() for x in state]


def test_compare_and_swap_and_packed_reductions(run: Any) -> None:
    cell, old = np.zeros(1, np.uint32), np.zeros(32, np.uint32)
    body = """
      add.u32 %r1, %r0, 1; atom.global.acq_rel.gpu.cas.b32 %r2, [%rd1], %r0, %r1; add.u64 %rd2, %rd2, %rd0;
      st.global.u32 [%rd2], %r2; ret;
    """
    run(body, [cell, old])
    assert cell[0] == 32
    assert old.tolist() == list(range(32))
    halves = np.zeros(2, np.float16)
    run("mov.b32 %r1, 0x3C003800; red.global.gpu.add.noftz.f16x2 [%rd1], %r1; ret;", [halves])
    assert halves.tolist() == [16.0, 32.0]
    four = np.zeros(4, np.float32)
    run(
        "mov.b32 %f1, 0f3F800000; red.global.gpu.add.v4.f32 [%rd1], {%f1, %f1, 0f00000000, %f1}; ret;", [four]
    )
    assert four.tolist() == [32.0, 32.0, 0.0, 32.0]


def test_small_floats_flush_in_global_memory_only(run: Any) -> None:
    cell, out = np.full(1, 1e-40, np.float32), np.zeros(1, np.float32)
    body = """
      .shared .align 4 .b8 s[4]; setp.ne.u32 %p1, %r0, 0; @%p1 ret;
      ld.global.f32 %f1, [%rd1]; st.shared.f32 [s], %f1; atom.shared.add.f32 %f2, [s], %f1; ld.shared.f32 %f3, [s];
      st.global.f32 [%rd2], %f3; red.global.add.f32 [%rd1], %f1; ret;
    """
    run(body, [cell, out])
    assert cell[0] == 0
    assert out[0] == np.float32(1e-40) + np.float32(1e-40)


# -- printing

PRINT = """
.extern .func (.param .b32 func_retval0) vprintf (.param .b64 a, .param .b64 b);
.extern .func __assertfail (.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, .param .b64 e) .noreturn;
.const .align 1 .b8 fmt[40] = {%s};
.const .align 1 .b8 name[4] = {97, 98, 99};
"""


def octets(text: str) -> str:
    return ", ".join(str(b) for b in text.encode() + b"\0")


def test_printf(run: Any) -> None:
    body = """
      .local .align 8 .b8 args[40]; setp.gt.u32 %p1, %r0, 1; @%p1 ret;
      st.local.u32 [args], %r0; st.local.b64 [args+8], 0dC000000000000000; mov.u64 %rd6, name; cvta.const.u64 %rd6, %rd6;
      st.local.b64 [args+16], %rd6; st.local.b64 [args+24], -5;
      mov.u64 %rd5, args; cvta.local.u64 %rd5, %rd5; mov.u64 %rd7, fmt; cvta.const.u64 %rd7, %rd7;
      { .param .b64 a; .param .b64 b; .param .b32 r; st.param.b64 [a], %rd7; st.param.b64 [b], %rd5;
        call.uni (r), vprintf, (a, b); ld.param.b32 %r1, [r]; }
      add.u64 %rd1, %rd1, %rd0; st.global.u32 [%rd1], %r1; ret;
    """
    out = np.zeros(2, np.uint32)
    result = run(body, [out], before=PRINT % octets("%3u|%.2f|%s|%lld%%\n"))
    assert result.printed == "  0|-2.00|abc|-5%\n  1|-2.00|abc|-5%\n"
    assert out.tolist() == [4, 4]


def test_a_failed_assertion_says_what_and_where(run: Any) -> None:
    body = """
      setp.ne.u32 %p1, %r0, 9; @%p1 ret; mov.u64 %rd5, fmt; cvta.const.u64 %rd5, %rd5;
      { .param .b64 a; .param .b64 b; .param .b32 c; .param .b64 d; .param .b64 e;
        st.param.b64 [a], %rd5; st.param.b64 [b], %rd5; st.param.b32 [c], 12; st.param.b64 [d], 0; st.param.b64 [e], 1;
        call.uni __assertfail, (a, b, c, d, e); }
      trap;
    """
    with pytest.raises(PtxCheckError, match=r"assert: x > 0 \(x > 0:12\).*thread 9"):
        run(body, [], before=PRINT % octets("x > 0"))
