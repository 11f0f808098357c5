"""Provides `joinery.from_exported`: the graph of a model that `torch.export` has traced."""

from __future__ import annotations

from typing import Any

from ...graph.aten.importing import import_program
from ...graph.graph import Graph
from ...promotion.errors import UserError

_STATE = ("refuse", "explicit")


def from_exported(exported_program: Any, *, state: str = "refuse", name: str = "model", seed: int | None = None) -> Graph:
    """Return the graph of a model of PyTorch, from what `torch.export.export` gave.

    Args:
        exported_program: a `torch.export.ExportedProgram`, or the path of a file that `torch.export.save` wrote.
        state: what becomes of buffers and inputs that the model writes to, such as running statistics and caches of keys:
            "refuse" raises `UnsupportedError` with their names; "explicit" makes such buffers inputs, after those of the model,
            and gives what is written as outputs called "new.…", after those of the model. Nothing is dropped.
        name: the name of the graph.
        seed: of the random numbers that the model draws (dropout in training, `rand`, `randint`, `multinomial`), an int of 64
            bits. They are other ones than PyTorch's generator gives, with the same distribution, and the same at each run.
            Without it, models that draw some are refused.

    Parameters, buffers and constants become weights over the same memory, where they lie in row-major order: do not change them
    while the graph is in use. Inputs have the names of the model's arguments, entries of containers those of their parts, and
    outputs the keys of what the model returns. Symbolic sizes have the ranges they were exported with, which runs check. Casts
    that PyTorch makes implicitly are in the ledger `casts()`, those that the model asks for are not.

    Raises `UserError` for anything else, `UnsupportedError` for operators that joinery has no form of, with the line of the
    model. Needs PyTorch, an extra: `pip install 'joinery-graph[torch]'`.
    """
    if state not in _STATE:
        raise UserError(f"from_exported: state is {state!r}; expected {' or '.join(map(repr, _STATE))}; fix: state='refuse'")
    if seed is not None and (type(seed) is not int or not 0 <= seed < 1 << 64):
        raise UserError(f"from_exported: seed is {seed!r:.40}; expected an int of 64 bits, 0 or more, or None; fix: seed=0")
    try:
        from .export_reading import loaded, read_exported
    except ImportError as error:
        raise UserError(
            f"from_exported: PyTorch cannot be imported ({error}); fix: pip install 'joinery-graph[torch]'"
        ) from None
    return import_program(read_exported(loaded(exported_program), state, name, seed))
