"""PyTorch's own samples of its operators (OpInfo) run whole in joinery and give what eager PyTorch gives."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")  # which PyTorch's samples need

from ...conformance.torch_ops import report  # noqa: E402
from ...conformance.torch_ops.cases import cases, outcome  # noqa: E402

FEW = ("index_put", "scatter_add", "sort", "topk", "cummax", "nn.functional.avg_pool2d", "native_layer_norm", "where")
"""Entries of which some samples run each time."""
MANY = {"max_pool2d_with_indices_backward": 20}
"""Entries with thousands of samples, and of how many one is run."""


def assert_as_recorded(every: int, *entries: str) -> None:
    found = {}
    for case in cases(every, entries):
        result = outcome(case)
        found[case.name] = (case.op, result.kind, result.reason)
    assert found
    assert report.changes(report.kept(), found) == [], "make torch-ops"


def test_some_samples_pass_as_recorded() -> None:
    assert_as_recorded(50, *FEW)


@pytest.mark.slow
@pytest.mark.parametrize("entry", sorted(report.kept()["entries"]))
def test_samples_pass_as_recorded(entry: str) -> None:
    assert_as_recorded(MANY.get(entry, 1), entry)


def test_a_sample_that_torch_runs_has_not_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    from joinery.graph.aten.registry import HANDLERS

    monkeypatch.delitem(HANDLERS, "aten.sort.stable")
    found = [outcome(case) for case in cases(20, ("sort",)) if "stable" in case.options]
    assert {result.kind for result in found} == {"left"}


def test_a_wrong_result_has_not_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    from joinery.graph.aten.registry import HANDLERS

    monkeypatch.setitem(HANDLERS, "aten.scatter_add.default", lambda node, x, dim, index, src: x)
    kinds = {outcome(case).kind for case in cases(6, ("scatter_add",)) if case.dtype == "float32"}
    assert "differs" in kinds
