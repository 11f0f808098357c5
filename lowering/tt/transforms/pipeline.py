"""Defines pipelines: passes in order, with their options, that print and parse as xDSL's do.

    inline,canonicalize,expand-descriptors{keep=2,3},cse

A pass that stands in a pipeline twice is called `cse` the first time, `cse#2` the second.
"""

from __future__ import annotations

import functools
import threading
from collections import Counter
from collections.abc import Callable
from typing import TypeVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.utils.arg_spec import PipelineLexer, SpecTokenKind, parse_pipeline
from xdsl.utils.exceptions import ArgSpecParseError

from ....promotion.dataclass import dataclass
from ....promotion.errors import UserError
from ...gc_paused import gc_paused
from ..dialect.functions import FuncOp, called_functions
from .function_pass import FunctionPass
from .pipelines import HOST, NVPTX, TEXTS
from .registry import find_pass

Copied = TypeVar("Copied", bound=Operation)


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Passes in order. `str` gives the text that `parse` reads."""

    passes: tuple[FunctionPass, ...]

    @staticmethod
    def parse(text: str) -> Pipeline:
        """Parses the text of a pipeline. Raises `UserError` for malformed text, and for unknown names and options."""
        if not isinstance(text, str):
            raise UserError(f"pipeline {text!r}: expected a text such as 'inline,cse', got {type(text).__name__}")
        return _parsed(text)

    def __str__(self) -> str:
        return ",".join([str(each) for each in self.passes])

    def __add__(self, other: Pipeline) -> Pipeline:
        return Pipeline((*self.passes, *other.passes))

    @property
    def names(self) -> tuple[str, ...]:
        """A unique name for each pass: a second `cse` is `cse#2`."""
        seen: Counter[str] = Counter()
        found = []
        for each in self.passes:
            seen[each.name] += 1
            found.append(each.name if seen[each.name] == 1 else f"{each.name}#{seen[each.name]}")
        return tuple(found)

    def through(self, name: str) -> Pipeline:
        """Returns the passes up to and including the one of this name, which is one of `names`."""
        return Pipeline(self.passes[: self._position(name) + 1])

    def split(self, name: str) -> tuple[Pipeline, Pipeline]:
        """Returns the passes before the one of this name, and the others."""
        position = self._position(name)
        return Pipeline(self.passes[:position]), Pipeline(self.passes[position:])

    def configured(self, *passes: FunctionPass) -> Pipeline:
        """Returns the pipeline with these passes, and their options, in place of those of the same names."""
        changed = list(self.passes)
        for each in passes:
            changed[self._position(each.name)] = each
        return Pipeline(tuple(changed))

    def without(self, name: str) -> Pipeline:
        """Returns the pipeline without the pass of this name."""
        position = self._position(name)
        return Pipeline((*self.passes[:position], *self.passes[position + 1 :]))

    def _position(self, name: str) -> int:
        names = self.names
        if name not in names:
            raise UserError(f"no pass {name!r}; the passes are {', '.join(names)}")
        return names.index(name)

    def run(self, function: FuncOp, watch: Callable[[str, FuncOp], object] | None = None) -> None:
        """Changes a function in place. `watch` is called with the name and the function after each pass.
        Raises what the passes raise."""
        with gc_paused():
            for name, each in zip(self.names if watch is not None else self.passes, self.passes, strict=True):
                each.check(function)
                each.run(function)
                if watch is not None:
                    watch(str(name), function)

    def run_on_copy(self, function: FuncOp) -> FuncOp:
        """Returns the function after the passes: a copy, or the function itself if no pass has anything to
        do."""
        with gc_paused():
            copy: FuncOp | None = None
            for each in self.passes:
                each.check(function if copy is None else copy)
                if copy is None:
                    if not each.is_needed(function):
                        continue
                    copy = copy_function(function)
                each.run(copy)
        return function if copy is None else copy


def pipeline_of(target: str, numerics: str = "strict") -> Pipeline:
    """Returns the pipeline of a kernel for "host", or for a GPU such as "sm_80"."""
    return Pipeline.parse(TEXTS[HOST if target == HOST else NVPTX, numerics])


class FunctionStages:
    """One function after any pipelines. What pipelines have in common at their beginning runs once.

    The functions that it returns, and the one that it starts from, `start`, must not be changed.
    """

    def __init__(self, function: FuncOp) -> None:
        self.start = function
        self._after: dict[tuple[FunctionPass, ...], FuncOp] = {(): function}
        self._lock = threading.Lock()

    def after(self, pipeline: Pipeline) -> FuncOp:
        """Returns the function after the passes of a pipeline. Raises what the passes raise."""
        passes = pipeline.passes
        with self._lock:
            known = len(passes)
            while passes[:known] not in self._after:
                known -= 1
            if known < len(passes):
                self._after[passes] = Pipeline(passes[known:]).run_on_copy(self._after[passes[:known]])
            return self._after[passes]


def copy_function(function: FuncOp) -> FuncOp:
    """Copies a function. If it calls others of its module, the copy is in a module of its own, with copies of
    those."""
    copy = _copy(function)
    others = [_copy(each) for each in called_functions(function)]
    if others:
        ModuleOp([copy, *others])
    return copy


def _copy(function: FuncOp) -> FuncOp:
    """Copies one function. xDSL's `clone` takes half as long again, as blocks may branch back."""
    if any(len(region.blocks) > 1 for op in function.walk() for region in op.regions):
        return function.clone()
    return _copy_structured(function, {})


