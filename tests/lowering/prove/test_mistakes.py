"""Specifications that are mistyped, or that no launch could satisfy, are refused with what was meant."""

from __future__ import annotations

import time

import joinery as jn
import pytest

pytest.importorskip("z3")

_PARAMETERS = "%x: !tt.ptr<i32>, %n_cols: i32, %n: i32, %lda: i32"


def kernel(parameters: str = _PARAMETERS) -> jn.kernel.Kernel:
    return jn.kernel.from_ttir(f"""tt.func public @k({parameters}) {{
      %c1 = arith.constant 1 : i32
      %p = tt.get_program_id x : i32
      %a = tt.addptr %x, %p : !tt.ptr<i32>, i32
      tt.store %a, %c1 : !tt.ptr<i32>
      tt.return
    }}""")


@pytest.mark.parametrize(
    ("assume", "extent", "grid", "near"),
    [
        (["nn >= 1"], "n", "n", "n"), (["n_col >= 1"], "n", "n", "n_cols"), (["n_clos >= 1"], "n", "n", "n_cols"),
        (["ncols >= 1"], "n", "n", "n_cols"), (["N >= 1"], "n", "n", "n"), (["1 <= lad <= 3000"], "n", "n", "lda"),
        (["1 <= ldd <= 3000"], "n", "n", "lda"), ([], "nn", "n", "n"), ([], "n", "cdiv(n_colss, 4)", "n_cols"),
        (["n_columns == 10"], "n", "n", "n_cols"), (["sorted_n >= 1 and n >= 1"], "n", "n", "n"),
        (["n == 3 or columns == 3"], "n", "n", "n_cols"),
    ],
)  # fmt: skip
def test_a_name_that_is_no_number_is_refused_with_the_nearest_one(
    assume: list[str], extent: str, grid: str, near: str
) -> None:
    """Each was taken for a new number, of which the assumption said something that had no part in the proof."""
    with pytest.raises(jn.UserError, match=f"is no number of the kernel's.*fix: '{near}', or 'number"):
        kernel().prove(assume, {"x": extent}, grid, ("bounds",))


@pytest.mark.parametrize(
    ("assume", "extent", "grid"),
    [
        ([], "rows", "rows"), (["rows >= 5"], "rows", "rows"), (["n == 4 * rows"], "n", "n"),
        (["n == k * rows", "k >= 1"], "n", "n"), (["number(nn)", "nn >= 1"], "nn", "nn"), (["grid_x >= 3"], "grid_x", None),
        (["number(m) and m >= 2 and n * m >= 1"], "n", "n"), (["m == 3", "n == 2 * m"], "n", "n"), (["m >= n"], "m", "n"),
    ],
)  # fmt: skip
def test_new_names_are_numbers_that_launches_have_or_that_are_declared(
    assume: list[str], extent: str, grid: str | None
) -> None:
    assert kernel().prove(assume, {"x": extent}, grid, ("bounds",)).ok


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("parameters", "assume", "extent"), [
    (("B", "H"), ["BH == B*H"], "BH"), (("B", "H"), ["B*H == BH and B >= 1"], "BH"), (("B", "H"), ["BH == B*H"], "B"),
    (("xnumel",), ["rnumel == 4*xnumel"], "rnumel"), (("xnumel",), ["rnumel == 4*xnumel"], "xnumel"),
    (("N",), ["N2 == 2*N"], "N2"), (("M",), ["M_pad == cdiv(M, 16) * 16"], "M_pad"), (("n",), ["n1 == n + 1"], "n1"),
    (("n", "m"), ["nm == n*m"], "nm"), (("stride_x",), ["stride_y == 2 * stride_x"], "stride_y"),
    (("K", "V"), ["KV == K + V", "V >= KV - K"], "K"), (("D",), ["D2 == D // 2"], "D2"),
    (("B", "H", "S"), ["BH == B*H", "BHS == BH*S"], "BHS"), (("B", "H", "S"), ["BHS == BH*S", "BH == B*H"], "BHS"),
    (("n_rows",), ["nrows == n_rows"], "nrows"), (("n_cols", "n"), ["n_col == 4 * n"], "n_col"),
    (("lda", "K"), ["ldb == 4 * K", "lda >= ldb"], "K"), (("n",), ["number(k)", "n1 == k * n"], "n1"),
])  # fmt: skip
def test_a_name_that_an_equation_defines_is_meant(parameters: tuple[str, ...], assume: list[str], extent: str) -> None:
    """All were refused as slips of a parameter, from which they differ by a letter."""
    made = kernel(", ".join(["%x: !tt.ptr<i32>", *[f"%{name}: i32" for name in parameters]]))
    assert made.prove(assume, {"x": extent}, extent, ("bounds",)).ok


