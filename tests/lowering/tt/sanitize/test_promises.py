"""The sanitizer on what texts promise of values that are loaded or computed. Native code stops at false ones."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest

TEXT = """module {{ tt.func public @f(%x: !tt.ptr<i32>, %o: !tt.ptr<{elem}>, %n: i32) {{
  %r = tt.make_range {{start = 0 : i32, end = 64 : i32}} : tensor<64xi32>
  %px = tt.splat %x : !tt.ptr<i32> -> tensor<64x!tt.ptr<i32>>
  %ax = tt.addptr %px, %r : tensor<64x!tt.ptr<i32>>, tensor<64xi32>
  %po = tt.splat %o : !tt.ptr<{elem}> -> tensor<64x!tt.ptr<{elem}>>
  %zero = arith.constant 0 : i32
  %ones = arith.constant dense<1> : tensor<64x{elem}>
  {body}
  tt.return }} }}"""


def findings(body: str, x: Any = None, n: int = 0, elem: str = "i32", o: Any = None) -> list[Any]:
    """What the sanitizer finds; the native check agrees on whether there is something."""
    kernel = jn.kernel.from_ttir(TEXT.format(body=body, elem=elem))
    assert kernel.sanitizer_obstacle is None
    x = np.arange(64, dtype=np.int32) if x is None else x
    o = np.zeros(128, {"i32": np.int32, "i8": np.int8, "i16": np.int16}[elem]) if o is None else o
    found = kernel.sanitize(1, x, o, n).findings
    if not kernel._first_look(1, (x, o, n), {}, False).is_clean:
        return list(found)
    assert found == ()
    return []


def load(hints: str, stored: bool = True) -> str:
    store = "%q = tt.addptr %po, %v : tensor<64x!tt.ptr<i32>>, tensor<64xi32>\ntt.store %q, %ones : tensor<64x!tt.ptr<i32>>"
    return f'%v = tt.load %ax {{{hints}}} : tensor<64x!tt.ptr<i32>> loc("f.py":7:3)\n{store if stored else ""}'


def consecutive(start: int = 0) -> Any:
    return np.arange(start, start + 64, dtype=np.int32)


def test_loaded_numbers_that_are_said_to_be_consecutive() -> None:
    hint = "tt.contiguity = dense<16> : tensor<1xi32>"
    assert findings(load(hint)) == []
    x = consecutive()
    x[40:] += 1
    (found,) = findings(load(hint), x)
    assert (found.kind, found.line, found.lane, found.program) == ("contiguity", "f.py:7:3", (40,), (0, 0, 0))
    assert "1 more than the one before, in groups of 16, and is 41" in found.message
    x = consecutive()
    x[48:] += 3  # between two groups
    assert findings(load(hint), x) == []


def test_loaded_numbers_that_are_said_to_be_multiples() -> None:
    hint = "tt.contiguity = dense<16> : tensor<1xi32>, tt.divisibility = dense<16> : tensor<1xi32>"
    assert findings(load(hint)) == []
    (found,) = findings(load(hint), consecutive(3))
    assert (found.kind, found.line, found.lane, found.count) == ("divisibility", "f.py:7:3", (0,), 4)
    assert "a multiple of 16, and is 3" in found.message
    alone = "tt.divisibility = dense<8> : tensor<1xi32>"
    assert findings(load(alone, False), consecutive() * 8) == []
    x = consecutive() * 8
    x[5] = 41
    (found,) = findings(load(alone, False), x)
    assert (found.kind, found.lane) == ("divisibility", (5,))


def test_numbers_that_are_said_to_be_the_same() -> None:
    hint = "tt.constancy = dense<4> : tensor<1xi32>"
    assert findings(load(hint, False), consecutive() // 4) == []
    x = consecutive() // 4
    x[7] = 9
    found = findings(load(hint, False), x)
    assert [(each.kind, each.lane) for each in found] == [("constancy", (7,))]


SCALAR = """%s = tt.load %x : !tt.ptr<i32>
  %v = arith.addi %s, %n {tt.divisibility = dense<16> : tensor<1xi32>} : i32 loc("f.py":3:1)
  %p = tt.addptr %o, %v : !tt.ptr<i32>, i32
  tt.store %p, %zero : !tt.ptr<i32>"""


def test_computed_scalars() -> None:
    assert findings(SCALAR, n=32) == []
    (found,) = findings(SCALAR, n=33)
    assert (found.kind, found.line) == ("divisibility", "f.py:3:1")
    assert "and is 33" in found.message


ADDRESS = """%p = tt.addptr %po, %r {tt.contiguity = dense<8> : tensor<1xi32>, tt.divisibility = dense<16> : tensor<1xi32>} :
    tensor<64x!tt.ptr<i32>>, tensor<64xi32>
  tt.store %p, %ones : tensor<64x!tt.ptr<i32>>"""


def test_addresses_are_those_of_the_arrays() -> None:
    memory = np.zeros(256, np.int32)
    first = -(memory.__array_interface__["data"][0] // 4) % 4
    assert findings(ADDRESS, o=memory[first : first + 64]) == []
    (found,) = findings(ADDRESS, o=memory[first + 1 : first + 65])
    assert found.kind == "divisibility"
    assert found.count == 8


ROWS = """%ns = tt.splat %n : i32 -> tensor<64xi32>
  %v = arith.remsi %r, %ns {{tt.contiguity = dense<64> : tensor<1xi32>, tt.divisibility = dense<64> : tensor<1xi32>}} :
    tensor<64xi32>
  %q = tt.addptr %po, %v : tensor<64x!tt.ptr<{elem}>>, tensor<64xi32>
  %w = tt.load %q : tensor<64x!tt.ptr<{elem}>>"""


@pytest.mark.parametrize(("elem", "n", "is_kept"), [("i32", 64, True), ("i32", 36, True), ("i16", 36, False), ("i16", 40, True),
                                                     ("i8", 40, False), ("i32", 37, False)])  # fmt: skip
def test_rows_that_begin_anew_between_two_wide_accesses(elem: str, n: int, is_kept: bool) -> None:
    found = jn.kernel.from_ttir(TEXT.format(body=ROWS.format(elem=elem), elem=elem)).sanitize(
        1, consecutive(), np.zeros(64, {"i32": np.int32, "i16": np.int16, "i8": np.int8}[elem]), n
    )
    assert [each.kind for each in found.findings] == ([] if is_kept else ["contiguity"])


# Rows modulo an extent, with the hints of a product's template, times a stride, beside 4 columns.
TILE = """module {{ tt.func public @f(%x: !tt.ptr<i16>, %o: !tt.ptr<i16>, %n: i32) {{
  %r = tt.make_range {{start = 0 : i32, end = 16 : i32}} : tensor<16xi32>
  %k = tt.make_range {{start = 0 : i32, end = 4 : i32}} : tensor<4xi32>
  %ns = tt.splat %n : i32 -> tensor<16xi32>
  %v = arith.remsi %r, %ns {{tt.contiguity = dense<16> : tensor<1xi32>, tt.divisibility = dense<16> : tensor<1xi32>}} :
    tensor<16xi32>
  %e = tt.expand_dims %v {{axis = {axis} : i32}} : tensor<16xi32> -> tensor<{column}xi32>
  %c = arith.constant dense<{stride}> : tensor<{column}xi32>
  %m = arith.muli %e, %c : tensor<{column}xi32>
  %bm = tt.broadcast %m : tensor<{column}xi32> -> tensor<{tile}xi32>
  %ek = tt.expand_dims %k {{axis = {other} : i32}} : tensor<4xi32> -> tensor<{row}xi32>
  %ck = arith.constant dense<{step}> : tensor<{row}xi32>
  %mk = arith.muli %ek, %ck : tensor<{row}xi32>
  %bk = tt.broadcast %mk : tensor<{row}xi32> -> tensor<{tile}xi32>
  %s = arith.addi %bm, %bk : tensor<{tile}xi32>
  %p = tt.splat %x : !tt.ptr<i16> -> tensor<{tile}x!tt.ptr<i16>>
  %a = tt.addptr %p, %s : tensor<{tile}x!tt.ptr<i16>>, tensor<{tile}xi32>
  %l = tt.load %a : tensor<{tile}x!tt.ptr<i16>>
  tt.return }} }}"""


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize(("n", "stride", "step", "is_kept"), [(15, 4, 1, True), (12, 4, 1, True), (15, 1, 16, False),
                                                               (8, 1, 16, True), (16, 1, 16, True)])  # fmt: skip
def test_rows_that_lie_apart_in_memory(is_first: bool, n: int, stride: int, step: int, is_kept: bool) -> None:
    """What begins anew along an axis of stride 4 decides no access's width; of stride 1 it would be read past its end."""
    shapes = {"axis": 1, "other": 0, "column": "16x1", "row": "1x4", "tile": "16x4"}
    if not is_first:
        shapes = {"axis": 0, "other": 1, "column": "1x16", "row": "4x1", "tile": "4x16"}
    kernel = jn.kernel.from_ttir(TILE.format(stride=stride, step=step, **shapes))
    x, o = np.zeros(64, np.int16), np.zeros(1, np.int16)
    found = kernel.sanitize(1, x, o, n).findings
    assert [each.kind for each in found] == ([] if is_kept else ["contiguity"])
    if stride > 1:
        assert kernel._first_look(1, (x, o, n), {}, False).is_clean


