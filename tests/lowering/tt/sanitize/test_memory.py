"""The sanitizer: bounds, alignment, promises, wrapped offsets; exactly what, where and which lane, and clean twins."""

from __future__ import annotations

import dataclasses
import time

import joinery as jn
import joinery.lowering.tt.sanitize.translation
import numpy as np
import pytest
from joinery.lowering.tt.interpret.evaluators import EVALUATORS
from joinery.lowering.tt.interpret.memory import AccessError

COPY = """
#file = loc("copy.py":1:1)
module {
  tt.func public @copy(%x: !tt.ptr<f32> PROMISE, %o: !tt.ptr<f32>, %n: i32 COUNT) {
    %c64 = arith.constant 64 : i32
    %pid = tt.get_program_id x : i32
    %start = arith.muli %pid, %c64 : i32
    %range = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>
    %first = tt.splat %start : i32 -> tensor<64xi32>
    %at = arith.addi %first, %range : tensor<64xi32>
    %limit = tt.splat %n : i32 -> tensor<64xi32>
    %mask = arith.cmpi slt, %at, %limit : tensor<64xi32>
    %px = tt.splat %x : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
    %ax = tt.addptr %px, %at : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
    %a = tt.load %ax, %mask : tensor<64x!tt.ptr<f32>> loc("copy.py":7:9)
    %po = tt.splat %o : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
    %ao = tt.addptr %po, %at : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
    tt.store %ao, %a, %mask : tensor<64x!tt.ptr<f32>> loc("copy.py":8:9)
    tt.return
  }
}
"""


def copy(promise: str = "", count: str = "") -> jn.kernel.Kernel:
    return jn.kernel.from_ttir(COPY.replace("PROMISE", promise).replace("COUNT", count))


def block(body: str, parameters: str = "%o: !tt.ptr<i32>", lanes: int = 8) -> jn.kernel.Kernel:
    """A kernel over `lanes` lanes: %r counts them, %p0 is the block of %o."""
    return jn.kernel.from_ttir(f"""
module {{
  tt.func public @f({parameters}) {{
    %pid = tt.get_program_id x : i32
    %r = tt.make_range {{end = {lanes} : i32, start = 0 : i32}} : tensor<{lanes}xi32>
    %p0 = tt.splat %o : !tt.ptr<i32> -> tensor<{lanes}x!tt.ptr<i32>>
    {body}
    tt.return
  }}
}}
""")


# Bounds


def test_a_store_behind_the_end_names_everything() -> None:
    x, o = np.arange(128, dtype=np.float32), np.zeros(100, np.float32)
    report = copy().sanitize((2,), x, o, 128)
    (found,) = report.findings
    assert found.kind == "out-of-bounds"
    assert found.program == (1, 0, 0)
    assert found.lane == (36,)
    assert found.line == "copy.py:8:9"
    assert found.operation.startswith("tt.store %ao, %a, %mask")
    assert found.address == "%o + 4 * 100 (array of 100 elements)"
    assert found.count == 28
    assert found.message == "writes outside the array: %o + 4 * 100 (array of 100 elements)"
    np.testing.assert_array_equal(o, x[:100])  # the lanes inside are carried out


def test_launch_raises_with_the_findings() -> None:
    kernel = copy()
    o = np.zeros(64, np.float32)
    with pytest.raises(
        jn.SanitizerError, match=r"@copy: the sanitizer has 1 finding\n.*%x \+ 4 \* 63 \(array of 63"
    ) as caught:
        kernel.launch((1,), np.ones(63, np.float32), o, 64, sanitize=True)
    assert isinstance(caught.value, jn.UserError)
    (found,) = caught.value.findings
    assert (found.line, found.lane, found.program) == ("copy.py:7:9", (63,), (0, 0, 0))
    assert o.tolist() == [1] * 63 + [0]  # a refused lane reads zero
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.count = 3
    assert kernel.launch((1,), np.ones(63, np.float32), o, 63, sanitize=True) is None


def test_what_only_the_mask_keeps_inside_is_a_note() -> None:
    report = copy().sanitize((2,), np.ones(100, np.float32), np.zeros(100, np.float32), 100)
    assert report.findings == ()
    load, store = report.masked_out_of_bounds
    assert (load.line, load.program, load.lane, load.count) == ("copy.py:7:9", (1, 0, 0), (36,), 28)
    assert store.address == "%o + 4 * 100 (array of 100 elements)"
    assert "only the mask keeps the access inside the array" in str(report)
    exact = copy().sanitize((2,), np.ones(128, np.float32), np.zeros(128, np.float32), 128)
    assert exact.masked_out_of_bounds == ()


