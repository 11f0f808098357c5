"""Cases in batches: what crashes, hangs, raises or reads a foreign file is found, and the others still run."""

from __future__ import annotations

import base64
import faulthandler
import os
import time
from pathlib import Path
from typing import Any

import joinery as jn
import pytest
from google.protobuf.message import Message
from joinery.graph.onnx import importer

from . import onnx_cases
from .batches import Batches
from .cases import Data, Fault, Kind, Outcome, Settings
from .child import in_child
from .choices import Choices
from .kinds import kind_named
from .onnx_mutations import mutated_message
from .session import Session, replay

HOST = Settings(simulate=False)


def numbered(choices: Choices, settings: Settings) -> Data:
    return {"kind": "planted", "number": choices.below(1 << 40)}


WAYS = dict(zip([numbered(Choices(f"3/planted/{at}"), HOST)["number"] for at in (3, 17, 18, 55)],
                ("abort", "hang", "raise", "tell"), strict=True))  # fmt: skip


def planted(data: Data, settings: Settings) -> Outcome:
    """Fails in one way or another in four cases."""
    match WAYS.get(data["number"]):
        case "abort":
            faulthandler.disable()
            os.abort()
        case "hang":
            time.sleep(60)
        case "raise":
            raise ValueError("eighteen")
        case "tell":
            return Outcome([Fault("here", "fifty-five")])
    return Outcome(runs=1, refused=data["number"] % 2 == 0)


@pytest.mark.slow
def test_every_fault_of_a_batch_is_found_and_the_others_run(tmp_path: Path) -> None:
    said: list[str] = []
    kind = Kind("planted", numbered, planted, text="")
    session = Session(HOST, [kind], tmp_path, said.append, shrink_seconds=0.0, case_seconds=0.2)
    batches = Batches(kind, session, 3, workers=2)
    batches.run(cases=60, seconds=0.3)
    assert sorted(batches.failed) == [3, 17, 18, 55]
    assert batches.counts["cases"] == 60
    assert batches.counts["runs"] == 56
    sorts = "\n".join(session.totals.faults)
    for text in ("crashed: SIGABRT", "hung: no result", "raised: ValueError: eighteen", "here: fifty-five"):
        assert text in sorts
    assert said[-1].startswith("60 cases in ")
    assert len(list(tmp_path.glob("*.json"))) == len(session.found)


def test_mutations_are_decided_by_choices_and_change_models() -> None:
    kind, changed = kind_named("onnx"), set()
    for number in range(20):
        first, again = (kind.generate(Choices(f"m/{number}"), HOST) for _ in range(2))
        assert first == again
        changed.add(first["content"])
    assert len(changed) > 15


@pytest.mark.parametrize("number", range(30))
def test_mutated_messages_are_messages(number: int) -> None:
    import onnx

    model = onnx.ModelProto.FromString(onnx_cases.external())
    mutated_message(Choices(f"x/{number}"), model)
    assert isinstance(model, Message)
    assert onnx.ModelProto.FromString(model.SerializeToString()).IsInitialized()


def case(model: bytes, **changes: Any) -> Data:
    content = base64.b64encode(model).decode()
    return {"kind": "onnx", "content": content, "file": True, "compile": True, "seed": 1, **changes}


def ran(data: Data) -> Outcome:
    """Runs a case in a child: the hook that notes opened files stays for good, and would slow down all that follows."""
    ended = in_child(lambda: onnx_cases.run(data, HOST))
    assert ended.how == "returned", ended.text
    assert isinstance(ended.value, Outcome)
    return ended.value


def test_a_model_that_is_right_runs_and_is_compiled() -> None:
    outcome = ran(case(onnx_cases.external()))
    assert (outcome.refused, outcome.runs, outcome.faults) == (False, 2, [])
    outcome = ran(case(onnx_cases.external(), file=False))  # bytes have no folder
    assert (outcome.refused, outcome.faults) == (True, [])


def test_foreign_reads_and_other_errors_are_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    right = importer.from_onnx

    def reading(*arguments: Any, **options: Any) -> Any:
        Path("/etc/hostname").read_bytes()
        return right(*arguments, **options)

    def failing(*arguments: Any, **options: Any) -> Any:
        raise KeyError("nobody")

    def short(*arguments: Any, **options: Any) -> Any:
        raise jn.UserError("no")

    for planted_bug, what in (
        (reading, "a file outside the folder"), (failing, "KeyError in test_batches.py:failing"), (short, "neither what is"),
    ):  # fmt: skip
        monkeypatch.setattr(jn, "from_onnx", planted_bug)
        (fault,) = ran(case(onnx_cases.external())).faults
        assert what in fault.what


def test_a_kept_case_runs_again(tmp_path: Path) -> None:
    run = Session(HOST, [kind_named("onnx")], tmp_path, lambda text: None, shrink_seconds=0.0)
    run._keep(kind_named("onnx"), "1/onnx/2", Fault("from_onnx", "planted"), [], case(onnx_cases.external()))
    (path,) = tmp_path.glob("*.json")
    assert replay(path, HOST).runs == 2