ODD = """%ns = tt.splat %n : i32 -> tensor<64xi32>
  %v = arith.remsi %r, %ns {{tt.contiguity = dense<64> : tensor<1xi32>, tt.divisibility = dense<64> : tensor<1xi32>}} :
    tensor<64xi32>
  %row = arith.muli {row} : i32
  %rows = tt.splat %row : i32 -> tensor<64xi32>
  %at = arith.addi %rows, %v : tensor<64xi32>
  %q = tt.addptr %po, %at : tensor<64x!tt.ptr<i16>>, tensor<64xi32>
  %w = tt.load %q : tensor<64x!tt.ptr<i16>>"""


@pytest.mark.parametrize(("row", "n", "is_kept"), [("%zero, %n", 36, False), ("%n, %n", 36, True), ("%n, %four", 36, True),
                                                   ("%n, %four", 34, False), ("%n, %eight", 36, False)])  # fmt: skip
def test_rows_of_a_length_that_lets_no_access_be_wide(row: str, n: int, is_kept: bool) -> None:
    """An access is as wide as its address is known to be aligned, and rows may begin anew between two of them."""
    constants = "".join(f"%{name} = arith.constant {number} : i32\n" for name, number in (("four", 4), ("eight", 8)))
    kernel = jn.kernel.from_ttir(TEXT.format(body=constants + ODD.format(row=row), elem="i16"))
    found = kernel.sanitize(1, consecutive(), np.zeros(36 * 36 + 64, np.int16), n).findings
    assert [each.kind for each in found] == ([] if is_kept else ["contiguity"])


