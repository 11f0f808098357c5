"""Finds the scratch blocks that a lazy block reads, which is needed to write scratch in place."""

from __future__ import annotations

from dataclasses import replace

from ..evaluate import Evaluator
from ..nodes import Load, Map, Node, Pointers, Stored, View


def scratch_reads(ev: Evaluator, node: Node) -> tuple[set[int], set[int]]:
    """Returns the scratch blocks that evaluating a node reads, and those of them that it reads at other positions than its own.

    Blocks are named by the `id` of their pointer.
    """
    found: set[int] = set()
    elsewhere: set[int] = set()
    stack, seen = [(node, False)], set[tuple[int, bool]]()
    while stack:
        here, moved = stack.pop()
        copy = ev.replacement.get(id(here))
        if (copy is not None and not copy[2]) or (id(here), moved) in seen:  # a copy within bounds is incomplete
            continue
        seen.add((id(here), moved))
        match here:
            case Stored():
                found.add(id(here.pointer))
                if moved:
                    elsewhere.add(id(here.pointer))
            case Map():
                stack += [(operand, moved) for operand in here.operands]
            case View():
                stack.append((here.source, True))
            case Pointers():
                stack += [] if here.rest is None else [(here.rest, moved)]
            case Load():
                parts = (here.pointers, here.mask, here.other)
                stack += [(part, moved) for part in parts if part is not None]
    return found, elsewhere


def written_apart(ev: Evaluator, node: Node, memory: Stored) -> Stored:
    """Returns where to write a block that overwrites itself, at an address that LLVM takes for another one.

    Of a choice between an element and a new value LLVM makes a store under a mask, which takes AMD's processors without AVX-512
    twenty cycles, where the choice takes one.
    """
    if not ev.target.has_short_vectors or not isinstance(node, Map) or node.op != "arith.select":
        return memory
    if not any(isinstance(operand, Stored) and operand.pointer is memory.pointer for operand in node.operands):
        return memory
    return replace(memory, pointer=ev.f.op(f'call ptr asm "", "=r,0"(ptr {memory.pointer.operand()})', "ptr"))
