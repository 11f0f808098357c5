"""Completes orders to join semilattices (Dedekind-MacNeille completion).

Two dtypes may have several minimal upper bounds: int16, float16 and bfloat16 all hold every int8 and every
uint8. The completion (H. M. MacNeille, "Partially ordered sets", Trans. AMS 42, 1937) adds one element for
every such set of bounds and nothing else: the smallest order in which every two elements with a common upper
bound have a least one. Such an element is no dtype, but it keeps the choice open, so that a join of three
does not depend on their order: int8 ∨ uint8 ∨ float16 is float16. A computation that ends in one takes the
bound that is first in the list of dtypes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence

from ..dtype import DType, cut
from ..errors import UserError
from .lattice import Lattice


def complete(
    name: str, dtypes: Sequence[DType], leq: Callable[[DType, DType], bool]
) -> tuple[Lattice[DType], Mapping[DType, DType]]:
    """Return the Dedekind-MacNeille completion of `dtypes` under `leq`, and the dtype of each added element.

    `name` is the rule set's, for messages. Raises `UserError` for two dtypes that are each below the other.
    """
    for a, b in itertools.combinations(dtypes, 2):
        if leq(a, b) and leq(b, a):
            raise UserError(
                f"rule set {name!r}: 'order': {a} and {b} hold the same values; expected one of them in 'never_above', so that "
                f"their join is the other; fix: 'never_above': [\"{b}\"]"
            )
    count = len(dtypes)
    upsets = [sum(1 << j for j in range(count) if i == j or leq(dtypes[i], dtypes[j])) for i in range(count)]
    own = {upset: dtype for upset, dtype in zip(upsets, dtypes, strict=True)}
    cuts = set(upsets)
    pending = list(upsets)
    while pending:
        upset = pending.pop()
        for other in upsets:
            common = upset & other
            if common and common not in cuts:
                cuts.add(common)
                pending.append(common)
    values: dict[DType, DType] = {}
    for upset in sorted(cuts - set(own), key=lambda bits: (-bits.bit_count(), bits)):
        below = [d for d, up in zip(dtypes, upsets, strict=True) if up | upset == up]
        maximal = [d for d in below if not any(d is not e and leq(d, e) for e in below)]
        bounds = [d for position, d in enumerate(dtypes) if upset >> position & 1]
        minimal = [d for d in bounds if not any(e is not d and leq(e, d) for e in bounds)]
        added = cut("|".join(d.name for d in maximal), minimal[0].kind)
        own[upset] = added
        values[added] = minimal[0]
    ordered = [*dtypes, *values]
    by_element = {element: upset for upset, element in own.items()}
    pairs = [
        (a, b)
        for a in ordered
        for b in ordered
        if a is not b and by_element[a] | by_element[b] == by_element[a]
    ]
    return Lattice(pairs, ordered), values
