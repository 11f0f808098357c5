"""Computes which blocks of a region dominate others."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator

from xdsl.ir import Block

from ...tt.analysis.control_flow import terminator


def _successors(block: Block) -> Iterable[Block]:
    return terminator(block).successors if block.last_op is not None else ()


def postorder(entry: Block) -> Iterator[Block]:
    """Yields the reachable blocks in the postorder of a depth-first search."""
    seen = {entry}
    path = [(entry, iter(_successors(entry)))]
    while path:
        block, left = path[-1]
        following = next((each for each in left if each not in seen), None)
        if following is None:
            path.pop()
            yield block
        else:
            seen.add(following)
            path.append((following, iter(_successors(following))))


def dominated(entry: Block) -> dict[Block, list[Block]]:
    """Returns, for every block reachable from `entry`, the blocks that it dominates immediately, in reverse
    postorder.

    Source: Cooper, Harvey, Kennedy, "A Simple, Fast Dominance Algorithm".
    """
    number = {block: index for index, block in enumerate(postorder(entry))}
    order = sorted(number, key=number.__getitem__, reverse=True)
    before: dict[Block, list[Block]] = {block: [] for block in order}
    for block in order:
        for successor in _successors(block):
            before[successor].append(block)
    dominator = {entry: entry}

    def common(one: Block, other: Block) -> Block:
        """Returns the nearest block that dominates both."""
        while one is not other:
            if number[one] < number[other]:
                one = dominator[one]
            else:
                other = dominator[other]
        return one

    changed = True
    while changed:
        changed = False
        for block in order[1:]:
            new = functools.reduce(common, [other for other in before[block] if other in dominator])
            if dominator.get(block) is not new:
                dominator[block], changed = new, True
    below: dict[Block, list[Block]] = {}
    for block in order[1:]:
        below.setdefault(dominator[block], []).append(block)
    return below
