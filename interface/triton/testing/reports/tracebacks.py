"""Tracebacks that end at a launch: what lies below, in Triton and in joinery, is of no use to a project."""

from __future__ import annotations

from types import FrameType, TracebackType
from typing import Any

import pytest

_OWN = frozenset({"joinery", "triton"})


def hide_own_frames(call: Any) -> None:
    """Let the traceback of an error that joinery raised end at the line of the project that led to it.

    Frames are told by their modules' names: a project may lie in joinery's own folder.
    """
    raised = call.excinfo
    if raised is None or _package(raised.traceback[-1].frame.raw) != "joinery":
        return
    kept = _kept(raised.tb)
    if kept is None:
        return
    call.excinfo = pytest.ExceptionInfo.from_exception(raised.value.with_traceback(kept))
    seen, cause = {id(raised.value)}, raised.value.__cause__
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        cause.__traceback__ = _kept(cause.__traceback__)
        cause = cause.__cause__


def _kept(traceback: TracebackType | None) -> TracebackType | None:
    """The frames that are neither Triton's nor joinery's."""
    entries = []
    while traceback is not None:
        entries.append(traceback)
        traceback = traceback.tb_next
    found: TracebackType | None = None
    for each in reversed(entries):
        if _package(each.tb_frame) not in _OWN:
            found = TracebackType(found, each.tb_frame, each.tb_lasti, each.tb_lineno)
    return found


def _package(frame: FrameType) -> str:
    """The package of a frame; "triton" for functions that are compiled of texts, as Triton's that bind arguments are."""
    return str(frame.f_globals.get("__name__", "triton")).partition(".")[0]
