"""benchmarks/compare.py, report.py and sweep.py: what changed beyond noise, and what pages say."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture(autouse=True, scope="module")
def _importable() -> Any:
    sys.path.insert(0, str(BENCHMARKS))
    yield
    sys.path.remove(str(BENCHMARKS))


def case(name: str, medians: dict[str, float], spread: float = 0.01, reason: str = "") -> dict[str, Any]:
    """Return a case of a result file with ratios of joinery to others."""
    ratios = {
        f"joinery / {peer}": {"median": value, "interval": [value * (1 - spread), value * (1 + spread)]}
        for peer, value in medians.items()
    }
    timings = {name: {"median_s": 1e-3} for name in ("joinery", *medians)}
    return {"name": name, "limit_reason": reason, "ratios": ratios, "timings": timings}


def result(*cases: dict[str, Any], **facts: Any) -> dict[str, Any]:
    return {"date": "2026-01-01T00:00:00+00:00", "threads": 2, "cases": list(cases), **facts}


@pytest.mark.parametrize(
    ("count", "first", "last"),
    [(1, 0, 0), (3, 0, 2), (6, 0, 5), (8, 0, 7), (9, 1, 7), (15, 3, 11), (20, 5, 14), (30, 9, 20)],
)
def test_intervals_of_medians_are_those_of_the_tables(count: int, first: int, last: int) -> None:
    import harness

    assert harness.median_interval([float(value) for value in range(count)]) == (first, last)


def test_intervals_hold_the_median_in_95_of_100_samples() -> None:
    import harness

    random = np.random.default_rng(1)
    hits = 0
    for _ in range(2000):
        low, high = harness.median_interval(list(random.exponential(size=15)))
        hits += low <= math.log(2) <= high
    assert 0.94 <= hits / 2000 <= 0.985


def test_only_changes_beyond_the_spread_are_reported(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    import compare

    old = result(
        case("a", {"numpy": 1.0}),
        case("b", {"numpy": 1.0}, 0.3),
        case("c", {"numpy": 0.5}),
        case("gone", {"numpy": 1.0}),
    )
    new = result(
        case("a", {"numpy": 1.2}), case("b", {"numpy": 1.2}, 0.3), case("c", {"numpy": 0.4}), threads=1
    )
    found = {each.case: each for each in compare.changes(old, new)}
    assert [found[name].significant for name in "abc"] == [True, False, True]
    assert found["c"].factor == pytest.approx(0.8)
    assert compare.differences(old, new) == ["threads: 2 -> 1"]
    for name, content in (("old", old), ("new", new)):
        (tmp_path / name).write_text(json.dumps(content))
    sys.argv = ["compare", str(tmp_path / "old"), str(tmp_path / "new")]
    compare.main()
    printed = capsys.readouterr().out
    assert "2 of 3 ratios changed by more than their spread" in printed
    assert "slower" in printed.splitlines()[1]


def test_differences_too_small_to_matter_are_no_change() -> None:
    import compare

    old, new = result(case("a", {"numpy": 1.0}, 0.001)), result(case("a", {"numpy": 1.01}, 0.001))
    assert not compare.changes(old, new)[0].significant


def test_files_without_intervals_are_compared_by_quartiles() -> None:
    import compare

    older = case("a", {"numpy": 1.0})
    older["ratios"]["joinery / numpy"] = {"median": 1.0, "quartiles": [0.5, 1.5]}
    assert not compare.changes(result(older), result(case("a", {"numpy": 1.2})))[0].significant


def test_pages_have_the_ratios_their_means_and_the_shares_of_the_limit(tmp_path: Path) -> None:
    import report
    from harness import LIMIT

    content = result(
        case("<a>", {"numpy": 0.5, "torch": 2.0, LIMIT: 1.25}, reason="64 MB"),
        case("b", {"numpy": 0.5}),
        processor={"model name": "P"},
    )
    assert report.means(content)["numpy"] == (pytest.approx(0.5), 2, [])
    assert report.means(content)["the best of them"] == (pytest.approx(1.0), 2, ["<a> 2.00"])
    source = tmp_path / "run.json"
    source.write_text(json.dumps(content))
    text, drawn = report.write(source, tmp_path / "pages")
    assert "| <a> | 64 MB | 80% |" in text.read_text()
    page = drawn.read_text()
    assert "&lt;a&gt; / torch" in page
    assert "<a> /" not in page
    assert report.position(1.0) == report.LEFT + report.WIDTH / 2
    assert report.position(1e9) == report.LEFT + report.WIDTH


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_cells_of_the_sweep_compute_what_numpy_does(dtype: str) -> None:
    import sweep

    names = (
        "permute (0, 3, 1, 2) of (None, 224, 224, 3)",
        "x.T + y",
        "gather rows of 64",
        "argmax axis 0 of (None, 64)",
        "interleave",
    )
    rows = [row for row in sweep.ROWS if row.name in names]
    assert len(rows) == len(names)
    for row in rows:
        arrays = sweep.arrays_of(row, dtype, 1 << 16)
        np.testing.assert_array_equal(
            sweep.compiled(row, arrays, 1)(), row.witness(*arrays), err_msg=row.name
        )


def test_the_heat_map_is_green_at_the_limit() -> None:
    import sweep

    page = sweep.page({("x & y", "float32"): 1.0, ("x & y", "uint8"): 0.2}, "map")
    assert "x &amp; y" in page
    assert "hsl(120" in page
    assert page.index("hsl(0 ") < page.index("hsl(120")  # uint8 comes first