def _copy_structured(op: Copied, values: dict[SSAValue, SSAValue]) -> Copied:
    """Copies an operation whose regions have one block each. values: what has been copied → its copy."""
    regions = []
    for region in op.regions:
        copy = Region()
        for block in region.blocks:
            own = Block(arg_types=[argument.type for argument in block.args])
            for argument, its in zip(block.args, own.args, strict=True):
                values[argument] = its
                its.name_hint, its.location = argument.name_hint, argument.location
            own.add_ops([_copy_structured(inner, values) for inner in block.ops])
            copy.add_block(own)
        regions.append(copy)
    made = type(op).create(
        operands=[values.get(value, value) for value in op.operands],
        result_types=[result.type for result in op.results],
        properties=op.properties,
        attributes=op.attributes,
        location=op.location,
        regions=regions,
    )
    for result, new in zip(op.results, made.results, strict=True):
        values[result] = new
        new.name_hint = result.name_hint
    return made


@functools.lru_cache(256)
def _parsed(text: str) -> Pipeline:
    try:
        specs = list(parse_pipeline(text))
        _check_repetitions(text)
    except (ArgSpecParseError, ValueError) as error:  # ValueError: a number with too many digits for Python
        if isinstance(error, UserError):
            raise
        *_, complaint = str(error).splitlines()
        raise UserError(f"pipeline {text!r}: {complaint.strip()}; expected a text as a,b{{option=1,2}},c") from error
    return Pipeline(tuple([find_pass(spec.name).from_spec(spec) for spec in specs]))


def _check_repetitions(text: str) -> None:
    """Raises `UserError` for a pass that has an option twice. xDSL, which parses the text, keeps the last one."""
    lexer, name, before = PipelineLexer(text), "", SpecTokenKind.EOF
    options: set[str] = set()
    is_inside = False
    while (token := lexer.lex()).kind is not SpecTokenKind.EOF:
        if token.kind in (SpecTokenKind.L_BRACE, SpecTokenKind.R_BRACE):
            options, is_inside = set(), token.kind is SpecTokenKind.L_BRACE
        elif token.kind is SpecTokenKind.IDENT and not is_inside:
            name = token.span.text
        elif token.kind is SpecTokenKind.IDENT and before in (SpecTokenKind.L_BRACE, SpecTokenKind.SPACE):
            option = token.span.text.replace("-", "_")
            if option in options:
                raise UserError(f"pass {name!r}: option {option} is given twice; fix: give it once, lists as in {option}=1,2")
            options.add(option)
        before = token.kind


__all__ = ["FunctionStages", "Pipeline", "copy_function", "pipeline_of"]
