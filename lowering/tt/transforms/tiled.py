"""Runs the pipeline of a graph's block programs. Passes are loaded only if there is one."""

from __future__ import annotations

from collections.abc import Iterable

from ..dialect.functions import FuncOp
from .pipelines import TILED


def run_tiled_pipeline(functions: Iterable[FuncOp], numerics: str) -> None:
    """Runs the pipeline of `numerics` on block functions that have been tiled, in place; strict ones stay as
    they are."""
    if TILED[numerics]:
        from .pipeline import Pipeline

        pipeline = Pipeline.parse(TILED[numerics])
        for function in functions:
            pipeline.run(function)


__all__ = ["run_tiled_pipeline"]
