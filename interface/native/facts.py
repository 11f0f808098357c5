"""Finds what launches of a kernel need to know of its function."""

from __future__ import annotations

from ...lowering.llvm.compile import host_target
from ...lowering.llvm.host.memory.bounds import AddressSources, address_sources, follows_addresses
from ...lowering.tt.analysis.alias_sets import AliasSet
from ...lowering.tt.analysis.aliasing import ATOMICS
from ...lowering.tt.analysis.work import element_operations
from ...lowering.tt.dialect.functions import FuncOp
from .kernel import LaunchFacts


def launch_facts(name: str, function: FuncOp, written: AliasSet, checked: bool) -> LaunchFacts:
    """The facts of a function that is ready to be lowered. written: the parameters behind which it may write.

    checked: whether launches compare every access with the memory that it may reach. Stores may bypass the caches where there
    are no atomics: the end of a launch orders them, but atomics do not.
    """
    may_stream = not any(op.name in ATOMICS for op in function.walk())
    follows = checked and follows_addresses(function)
    sources = address_sources(function) if follows else AddressSources((), False)
    work = element_operations(function)
    return LaunchFacts(name, written, may_stream, host_target().l3_bytes, checked, follows, work, sources.tables, sources.again)
