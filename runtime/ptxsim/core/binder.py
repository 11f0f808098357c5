"""Turns the instructions of a kernel and its functions into closures; unknown instructions are errors before
anything runs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ....lowering.ptx.instructions import FORMS, decode
from ....lowering.ptx.modules import Function
from ....lowering.ptx.syntax import Instruction, Register, Special
from ....promotion.errors import UnsupportedError, UserError
from ..arithmetic import matrices, warp
from ..arithmetic.table import arithmetic
from ..async_copies import bulk, clusters, copies, mbarriers, tensors, warpgroups
from ..memory import access, atomics
from . import control
from .binding import Binding
from .blocks import Control
from .context import MachineContext
from .machine import Machine
from .modifiers import Modifiers
from .state import SPECIALS
from .types import Mask, Step

StepBuilder = Callable[[Binding, Instruction], Step]
ControlBuilder = Callable[[Binding, Instruction], Control]

_FENCES = (
    "acq_rel",
    "sc",
    "acquire",
    "release",
    "cta",
    "cluster",
    "gpu",
    "sys",
    "gl",
    "proxy",
    "alias",
    "async",
    "async.global",
    "async.shared::cta",
    "global",
    "shared::cta",
    "mbarrier_init",
)


def _sleep(k: Binding, i: Instruction) -> Step:
    modifiers = Modifiers(i)
    modifiers.require("u32")
    modifiers.done()
    modifiers.operands(1)
    k.source(i.operands[0], "u32")
    machine = k.machine

    def step(mask: Mask) -> None:
        machine.hard_poll = True

    return step


def _copy(k: Binding, i: Instruction) -> Step:
    modifiers = set(i.modifiers)
    if "bulk" in modifiers:
        if "commit_group" in modifiers:
            return bulk.commit(k, i)
        if "wait_group" in modifiers:
            return bulk.wait(k, i)
        return tensors.tensor(k, i) if "tensor" in modifiers and "prefetch" not in modifiers else bulk.copy(k, i)
    if "commit_group" in modifiers:
        return copies.commit(k, i)
    if modifiers & {"wait_group", "wait_all"}:
        return copies.wait(k, i)
    return copies.arrive(k, i) if "mbarrier" in modifiers else copies.issue(k, i)


def _bar(k: Binding, i: Instruction) -> Control:
    if "cluster" in i.modifiers:
        return clusters.barrier(k, i)
    return warp.warp_barrier(k, i) if "warp" in i.modifiers else control.barrier(k, i)


def _fence(k: Binding, i: Instruction) -> Step:
    return tensors.fence(k, i, control.nothing(*_FENCES))


STEPS: dict[str, StepBuilder] = {
    "ld": access.load, "ldu": access.load, "st": access.store, "cvta": access.convert_address, "isspacep": access.is_space,
    "prefetch": access.prefetch, "prefetchu": access.prefetch, "createpolicy": access.create_policy, "atom": atomics.atomic,
    "red": atomics.atomic, "membar": control.nothing(*_FENCES), "fence": _fence, "brkpt": control.nothing(),
    "activemask": warp.active_mask, "nanosleep": _sleep, "cp": _copy, "mbarrier": mbarriers.mbarrier,
    "mapa": clusters.map_address, "getctarank": clusters.rank_of, "griddepcontrol": clusters.grid_control,
    "tensormap": tensors.replace_field,
}  # fmt: skip
CONTROLS: dict[str, ControlBuilder] = {
    "bra": control.branch, "brx": control.branch_table, "ret": control.leave, "exit": control.leave, "trap": control.trap,
    "bar": _bar, "barrier": _bar, "shfl": warp.shuffle, "vote": warp.vote, "match": warp.match, "redux": warp.reduce,
    "elect": warp.elect, "ldmatrix": matrices.load_matrix, "mma": matrices.multiply, "stmatrix": matrices.store_matrix,
    "wgmma": warpgroups.warpgroup, "setmaxnreg": clusters.set_registers, "tensormap": tensors.copy_map,
}  # fmt: skip


def bind(machine: Machine) -> None:
    """Fills in the machine's code."""
    machine.start_checks()
    pc = 0
    for function in machine.functions:
        starts = []
        for instruction in function.code or ():
            starts.append(pc)
            pc += control.CALL_SLOTS if instruction.opcode == "call" else 1
        starts.append(pc)
        machine.starts[function.name] = starts
        pc += 1  # an implicit ret at the end
    for function in machine.functions:
        _bind_function(machine, function)
    stops = [0] * len(machine.code)
    following = len(machine.code)
    for offset in range(len(machine.code) - 1, -1, -1):
        following = offset if offset in machine.control else following
        stops[offset] = following
    machine.stops = stops


def _bind_function(machine: Machine, function: Function) -> None:
    k = Binding(machine, function, machine.watch)
    machine.function_being_bound = function.name

    last = Instruction("ret", (), (), None, function.line)
    named = (function.code or (last,))[-1]  # the instruction that a finding at the end names

    def add(step: Step | None, flow: Control | None, index: int, instruction: Instruction) -> None:
        if flow is not None:
            machine.control[len(machine.code)] = flow
        machine.code.append(_nothing if step is None else step)
        machine.origins.append((function, index, instruction))

    for index, instruction in enumerate(function.code or ()):
        k.start(instruction, function.pragmas.get(index, ()))
        try:
            if instruction.opcode == "call":
                flow, after = control.call(k, instruction)
                add(None, flow, index, instruction)
                add(after, None, index, instruction)
            elif instruction.opcode in CONTROLS and not (
                instruction.opcode == "tensormap" and "replace" in instruction.modifiers
            ):
                add(None, CONTROLS[instruction.opcode](k, instruction), index, instruction)
            else:
                add(_step(k, instruction), None, index, instruction)
        except (UserError, UnsupportedError) as error:
            source = function.locations[index]
            if source is not None and error.origin is None:
                error.origin = f"{source[0]}:{source[1]}"
                error.args = (f"{error}\n  at {error.origin}", *error.args[1:])
            raise
    k.start(last)
    add(None, control.leave(k, last), len(function.code or ()), named)


def _nothing(mask: Mask) -> None:
    """Does nothing; fills the slots of control instructions."""


def _step(k: Binding, i: Instruction) -> Step:
    builder = STEPS.get(i.opcode)
    if builder is not None:
        step = builder(k, i)
    elif i.opcode in FORMS:
        k.decoded = decode(i, k.function.registers, SPECIALS)
        step = arithmetic(k, k.decoded)
    else:
        raise UnsupportedError(f"PTX line {i.line}: {i.spelling}: no such instruction is known")
    if any(isinstance(o, Special) and ("clock" in o.name or "globaltimer" in o.name) for o in i.operands):
        step = _ticking(k.machine, step)
    step = k.observed(i, step)
    if i.guard is None:
        return step
    return _guarded(k, i.guard, step)


def _ticking(machine: MachineContext, step: Step) -> Step:
    def timed(mask: Mask) -> None:
        machine.tick()
        step(mask)

    return timed


def _guarded(k: Binding, predicate: Register, step: Step) -> Step:
    guard = k.observed_guard(predicate, k.predicate(predicate))
    lanes = k.lanes
    scheduler = k.machine.scheduler

    def guarded(mask: Mask) -> None:
        scheduler.mask = mask
        chosen = guard() if mask is None else guard() & mask
        count = np.count_nonzero(chosen)
        if count == lanes:
            step(None)
        elif count:
            step(chosen.copy())

    return guarded
