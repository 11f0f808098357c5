"""Reads block IR from text: by the fast line reader, or by xDSL's parser where that gives up, and then
verifies it."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from ....promotion.errors import UserError
from ...gc_paused import gc_paused
from ...tt.verify import first_problem
from .lexing import line_and_column
from .line_reader import read_lines
from .parser import read_module, read_strictly
from .template import Template


@gc_paused()
def parse(text: str, source: str = "<text>") -> ModuleOp:
    """Read a module and verify it. `source` names the text in messages.

    Raises:
        UserError: the text cannot be read, or an operation is wrong; the message shows the operation.
    """
    origins: dict[Operation, Template] = {}
    module = read_lines(text, origins) or read_module(text, source)
    if first_problem(module, origins) is None:
        return module
    return _read_and_checked_strictly(text, source)


def _read_and_checked_strictly(text: str, source: str) -> ModuleOp:
    """Read and verify a module by the strict parser, which knows the line of an operation that has a
    problem."""
    module, parser = read_strictly(text, source)
    problem = first_problem(module)
    if problem is None:
        return module
    message, op = problem
    found: Operation | None = op
    while found is not None and found not in parser.starts:  # implicit terminators have no position
        found = found.parent_op()
    raise UserError(message if found is None else f"{message}\n  at: {source}:{line_and_column(text, parser.starts[found])}")