def test_lanes_are_indices_of_the_block_and_programs_have_three_axes() -> None:
    text = """
module {
  tt.func public @f(%o: !tt.ptr<i8>) {
    %z = tt.get_program_id z : i32
    %r = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>
    %column = tt.expand_dims %r {axis = 0 : i32} : tensor<8xi32> -> tensor<1x8xi32>
    %row = tt.expand_dims %r {axis = 1 : i32} : tensor<8xi32> -> tensor<8x1xi32>
    %c10 = arith.constant dense<10> : tensor<8x1xi32>
    %ten = arith.muli %row, %c10 : tensor<8x1xi32>
    %a = tt.broadcast %ten : tensor<8x1xi32> -> tensor<8x8xi32>
    %b = tt.broadcast %column : tensor<1x8xi32> -> tensor<8x8xi32>
    %at = arith.addi %a, %b : tensor<8x8xi32>
    %c100 = arith.constant 100 : i32
    %low = arith.muli %z, %c100 : i32
    %start = tt.addptr %o, %low : !tt.ptr<i8>, i32
    %p0 = tt.splat %start : !tt.ptr<i8> -> tensor<8x8x!tt.ptr<i8>>
    %p = tt.addptr %p0, %at : tensor<8x8x!tt.ptr<i8>>, tensor<8x8xi32>
    %v = tt.load %p : tensor<8x8x!tt.ptr<i8>>
    tt.return
  }
}
"""
    (found,) = jn.kernel.from_ttir(text).sanitize((2, 1, 3), np.zeros(273, np.int8)).findings
    assert (found.program, found.lane, found.address) == (
        (0, 0, 2),
        (7, 3),
        "%o + 1 * 273 (array of 273 elements)",
    )
    assert found.count == 2 * 5  # two programs along x read the same
    assert found.line == "ttir:17"  # the text names no source: the line of Kernel.ttir
    assert jn.kernel.from_ttir(text).ttir.splitlines()[16].strip() == found.operation


def test_the_array_is_the_one_the_pointer_was_made_from() -> None:
    """An offset that happens to reach another array is still outside its own."""
    body = """
    %far = arith.constant 549755813888 : i64
    %one = tt.addptr %o, %far : !tt.ptr<i32>, i64
    %v = tt.load %one : !tt.ptr<i32>"""
    kernel = block(
        body, "%o: !tt.ptr<i32>, %y: !tt.ptr<i32>"
    )  # 2**41 bytes: where the interpreter keeps the next array
    kernel.interpret((1,), np.zeros(4, np.int32), np.zeros(4, np.int32))  # which is why it cannot tell
    (found,) = kernel.sanitize((1,), np.zeros(4, np.int32), np.zeros(4, np.int32)).findings
    assert found.address == "%o + 4 * 549755813888 (array of 4 elements)"


def test_a_distance_between_two_arrays_leads_from_one_to_the_other() -> None:
    """Numbers that become an address again have the array that lies there; an end, or a start, is where it is."""
    body = """
    %a = tt.ptr_to_int %o : !tt.ptr<i32> -> i64
    %b = tt.ptr_to_int %y : !tt.ptr<i32> -> i64
    %d = arith.subi %b, %a : i64
    %s = arith.addi %a, %d : i64
    %at = arith.addi %s, %n : i64
    %p = tt.int_to_ptr %at : i64 -> !tt.ptr<i32>
    %one = arith.constant 1 : i32
    tt.store %p, %one : !tt.ptr<i32>"""
    kernel = block(body, "%o: !tt.ptr<i32>, %y: !tt.ptr<i32>, %n: i64")
    o, y = np.zeros(4, np.int32), np.zeros(4, np.int32)
    assert kernel.sanitize((1,), o, y, 8).findings == ()
    assert (y.tolist(), o.tolist()) == ([0, 0, 1, 0], [0, 0, 0, 0])
    for distance, element in ((16, 4), (-4, -1)):
        (found,) = kernel.sanitize((1,), o, y, distance).findings
        assert (found.kind, found.address) == ("out-of-bounds", f"%y + 4 * {element} (array of 4 elements)")


