"""Alias sets: which parameters of a function a pointer may be based on, and which of them share memory in a launch.

`aliasing.py` finds the alias sets of a function. Launches read what is here without it, and so without xDSL.
"""

from __future__ import annotations

from collections.abc import Sequence

UNKNOWN = -1
AliasSet = frozenset[int]
"""The alias set of a pointer: the groups of parameters that it may be based on (by default each parameter is a group of its
own), or `UNKNOWN` among them."""


def may_alias(left: AliasSet, right: AliasSet) -> bool:
    """Whether two pointers may be based on the same group of parameters."""
    if not left or not right:
        return False
    return UNKNOWN in left or UNKNOWN in right or bool(left & right)


Groups = tuple[tuple[int, int], ...]
"""(parameter, group) pairs of parameters that share memory with others."""


def shared_memory(spans: Sequence[tuple[int, int, int]], written: AliasSet) -> Groups:
    """The parameters that share memory which the kernel may write, by group. spans: (parameter, first byte, end)."""
    ordered = sorted([(first, end, parameter) for parameter, first, end in spans])
    last = 0
    for first, end, _ in ordered:
        if first < last:
            break
        last = end
    else:
        return ()  # as nearly all launches are
    groups: dict[int, int] = {}
    cluster: list[int] = []
    last = 0

    def close() -> None:
        if len(cluster) > 1 and may_alias(frozenset(cluster), written):
            groups.update(dict.fromkeys(cluster, min(cluster)))

    for first, end, parameter in ordered:
        if first >= last:
            close()
            cluster = []
        cluster.append(parameter)
        last = max(last, end)
    close()
    return tuple(sorted(groups.items()))
