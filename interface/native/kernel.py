"""The native code of a block function on the CPU: one program per launch specialization, made when a launch needs it.

What launches need to know of a function, and the code for each specialization, are plain data that can be kept on disk: a
process that finds both there parses no text and loads no code generator.
"""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable, Sequence

from ...lowering.llvm.host.launch_specialization import CHECKED, GENERIC, MULTIPLE, LaunchSpecialization
from ...lowering.tt.analysis.alias_sets import AliasSet, Groups, shared_memory
from ...promotion.dataclass import dataclass
from ...runtime.storage.cache import CompileCache
from .host_program import HostObject, HostProgram

_first_byte = operator.itemgetter(1)
MAX_SPECIALIZATIONS = 16
"""Launch specializations that a kernel is compiled for; beyond that, large launches run the code of small ones."""


@dataclass(frozen=True, slots=True)
class LaunchFacts:
    """What choosing the specialization of a launch takes.

    name: the function's, for messages.
    written: the parameters behind which the kernel may write, -1 for memory that is not known.
    may_stream: whether stores may go past the caches: those of a kernel with atomics may not.
    large: bytes from which on a launch moves more than the caches hold.
    checked: whether launches compare every access with the memory that it may reach.
    follows: whether the kernel accesses memory at addresses that it loads or makes.
    tables: the parameters from whose memory it loads what such addresses are made of, and the bytes of the smallest element;
        with 0, numbers that they are made of.
    follows_again: whether it may load addresses from there, too.
    work: the operations on single elements that a program does; None if nothing is known of their time.
    """

    name: str
    written: AliasSet
    may_stream: bool
    large: int
    checked: bool = False
    follows: bool = False
    work: int | None = None
    tables: tuple[tuple[int, int], ...] = ()
    follows_again: bool = False

    @property
    def simplest(self) -> LaunchSpecialization:
        """The specialization of launches whose arguments do not overlap and fit the caches."""
        return CHECKED if self.checked else GENERIC


class NativeKernel:
    """The programs of one block function by launch specialization.

    simplest: that of launches whose arguments do not overlap and fit the caches, once there was such a launch.
    """

    def __init__(
        self,
        facts: LaunchFacts,
        compiled: Callable[[LaunchSpecialization], HostObject],
        store: CompileCache | None,
    ) -> None:
        """compiled: makes the code for a specialization. store: where functions that kernels share are kept."""
        self.facts = facts
        self._compiled = compiled
        self._store = store
        self._programs: dict[LaunchSpecialization, HostProgram] = {}
        self.simplest: HostProgram | None = None  # found without a look-up, as launches take as long as a few of them
        self._lock = threading.Lock()  # code is linked once: replacing it would unmap what another thread runs

    def program(self, spans: Sequence[tuple[int, int, int]], values: Sequence[int]) -> HostProgram:
        """The code for a launch.

        spans: (position of the parameter, first byte, end) of the memory behind each pointer. values: the arguments as the
        64-bit values that the code reads.
        """
        facts = self.facts
        groups: Groups = ()
        last = size = 0
        for _, first, end in sorted(spans, key=_first_byte):
            if first < last:
                groups = shared_memory(spans, facts.written)
                size = sum([end - first for _, first, end in spans])
                break
            size += end - first
            last = end
        if size >= facts.large and facts.may_stream and len(self._programs) < MAX_SPECIALIZATIONS:
            multiples = tuple([i for i, value in enumerate(values) if value % MULTIPLE == 0])
            return self.specialized(LaunchSpecialization(groups, True, multiples, facts.checked))
        if groups:
            return self.specialized(LaunchSpecialization(groups, checked=facts.checked))
        return self.simplest or self._specialized_simply()

    def _specialized_simply(self) -> HostProgram:
        self.simplest = self.specialized(self.facts.simplest)
        return self.simplest

    def specialized(self, specialization: LaunchSpecialization) -> HostProgram:
        """The code for a specialization, compiled and linked if it is the first time."""
        program = self._programs.get(specialization)
        if program is None:
            compiled = self._compiled(specialization)
            with self._lock:
                program = self._programs.get(specialization)
                if program is None:
                    program = self._programs[specialization] = HostProgram(compiled, self._store, self.facts.work)
        return program
