"""A sample of ONNX's backend suite passes as recorded, and the page says what the record says."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("onnx")

from .onnx_suite import report
from .onnx_suite.backend import Evaluated, Joinery, Simulated
from .onnx_suite.cases import Outcome, cases, outcome, share, shortened

SAMPLE = 25
"""One case in so many."""


def results(backend: type[Joinery], parts: int) -> dict[tuple[str, str], Outcome]:
    """Of the cases that the record has: another version of onnx may have others."""
    kept = report.kept()["groups"]
    chosen = [case for case in share(cases(backend), parts) if case.name in kept[case.group] and case.group != "real"]
    assert len(chosen) > 1000 / parts
    return {(case.group, case.name): outcome(case, backend) for case in chosen}


@pytest.mark.slow
def test_a_sample_passes_as_recorded_with_the_evaluator() -> None:
    found = results(Evaluated, SAMPLE)
    assert report.changes(report.kept(), found) == [], "make conformance writes the record"


IN_ORDER = re.compile(r"(loop|scan|if|range|scatter|gather|top_k|cumsum|cumprod|onehot|lstm|gru|simple_rnn|sequence_map)")
"""Operators that are loops, branches, or in an order."""


@pytest.mark.slow
def test_a_third_passes_on_a_simulated_gpu() -> None:
    """With all that is a loop or in an order, but for operations of the host, and what fails everywhere."""
    failed, every = report.kept()["failed"], [case for case in cases(Simulated) if case.group != "real"]
    in_order = [case for case in every if case.group == "node" and IN_ORDER.match(case.name)]
    chosen = {(case.group, case.name): case for case in [*share(every, 3), *in_order]}
    passed, of_host = 0, 0
    for (_, name), case in chosen.items():
        reason = outcome(case, Simulated).reason
        assert not reason or "runs on the host" in reason or name in failed, f"{name}: {reason}"
        passed += not reason
        of_host += "runs on the host" in reason
    assert passed >= 0.9 * len(chosen), (passed, of_host, len(chosen))


@pytest.mark.slow
def test_a_sample_passes_as_recorded_compiled() -> None:
    assert report.changes(report.kept(), results(Joinery, 3)) == []


def test_the_page_says_what_the_record_says() -> None:
    assert report.PAGE.read_text(encoding="utf-8") == report.page(report.kept()), (
        "python -m tests.conformance.onnx_suite --page"
    )


def test_changes_are_seen() -> None:
    kept = report.kept()
    good = next(name for name in kept["groups"]["node"] if name not in kept["failed"])
    bad = next(name for name in kept["groups"]["node"] if name in kept["failed"])
    passed, failed = Outcome("Abs", 13, False, True, ""), Outcome("Abs", 13, False, True, "wrong")
    assert report.changes(kept, {("node", good): passed, ("node", bad): failed}) == []
    assert report.changes(kept, {("node", good): failed}) == [f"node {good}: wrong"]
    assert report.changes(kept, {("node", bad): passed, ("node", "new"): passed}) == [
        f"node {bad}: passes, and failed before", "node new: not in the record"
    ]  # fmt: skip


def test_reasons_leave_out_what_they_are_about() -> None:
    assert shortened("m: node 3 (Add 'a') on float32 (2,), int8 (x, 3): no\n  fix: this") == "no fix: this"
    assert shortened("m: opset 99 is unknown") == "opset 99 is unknown"


def test_the_suite_passes_but_for_what_is_known() -> None:
    """More than other runtimes pass; what is left are gradients, and what is named here."""
    kept = report.kept()
    passed = {group: sum(name not in kept["failed"] for name in inside) for group, inside in kept["groups"].items()}
    assert passed["node"] >= 1850
    assert [passed[group] for group in ("real", "pytorch-converted", "pytorch-operator")] == [9, 82, 35]
    # rounding of softmax at each step, noise of a transform in float32, a comparison that the runner cannot make, and random
    # numbers of NumPy's generators
    random = [f"bernoulli{each}{form}" for each in ("", "_double", "_seed") for form in ("", "_expanded")]
    random += [f"training_dropout{each}" for each in ("", "_default", "_default_mask", "_mask")]
    wrong = [name for name, reason in kept["failed"].items() if reason.startswith(("AssertionError", "InternalError", "Type"))]
    assert sorted(wrong) == sorted([
        "attention_4d_causal_fp16", "attention_4d_causal_fp16_expanded", "dft_inverse", "dft_inverse_opset19",
        "loop16_seq_none", *random,
    ])  # fmt: skip