def test_a_negative_element_and_a_chosen_pointer() -> None:
    body = """
    %two = arith.constant dense<2> : tensor<8xi32>
    %at = arith.subi %r, %two : tensor<8xi32>
    %four = arith.constant dense<4> : tensor<8xi32>
    %low = arith.cmpi slt, %r, %four : tensor<8xi32>
    %q0 = tt.splat %y : !tt.ptr<i32> -> tensor<8x!tt.ptr<i32>>
    %which = arith.select %low, %q0, %p0 : tensor<8xi1>, tensor<8x!tt.ptr<i32>>
    %p = tt.addptr %which, %at : tensor<8x!tt.ptr<i32>>, tensor<8xi32>
    %v = tt.load %p : tensor<8x!tt.ptr<i32>>"""
    kernel = block(body, "%o: !tt.ptr<i32>, %y: !tt.ptr<i32>")
    (found,) = kernel.sanitize((1,), np.zeros(6, np.int32), np.zeros(8, np.int32)).findings
    assert (found.lane, found.count, found.address) == ((0,), 2, "%y + 4 * -2 (array of 8 elements)")


@pytest.mark.parametrize(
    "access",
    [
        "%v = tt.atomic_rmw add, relaxed, gpu, %p, %r : (tensor<8x!tt.ptr<i32>>, tensor<8xi32>) -> tensor<8xi32>",
        "%v = tt.atomic_cas relaxed, gpu, %p, %r, %r : (tensor<8x!tt.ptr<i32>>, tensor<8xi32>, tensor<8xi32>) -> tensor<8xi32>",
        "tt.store %p, %r : tensor<8x!tt.ptr<i32>>",
        "%v = tt.load %p : tensor<8x!tt.ptr<i32>>",
    ],
)
def test_every_kind_of_access(access: str) -> None:
    kernel = block(f"%p = tt.addptr %p0, %r : tensor<8x!tt.ptr<i32>>, tensor<8xi32>\n{access}")
    (found,) = kernel.sanitize((1,), np.zeros(5, np.int32)).findings
    assert (found.kind, found.lane, found.count) == ("out-of-bounds", (5,), 3)
    assert found.address == "%o + 4 * 5 (array of 5 elements)"
    assert kernel.sanitize((1,), np.zeros(8, np.int32)).findings == ()


def test_an_index_outside_the_axis_of_a_gather() -> None:
    body = """
    %k = arith.constant dense<3> : tensor<8xi32>
    %i = arith.addi %r, %k : tensor<8xi32>
    %g = tt.gather %r[%i] {axis = 0 : i32} : (tensor<8xi32>, tensor<8xi32>) -> tensor<8xi32>
    %p = tt.addptr %p0, %r : tensor<8x!tt.ptr<i32>>, tensor<8xi32>
    tt.store %p, %g : tensor<8x!tt.ptr<i32>>"""
    (found,) = block(body).sanitize((1,), np.zeros(8, np.int32)).findings
    assert (found.lane, found.count) == ((5,), 3)
    assert found.message == "index 8 lies outside axis 0, which has 8 elements"


@pytest.mark.slow
def test_findings_are_merged_and_bounded() -> None:
    stores = "\n".join(
        f'tt.store %p, %r : tensor<8x!tt.ptr<i32>> loc("f.py":{line}:1)' for line in range(120)
    )
    kernel = block(f"%p = tt.addptr %p0, %r : tensor<8x!tt.ptr<i32>>, tensor<8xi32>\n{stores}")
    report = kernel.sanitize((3,), np.zeros(0, np.int32))
    assert len(report.findings) == 100
    assert {found.count for found in report.findings} == {24}
    assert report.dropped == 20 * 24
    with pytest.raises(jn.SanitizerError, match="has 100 findings") as caught:
        kernel.launch((3,), np.zeros(0, np.int32), sanitize=True)
    assert "and 90 more: see .findings" in str(caught.value)


# Alignment and promises

BYTES = """
    %bytes = tt.bitcast %o : !tt.ptr<i32> -> !tt.ptr<i8>
    %odd = tt.addptr %bytes, %k : !tt.ptr<i8>, i32
    %word = tt.bitcast %odd : !tt.ptr<i8> -> !tt.ptr<i32>
    tt.store %word, %k : !tt.ptr<i32>"""