@pytest.mark.parametrize(("parameters", "assume", "extent", "slip", "near"), [
    (("n_cols", "n"), ["n_clos == 128"], "n", "n_clos", "n_cols"),
    (("n_cols", "n"), ["n_col <= 2 * n"], "n", "n_col", "n_cols"),
    (("lda", "K"), ["ldda == 4 * K"], "K", "ldda", "lda"), (("lda", "K"), ["ldda == K and ldda >= 5"], "K", "ldda", "lda"),
    (("lda", "K"), ["ldda == 4 * K or K == 1"], "K", "ldda", "lda"),
    (("stride_x", "n"), ["strid_x == n"], "n", "strid_x", "stride_x"),
    (("B", "H"), ["BH <= B*H"], "B", "BH", "B"), (("B", "H"), ["BH + 1 == B*H"], "B", "BH", "B"),
    (("B", "H"), ["BH == B*rows"], "BH", "BH", "B"), (("B", "H"), ["BH == BH*H"], "BH", "BH", "B"),
    (("B", "H"), ["BH == 64"], "BH", "BH", "B"), (("B", "H"), ["BH != B*H"], "BH", "BH", "B"),
    (("B", "H"), ["BH == BS*H", "BS == BH*H"], "BH", "BH", "B"),
    (("xnumel",), ["rnumel >= 4 * xnumel"], "rnumel", "rnumel", "xnumel"),
    (("n", "m"), ["idx[:] == nm"], "n", "nm", "n"),
])  # fmt: skip
def test_a_slip_in_what_defines_nothing_is_refused(
    parameters: tuple[str, ...], assume: list[str], extent: str, slip: str, near: str
) -> None:
    """An equation with numbers alone, one of which nothing is used, an inequality, an alternative, a circle."""
    made = kernel(", ".join(["%x: !tt.ptr<i32>, %idx: !tt.ptr<i32>", *[f"%{name}: i32" for name in parameters]]))
    with pytest.raises(jn.UserError, match=f"'{slip}' is no number of the kernel's, and nearly '{near}'; fix: '{near}', or"):
        made.prove(assume, {"x": extent}, extent, ("bounds",))


@pytest.mark.parametrize("assume", ["number(n)", "number(n) and n >= 1", "number(n) or n >= 1", "n >= 1 and number(n_cols)"])
def test_a_parameter_is_not_declared(assume: str) -> None:
    """It was taken for the parameter, of which the declaration says nothing."""
    with pytest.raises(jn.UserError, match=r"number\((n|n_cols)\) declares a new number, and '\1' is one of the kernel's"):
        kernel().prove([assume], {"x": "n"}, "n")


@pytest.mark.parametrize("name", ["num_warps", "num_stages", "num_ctas"])
def test_how_a_kernel_is_compiled_is_not_declared(name: str) -> None:
    with pytest.raises(jn.UserError, match=f"{name} is how a kernel is compiled, which no proof depends on"):
        kernel().prove([f"number({name})", f"{name} == 4"], {"x": "n"}, "n")
    with pytest.raises(jn.UserError, match=f"number\\({name}\\) declares a new number"):
        kernel(f"%x: !tt.ptr<i32>, %{name}: i32").prove([f"number({name})"], {"x": name}, name)


def test_a_declaration_says_nothing_of_the_number() -> None:
    """It is a number of any sign, and no part of an alternative that would make that true."""
    assert not kernel().prove(["number(m)"], {"x": "n"}, "n + m", ("bounds",)).ok
    assert not kernel().prove(["number(m)", "number(m) or m <= 0"], {"x": "n"}, "n + m", ("bounds",)).ok
    with pytest.raises(jn.UserError, match="no number of the kernel's"):
        kernel().prove(["number(m) or n >= 1", "m >= 1"], {"x": "n"}, "n", ("bounds",))


def test_a_parameter_may_be_called_number() -> None:
    made = kernel("%x: !tt.ptr<i32>, %number: i32")
    assert made.prove(["number >= 1"], {"x": "number"}, "number", ("bounds",)).ok


def test_a_name_of_the_grid_is_none_where_the_grid_is_given() -> None:
    with pytest.raises(jn.UserError, match="'grid_x' is no number of the kernel's"):
        kernel().prove(["grid_x >= 2"], {"x": "n"}, "n")


@pytest.mark.parametrize("name", ["num_warps", "num_stages", "num_ctas"])
def test_how_a_kernel_is_compiled_is_no_size(name: str) -> None:
    for arguments in (([f"{name} <= 0"], {"x": "n"}, "n"), ([], {"x": name}, "n"), ([], {"x": "n"}, name)):
        with pytest.raises(jn.UserError, match=f"{name} is how a kernel is compiled, which no proof depends on"):
            kernel().prove(*arguments)
    own = kernel(f"%x: !tt.ptr<i32>, %{name}: i32")  # a parameter of the kernel's is one
    assert own.prove((), {"x": name}, name, ("bounds",)).ok


