"""How a launch stops early: cancelled from outside, or by a program that found a mistake.

All programs of a launch share four words: the state, and the site, program and lane of the first mistake. Programs look at the
state before they start, and loops that may wait for others look at every turn.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..ir import Function, Module, V

RUNNING, CANCELLED, STOPPED = 0, 1, 2
WORDS = 4
_STOP = "jn_stop"


@dataclass(frozen=True, slots=True)
class Site:
    """A place of a kernel that can stop the launch. kind: "assert", or "overflow" of 32-bit address arithmetic."""

    kind: str
    message: str
    line: str


class Status:
    """Emits the checks of one function. `words`: address of the launch's status words."""

    def __init__(self, f: Function, words: V) -> None:
        self._f = f
        self._words = words
        self._leave = f.label("leave")
        self.sites: list[Site] = []

    def leave_if_stopped(self) -> None:
        f = self._f
        state = f.op(f"load atomic i64, ptr {self._words.ref} monotonic, align 8", "i64")
        going_on = f.label("going")
        f.cond_branch(f.icmp("ne", state, V("0", "i64")), self._leave, going_on)
        f.start(going_on)

    def stop_unless(self, holds: V, site: Site, program: V, lane: V) -> None:
        """Stop the launch if the i1 is false; the first site to do so is the one that is reported."""
        f = self._f
        broken, fine = f.label("broken"), f.label("fine")
        f.cond_branch(holds, fine, broken)
        f.start(broken)
        _declare_stop(f.module)
        f.call(_STOP, "void", [self._words, V(str(len(self.sites)), "i64"), program, lane])
        f.branch(self._leave)
        f.start(fine)
        self.sites.append(site)

    def finish(self) -> None:
        """The way out, behind the function's own end."""
        self._f.start(self._leave)
        self._f.ret()


def _declare_stop(module: Module) -> None:
    if _STOP in module.functions:
        return
    parameters = [("ptr", "status"), ("i64", "site"), ("i64", "program"), ("i64", "lane")]
    f = Function(module, _STOP, parameters, attributes="nounwind noinline cold", linkage="internal")
    status, *facts = f.params
    exchanged = f.op(f"cmpxchg ptr {status.ref}, i64 {RUNNING}, i64 {STOPPED} acq_rel monotonic", "{ i64, i1 }")
    with f.when(f.op(f"extractvalue {{ i64, i1 }} {exchanged.ref}, 1", "i1")):
        for position, fact in enumerate(facts):
            f.store(fact, f.gep(status, 8 * (position + 1)), 8)
    f.ret()
    module.add(f)