BESIDE = """%ns = tt.splat %n : i32 -> tensor<64xi32>
  %v = arith.remsi %r, %ns {{tt.contiguity = dense<64> : tensor<1xi32>, tt.divisibility = dense<64> : tensor<1xi32>}} :
    tensor<64xi32>
  %eight = arith.constant dense<8> : tensor<64xi32>
  {body}"""
MASKED = """%c = arith.cmpi slt, %v, %eight : tensor<64xi32>
  %at = {at}
  %q = tt.addptr %po, %at : tensor<64x!tt.ptr<i32>>, tensor<64xi32>
  %w = tt.load %q, %c, %ones : tensor<64x!tt.ptr<i32>>"""
QUOTIENT = """%d = arith.divsi %v, %eight : tensor<64xi32>
  %at = {at}
  %s = arith.addi %d, %at : tensor<64xi32>
  %q = tt.addptr %po, %s : tensor<64x!tt.ptr<i32>>, tensor<64xi32>
  %w = tt.load %q : tensor<64x!tt.ptr<i32>>"""
EVEN = "arith.muli %r, %eight : tensor<64xi32>"
NEXT = "arith.addi %r, %eight : tensor<64xi32>"


@pytest.mark.parametrize("body", [MASKED, QUOTIENT])
@pytest.mark.parametrize(("at", "is_kept"), [(EVEN, True), (NEXT, False)])
def test_what_is_the_same_for_a_while_because_of_a_promise(body: str, at: str, is_kept: bool) -> None:
    """A mask or a quotient decides how wide an access is whose addresses are consecutive for another reason."""
    text = TEXT.format(body=BESIDE.format(body=body.format(at=at)), elem="i32")
    found = jn.kernel.from_ttir(text).sanitize(1, consecutive(), np.zeros(576, np.int32), 37).findings
    assert [each.kind for each in found] == ([] if is_kept else ["contiguity"])


ASSUMED = """%s = tt.load %x : !tt.ptr<i32>
  %c = arith.cmpi sgt, %s, %n : i32
  llvm.intr.assume %c : i1 loc("f.py":4:2)
  tt.store %o, %s : !tt.ptr<i32>"""


def test_assumptions() -> None:
    assert findings(ASSUMED, n=-1) == []
    (found,) = findings(ASSUMED, n=5)
    assert (found.kind, found.line) == ("assumption", "f.py:4:2")
    assert "%s = 0, %n = 5" in found.message
    undefined = ASSUMED.replace("%s = tt.load %x", "%m = arith.cmpi slt, %n, %zero : i32\n%s = tt.load %x, %m")
    found = findings(undefined, n=1)
    assert {each.kind for each in found} == {"uninitialised"}
    assert "the assumption is undefined" in found[0].message


WIDENED = """%l = tt.load %x : !tt.ptr<i32>
  %most = arith.constant 2147483647 : i32
  %s = arith.andi %l, %most : i32
  %hundred = arith.constant 100 : i32
  %c = arith.cmpi slt, %s, %hundred : i32
  {claim}
  %ss = tt.splat %s : i32 -> tensor<64xi32>
  %at = arith.addi %ss, %r{flag} : tensor<64xi32>
  %w = arith.extsi %at : tensor<64xi32> to tensor<64xi64>
  %p = tt.addptr %po, %r : tensor<64x!tt.ptr<i64>>, tensor<64xi32>
  tt.store %p, %w : tensor<64x!tt.ptr<i64>>"""


@pytest.mark.parametrize(("claim", "flag"), [("llvm.intr.assume %c : i1", ""), ("", " overflow<nsw>")])
def test_native_code_relies_on_no_claim(claim: str, flag: str) -> None:
    """Sums of 32 bits wrap, and are widened then, whatever the text says."""
    body = WIDENED.format(claim=claim, flag=flag)
    kernel = jn.kernel.from_ttir(TEXT.format(body=body, elem="i64"))
    x = np.full(64, (1 << 31) - 10, np.int32)
    expected, o = np.zeros(64, np.int64), np.zeros(64, np.int64)
    kernel.interpret(1, x, expected, 100)
    assert expected.min() < 0 < expected.max()
    kernel.launch(1, x, o, 100)
    np.testing.assert_array_equal(o, expected)