def test_a_misaligned_access() -> None:
    kernel = block(BYTES, "%o: !tt.ptr<i32>, %k: i32")
    o = np.zeros(4, np.int32)
    (found,) = kernel.sanitize((1,), o, 6).findings
    assert (found.kind, found.address, found.lane) == ("misaligned", "%o + 6 (array of 16 bytes)", ())
    assert not o.any()
    assert kernel.sanitize((1,), o, 8).findings == ()
    assert o.tolist() == [0, 0, 8, 0]


def test_an_array_at_an_odd_place_is_misaligned() -> None:
    odd = np.zeros(33, np.uint8)[1:].view(np.int32)
    (found,) = block(BYTES, "%o: !tt.ptr<i32>, %k: i32").sanitize((1,), odd, 4).findings
    assert found.kind == "misaligned"


def test_promises_of_alignment() -> None:
    kernel = copy("{tt.divisibility = 16 : i32}", "{tt.divisibility = 16 : i32}")
    x, o = np.ones(65, np.float32), np.zeros(64, np.float32)
    assert kernel.sanitize((1,), x[:64], o, 64).findings == ()
    pointer, number = kernel.sanitize((1,), x[1:], o, 63).findings
    assert (pointer.kind, pointer.address, pointer.program) == ("divisibility", "%x", None)
    assert "aligned to 16 bytes; the array lies 4 bytes behind such an address" in pointer.message
    assert (number.kind, number.address) == ("divisibility", "%n")
    assert "%n is promised to be a multiple of 16, and is 63" in number.message
    assert pointer.operation.startswith("tt.func public @copy(")
    assert copy().sanitize((1,), x[1:], o, 63).findings == ()  # no promise


def test_writing_to_a_read_only_array() -> None:
    x, o = np.ones(64, np.float32), np.zeros(64, np.float32)
    x.flags.writeable = o.flags.writeable = False
    (found,) = copy().sanitize((1,), x, o, 64).findings
    assert (found.kind, found.count, found.line) == ("read-only", 64, "copy.py:8:9")


# Offsets that wrapped

WIDE = """
    %far = arith.muli %pid, %stride : i32 loc("rows.py":3:5)
    {cast}
    %p = tt.addptr %o, %{offset} : !tt.ptr<i32>, {type}
    {access}"""


def rows(cast: str = "", offset: str = "far", type_: str = "i32", access: str = "") -> jn.kernel.Kernel:
    access = access or '%v = tt.load %p : !tt.ptr<i32> loc("rows.py":4:5)'
    return block(
        WIDE.format(cast=cast, offset=offset, type=type_, access=access), "%o: !tt.ptr<i32>, %stride: i32"
    )


def test_an_offset_that_wrapped() -> None:
    kernel = rows()
    by_kind = {found.kind: found for found in kernel.sanitize((5,), np.zeros(4, np.int32), 1 << 30).findings}
    assert by_kind.keys() == {"overflow", "out-of-bounds"}
    assert by_kind["out-of-bounds"].program == (1, 0, 0)  # 2**30 is no wrap, but far outside
    found = by_kind["overflow"]
    assert (found.program, found.lane, found.line, found.origin) == (
        (2, 0, 0),
        (),
        "rows.py:4:5",
        "rows.py:3:5",
    )
    assert found.address == f"%o + 4 * {-(1 << 31)} (array of 4 elements)"
    assert found.count == 3  # programs 2, 3 and 4, whose offset 2**32 comes out as 0, inside the array
    assert "%far = arith.muli %pid, %stride : i32" in found.message
    assert "compute it in i64" in found.message


def test_a_wrap_that_lands_inside_is_found() -> None:
    kernel = rows("%c2 = arith.constant 2 : i32\n%back = arith.shli %far, %c2 : i32", "back")
    (found,) = kernel.sanitize((2,), np.zeros(4, np.int32), 1 << 30).findings
    assert (found.kind, found.program, found.origin) == ("overflow", (1, 0, 0), "ttir:8")
    assert found.address == "%o + 4 * 0 (array of 4 elements)"
    assert kernel.ttir.splitlines()[7].strip() == "%back = arith.shli %far, %c2 : i32"


