"""Executes branches, calls, exits and barriers.

Source: PTX ISA, "Control Flow Instructions", "Parallel Synchronization and Communication Instructions".
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ....lowering.ptx.modules import Function, Parameter
from ....lowering.ptx.syntax import Group as Operands
from ....lowering.ptx.syntax import Instruction, Integer, Name, Operand, Register
from ....promotion.arrays import Array
from ....promotion.errors import UnsupportedError, UserError
from ..checks.findings import Fault
from .binding import Binding
from .blocks import Barrier, Control, Finish, Group
from .modifiers import Modifiers
from .printing import builtin
from .types import Mask, Step


def guard_of(k: Binding, i: Instruction) -> Callable[[], Array] | None:
    return None if i.guard is None else k.observed_guard(i.guard, k.predicate(i.guard))


def guarded(k: Binding, guard: Callable[[], Array] | None, control: Control, slots: int = 1) -> Control:
    """Wraps a control instruction: lanes whose guard is false skip its `slots` positions in the code."""
    if guard is None:
        return control
    machine = k.machine

    def choose(group: Group) -> bool:
        value = guard()
        chosen = value if group.mask is None else value & group.mask
        count = int(np.count_nonzero(chosen))
        if count == 0:
            group.pc += slots
            return True
        if count == group.count:
            return control(group)
        cta = machine.cta
        rest = ~chosen if group.mask is None else group.mask & ~chosen
        passing = Group(group.pc + slots, rest, group.count - count, group.iteration)
        group.mask, group.count = chosen.copy(), count
        cta.groups.append(passing)
        control(group)
        return False

    return choose


def collective(
    k: Binding, i: Instruction, step: Step, members: Operand | None = None, warps: int = 1
) -> Control:
    """Builds a step of `warps` whole warps; with `members`, of the lanes of a member mask, which may differ
    between lanes."""
    machine = k.machine
    scheduler = machine.scheduler
    step = k.observed(i, step)
    named = None if members is None else _named_lanes(k, members)

    def control(group: Group) -> bool:
        if group.mask is not None or named is not None:
            found = scheduler.converge(machine.cta, group, named, warps)
            if found is None:
                return False
            whole = not machine.cta.parked
        else:
            whole = True
        step(group.mask)
        group.pc += 1
        return whole

    return guarded(k, guard_of(k, i), control)


def _named_lanes(k: Binding, members: Operand) -> Array | None:
    """Returns the member mask of every lane, with a bit per lane of its warp; None where a literal names the
    whole warp."""
    if isinstance(members, Integer) and members.value & 0xFFFFFFFF == 0xFFFFFFFF:
        return None
    value = k.source(members, "b32")
    return value if np.ndim(value) else np.full(k.lanes, value)


def branch(k: Binding, i: Instruction) -> Control:
    modifiers = Modifiers(i)
    modifiers.drop("uni")
    modifiers.done()
    modifiers.operands(1)
    label = i.operands[0]
    if not isinstance(label, Name) or label.text not in k.function.labels:
        raise UserError(f"{modifiers.where}: there is no such label")
    machine = k.machine
    scheduler = machine.scheduler
    target = machine.pc_of(k.function, k.function.labels[label.text])
    guard = guard_of(k, i)

    def jump(group: Group) -> bool:
        back = target <= group.pc
        group.pc = target
        return scheduler.backward(machine.cta, group) if back else True

    if guard is None:
        return jump

    def conditional(group: Group) -> bool:
        value = guard()
        chosen = value if group.mask is None else value & group.mask
        count = int(np.count_nonzero(chosen))
        if count == 0:
            group.pc += 1
            return True
        if count == group.count:
            return jump(group)
        cta = machine.cta
        taken = scheduler.split(group, chosen.copy(), count)
        taken.jumps = group.jumps
        cta.groups.append(taken)
        group.pc += 1
        jump(taken)
        return False

    return conditional


def scatter(k: Binding, group: Group, targets: Array) -> bool:
    """Sends the lanes of a group to their own program counters; returns False if they split up."""
    machine = k.machine
    mask = machine.scheduler.mask_of(group)
    sources = np.unique(targets[mask]).tolist()
    if len(sources) == 1:
        group.pc = int(sources[0])
        return True
    machine.cta.groups.remove(group)
    for offset in sources:
        machine.cta.groups.append(machine.scheduler.group(int(offset), mask & (targets == offset), group.iteration))
    return False


def branch_table(k: Binding, i: Instruction) -> Control:
    modifiers = Modifiers(i)
    modifiers.require("idx")
    modifiers.drop("uni")
    modifiers.done()
    modifiers.operands(2)
    table = i.operands[1]
    if not isinstance(table, Name) or table.text not in k.function.tables:
        raise UserError(f"{modifiers.where}: there is no such branch table")
    machine = k.machine
    targets = np.array(
        [machine.pc_of(k.function, k.function.labels[name]) for name in k.function.tables[table.text]],
        np.int64,
    )
    index = k.full(i.operands[0], "u32")

    def control(group: Group) -> bool:
        value = index()
        mask = machine.scheduler.mask_of(group)
        bad = mask & (value >= targets.size)
        if np.count_nonzero(bad):
            raise Fault(
                "branch", f"an index beyond the branch table's {targets.size} labels", np.flatnonzero(bad)
            )
        return scatter(k, group, targets[np.minimum(value, targets.size - 1)])

    return guarded(k, guard_of(k, i), control)


def leave(k: Binding, i: Instruction) -> Control:
    """Builds ret and exit."""
    modifiers = Modifiers(i)
    modifiers.drop("uni")
    modifiers.done()
    modifiers.operands(0)
    machine = k.machine
    if k.function.entry or i.opcode == "exit":

        def end(group: Group) -> bool:
            machine.scheduler.exit(machine.cta, group)
            return False

        return guarded(k, guard_of(k, i), end)
    back = machine.return_pcs(k.function)

    def back_to_caller(group: Group) -> bool:
        return scatter(k, group, back)

    return guarded(k, guard_of(k, i), back_to_caller)


def trap(k: Binding, i: Instruction) -> Control:
    modifiers = Modifiers(i)
    modifiers.done()
    modifiers.operands(0)

    def control(group: Group) -> bool:
        raise Fault("trap", "the kernel trapped", np.flatnonzero(k.machine.scheduler.mask_of(group)))

    return guarded(k, guard_of(k, i), control)


# -- calls


def _areas(k: Binding, operand: Operand | None) -> list[str]:
    if operand is None:
        return []
    if not isinstance(operand, Operands) or not all(isinstance(e, Name) for e in operand.elements):
        raise UnsupportedError(f"{k.where}: arguments of a call are .param areas in parentheses")
    names = [e.text for e in operand.elements if isinstance(e, Name)]
    for name in names:
        if (k.function.name, name) not in k.machine.areas:
            raise UserError(f"{k.where}: {name} is no .param area")
    return names


CALL_SLOTS = 2
"""The number of positions that a call takes in the code: one enters the function, and one fetches the results
on return."""


def call(k: Binding, i: Instruction) -> tuple[Control, Step]:
    modifiers = Modifiers(i)
    modifiers.drop("uni")
    modifiers.done()
    operands = list(i.operands)
    results: Operand | None = operands.pop(0) if operands and isinstance(operands[0], Operands) else None
    if not operands:
        raise UserError(f"{modifiers.where}: expected a function")
    callee = operands.pop(0)
    arguments = operands.pop(0) if operands and isinstance(operands[0], Operands) else None
    given, wanted = _areas(k, arguments), _areas(k, results)
    machine = k.machine
    guard = guard_of(k, i)
    if isinstance(callee, Register):
        prototype = operands[0].text if operands and isinstance(operands[0], Name) else ""
        if prototype not in k.function.prototypes:
            raise UserError(f"{modifiers.where}: an indirect call names a prototype of this function")
        control, after = _indirect(k, callee, given, wanted)
        return guarded(k, guard, control, CALL_SLOTS), after
    if not isinstance(callee, Name) or operands:
        raise UserError(f"{modifiers.where}: expected a function and its arguments")
    function = machine.module.functions.get(callee.text)
    if function is None:
        raise UserError(f"{modifiers.where}: there is no function {callee.text}")
    built = builtin(machine, callee.text, given, wanted) if function.code is None else None
    if built is not None:

        def built_in(group: Group) -> bool:
            built(group.mask)
            group.pc += 1
            return True

        return guarded(k, guard, built_in, CALL_SLOTS), lambda mask: None
    enter, copies = _enter(k, function, given, wanted)
    return guarded(k, guard, enter, CALL_SLOTS), lambda mask: machine.copy_local(copies, mask)


Copies = list[tuple[int, int, int]]
"""(source offset, target offset, bytes) in local memory."""


def _enter(k: Binding, function: Function, given: list[str], wanted: list[str]) -> tuple[Control, Copies]:
    machine = k.machine
    if function.code is None:
        raise UnsupportedError(f"{k.where}: the function {function.name} has no body here")
    if len(given) != len(function.parameters) or len(wanted) > len(function.results):
        raise UserError(
            f"{k.where}: {function.name} takes {len(function.parameters)} arguments, gives {len(function.results)}"
        )
    own, entry, back = k.function.name, machine.pc_of(function, 0), machine.return_pcs(function)

    def copies(names: list[str], others: tuple[Parameter, ...], to_callee: bool) -> Copies:
        found = []
        for name, parameter in zip(names, others, strict=False):
            here, there = machine.areas[own, name], machine.areas[function.name, parameter.name]
            if here[1] != there[1]:
                raise UserError(f"{k.where}: {name} has {here[1]} bytes, {function.name} wants {there[1]}")
            found.append((here[0], there[0], here[1]) if to_callee else (there[0], here[0], here[1]))
        return found

    arguments = copies(given, function.parameters, True)

    def control(group: Group) -> bool:
        mask = machine.scheduler.mask_of(group)
        machine.copy_local(arguments, group.mask)
        back[mask] = group.pc + 1
        group.pc = entry
        return False

    return control, copies(wanted, function.results, False)


def _indirect(k: Binding, callee: Register, given: list[str], wanted: list[str]) -> tuple[Control, Step]:
    machine = k.machine
    address = k.source(callee, "u64")
    entries: dict[int, tuple[Control, Copies]] = {}
    called = machine.lane_array(np.uint64)

    def control(group: Group) -> bool:
        mask = machine.scheduler.mask_of(group)
        machine.cta.groups.remove(group)
        for target in np.unique(address[mask]).tolist():
            function = machine.function_at(int(target))
            if function is None:
                raise Fault("call", f"{int(target):#x} is no function's address")
            if target not in entries:
                entries[target] = _enter(k, function, given, wanted)
            part = machine.scheduler.group(group.pc, mask & (address == target), group.iteration)
            machine.cta.groups.append(part)
            entries[target][0](part)
        np.copyto(called, address, where=mask)
        return False

    def after(mask: Mask) -> None:
        for target, (_, copies) in entries.items():
            chosen = called == target
            chosen = chosen if mask is None else chosen & mask
            if np.count_nonzero(chosen):
                machine.copy_local(copies, chosen)

    return control, after


# -- barriers


def barrier(k: Binding, i: Instruction) -> Control:
    """Builds bar and barrier, on the block's barriers."""
    modifiers = Modifiers(i)
    aligned = i.opcode == "bar" or modifiers.has("aligned")
    modifiers.drop("cta")
    kind = modifiers.choice(("sync", "arrive", "red"))
    reduction = modifiers.choice(("popc", "and", "or")) if kind == "red" else ""
    if reduction:
        modifiers.choice(("u32",) if reduction == "popc" else ("pred",))
    modifiers.done()
    operands = list(i.operands)
    if len(operands) not in {"sync": (1, 2), "arrive": (2,), "red": (3, 4)}[kind]:
        raise UserError(
            f"{modifiers.where}: expected a barrier" + (" and a thread count" if kind == "arrive" else "")
        )
    ends = (operands.pop(0), operands.pop()) if kind == "red" else None  # the result and the predicate that is reduced
    source = None if ends is None else k.predicate(ends[1])
    number = _uniform(k, operands[0], "a barrier")
    threads = _uniform(k, operands[1], "a thread count") if len(operands) > 1 else None
    machine = k.machine
    scheduler = machine.scheduler
    values = np.zeros(k.lanes, np.bool_)
    finish = None if ends is None else _reduced(k, ends[0], reduction, values)

    def control(group: Group) -> bool:
        cta = machine.cta
        if aligned and group.mask is not None and scheduler.converge(cta, group, None) is None:
            return False
        which = number(group)
        if not 0 <= which < 16:
            raise Fault("barrier", f"there is no barrier {which}; a block has 16")
        expected = threads(group) if threads is not None else None
        if expected is not None and (expected % 32 or not 0 < expected <= machine.lanes):
            raise Fault(
                "barrier", f"{expected} threads; expected a multiple of 32 up to the block's {machine.lanes}"
            )
        if source is not None:
            np.copyto(values, source(), where=True if group.mask is None else group.mask)
        state = cta.barriers.get(which)
        if (
            (state is None or state.lanes is None)
            and expected is None
            and group.count == cta.live_count
            and kind == "sync"
        ):
            group.pc += 1
            machine.synchronised(cta, None, None)
            return True
        if state is None:
            state = cta.barriers[which] = Barrier(which)
        group.pc += 1
        state.arrive(cta, group, kind, expected, finish, machine.synchronised)
        return False

    return guarded(k, guard_of(k, i), control)


def _uniform(k: Binding, operand: Operand, what: str) -> Callable[[Group], int]:
    if isinstance(operand, Integer):
        value = operand.value
        return lambda group: value
    values = k.full(operand, "u32")

    def read(group: Group) -> int:
        found = values() if group.mask is None else values()[group.mask]
        if np.count_nonzero(found != found[0]):
            raise Fault("barrier", f"{what} that differs between lanes")
        return int(found[0])

    return read


def _reduced(k: Binding, target: Operand, reduction: str, values: Array) -> Finish:
    out = k.destination(target, "u32" if reduction == "popc" else "pred")

    def finish(lanes: Array, waiting: Array) -> None:
        taken = values[lanes]
        result = {"popc": np.count_nonzero(taken), "and": taken.all(), "or": taken.any()}[reduction]
        np.copyto(out, result, casting="unsafe", where=waiting)

    return finish


def nothing(*known: str) -> Callable[[Binding, Instruction], Step]:
    """Makes a builder of instructions without an effect on values, such as fences and hints."""

    def build(k: Binding, i: Instruction) -> Step:
        modifiers = Modifiers(i)
        modifiers.drop(*known)
        modifiers.done()
        return lambda mask: None

    return build
