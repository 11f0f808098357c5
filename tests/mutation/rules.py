"""Defines rules by which a text itself shows that a mutant does no harm; each checks a condition in the text.

If a rule holds for a mutant that the simulator tells from the program, one of them is wrong, and `table` reports it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from .mutants import SWAPS, Unit, neighbour, units_of

ORDERS_ONLY = re.compile(r"bar\.(warp\.)?sync|fence\.|wgmma\.(fence|wait)|cp\.async\.(bulk\.)?wait|mbarrier\.try_wait")
"""Matches instructions that only make others wait, or see memory: moving one changes where it acts, and one
more does no harm."""
WEAKER = ("of another proxy", "of another space", "without the proxy", "of ordinary accesses")
SHARED = re.compile(r"\b(ld|st|atom|red)\.(?!global|param|local|const)|ldmatrix|stmatrix|cp\.async|mbarrier|wgmma\.mma")
SHARED_STORE = re.compile(r"\b(st|atom|red)\.(?!global|param|local)|stmatrix|cp\.async\.c")
GLOBAL_STORE = re.compile(r"\b(st|atom|red)\.global|cp\.async\.bulk\S*\.global\.shared")
OBJECT = re.compile(r"^mbarrier\.(init|arrive)\S*\s+(?:%\w+,\s*)?\[(jn_shared(?:\+\d+)?)\]")


@dataclass(frozen=True, slots=True)
class Code:
    """A text's units, and for each the units that may follow it."""

    units: list[Unit]
    following: list[tuple[int, ...]]

    @staticmethod
    def of(text: str) -> Code:
        units = units_of(text.split("\n"))
        labels = {unit.text[:-1]: index for index, unit in enumerate(units) if re.fullmatch(r"\$\S+:", unit.text)}
        following = []
        for index, unit in enumerate(units):
            branch = re.match(r"(@\S+\s+)?bra(?:\.uni)?\s+(\$\S+);", unit.text)
            ends = re.match(r"(ret|exit)\b", unit.text) or (branch and not branch[1])
            targets = [labels[branch[2]]] if branch else []
            following.append((*targets, *([] if ends or index + 1 == len(units) else [index + 1])))
        return Code(units, following)

    def before(self, index: int) -> set[int]:
        """Returns the units that may have been executed before this one."""
        leading: dict[int, list[int]] = {}
        for at, targets in enumerate(self.following):
            for target in targets:
                leading.setdefault(target, []).append(at)
        found: set[int] = set()
        left = [index]
        while left:
            for at in leading.get(left.pop(), ()):
                if at not in found:
                    found.add(at)
                    left.append(at)
        return found

    def after(self, index: int, stop: Callable[[Unit], bool]) -> Iterator[Unit]:
        """Yields the units that may be executed after this one, on each path up to one where `stop` holds."""
        seen: set[int] = set()
        left = list(self.following[index])
        while left:
            at = left.pop()
            if at in seen:
                continue
            seen.add(at)
            yield self.units[at]
            if not stop(self.units[at]):
                left += self.following[at]

    def beside(self, index: int, what: str) -> int | None:
        """Returns the unit with which a swap exchanges this one."""
        return neighbour(self.units, index, SWAPS[what]) if what in SWAPS else None


def another_name(code: Code, index: int, what: str) -> bool:
    """Returns whether nothing else in the text uses barrier 7: then all threads that arrive there execute this one instruction,
    and it is the same barrier under another name. (Otherwise the launch would not have ended.)"""
    others = (unit.text for at, unit in enumerate(code.units) if at != index)
    return what == "on another barrier" and not any(re.search(r"\bbar\S*\s+7\b", text) for text in others)


def earlier_group(code: Code, index: int, what: str) -> bool:
    """Returns whether the next is a copy, which then joins the earlier group and is waited for earlier, or not a cp.async."""
    beside = code.beside(index, what)
    if what != "swapped with the next" or beside is None or not code.units[index].text.startswith("cp.async.commit_group"):
        return False
    text = code.units[beside].text
    return bool(re.match(r"(@\S+\s+)?cp\.async\.c[ag]", text)) or not text.startswith("cp.async")