def test_an_array_that_there_is_not_is_refused_with_the_nearest_one() -> None:
    for arguments in (([], {"xx": "n"}, "n"), (["0 <= xx[:] < n"], {}, "n")):
        with pytest.raises(jn.UserError, match="no array 'xx'; arrays: x; fix: 'x'"):
            kernel().prove(*arguments)


_TABLE = """tt.func public @k(%tab: !tt.ptr<i64>, %lens: !tt.ptr<i64>, %o: !tt.ptr<i64>, %n: i32) {
  %p = tt.get_program_id x : i32
  %ta = tt.addptr %tab, %p : !tt.ptr<i64>, i32
  %t = tt.load %ta : !tt.ptr<i64>
  %la = tt.addptr %lens, %p : !tt.ptr<i64>, i32
  %l = tt.load %la : !tt.ptr<i64>
  %c1 = arith.constant 1 : i64
  %last = arith.subi %l, %c1 : i64
  %q = tt.int_to_ptr %t : i64 -> !tt.ptr<i64>
  %qa = tt.addptr %q, %last : !tt.ptr<i64>, i64
  %some = arith.cmpi sge, %last, %c1 : i64
  %v = tt.load %qa, %some : !tt.ptr<i64>
  %oa = tt.addptr %o, %p : !tt.ptr<i64>, i32
  tt.store %oa, %v : !tt.ptr<i64>
  tt.return
}"""


@pytest.mark.parametrize(
    ("assume", "message"),
    [
        (["points(tab[:], 4 * lens[:])", "lens[:] == 2**62"], "no array has so many bytes"),
        (["points(tab[:], 8 * lens[:])", "lens[:] >= 2**61"], "no array has so many bytes"),
        (["points(tab[:], 2**40 * lens[:])", "2**23 <= lens[:] < 2**62"], "no array has so many bytes"),
        (["points(tab[:], 4 * lens[:])", "lens[:] == 2**64"], "no number of 64 bits"),
        (["points(tab[:], 4 * lens[:])", "lens[:] >= 3 and lens[:] <= 2"], "no number of 64 bits"),
    ],
)
def test_arrays_of_more_bytes_than_there_are_are_refused(assume: list[str], message: str) -> None:
    """Everything of their elements was said to be never executed, and so proven."""
    began = time.process_time()
    with pytest.raises(jn.UserError, match=message):
        jn.kernel.from_ttir(_TABLE).prove(assume, {"tab": "n", "lens": "n", "o": "n"}, "n")
    assert time.process_time() - began < 10


def test_arrays_that_may_have_as_many_bytes_as_there_are_are_not_refused() -> None:
    """Some of these lengths are of arrays, and others of none; negative ones are of arrays without bytes."""
    for bound, verdict in (("lens[:] <= 2**62", "unknown"), ("lens[:] == -1", "proven"), ("lens[:] == 2**59", "proven")):
        proof = jn.kernel.from_ttir(_TABLE).prove(
            ["points(tab[:], 8 * lens[:])", bound], {"tab": "n", "lens": "n", "o": "n"}, "n", ("bounds",)
        )
        assert proof.verdict("bounds") == verdict, proof


def test_launches_that_do_nothing_are_no_proof() -> None:
    """A grid without programs executes no access; one access that is executed is enough."""
    kernel = jn.kernel.from_ttir("""tt.func public @k(%x: !tt.ptr<i32>, %n: i32) {
  %p = tt.get_program_id x : i32
  %in = arith.cmpi slt, %p, %n : i32
  %a = tt.addptr %x, %p : !tt.ptr<i32>, i32
  tt.store %a, %p, %in : !tt.ptr<i32>
  tt.return
}
""")
    for assume, grid in ((["n >= 0"], "0"), (["n >= 0"], "n - n"), (["n <= 0"], "grid_x")):
        proof = kernel.prove(assume, {"x": "max(n, 0)"}, grid, ("bounds",))
        assert {each.verdict for each in proof.accesses} == {"never executed"}
        assert proof.is_empty
        assert not proof.ok
        assert "no launch that this allows executes an access" in str(proof)
        assert "executes an access" in proof.as_html()
        every = kernel.prove(assume, {"x": "max(n, 0)"}, grid)
        assert every.is_empty
        assert not every.ok
        assert '"empty": true' in every.as_json()
    proof = kernel.prove(["n >= 0"], {"x": "n"}, "grid_x", ("bounds",))
    assert proof.ok
    assert not proof.is_empty
    assert "executes an access" not in str(proof)


def test_a_constant_of_the_source_is_declared() -> None:
    assert kernel().prove(["number(BLOCK)", "BLOCK == 128", "n >= BLOCK"], {"x": "n"}, "n", ("bounds",)).ok
