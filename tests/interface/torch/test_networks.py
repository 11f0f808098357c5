"""Networks of many kinds run in joinery as the record of models says: compiled, trained by one step, and exported."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from ...conformance.torch_models import report
from ...conformance.torch_models.cases import outcome
from ...support.torch_networks import NETWORKS


def assert_as_recorded(name: str, mode: str) -> None:
    assert report.changes(report.kept(), {(name, mode): outcome(name, mode)}) == [], "make torch-models"


@pytest.mark.parametrize(("name", "mode"), [("gcn", "inference"), ("dlrm", "inference"), ("mixture_of_experts", "export")])
def test_some_networks_are_as_recorded(name: str, mode: str) -> None:
    assert_as_recorded(name, mode)


@pytest.mark.slow
@pytest.mark.parametrize("mode", report.MODES)
@pytest.mark.parametrize("name", NETWORKS)
def test_networks_are_as_recorded(name: str, mode: str) -> None:
    assert_as_recorded(name, mode)
