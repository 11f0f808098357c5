"""The pages on PyTorch's operators and models say what their records say."""

from __future__ import annotations

from types import SimpleNamespace

from .torch_models import report as models
from .torch_models import times
from .torch_ops import report as ops


def test_the_page_of_operators_says_what_its_record_says() -> None:
    assert ops.PAGE.read_text(encoding="utf-8") == ops.page(ops.kept()), "python -m tests.conformance.torch_ops --page"


def test_the_page_of_models_says_what_its_record_says() -> None:
    assert models.PAGE.read_text(encoding="utf-8") == models.page(models.kept(), times.section(times.last())), (
        "python -m tests.conformance.torch_models --page"
    )


def test_samples_of_core_operators_pass() -> None:
    good, count, every = ops.totals(ops.kept())["together"]
    assert every > 7000
    assert count == every
    assert good >= 0.98 * count


def test_all_but_a_few_models_are_whole() -> None:
    kept = models.kept()["models"]
    assert len(kept) >= 100
    untraced = {name for name, modes in kept.items() if "GuardOnData" in modes["export"].get("problem", "")}
    assert len(untraced) <= 4  # which torch.export itself refuses: they branch on data
    for mode in models.MODES:
        rest = {name for name, modes in kept.items() if models.is_counted(modes[mode]) and not models.is_whole(modes[mode])}
        rest -= untraced if mode == "export" else set()
        assert len(rest) <= 3, mode


def test_changes_of_operators_are_seen() -> None:
    kept = ops.record({"a float32 0": ("a", "passed", ""), "a float32 1": ("a", "left", "aten.b")}, {("a", "float32"): 4}, {})
    assert kept["entries"] == {"a": {"op": "a", "float32": [1, 2, 4]}}
    assert ops.totals(kept)["together"] == [1, 2, 4]
    assert ops.changes(kept, {"a float32 0": ("a", "passed", ""), "a float32 1": ("a", "left", "aten.b")}) == []
    found = {"a float32 0": ("a", "differs", "by 1"), "a float32 1": ("a", "passed", ""), "b bool 0": ("b", "left", "")}
    lines = ops.changes(kept, found)
    assert lines == ["a float32 0: differs: by 1", "a float32 1: passed now", "b bool 0: not in the record"]
    assert ops.failures(lines)
    assert not ops.failures(lines[1:2])


def test_changes_of_models_are_seen() -> None:
    whole = SimpleNamespace(nodes=3, compiled=3, graphs=1, left=(), problem="")
    part = SimpleNamespace(nodes=3, compiled=2, graphs=1, left=("aten.fft_fft.default",), problem="")
    none = SimpleNamespace(nodes=0, compiled=0, graphs=0, left=(), problem="for inference alone")
    kept = models.record({("a", "inference"): whole, ("a", "training"): none, ("a", "export"): part}, {"torch": "2"})
    assert models.changes(kept, {("a", "inference"): whole, ("a", "export"): whole}) == []
    assert models.changes(kept, {("a", "inference"): part}) == ["a inference: PyTorch runs aten.fft_fft.default"]
    assert models.changes(kept, {("b", "inference"): whole}) == ["b inference: not in the record"]
    text = models.page(kept)
    assert "| **whole** | 1 of 1 | 0 of 0 | 0 of 1 |" in text
    assert "| a | 100 % of 3 | – | 66.7 % of 3 |" in text
    assert "| a | export | aten.fft_fft.default |  |" in text


def test_times_are_those_of_the_record() -> None:
    ratios = {"joinery / eager": {"median": 0.256}, "joinery / inductor": {"median": 1.5}}
    case = {"name": "a", "timings": {"joinery": {"median_s": 0.012345}}, "ratios": ratios}
    content = {
        "processor": {"machine": "one", "cpu family": "7"},
        "date": "2026-11-27T01:02:03+00:00", "versions": {"torch": "2"}, "cases": [case, {**case, "name": "b"}],
        "first_calls": {"a": {"joinery": {"cold": [1, 2, 9], "warm": [0.5]}, "inductor": {"cold": [8.04], "warm": [3]}}},
    }  # fmt: skip
    lines = times.section(("one.json", content))
    assert "| a | 12.3 | 0.26 | 1.50 | 2.0 (0.5) | 8.0 (3.0) |" in lines
    assert "| b | 12.3 | 0.26 | 1.50 |  |  |" in lines
    assert times.section(None) == []
