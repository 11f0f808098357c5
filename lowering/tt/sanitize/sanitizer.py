"""Runs block functions in the interpreter, with a shadow beside every value and a guard before every access.

This finds accesses outside the array that a pointer was made from, misaligned ones, broken promises of
alignment, uses of undefined values, offsets that wrapped around, and races between programs. Faulty lanes are
reported and left out; the run goes on. Undefined lanes are followed in `shadow`, and the order that atomics
make in `races`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

import numpy as np
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation, Region

from ....promotion.arrays import Array, PointerArgument
from ..arguments import grid_extents, parameters_of
from ..dialect.functions import FuncOp
from ..interpret.machine import Function, Value, find_function
from ..interpret.memory import segment_of
from ..op_locations import OpLocations
from .findings import Report
from .guard import Guard
from .machine import SanitizedMachine
from .shadow import Shadow
from .translation import ProgramEnds, SanitizedTranslation


def sanitize(
    func: Operation,
    grid: int | Sequence[int],
    args: Sequence[Value],
    name: str | None = None,
    unwritten: Mapping[int, Array] | None = None,
    needs_barriers: bool = False,
    undefined_arithmetic: bool = False,
    enough: int | None = None,
    only: int | None = None,
) -> Report:
    """Run every program of the grid with all checks; arrays are written in place as far as the accesses are sound.

    The arguments are those of `interpret.interpret`. Raises `UserError` for arguments that do not fit,
    `UnsupportedError` for operations that the interpreter does not know. Mistakes of the programs are in the
    report.

    unwritten: which bytes of an array (bool, by the address of its memory) nothing has written yet. It is
    updated when programs write; what is loaded from such bytes is undefined.
    needs_barriers: whether a lane that loads what another lane of its program stored needs a barrier between, as
    in Triton's own code for GPUs. Code of joinery keeps the operations of a program in order by itself.
    undefined_arithmetic: whether integer divisions by zero and shifts by the width or more have no result, as in Triton's own
    code. joinery's have one.
    enough: after how many programs something that was found is reported, and no further one runs; None for all.
    only: the number of the only program to run, after those before it have run; None for all.
    """
    function = find_function(func, name)
    extents = grid_extents(grid)
    root: Operation = function
    while (parent := root.parent_op()) is not None:
        root = parent
    guard = Guard(OpLocations(root), extents, unwritten, needs_barriers, undefined_arithmetic)
    machine = _Sanitizer(extents, guard)
    values = machine.bind(function, args)
    shadows = _promises(function, args, values, guard)
    programs = extents[0] * extents[1] * extents[2]
    looked_at = 0
    with np.errstate(all="ignore"):
        code = machine.function(function)
        for index in range(programs) if only is None else (only,):
            if enough is not None and looked_at >= enough and not guard.collector.is_empty:
                break
            x, rest = index % extents[0], index // extents[0]
            y, z = rest % extents[1], rest // extents[1]
            machine.program = (np.int32(x), np.int32(y), np.int32(z))
            guard.enter(index, (x, y, z))
            machine.passed = shadows
            looked_at += 1
            with suppress(ProgramEnds):
                code(values)
    return guard.collector.report(looked_at, programs)


class _Sanitizer(SanitizedMachine):
    def translate(self, body: Region) -> Function:
        return SanitizedTranslation(self).body(body)


def _promises(
    function: FuncOp, args: Sequence[Value], values: Sequence[Value], guard: Guard
) -> list[Shadow | None]:
    """Return the shadows of the parameters, and report attributes that promise what the arguments do not
    keep."""
    attributes = function.arg_attrs.data if function.arg_attrs is not None else ()
    shadows: list[Shadow | None] = []
    for position, (parameter, arg, value) in enumerate(
        zip(parameters_of(function), args, values, strict=False)
    ):
        if isinstance(arg, PointerArgument):
            arg = arg.behind
        is_array = parameter.is_pointer and isinstance(arg, np.ndarray)
        shadows.append(Shadow(base=np.array(segment_of(int(value)) + 1, np.int32)) if is_array else None)
        found = attributes[position].data.get("tt.divisibility") if position < len(attributes) else None
        promised = found.value.data if isinstance(found, IntegerAttr) else 1
        if promised <= 1:
            continue
        if is_array and arg.size:
            rest = int(arg.__array_interface__["data"][0]) % promised
            message = f"%{parameter.name} is promised to be aligned to {promised} bytes; the array lies {rest} bytes behind"
            message += " such an address"
            fix = "pass an array that numpy allocated, no view into one"
        elif isinstance(arg, int | np.integer):
            rest = int(value) % promised
            message = f"%{parameter.name} is promised to be a multiple of {promised}, and is {int(value)}"
            fix = "pass a multiple, or take tt.divisibility out of the text"
        else:
            continue
        if rest:
            guard.report(
                "divisibility",
                function,
                1,
                f"{message}; fix: {fix}",
                parameter.name,
                (),
                f"%{parameter.name}",
            )
    return [*shadows, *[None] * (len(values) - len(shadows))]
