"""Finds the kernels of a text, and the functions that functions call, before anything is checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ..syntax import tree


def kernels_of(items: Sequence[tree.Statement]) -> list[tree.Function | tree.Skipped]:
    """Return the kernels of a text: functions marked `__global__`; if there are none, void functions that nobody calls."""
    skipped = [each for each in items if isinstance(each, tree.Skipped)]
    read = [each for each in items if isinstance(each, tree.Function)]
    functions: list[tree.Function | tree.Skipped] = [*read, *(each for each in skipped if not each.is_prototype)]
    prototypes = [each for item in items if isinstance(item, tree.Declaration) for each in item.prototypes]
    announced = {each.name for each in prototypes if each.is_global}
    announced |= {each.name for each in skipped if each.is_prototype and each.is_global}
    marked = [each for each in functions if each.is_global or each.name in announced]
    if marked:
        return marked
    called = _called_names(read).union(*(each.called for each in skipped if not each.is_prototype))
    return [each for each in functions if each.is_void and each.name not in called and not each.is_device]


def called_functions(functions: Sequence[tree.Function], known: Mapping[str, tree.Function]) -> list[tree.Function]:
    """Return the functions that some functions call, and those that these call, in no order of calls."""
    found: dict[str, tree.Function] = {}
    waiting = list(functions)
    while waiting:
        for name in sorted(_called_names([waiting.pop()])):
            if name in known and name not in found:
                found[name] = known[name]
                waiting.append(known[name])
    return [each for each in known.values() if each.name in found]


def _called_names(functions: Sequence[tree.Function]) -> set[str]:
    """Return the names that are called in the bodies of functions."""
    nodes = nodes_of(*(each.body for each in functions if each.body is not None))
    return {each.callee.token.text for each in nodes if isinstance(each, tree.Call) and isinstance(each.callee, tree.Name)}


def nodes_of(*roots: tree.Node) -> Iterator[tree.Node]:
    """Give all parts of some trees; of calls without the names of what is called."""
    waiting: list[object] = list(roots)
    while waiting:
        node = waiting.pop()
        if isinstance(node, tuple):
            waiting.extend(node)
        elif isinstance(node, tree.Node):
            yield node
            slots = [slot for kind in type(node).__mro__ for slot in getattr(kind, "__slots__", ())]
            is_named = isinstance(node, tree.Call) and isinstance(node.callee, tree.Name)
            waiting.extend(getattr(node, slot) for slot in slots if not (is_named and slot == "callee"))


__all__ = ["called_functions", "kernels_of", "nodes_of"]
