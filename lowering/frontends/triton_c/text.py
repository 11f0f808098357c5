"""Reads kernels from Triton-C: text, tokens, syntax tree, typed tree, and the block IR.

Each stage is kept, so that it can be looked at.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

from xdsl.dialects.builtin import ModuleOp

from ....promotion.dataclass import dataclass
from ....promotion.errors import InternalError
from ...gc_paused import gc_paused
from ...tt.verify import first_problem
from .building.elements import Locations
from .building.functions import build_function
from .building.liveness import find_liveness
from .building.operation_kinds import OperationKinds
from .building.structure import Structured, structured
from .checking import typed
from .checking.statements import check_text
from .reading.diagnostics import Diagnostics
from .reading.preprocessor import preprocess
from .reading.source import Source, Token
from .syntax import tree
from .syntax.parser import parse
from .syntax.selection import selected


@dataclass(frozen=True, slots=True)
class Reading:
    """A text as far as the typed tree.

    Attributes:
        tokens: those of the language, without the end of the text.
        syntax: what stands in the text.
        typed: the kernel and the functions that it calls.
        diagnostics: where errors and warnings go.
    """

    tokens: tuple[Token, ...]
    syntax: tuple[tree.Statement, ...]
    typed: typed.Module
    diagnostics: Diagnostics


@gc_paused()
def read(
    text: str,
    source: str = "<text>",
    defines: Mapping[str, str] | None = None,
    name: str | None = None,
    include: Mapping[str, str] | None = None,
    single_precision_constants: bool = False,
) -> Reading:
    """Read a text as far as the typed tree of one kernel.

    Args:
        source: names the text in messages and locations.
        defines: macro → any list of tokens.
        name: which kernel; None for the only one.
        include: the files that `#include` finds, by name.
        single_precision_constants: whether floating constants without a suffix are float, not double.

    Raises `TritonCError` with all errors.
    """
    diagnostics = Diagnostics()
    tokens = preprocess(Source(source, text), defines or {}, include or {}, diagnostics)
    is_whole = not diagnostics.reports
    reached, skipped = (tokens, []) if name is None else selected(tokens, name)
    try:
        syntax = [*parse(reached, diagnostics), *skipped]
    except RecursionError:
        _fail_nested(diagnostics, tokens[-1])
    if not is_whole or diagnostics.has_gaps:  # names may be missing; functions that have errors are left out
        diagnostics.check()
    try:
        module = check_text(syntax, name, diagnostics, single_precision_constants, tokens)
    except RecursionError:
        _fail_nested(diagnostics, tokens[-1])
    diagnostics.check()
    if module is None:
        raise InternalError("a text of Triton-C without errors has no typed tree")
    return Reading(tuple(tokens[:-1]), tuple(syntax), module, diagnostics)


@gc_paused()
def build(reading: Reading) -> ModuleOp:
    """Return the block IR of a kernel: a verified module with a public function, and the private ones that it calls.

    Raises `TritonCError` for what is nested too deeply.
    """
    diagnostics = reading.diagnostics
    functions = {}
    kernel = reading.typed.kernel.name
    try:
        for each in reading.typed.functions:
            functions[each.name] = structured(each, diagnostics)
            find_liveness(functions[each.name], diagnostics)
        module = _module(functions, kernel, diagnostics)
    except RecursionError:
        _fail_nested(diagnostics, reading.typed.kernel.token)
    problem = first_problem(module, OperationKinds())
    if problem is not None:
        raise InternalError(f"{kernel}: the front end of Triton-C made an operation that is wrong: {problem[0]}")
    return module


def _module(functions: Mapping[str, Structured], kernel: str, diagnostics: Diagnostics) -> ModuleOp:
    locations = Locations()
    made = {name: build_function(each, name == kernel, functions, diagnostics, locations) for name, each in functions.items()}
    return ModuleOp([made.pop(kernel), *made.values()])


def _fail_nested(diagnostics: Diagnostics, token: Token) -> NoReturn:
    """Refuse what each limit allows and all of them together do not: calls within brackets within calls and so on."""
    message = "functions, brackets and conditional expressions are nested too deeply"
    diagnostics.fatal(token, message, "variables, or fewer calls")


__all__ = ["Reading", "build", "read"]
