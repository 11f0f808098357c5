"""The page of a run of tests: what was proven, escaped, and nothing where nothing was."""

from __future__ import annotations

from pathlib import Path

from joinery.interface.triton.proving import Proven
from joinery.interface.triton.testing.reports.outcomes import Result
from joinery.interface.triton.testing.reports.page import write_page


def test_proofs_are_shown_with_what_they_are_about(tmp_path: Path) -> None:
    results = [Result("test_a.py::test", "passed", {"k<1>": 3}, "")]
    proofs = [
        Proven("1 2", "k<1>", "bounds proven, races unknown", "@k\n  extent of x: n <b>", 1, 0),
        Proven("3 4", "other", "not proven", "x and y share memory", 3, 2),
    ]
    write_page(str(tmp_path / "page.html"), "prove", results, [], proofs)
    page = (tmp_path / "page.html").read_text()
    assert "<summary><code>k&lt;1&gt;</code>: bounds proven, races unknown</summary>" in page
    assert "extent of x: n &lt;b&gt;" in page
    assert "<b>" not in page
    assert page.count("guessed from 3 launches") == page.count("says nothing of 2 launches") == 1
    assert page.index("id=findings") < page.index("id=proofs") < page.index("id=kernels")
    write_page(str(tmp_path / "page.html"), "native", results, [])
    assert "id=proofs" not in (tmp_path / "page.html").read_text()
