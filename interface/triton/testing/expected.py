"""Which errors of launches a test waits for: those that it says it wants raised, and catches.

A caught error keeps the frames from the one that caught it to the one that raised it. `pytest.raises`, `assertRaises` and a
clause that names the error, or `suppress` of it, wait for it; `except Exception` lets errors go by that nobody thought of, and
so does a context manager of which nobody can tell what it waits for.
"""

from __future__ import annotations

import ast
import contextlib
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
    is_test = Path(frame.f_code.co_filename) == test or loader == "AssertionRewritingHook"  # by which pytest imports tests
    for block in _blocks(frame, caught.tb_lineno):
        if isinstance(block, ast.With | ast.AsyncWith):
            for item in reversed(block.items):
                classes = _awaited(item.context_expr, block, frame)
                if classes and isinstance(error, classes):
                    return True
                suppressed = _suppressed(item.context_expr, frame)
                if isinstance(error, suppressed):
                    return is_test and not any(each in _BROAD for each in suppressed)
        elif block.body[0].lineno <= caught.tb_lineno <= (block.body[-1].end_lineno or 0):
            for handler in block.handlers:
                classes = _classes(handler.type, frame)
                if isinstance(error, classes):
                    return is_test and not any(each in _BROAD for each in classes)
    return False


def _chain(raised: BaseException | None) -> Iterator[BaseException]:
    while raised is not None:
        yield raised
        raised = raised.__cause__ or raised.__context__


_Block = ast.Try | ast.TryStar | ast.With | ast.AsyncWith


def _blocks(frame: FrameType, line: int) -> list[_Block]:
    """The blocks around a line that can catch what is raised there, the innermost first."""
    try:
        tree = ast.parse("".join(linecache.getlines(frame.f_code.co_filename)))
    except (SyntaxError, ValueError):
        return []
    found: list[_Block] = []
    for node in ast.walk(tree):
        if isinstance(node, _Block) and frame.f_code.co_firstlineno <= node.lineno <= line <= (node.body[-1].end_lineno or 0):
            found.append(node)
    return sorted(found, key=lambda node: -node.lineno)


def _awaited(context: ast.expr, block: ast.With | ast.AsyncWith, frame: FrameType) -> tuple[Any, ...]:
    """The classes of errors that a context manager waits for; none if it is no such manager, or nobody can tell."""
    if isinstance(context, ast.IfExp):
        return _awaited(context.body, block, frame) + _awaited(context.orelse, block, frame)
    if not isinstance(context, ast.Call):  # one that was made before, or a parameter of the test
        found = _values(context, frame)
        kinds = [type(each) for each in found]
        return _BROAD if any(kind.__module__.split(".")[0] in _WAITING or _says_so(kind.__name__) for kind in kinds) else ()
    name = context.func.attr if isinstance(context.func, ast.Attribute) else getattr(context.func, "id", "")
    if _says_so(name):
        return _classes(context.args[0], frame) or _BROAD if context.args else _BROAD
    if name == "ExitStack" and any(map(_says_so, _called(block.body))):
        return _BROAD
    makers = (getattr(each, "__wrapped__", each) for each in _values(context.func, frame))
    names = [name for each in makers if (code := getattr(each, "__code__", None)) is not None for name in code.co_names]
    return _BROAD if any(map(_says_so, names)) else ()


def _suppressed(context: ast.expr, frame: FrameType) -> tuple[Any, ...]:
    """The classes of errors that `contextlib.suppress` suppresses; none for another context manager."""
    if isinstance(context, ast.Call):
        if contextlib.suppress not in _values(context.func, frame):
            return ()
        return tuple(each for argument in context.args for each in _classes(argument, frame))
    made = [each for each in _values(context, frame) if isinstance(each, contextlib.suppress)]
    return tuple(each for manager in made for each in manager._exceptions)  # type: ignore[attr-defined]


def _says_so(name: str) -> bool:
    """Whether this is the name of what waits for errors: `pytest.raises`, `assertRaises`, `assert_raises_regex`."""
    return "raises" in name.lower()


def _called(statements: list[ast.stmt]) -> Iterator[str]:
    """The names of what is called in statements."""
    for node in (node for statement in statements for node in ast.walk(statement)):
        if isinstance(node, ast.Call):
            yield node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _classes(expression: ast.expr | None, frame: FrameType) -> tuple[type[BaseException], ...]:
    """The classes that a clause names."""
    if expression is None:
        return (BaseException,)
    return tuple(each for each in _values(expression, frame) if isinstance(each, type) and issubclass(each, BaseException))


def _values(expression: ast.expr, frame: FrameType) -> tuple[Any, ...]:
    """What a name, or each in a tuple of names, stands for in a frame."""
    if isinstance(expression, ast.Tuple):
        return tuple(each for element in expression.elts for each in _values(element, frame))
    if isinstance(expression, ast.Attribute):
        found = [getattr(owner, expression.attr, None) for owner in _values(expression.value, frame)]
    elif isinstance(expression, ast.Name):
        name, builtins = expression.id, frame.f_builtins
        found = [frame.f_locals.get(name, frame.f_globals.get(name, builtins.get(name)))]
    else:
        found = []
    values: list[Any] = []
    for each in found:
        values += each if isinstance(each, tuple) else [each]
    return tuple(each for each in values if each is not None)