def test_an_offset_that_is_extended_after_it_wrapped() -> None:
    kernel = rows("%long = arith.extsi %far : i32 to i64\n%sum = arith.addi %long, %long : i64", "sum", "i64")
    kinds = {found.kind: found for found in kernel.sanitize((5,), np.zeros(4, np.int32), 1 << 30).findings}
    assert kinds["overflow"].program == (2, 0, 0)
    assert kinds["overflow"].origin == "rows.py:3:5"


@pytest.mark.parametrize(
    ("cast", "offset", "type_"),
    [
        # A wrap that is undone: (far + far) - far, far = 2**30.
        (
            "%twice = arith.addi %far, %far : i32\n%back = arith.subi %twice, %far : i32\n%k = arith.subi %back, %far : i32",
            "k",
            "i32",
        ),
        # Bounded afterwards, as hashing does.
        (
            "%h = arith.muli %far, %far : i32\n%g = arith.addi %h, %stride : i32\n%k = arith.remui %g, %c3 : i32",
            "k",
            "i32",
        ),
        ("%h = arith.shli %far, %c3 : i32\n%k = arith.andi %h, %c3 : i32", "k", "i32"),
    ],
)
def test_wraps_that_do_no_harm(cast: str, offset: str, type_: str) -> None:
    kernel = rows(f"%c3 = arith.constant 3 : i32\n{cast}", offset, type_)
    assert kernel.sanitize((2,), np.zeros(4, np.int32), 1 << 30).findings == ()


def test_a_number_that_wrapped_only_as_a_signed_one() -> None:
    """2**31 as an unsigned i32 offset, made long: no bit is lost. Made long as a signed one, it is wrong."""
    cast = """
    %two31 = arith.constant 2147483648 : i64
    %sum = arith.addi %stride, %stride : i32
    %long = arith.extui %sum : i32 to i64
    %back = arith.subi %long, %two31 : i64"""
    assert rows(cast, "back", "i64").sanitize((1,), np.zeros(4, np.int32), 1 << 30).findings == ()
    found = (
        rows(cast.replace("extui", "extsi"), "back", "i64")
        .sanitize((1,), np.zeros(4, np.int32), 1 << 30)
        .findings
    )
    assert {each.kind for each in found} == {"overflow", "out-of-bounds"}


def test_masked_lanes_may_wrap() -> None:
    body = """
    %big = arith.constant dense<1073741824> : tensor<8xi32>
    %at = arith.muli %r, %big : tensor<8xi32>
    %zero = arith.constant dense<0> : tensor<8xi32>
    %mask = arith.cmpi eq, %r, %zero : tensor<8xi32>
    %p = tt.addptr %p0, %at : tensor<8x!tt.ptr<i32>>, tensor<8xi32>
    tt.store %p, %r, MASK : tensor<8x!tt.ptr<i32>>"""
    assert block(body.replace("MASK", "%mask")).sanitize((1,), np.zeros(4, np.int32)).findings == ()
    findings = block(body.replace(", MASK", "")).sanitize((1,), np.zeros(4, np.int32)).findings
    wrapped = next(found for found in findings if found.kind == "overflow")
    assert (wrapped.lane, wrapped.count) == ((2,), 6)


# Runs that end early, and arguments


def test_a_program_that_cannot_go_on_is_a_finding() -> None:
    body = """
    %zero = arith.constant 0 : i32
    scf.for %i = %zero to %k step %zero : i32 {
    }
    tt.store %o, %k : !tt.ptr<i32>"""
    o = np.zeros(1, np.int32)
    (found,) = block(body, "%o: !tt.ptr<i32>, %k: i32").sanitize((2,), o, 3).findings
    assert (found.kind, found.count) == ("error", 2)
    assert found.operation.startswith("scf.for")
    assert found.message == "scf.for with step 0; steps are positive"
    assert o[0] == 0


def test_arguments_are_checked_as_ever() -> None:
    kernel = copy()
    x = np.ones(64, np.float32)
    with pytest.raises(jn.UserError, match="takes 3 arguments, got 2"):
        kernel.sanitize((1,), x, x)
    with pytest.raises(jn.UserError, match="expected elements of 4"):
        kernel.launch((1,), x.astype(np.float64), x, 3, sanitize=True)
    assert kernel.sanitize((0,), x, x, 3).findings == ()


# Operations the sanitizer has no rule for


