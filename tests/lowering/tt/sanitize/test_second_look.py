"""Of a large launch, the sanitizer looks at the programs that show what is wrong, and at all where nothing is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.interface.native import looks
from joinery.interface.native.looks import FEW_PROGRAMS
from joinery.lowering.tt.sanitize.findings import Report
from joinery.promotion.arrays import Array

PROGRAMS = 300
N = PROGRAMS * 16


def kernel(body: str) -> Any:
    return jn.kernel.from_ttir(f"""
    tt.func public @k(%x: !tt.ptr<f32>, %o: !tt.ptr<f32>, %n: i32) {{
      %p = tt.get_program_id x : i32
      %size = arith.constant 16 : i32
      %first = arith.muli %p, %size : i32
      %lanes = tt.make_range {{start = 0 : i32, end = 16 : i32}} : tensor<16xi32>
      %firsts = tt.splat %first : i32 -> tensor<16xi32>
      %i = arith.addi %firsts, %lanes : tensor<16xi32>
      %xs = tt.splat %x : !tt.ptr<f32> -> tensor<16x!tt.ptr<f32>>
      %os = tt.splat %o : !tt.ptr<f32> -> tensor<16x!tt.ptr<f32>>
      %ns = tt.splat %n : i32 -> tensor<16xi32>
      {body}
      tt.return
    }}""")


SHIFTED = """%j = arith.addi %i, %ns : tensor<16xi32>
      %q = tt.addptr %xs, %j : tensor<16x!tt.ptr<f32>>, tensor<16xi32>
      %v = tt.load %q : tensor<16x!tt.ptr<f32>>
      %r = tt.addptr %os, %i : tensor<16x!tt.ptr<f32>>, tensor<16xi32>
      tt.store %r, %v : tensor<16x!tt.ptr<f32>>"""
WRAPPED = """%j = arith.remsi %i, %ns : tensor<16xi32>
      %q = tt.addptr %xs, %i : tensor<16x!tt.ptr<f32>>, tensor<16xi32>
      %v = tt.load %q : tensor<16x!tt.ptr<f32>>
      %r = tt.addptr %os, %j : tensor<16x!tt.ptr<f32>>, tensor<16xi32>
      tt.store %r, %v : tensor<16x!tt.ptr<f32>>"""
ONTO_ITSELF = """%q = tt.addptr %xs, %i : tensor<16x!tt.ptr<f32>>, tensor<16xi32>
      %v = tt.load %q : tensor<16x!tt.ptr<f32>>
      %r = tt.addptr %os, %i : tensor<16x!tt.ptr<f32>>, tensor<16xi32>
      tt.store %r, %v : tensor<16x!tt.ptr<f32>>
      %s = tt.load %r : tensor<16x!tt.ptr<f32>>
      tt.store %r, %s : tensor<16x!tt.ptr<f32>>"""


def arrays() -> tuple[Array, Array]:
    return np.arange(N, dtype=np.float32), np.zeros(N, np.float32)


def kinds(report: Any) -> Sequence[tuple[str, Any]]:
    return [(each.kind, each.program) for each in report.findings]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("shift", "program"), [(-1, 0), (1, PROGRAMS - 1)])
def test_one_program_is_enough(shift: int, program: int) -> None:
    """The first finding of all programs is that of the part; its programs before have run."""
    x, o = arrays()
    part = kernel(SHIFTED).sanitize(PROGRAMS, x, o, shift, notes=False)
    whole = kernel(SHIFTED).sanitize(PROGRAMS, *arrays(), shift)
    assert kinds(part)[0] == kinds(whole)[0] == ("out-of-bounds", (program, 0, 0))
    assert part.looked_at == (FEW_PROGRAMS if program == 0 else 1)
    assert f"of {PROGRAMS} programs w" in str(part)
    assert (whole.looked_at, whole.part) == (PROGRAMS, "")
    if program:
        assert (o[: 16 * program] == x[1 : 16 * program + 1]).all()
    assert f"of {PROGRAMS} programs w" in str(jn.SanitizerError("k", part))


@pytest.mark.parametrize("behind", [10, 200])
def test_of_a_race_all_programs_up_to_it_are_looked_at(behind: int) -> None:
    report = kernel(WRAPPED).sanitize(PROGRAMS, *arrays(), behind * 16, notes=False)
    (finding,) = report.findings
    assert (finding.kind, finding.program, finding.other_program) == ("race", (behind, 0, 0), (0, 0, 0))
    assert report.looked_at == max(FEW_PROGRAMS, behind + 1)


def test_a_stop_without_a_finding_is_followed_by_all_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []

    def sanitized(**how: Any) -> Any:
        asked.append(how)
        return Report(())

    undone = []
    before = looks.Before(lambda _: looks.CLEAN, 100, [])
    monkeypatch.setattr(looks.Before, "undo", lambda _: undone.append(True))
    assert not looks.FirstLook(False, 100, before).second(sanitized).findings
    assert asked == [{"only": 100}, {"enough": 101}]
    assert undone == [True]


def test_small_launches_are_looked_at_as_a_whole() -> None:
    report = kernel(SHIFTED).sanitize(FEW_PROGRAMS, np.zeros(8, np.float32), np.zeros(N, np.float32), 0, notes=False)
    assert report.looked_at == report.programs == FEW_PROGRAMS
    assert report.findings[0].count == FEW_PROGRAMS * 16 - 8


def test_memory_that_programs_before_wrote_counts_as_written() -> None:
    """The unwritten rest is found where it is read, behind programs that ran natively; what they wrote is marked."""
    x, o = arrays()
    blank = np.ones(o.nbytes, np.bool_)
    part = kernel(SHIFTED).sanitize(PROGRAMS, o, x, 1, unwritten={o.ctypes.data: blank}, notes=False)
    assert kinds(part)[0][0] == "uninitialised"
    blank[: 4 * 16 * 250 + 4] = False
    part = kernel(SHIFTED).sanitize(PROGRAMS, o, x, 1, unwritten={o.ctypes.data: blank}, notes=False)
    assert kinds(part)[0] == ("uninitialised", (250, 0, 0))
    assert part.looked_at == 1
    clean = np.ones(x.nbytes, np.bool_)
    assert not kernel(ONTO_ITSELF).sanitize(PROGRAMS, *arrays(), 0, unwritten={1: clean}, notes=False).findings
