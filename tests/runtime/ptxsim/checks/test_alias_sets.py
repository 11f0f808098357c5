"""From which argument an address is computed: what leaves it is an error, wherever it lands, and what is legal stays legal."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from joinery.promotion.errors import UnsupportedError, UserError
from joinery.runtime.ptxsim import Module, PtxCheckError
from joinery.runtime.ptxsim.memory.spaces import GAP

LINES = '.loc 1 7 0\n{} .loc 1 9 0\n'
FILE = '\n.file 1 "kernel.py"\n'


def two() -> list[np.ndarray]:
    """Two arrays, whose addresses are in their order, as they lie in one piece of memory."""
    whole = np.arange(128, dtype=np.uint32)
    return [whole[:32], whole[64:96]]


DISTANCE = GAP + 256
"""From the first array's address to the second's."""

# What is done with the address of the first array, in %rd1, and the distance to the second one, in %rd9, to get %rd5.
DERIVED = {
    "sum": "add.s64 %rd5, %rd1, %rd9;",
    "sum the other way": "add.s64 %rd5, %rd9, %rd1;",
    "copy": "mov.b64 %rd6, %rd1; cvta.to.global.u64 %rd7, %rd6; add.s64 %rd5, %rd7, %rd9;",
    "difference": "neg.s64 %rd8, %rd9; sub.s64 %rd5, %rd1, %rd8;",
    "fused": "mov.u64 %rd6, 1; mad.lo.s64 %rd5, %rd9, %rd6, %rd1;",
    "choice": "setp.eq.u32 %p1, %r0, 99; add.s64 %rd6, %rd1, %rd9; selp.b64 %rd5, %rd1, %rd6, %p1;",
    "loop": "mov.b64 %rd5, %rd1; mov.u32 %r5, 0; LOOP: shr.u64 %rd6, %rd9, 1; add.s64 %rd5, %rd5, %rd6; "
            "add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, 2; @%p1 bra LOOP;",
    "packed number from memory": "mov.b64 {%r5, %r6}, %rd9; st.global.v2.b32 [%rd1], {%r5, %r6}; "
                                 "ld.global.v2.b32 {%r7, %r8}, [%rd1]; mov.b64 %rd6, {%r7, %r8}; add.s64 %rd5, %rd1, %rd6;",
    "difference of numbers from memory": "st.global.u64 [%rd1], %rd9; mov.b64 %rd6, 0; "
                                         "st.global.u64 [%rd1+8], %rd6; ld.global.u64 %rd6, [%rd1]; "
                                         "ld.global.u64 %rd7, [%rd1+8]; sub.s64 %rd6, %rd6, %rd7; add.s64 %rd5, %rd1, %rd6;",
    "number from memory": "st.global.u64 [%rd1], %rd9; ld.global.u64 %rd6, [%rd1]; add.s64 %rd5, %rd1, %rd6;",
}  # fmt: skip
ACCESSES = {
    "load": "ld.global.u32 %r2, [%rd5];", "generic load": "ld.u32 %r2, [%rd5];", "store": "st.global.u32 [%rd5], %r0;",
    "atomic": "atom.global.add.u32 %r2, [%rd5], 1;", "reduction": "red.global.add.u32 [%rd5], 1;",
    "copy": "mov.u32 %r9, tile; cp.async.ca.shared.global [%r9], [%rd5], 4; cp.async.wait_all;",
}  # fmt: skip


def launch(run: Any, body: str, arrays: list[Any], *numbers: int, **options: Any) -> None:
    before = ".shared .align 16 .b8 tile[64];"
    more = ", ".join(f".param .u64 d{i}" for i in range(len(numbers)))
    loads = "".join(f"ld.param.u64 %rd{9 + i}, [d{i}];" for i in range(len(numbers)))
    run(f"{before} {loads} {body} ret;", arrays, more=more, scalars=numbers, names=[*"xyzuvw"][: len(arrays) + len(numbers)],
        **options)  # fmt: skip


@pytest.mark.parametrize(
    ("derived", "access"), [*((name, "load") for name in DERIVED), *(("sum", name) for name in ACCESSES if name != "load")]
)
def test_what_is_computed_from_one_argument_is_not_in_another(run: Any, derived: str, access: str) -> None:
    body = f"{DERIVED[derived]} {ACCESSES[access]}"
    problem = rf"bounds: 4 bytes .* which is byte {DISTANCE} of argument 0 \(x\) with 128 bytes, {DISTANCE - 124} bytes beyond "
    with pytest.raises(PtxCheckError, match=problem + r"its end, in the memory of argument 1 \(y\)"):
        launch(run, body, two(), DISTANCE)
    launch(run, body, two(), 0)  # in the first one


# Ways to the second array that are legal, each with a launch in which the same leads outside of all memory.
LEGAL = {
    "address from memory": "st.global.u64 [%rd1], %rd2; ld.global.u64 %rd5, [%rd1]; add.s64 %rd5, %rd5, %rd9;",
    "difference": "sub.s64 %rd6, %rd2, %rd1; add.s64 %rd5, %rd1, %rd6; add.s64 %rd5, %rd5, %rd9;",
    "difference from memory": "sub.s64 %rd6, %rd2, %rd1; st.global.u64 [%rd1], %rd6; ld.global.u64 %rd7, [%rd1]; "
                              "add.s64 %rd5, %rd1, %rd7; add.s64 %rd5, %rd5, %rd9;",
    "difference in halves": "sub.s64 %rd6, %rd2, %rd1; mov.b64 {%r5, %r6}, %rd6; st.global.v2.b32 [%rd1], {%r5, %r6}; "
                            "ld.global.u64 %rd7, [%rd1]; add.s64 %rd5, %rd1, %rd7; add.s64 %rd5, %rd5, %rd9;",
    "low half of a difference": "sub.s64 %rd6, %rd2, %rd1; cvt.u32.u64 %r5, %rd6; shr.u64 %rd6, %rd6, 32; "
                                "cvt.u32.u64 %r6, %rd6; st.global.b32 [%rd1], %r5; st.global.b32 [%rd1+4], %r6; "
                                "ld.global.u64 %rd7, [%rd1]; add.s64 %rd5, %rd1, %rd7; add.s64 %rd5, %rd5, %rd9;",
    "difference of stored addresses": "st.global.u64 [%rd1], %rd1; st.global.u64 [%rd1+8], %rd2; ld.global.u64 %rd6, [%rd1]; "
                                      "ld.global.u64 %rd7, [%rd1+8]; sub.s64 %rd6, %rd7, %rd6; "
                                      "add.s64 %rd5, %rd1, %rd6; add.s64 %rd5, %rd5, %rd9;",
    "choice": "setp.eq.u32 %p1, %r0, 99; selp.b64 %rd5, %rd1, %rd2, %p1; add.s64 %rd5, %rd5, %rd9;",
    "join": "setp.eq.u32 %p1, %r0, 99; mov.b64 %rd5, %rd2; @%p1 mov.b64 %rd5, %rd1; add.s64 %rd5, %rd5, %rd9;",
    "halves": "mov.b64 {%r5, %r6}, %rd2; mov.b64 %rd5, {%r5, %r6}; add.s64 %rd5, %rd5, %rd9;",
    "through shared memory": "mov.u32 %r9, tile; st.shared.u64 [%r9], %rd2; bar.sync 0; ld.shared.u64 %rd5, [%r9]; "
                             "add.s64 %rd5, %rd5, %rd9;",
    "exclusive or": "xor.b64 %rd6, %rd1, %rd2; xor.b64 %rd5, %rd6, %rd1; add.s64 %rd5, %rd5, %rd9;",
}  # fmt: skip


@pytest.mark.parametrize("name", LEGAL)
def test_legal_ways_to_another_argument(run: Any, name: str) -> None:
    body = f"{LEGAL[name]} st.global.u32 [%rd5+4], 4711;"
    arrays = two()
    launch(run, body, arrays, 0)
    assert arrays[1][1] == 4711
    with pytest.raises(PtxCheckError, match=r"byte 128 of argument 1 .*with 128 bytes, 4 bytes beyond its end"):
        launch(run, body, two(), 124)


def test_functions_get_addresses(build: Any) -> None:
    before = """.func put(.param .b64 at) { .reg .b64 %q<4>; ld.param.b64 %q1, [at]; st.global.u32 [%q1+4], 4711; ret; }"""
    body = "{ .param .b64 a; st.param.b64 [a], %rd2; call.uni put, (a); } ret;"
    arrays = two()
    Module(build(body, before=before)).kernel().launch(1, None, arrays)
    assert arrays[1][1] == 4711


def test_tables_keep_their_addresses_and_may_end_anywhere(run: Any) -> None:
    first, second = two()
    table, out = [second, first, None], np.zeros(1, np.uint32)
    body = "ld.global.u64 %rd5, [%rd1+{}]; ld.global.u32 %r2, [%rd5+4]; st.global.u32 [%rd2], %r2; ret;"
    run(body.format(0), [table, out])
    assert out[0] == 65
    with pytest.raises(PtxCheckError, match=r"byte 24 of argument 0 with 24 bytes, 8 bytes beyond its end"):
        run(body.format(24), [table, out])
    with pytest.raises(PtxCheckError, match="global address 0x4, which is outside all buffers"):
        run(body.format(16), [table, out])


def test_differences_of_addresses_in_a_table(run: Any) -> None:
    first, second = two()
    table, out = [first, second], np.zeros(1, np.uint32)
    body = """ld.global.u64 %rd5, [%rd1]; ld.global.u64 %rd6, [%rd1+8]; sub.s64 %rd6, %rd6, %rd5; shr.s64 %rd6, %rd6, 2;
        shl.b64 %rd6, %rd6, 2; add.s64 %rd5, %rd2, %rd6; ld.global.u32 %r2, [%rd5+{}]; st.global.u32 [%rd3], %r2; ret;"""
    run(body.format(4), [table, first, out])
    assert out[0] == 65
    with pytest.raises(PtxCheckError, match=r"byte 128 of argument 0\[1\] with 128 bytes, 4 bytes beyond its end"):
        run(body.format(128), [table, first, out])
    far = "ld.global.u64 %rd6, [%rd3]; shl.b64 %rd7, %rd6, 2; add.s64 %rd5, %rd2, %rd7; ld.global.u32 %r2, [%rd5]; ret;"
    with pytest.raises(PtxCheckError, match=r"byte 16384 of argument 1 .* beyond its end \("):  # a number of 64 bits
        run(far, [table, first, np.array([1 << 12], np.int64)])


@pytest.mark.parametrize("index", [1 << 31, (1 << 32) - 1, -(1 << 31)])
@pytest.mark.parametrize("size", [1, 8, 16])
def test_no_index_of_32_bits_reaches_another_argument(run: Any, index: int, size: int) -> None:
    """Not even of an address of which nothing is known."""
    arrays = [np.zeros(64, np.uint64) for _ in range(9)]
    body = "add.s64 %rd20, %rd5, %rd10; xor.b64 %rd20, %rd20, 0; ld.global.u8 %r2, [%rd20];"
    more = {"more": ".param .u64 d", "scalars": [(index * size) & ((1 << 64) - 1)]}
    with pytest.raises(PtxCheckError, match=rf"byte {index * size} of argument \d with 512 bytes.*\(the nearest") as caught:
        run(f"ld.param.u64 %rd10, [d]; {body} ret;", arrays, **more)
    low, high = (4, 4) if abs(index * size) < GAP // 2 else (0, 8)
    assert low <= int(re.search(r"argument (\d)", str(caught.value))[1]) <= high


def test_empty_arrays_have_addresses_of_their_own(run: Any) -> None:
    empty = [np.zeros(0, np.uint32), np.zeros(0, np.uint32), np.zeros(1, np.uint32)]
    with pytest.raises(PtxCheckError, match=r"byte 0 of argument 1 with 0 bytes, 4 bytes beyond its end"):
        run("ld.global.u32 %r2, [%rd2]; ret;", empty)
    run("setp.eq.u64 %p1, %rd1, %rd2; @%p1 trap; ret;", empty)


# -- lines

LINED = {
    "bounds": ("ld.global.u32 %r1, [%rd1+4096];", 1),
    "read-only": ("st.global.u32 [%rd2], 1;", 1),
    "alignment": ("ld.global.u32 %r1, [%rd1+2];", 1),
    "trap": ("trap;", 1),
    "deadlock": ("LOOP: ld.volatile.global.u32 %r1, [%rd1]; setp.eq.u32 %p1, %r1, 0; @%p1 bra LOOP;", 1),
    "divergence": ("setp.eq.u32 %p1, %r0, 3; @%p1 bra END; shfl.sync.idx.b32 %r1, %r0, 0, 31, -1; END: bar.warp.sync -1;", 1),
    "uninitialised": ("st.global.u32 [%rd1], %r7;", 2),
    "budget": ("AGAIN: add.u32 %r1, %r1, 1; bra AGAIN;", 1),
}  # fmt: skip


@pytest.mark.parametrize("kind", LINED)
def test_every_kind_of_error_names_the_source_line(build: Any, kind: str) -> None:
    body, level = LINED[kind]
    fixed = np.zeros(32, np.uint32)
    fixed.flags.writeable = False
    text = build(LINES.format(f"{body}\n") + "ret;") + FILE
    with pytest.raises(PtxCheckError) as caught:
        Module(text).kernel().launch((1, 2), None, [np.zeros(32, np.uint32), fixed], level=level, budget=20_000)
    (finding, *_) = caught.value.findings
    assert (finding.kind, finding.source) == (kind, ("kernel.py", 7))
    assert caught.value.origin == "kernel.py:7"
    assert re.search(r"\(program \(0, [01], 0\)", str(caught.value))
    assert str(caught.value.findings[0]).endswith("[kernel.py:7]")


@pytest.mark.parametrize(
    ("body", "error"),
    [("frobnicate.u32 %r1, 1;", UnsupportedError), ("st.const.u32 [%rd1], %r1;", UserError), ("add.u32 %r1, %r0;", UserError)],
)
def test_instructions_that_are_refused_name_the_source_line(build: Any, body: str, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"(?s)^PTX line \d+: .*\n  at kernel.py:7$") as caught:
        Module(build(LINES.format(body) + "ret;") + FILE).kernel().launch(1, None, two())
    assert getattr(caught.value, "origin", None) == "kernel.py:7"


# -- limits of launches


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"grid": (1 << 31, 1, 1), "block": 32}, "2147483648 programs along x; a GPU takes 2147483647 at most; fix: put"),
        ({"grid": (1, 65536, 1), "block": 32}, "65536 programs along y; a GPU takes 65535 at most"),
        ({"grid": (1, 1, 65536), "block": 32}, "65536 programs along z; a GPU takes 65535 at most.*device='cpu' takes it"),
        ({"grid": 1, "block": (1025, 1, 1)}, "1025 threads in a block, at most 1024; fix: at most 32 warps"),
        ({"grid": 1, "block": (1, 1, 65)}, "65 threads along z, at most 64; fix: put the long axis on x"),
        ({"grid": 1, "block": 32, "shared": 232449}, "232449 bytes of shared memory, a block of sm_90a has at most 232448"),
    ],
)
def test_launches_have_the_limits_of_a_gpu(build: Any, options: dict[str, Any], problem: str) -> None:
    kernel = Module(build("ret;").replace(".reqntid 32", "")).kernel()
    with pytest.raises(UserError, match=problem):
        kernel.launch(args=two(), **options)
