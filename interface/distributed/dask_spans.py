"""Keeps a scheduler of Dask from remembering every task that was submitted."""

from __future__ import annotations

from typing import Any

from distributed.scheduler import DEFAULT_EXTENSIONS
from distributed.spans import SpansSchedulerExtension


class LeanSpans(SpansSchedulerExtension):  # type: ignore[misc] # of a library without types
    """Spans without a note of each submission: Dask keeps these as long as the scheduler lives, 240 bytes for each block."""

    def observe_tasks(self, tss: Any, code: Any, span_metadata: Any) -> Any:
        """Observe tasks as Dask does, but for what was submitted."""
        return super().observe_tasks(tss, code=code, span_metadata=None)


def lean_extensions() -> dict[str, Any]:
    """Return Dask's extensions of a scheduler, with these spans in place of its own."""
    return {**DEFAULT_EXTENSIONS, "spans": LeanSpans}
