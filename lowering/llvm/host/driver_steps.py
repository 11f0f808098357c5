"""Emits the steps of plans with loops and branches: a function for each region, which the function around it calls.

What changes while a plan runs, which memory holds a carried value and which row an iteration reads, are addresses in a frame,
an array on the stack of `jn_run` (`control/steps.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

from ...control.steps import Branch, Launches, Loop, Slice, Step, Together, inner_steps
from ...nest import Buffer
from ..ir import Function
from ..module import Module
from ..values import FALSE, TRUE, Global, V, const, i64
from .driver_launches import DriverCode, DriverPlan, emit_sections, work

FIRST_INTERVAL, SHORT_NS = 64, 1000
"""After how many iterations a loop looks for signals first, if one takes no more than so many nanoseconds."""
MAX_SHARED_NS, MAX_TOGETHER_NS = 40_000, 100_000_000
"""Loops run at once if no launch of theirs takes longer than this on one core: for longer ones, all threads work on one loop.
And if none of them takes longer than this as a whole: the thread that waits for the others does not look for signals."""


def emit_steps(module: Module, plan: DriverPlan, steps: Sequence[Step]) -> str:
    """Add the function of some steps, and those that it calls. Returns its name.

    The function returns 0, or 1 if a loop was interrupted; then nothing is computed any more.
    """
    inner = [[emit_steps(module, plan, each) if each else "" for each in inner_steps(step)] for step in steps]
    parameters = [("ptr", "pool"), ("ptr", "buffers"), ("ptr", "dims"), ("ptr", "frame")]
    f = Function(module, f"jn_steps_{len(module.functions)}", parameters, "i64", linkage="internal")
    code, stopped = DriverCode(f, plan, f.params[3]), f.label("stopped")
    for step in steps:  # first the addresses that stay, so that they are known wherever the code branches
        for buffer in _fixed_buffers(step):
            code.address(buffer)
    for step, functions in zip(steps, inner, strict=True):
        match step:
            case Launches():
                sections = emit_sections(module, plan, step.first, step.last, True)
                for section in sections:
                    f.call(section, "void", f.params)
                if not sections:
                    code.launch(step.first, step.last)
            case Loop():
                _emit_loop(code, step, functions, stopped)
            case Branch():
                _emit_branch(code, step, functions, stopped)
            case Together():
                _emit_together(code, step, functions, stopped)
    f.ret(i64(0))
    f.start(stopped)
    f.ret(i64(1))
    module.add(f)
    return f.name


def _fixed_buffers(step: Step) -> list[Buffer]:
    """Return the buffers that the code of a loop or branch itself looks at, without variables."""
    found: list[Buffer | None] = []
    if isinstance(step, Loop):
        found = [step.limit, step.asked, step.index, step.count]
        found += [buffer for each in step.slices for buffer in (each.whole, each.positions)]
        found += [buffer for each in step.carried for buffer in (each.begin, *each.memory)]
    elif isinstance(step, Branch):
        found = [step.condition, step.number]
    return [buffer for buffer in found if buffer is not None and buffer.kind != "variable"]


def _emit_loop(code: DriverCode, loop: Loop, functions: Sequence[str], stopped: str) -> None:
    f = code.f
    condition, body = functions
    for each in loop.carried:
        f.store(code.address(each.begin), code.slot(each.now.index), 8)
        for variable, memory in zip((each.following, each.spare), each.memory, strict=False):
            if variable is not None:
                f.store(code.address(memory), code.slot(variable.index), 8)
    limits = [] if loop.is_unbounded else [code.extent(loop.length)]
    if loop.limit is not None:
        limits.append(f.load("i64", code.address(loop.limit), 8))
    rows = [_Rows(code, each) for each in loop.slices]
    last = f.sub(code.extent(loop.length), i64(1)) if loop.reverse else None
    index = code.address(loop.index)
    counter = f.alloca("i64", 1, 8)
    f.store(i64(0), counter, 8)
    last_look, interval, until_look = (f.alloca("i64", 1, 8) for _ in range(3))
    f.store(i64(0), last_look, 8)
    for slot in (interval, until_look):
        f.store(i64(_first_interval(code, loop)), slot, 8)
    head, done = f.label("head"), f.label("done")
    f.branch(head)
    f.start(head)
    count = f.load("i64", counter, 8)
    for limit in limits:
        _go_on(f, f.icmp("slt", count, limit), done)
    f.store(count, index, 8)
    if loop.asked is not None:
        _call(code, condition, stopped)
        _go_on(f, _truth(f, code.address(loop.asked)), done)
    at = count if last is None else f.sub(last, count)
    for row in rows:
        row.point(f, at)
    _call(code, body, stopped)
    _emit_look(f, last_look, interval, until_look, stopped)
    for each in loop.carried:
        if each.following is not None and each.spare is not None:
            written = f.load("ptr", code.slot(each.following.index), 8)
            f.store(written, code.slot(each.now.index), 8)
            f.store(f.load("ptr", code.slot(each.spare.index), 8), code.slot(each.following.index), 8)
            f.store(written, code.slot(each.spare.index), 8)
    f.store(f.add(f.load("i64", counter, 8), i64(1)), counter, 8)
    f.branch(head)
    f.start(done)
    if loop.count is not None:
        f.store(f.load("i64", counter, 8), code.address(loop.count), 8)


class _Rows:
    """The code that points a variable to a row of a tensor: its values are computed before the loop."""

    def __init__(self, code: DriverCode, row: Slice) -> None:
        self.whole, self.nbytes, self.slot = code.address(row.whole), code.extent(row.nbytes), code.slot(row.row.index)
        self.positions = None if row.positions is None else code.address(row.positions)
        self.dtype = "i64" if row.positions is None else f"i{row.positions.dtype.bits}"
        self.count = code.extent(row.count)

    def point(self, f: Function, at: V) -> None:
        """Point to the row of an iteration."""
        if self.positions is not None:
            nbytes = 8 if self.dtype == "i64" else 4
            at = f.load(self.dtype, f.gep(self.positions, f.mul(at, i64(nbytes))), nbytes)
            at = at if nbytes == 8 else f.cast("sext", at, "i64")
            at = f.select(f.icmp("slt", at, i64(0)), f.add(at, self.count), at)
            at = f.select(f.icmp("slt", at, i64(0)), i64(0), at)
            last = f.sub(self.count, i64(1))
            at = f.select(f.icmp("slt", at, last), at, last)
        f.store(f.gep(self.whole, f.mul(at, self.nbytes)), self.slot, 8)


def _emit_look(f: Function, last_look: V, interval: V, until_look: V, stopped: str) -> None:
    """Emit a count of iterations, and a call that looks for signals when there were enough of them."""
    left = f.sub(f.load("i64", until_look, 8), i64(1))
    f.store(left, until_look, 8)
    look, goes = f.label("look"), f.label("goes")
    f.cond_branch(f.icmp("eq", left, i64(0)), look, goes)
    f.start(look, dominated=True)
    following = f.call("jn_poll", "i64", [last_look, f.load("i64", interval, 8)])
    f.store(following, interval, 8)
    f.store(following, until_look, 8)
    f.cond_branch(f.icmp("eq", following, i64(0)), stopped, goes)
    f.start(goes)


def _first_interval(code: DriverCode, loop: Loop) -> int:
    """Return after how many iterations a loop looks for signals first: 1 where an iteration may take long."""
    if any(not isinstance(step, Launches) for inner in inner_steps(loop) for step in inner):
        return 1
    time = 0
    for inner in inner_steps(loop):
        for step in inner:
            assert isinstance(step, Launches)
            for launch in code.plan.launches[step.first : step.last]:
                known = work(launch)
                if known is None:
                    return 1
                time += known
    return FIRST_INTERVAL if time <= SHORT_NS else 1


def _emit_together(code: DriverCode, step: Together, functions: Sequence[str], stopped: str) -> None:
    """Emit the parts as programs of one launch, where they are short; else, and where launches are timed, one by one."""
    f, parts = code.f, [function for function in functions if function]
    at_once, one_by_one, done = f.label("at_once"), f.label("one_by_one"), f.label("done")
    f.cond_branch(f.select(code.is_profiled, FALSE, _are_short(code, step)), at_once, one_by_one)
    f.start(at_once)
    arguments = f.alloca("i64", len(f.params) + len(parts), 8)
    for number, value in enumerate([*f.params, *[i64(0)] * len(parts)]):
        f.store(value, f.gep(arguments, 8 * number), 8)
    f.call("jn_parallel", "void", [f.params[0], Global(_parts_kernel(f.module, parts)), arguments, i64(len(parts)), i64(1)])
    status: V = i64(0)
    for number in range(len(parts)):
        status = f.binary("or", status, f.load("i64", f.gep(arguments, 8 * (len(f.params) + number)), 8))
    f.cond_branch(f.icmp("eq", status, i64(0)), done, stopped)
    f.start(one_by_one)
    for function in parts:
        _call(code, function, stopped)
    f.branch(done)
    f.start(done)


def _are_short(code: DriverCode, step: Together) -> V:
    """Emit whether no launch of the parts is long, and none of the parts."""
    f, s = code.f, code.s
    holds: V = TRUE

    def time(steps: Sequence[Step]) -> V:
        """Emit an estimate of the time of steps on one core, with what must hold of their launches."""
        nonlocal holds
        total = s.constant(0)
        for each in steps:
            if isinstance(each, Launches):
                for launch in code.plan.launches[each.first : each.last]:
                    own = code.work(launch)
                    holds = f.binary("and", holds, f.icmp("sle", own, i64(MAX_SHARED_NS)))
                    total = s.add(total, s.min(own, i64(MAX_SHARED_NS)))
                continue
            inside = s.constant(0)
            for inner in inner_steps(each):
                inside = s.add(inside, time(inner))
            if isinstance(each, Loop) and each.is_unbounded:
                inside = s.constant(MAX_TOGETHER_NS + 1)
            elif isinstance(each, Loop):
                inside = s.mul(s.min(inside, i64(MAX_TOGETHER_NS)), s.min(code.extent(each.length), i64(MAX_TOGETHER_NS)))
            total = s.add(total, s.min(inside, i64(MAX_TOGETHER_NS + 1)))
        return s.min(total, i64(MAX_TOGETHER_NS + 1))

    for part in step.parts:
        holds = f.binary("and", holds, f.icmp("sle", time(part), i64(MAX_TOGETHER_NS)))
    return holds


def _parts_kernel(module: Module, parts: Sequence[str]) -> str:
    """Add the kernel whose programs are parts: its arguments are those of the parts, then a status for each."""
    f = Function(module, f"jn_parts_{len(module.functions)}", [("ptr", "arguments"), ("i64", "first"), ("i64", "last")],
                 linkage="internal")  # fmt: skip
    arguments, first, last = f.params
    given = [f.load("ptr", f.gep(arguments, 8 * number), 8) for number in range(4)]
    with f.loop(first, last) as state:
        labels, done = [f.label("part") for _ in parts], f.label("done")
        cases = " ".join(f"i64 {number}, label %{label}" for number, label in enumerate(labels))
        f.emit(f"switch i64 {state.index.operand()}, label %{done} [ {cases} ]")
        for number, (label, part) in enumerate(zip(labels, parts, strict=True)):
            f.start(label)
            f.store(f.call(part, "i64", given), f.gep(arguments, 8 * (len(given) + number)), 8)
            f.branch(done)
        f.start(done)
    f.ret()
    module.add(f)
    return f.name


def _go_on(f: Function, condition: V, done: str) -> None:
    """Emit a branch to `done` unless a condition holds."""
    goes = f.label("goes")
    f.cond_branch(condition, goes, done)
    f.start(goes)


def _truth(f: Function, address: V) -> V:
    """Return the bool at an address, which is one byte."""
    return f.icmp("ne", f.load("i8", address, 1), const(0, "i8"))


def _call(code: DriverCode, function: str, stopped: str) -> None:
    if function:
        _go_on(code.f, code.f.icmp("eq", code.f.call(function, "i64", code.f.params), i64(0)), stopped)


def _emit_branch(code: DriverCode, branch: Branch, functions: Sequence[str], stopped: str) -> None:
    f = code.f
    condition = _truth(f, code.address(branch.condition))
    then, otherwise, done = f.label("then"), f.label("otherwise"), f.label("done")
    f.cond_branch(condition, then, otherwise)
    for number, (label, function) in enumerate(zip((then, otherwise), functions, strict=True)):
        f.start(label)
        _call(code, function, stopped)
        if branch.number is not None:
            f.store(i64(number), code.address(branch.number), 8)
        f.branch(done)
    f.start(done)
