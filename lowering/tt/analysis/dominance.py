"""Which blocks of a region are always passed on the way to others."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator

from xdsl.ir import Block

from ...tt.analysis.control_flow import terminator


def _successors(block: Block) -> Iterable[Block]:
    return terminator(block).successors if block.last_op is not None else ()


def postorder(entry: Block) -> Iterator[Block]:
    """The blocks that can be reached, every one after those behind it."""
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
    """Block → the blocks that it dominates immediately, in reverse postorder; for those that can be reached from `entry`.

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
        """The nearest block that dominates both."""
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
