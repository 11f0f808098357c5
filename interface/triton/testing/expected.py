"""Which errors of launches a test waits for: those that it says it wants raised, and catches.

A caught error keeps the frames from the one that caught it to the one that raised it. `pytest.raises`, `assertRaises` and a
clause that names the error wait for it; `except Exception` lets errors go by that nobody thought of.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

_WAITING = frozenset({"unittest", "_pytest", "pytest"})
"""Packages whose functions take a function that should raise."""
_BROAD = (Exception, BaseException)


def is_expected(error: BaseException, raised: BaseException | None, test: Path) -> bool:
    """Whether the test waited for an error and caught it. raised: what ended the test; test: its file."""
    if error in _chain(raised):
        return False
    caught = error.__traceback__
    if caught is None:  # `assertRaises` takes the frames away
        return True
    frame = caught.tb_frame
    if str(frame.f_globals.get("__name__")).split(".")[0] in _WAITING:
        return True
    loader = type(frame.f_globals.get("__loader__")).__name__
    if Path(frame.f_code.co_filename) != test and loader != "AssertionRewritingHook":  # by which pytest imports tests
        return False
    for block in _blocks(frame, caught.tb_lineno):
        if isinstance(block, ast.With):
            if any(_is_waiting(item.context_expr) for item in block.items):
                return True
        else:
            for handler in block.handlers:
                classes = _classes(handler.type, frame)
                if isinstance(error, classes):
                    return not any(each in _BROAD for each in classes)
    return True  # by a context manager of the test's


def _chain(raised: BaseException | None) -> Iterator[BaseException]:
    while raised is not None:
        yield raised
        raised = raised.__cause__ or raised.__context__


def _blocks(frame: FrameType, line: int) -> list[ast.Try | ast.With]:
    """The blocks around a line that can catch what is raised there, the innermost first."""
    try:
        tree = ast.parse("".join(linecache.getlines(frame.f_code.co_filename)))
    except (SyntaxError, ValueError):
        return []
    found: list[ast.Try | ast.With] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Try | ast.With) and node.lineno >= frame.f_code.co_firstlineno:
            last = node.body[-1].end_lineno or 0
            if node.body[0].lineno <= line <= last or (isinstance(node, ast.With) and node.lineno <= line <= last):
                found.append(node)
    return sorted(found, key=lambda node: -node.lineno)


def _is_waiting(context: ast.expr) -> bool:
    """Whether a context manager is one that waits for errors, by its name."""
    function = context.func if isinstance(context, ast.Call) else context
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return "raises" in name.lower()


def _classes(expression: ast.expr | None, frame: FrameType) -> tuple[Any, ...]:
    """The classes that a clause names."""
    if expression is None:
        return (BaseException,)
    if isinstance(expression, ast.Tuple):
        return tuple(each for element in expression.elts for each in _classes(element, frame))
    if isinstance(expression, ast.Attribute):
        found = [getattr(owner, expression.attr, None) for owner in _classes(expression.value, frame)]
    elif isinstance(expression, ast.Name):
        name, builtins = expression.id, frame.f_builtins
        found = [frame.f_locals.get(name, frame.f_globals.get(name, builtins.get(name)))]
    else:
        found = []
    each_class: list[Any] = []
    for each in found:
        each_class += each if isinstance(each, tuple) else [each]
    return tuple(each for each in each_class if each is not None)