def first_use(code: Code, index: int, what: str) -> bool:
    """Returns whether nothing uses shared memory or stores to global memory before this barrier of the block, and another such
    barrier comes before any store to global memory."""
    unit = code.units[index]
    if what != "deleted" or not re.fullmatch(r"bar\.sync\s+0;", unit.text):
        return False
    if any(SHARED.search(code.units[at].text) or GLOBAL_STORE.search(code.units[at].text) for at in code.before(index)):
        return False
    following = code.after(index, lambda each: each.text == unit.text)
    return not any(GLOBAL_STORE.search(each.text) for each in following)


def nothing_to_show(code: Code, index: int, what: str) -> bool:
    """Returns whether no ordinary store to shared memory comes before this fence, but for mbarriers with another fence."""
    if what != "deleted" or not code.units[index].text.startswith("fence.proxy.async"):
        return False
    before = code.before(index)
    if index in before or any(SHARED_STORE.search(code.units[at].text) for at in before):
        return False
    initialised = [at for at in before if code.units[at].text.startswith("mbarrier.init")]
    fenced = (code.after(at, lambda each: bool(EDGE_OR_FENCE.match(each.text))) for at in initialised)
    return all(any(each.text.startswith("fence.mbarrier_init") for each in ahead) for ahead in fenced)


EDGE_OR_FENCE = re.compile(r"fence\.mbarrier_init|\S+:$|(@\S+\s+)?bra|ret")


def twin(code: Code, index: int, what: str) -> bool:
    """Returns whether the same barrier is beside it, with no access between the two."""
    beside = (neighbour(code.units, index, step) for step in (-1, 1))
    unit = code.units[index]
    return (
        what == "deleted"
        and unit.text.startswith("bar.sync")
        and any(at is not None and code.units[at].text == unit.text for at in beside)
    )


def nothing_in_common(code: Code, index: int, what: str) -> bool:
    """Returns whether the two do not affect each other: a fence of registers beside an ordering of memory, two waits for
    different things, or operations on two mbarriers."""
    beside = code.beside(index, what)
    if beside is None:
        return False
    pair = [code.units[index].text, code.units[beside].text]
    if len([text for text in pair if text.startswith("wgmma.fence")]) == 1:
        return any(re.match(r"bar\.|mbarrier\.|fence\.|cp\.async\.(wait|commit)", text) for text in pair)
    waits = [found[0] for text in pair if (found := re.match(r"cp\.async\.wait|wgmma\.wait|mbarrier\.try_wait", text))]
    if len(set(waits)) == 2:
        return True
    objects = [(found[1], found[2]) for text in pair if (found := OBJECT.match(text))]
    return len(set(objects)) == 2 and objects[0][0] == objects[1][0] and "expect_tx" not in "".join(pair)


RULES: dict[str, Callable[[Code, int, str], bool]] = {
    "the same barrier under another name": another_name,
    "a copy that joins the earlier group": earlier_group,
    "the first use of shared memory": first_use,
    "nothing to show to the asynchronous proxy": nothing_to_show,
    "one of two equal barriers": twin,
    "two that have nothing in common": nothing_in_common,
}
MOVED, WEAKENED = "a move of what could be deleted", "a weaker one where none would do"
"""The rules of `by_deletion`: consequences of a harmless deletion."""


def by_deletion(code: Code, index: int, what: str, deletable: Callable[[int], bool]) -> str:
    """Returns the rule by which a mutant does no harm because a deletion does none; "" if there is none.

    An instruction that only orders can be deleted, if that does no harm, and inserted elsewhere in its block, whatever it
    passes. For a swap, either of the two may be that instruction.
    """
    if what in WEAKER and deletable(index):
        return WEAKENED
    beside = code.beside(index, what)
    if beside is not None:
        for at in (index, beside):
            if ORDERS_ONLY.match(code.units[at].text) and deletable(at):
                return MOVED
    return ""
