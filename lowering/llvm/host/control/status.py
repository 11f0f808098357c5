"""Stops a launch early: when it is cancelled from outside, or when a program finds an error.

All programs of a launch share five words: the state, and the site, program, lane and address of the first error (the address
of an access out of bounds, else 0). Programs read the state before they start, and loops that may wait for others in every
iteration.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from .....promotion.dataclass import dataclass
from ...ir import Function
from ...module import Module
from ...values import V, i64
from .sites import RUNNING, STOPPED, PrintSite, Site

_HARMLESS = frozenset(
    ("add", "sub", "mul", "shl", "and", "or", "xor", "icmp", "select", "sext", "zext", "trunc", "getelementptr", "call")
)
"""The instructions that may be executed although the check before them fails. Calls are of these functions:"""
_HARMLESS_CALLS = ("@llvm.smin.", "@llvm.smax.", "@llvm.umin.", "@llvm.umax.")
_NO_ADDRESS = i64(0)


class _Checks(NamedTuple):
    """The checks that share the branch printed last.

    Its lines are those from `first` to `behind`; the last one starts the block `fine`. holds: whether all checks hold.
    """

    holds: V
    checks: tuple[tuple[V, int], ...]
    program: V
    lane: V
    address: V
    first: int
    behind: int
    fine: str

    def goes_with(self, f: Function, program: V, lane: V, address: V) -> bool:
        """Whether a check that follows now can share the branch: what was printed since may be executed anyway."""
        if f.block != self.fine or (program, lane, address) != (self.program, self.lane, self.address):
            return False
        return all(map(_is_harmless, f.lines[self.behind :]))


def _is_harmless(line: str) -> bool:
    parts = line.split(None, 3)
    if len(parts) < 4 or parts[1] != "=" or parts[2] not in _HARMLESS:
        return False
    return parts[2] != "call" or any(name in parts[3] for name in _HARMLESS_CALLS)


class Status:
    """Emits the checks of one function. `address`: address of the launch's status words."""

    def __init__(self, f: Function, address: V) -> None:
        self._f = f
        self.address = address
        self._leave = f.label("leave")
        self.sites: list[Site | PrintSite] = []
        self._last: _Checks | None = None

    def leave_if_stopped(self) -> None:
        f = self._f
        state = f.op(f"load atomic i64, ptr {self.address.operand()} monotonic, align 8", "i64")
        going_on = f.label("going")
        f.cond_branch(f.icmp("ne", state, i64(0)), self._leave, going_on)
        f.start(going_on, dominated=True)

    def stop_unless(self, holds: V, site: Site, program: V, lane: V, address: V = _NO_ADDRESS) -> None:
        """Stops the launch if the i1 is false; the first site to do so is the one that is reported."""
        f, last = self._f, self._last
        checks: tuple[tuple[V, int], ...] = ((holds, self.add(site)),)
        if last is not None and last.goes_with(f, program, lane, address):
            # One branch for both: only arithmetic stands between.
            del f.lines[last.first : last.behind]
            checks = last.checks + checks
            holds = f.binary("and", last.holds, holds)
        first = len(f.lines)
        broken, fine = f.label("broken"), f.label("fine")
        f.cond_branch(holds, fine, broken)
        f.start(broken, dominated=True)
        with f.scope():
            *others, (_, number) = checks
            which = i64(number)
            for each, number in reversed(others):
                which = f.select(each, which, i64(number))
            for line in self._report(which, program, lane, address):
                f.emit(line)
        f.start(fine, dominated=True)
        self._last = _Checks(holds, checks, program, lane, address, first, len(f.lines), fine)

    def add(self, site: Site | PrintSite) -> int:
        self.sites.append(site)
        return len(self.sites) - 1

    def report(self, site: int, program: V, lane: V) -> list[str]:
        """Returns the instructions that stop the launch and leave the function."""
        return self._report(i64(site), program, lane, _NO_ADDRESS)

    def _report(self, site: V, *facts: V) -> list[str]:
        self._f.module.provide(_Stop())
        arguments = ", ".join([f"ptr {self.address.operand()}", *(f"i64 {each.operand()}" for each in (site, *facts))])
        return [f"call void @{_Stop.name}({arguments}) cold", f"br label %{self._leave}"]

    def start_leaving(self) -> None:
        """Begins the block that all exits lead to, after the function's own end."""
        self._f.start(self._leave)


@dataclass(frozen=True, slots=True)
class _Stop:
    """The function that records an error, if it is the first one. Implements `SharedFunction`."""

    name: ClassVar[str] = "jn_stop"
    parameters: ClassVar = (
        ("ptr", "status"), ("i64", "site"), ("i64", "program"), ("i64", "lane"), ("i64", "address"),
    )  # fmt: skip

    def add(self, module: Module, linkage: str = "internal") -> None:
        f = Function(module, self.name, self.parameters, attributes="nounwind noinline cold", linkage=linkage)
        status, *facts = f.params
        exchanged = f.op(f"cmpxchg ptr {status.operand()}, i64 {RUNNING}, i64 {STOPPED} acq_rel monotonic", "{ i64, i1 }")
        with f.when(f.op(f"extractvalue {{ i64, i1 }} {exchanged.operand()}, 1", "i1")):
            for position, fact in enumerate(facts):
                f.store(fact, f.gep(status, 8 * (position + 1)), 8)
        f.ret()
        module.add(f)