def test_accesses_without_a_rule_are_checked_by_their_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joinery.lowering.tt.sanitize.translation, "ACCESSES", {})
    x, o = np.arange(128, dtype=np.float32), np.zeros(100, np.float32)
    (found,) = copy().sanitize((2,), x, o, 128).findings
    assert (found.kind, found.program, found.lane, found.count) == ("out-of-bounds", (1, 0, 0), (36,), 28)
    assert (found.line, found.address) == ("copy.py:8:9", "%o + 4 * 100 (array of 100 elements)")
    np.testing.assert_array_equal(o, x[:100])
    assert copy().sanitize((2,), x[:100], o, 100).findings == ()  # masked lanes count as defined there: nothing is made up
    (race,) = block("tt.store %o, %pid : !tt.ptr<i32>").sanitize((3,), np.zeros(1, np.int32)).findings
    assert (race.kind, race.count) == ("race", 2)


def test_an_operation_that_refuses_ends_its_program(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AccessError("no")

    monkeypatch.setattr(joinery.lowering.tt.sanitize.translation, "ACCESSES", {})
    monkeypatch.setitem(EVALUATORS, "tt.store", lambda op, memory: refuse)
    (found,) = copy().sanitize((3,), np.zeros(64, np.float32), np.zeros(64, np.float32), 64).findings
    assert (found.kind, found.message, found.count, found.line) == ("out-of-bounds", "no", 3, "copy.py:8:9")


def test_a_wide_block_with_many_readers_is_no_matter_of_minutes() -> None:
    """Every element with readers of its own: 256 programs read overlapping pieces of one array, which the last one writes."""
    body = """
    %at = tt.addptr %p0, %r : tensor<4096x!tt.ptr<i32>>, tensor<4096xi32>
    %last = arith.constant 255 : i32
    %sixteen = arith.constant 16 : i32
    %first = arith.muli %pid, %sixteen : i32
    %low = tt.splat %first : i32 -> tensor<4096xi32>
    %mask = arith.cmpi sge, %r, %low : tensor<4096xi32>
    %v = tt.load %at, %mask : tensor<4096x!tt.ptr<i32>>
    %is = arith.cmpi eq, %pid, %last : i32
    scf.if %is {
      tt.store %at, %r : tensor<4096x!tt.ptr<i32>>
    }"""
    started = time.perf_counter()
    (found,) = block(body, lanes=4096).sanitize((256,), np.zeros(4096, np.int32)).findings
    assert time.perf_counter() - started < 5
    assert (found.program, found.count) == ((255, 0, 0), 4096)
    assert found.message.startswith("read-write race on %o + 4 * 0")
    assert found.other_program == (0, 0, 0)


@pytest.mark.parametrize("operation", ["tt.reduce", "tt.scan"])
@pytest.mark.parametrize("way", ["sanitize", "interpret"])
def test_a_combination_that_writes_memory_is_refused_by_name(operation: str, way: str) -> None:
    """How often it runs, and in which order, is free; it ended in an error of NumPy's."""
    result = "i32" if operation == "tt.reduce" else "tensor<8xi32>"
    more = "" if operation == "tt.reduce" else ", reverse = false"
    made = jn.kernel.from_ttir(f"""module {{
  tt.func private @note(%x: !tt.ptr<i32>, %s: i32) {{
    tt.store %x, %s : !tt.ptr<i32>
    tt.return
  }}
  tt.func public @k(%x: !tt.ptr<i32>) {{
    %l = tt.make_range {{end = 8 : i32, start = 0 : i32}} : tensor<8xi32>
    %r = "{operation}"(%l) <{{axis = 0 : i32{more}}}> ({{
    ^bb0(%a: i32, %b: i32):
      %s = arith.addi %a, %b : i32
      BODY
      {operation}.return %s : i32
    }}) : (tensor<8xi32>) -> {result}
    tt.return
  }}
}}""".replace("BODY", "tt.store %x, %s : !tt.ptr<i32>"))  # fmt: skip
    with pytest.raises(jn.UnsupportedError, match=f"{operation}: tt.store in its region"):
        getattr(made, way)(1, np.zeros(4, np.int32))
    called = jn.kernel.from_ttir(made.ttir.replace("      tt.store %x, %s : !tt.ptr<i32>", "      tt.call @note(%x, %s) : (!tt.ptr<i32>, i32) -> ()"))  # noqa: E501
    with pytest.raises(jn.UnsupportedError, match=f"{operation}: tt.store in its region"):
        getattr(called, way)(1, np.zeros(4, np.int32))
