"""Random orders: a `Lattice` or a true counterexample; completions of orders that are no lattice; leaving elements out."""

import itertools
import re

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from joinery.promotion import DTYPES, Lattice, UserError
from joinery.promotion.lattices.completion import complete

NAMES = ("ant", "bee", "cat", "dog", "elk", "fox", "gnu", "hen")
DTYPES_USED = [DTYPES[n] for n in ("int8", "uint8", "int16", "uint16", "float16", "bfloat16", "float32", "float64")]


def reach(elements, edges):
    """Reflexive and transitive closure, as pairs (Warshall)."""
    pairs = {(e, e) for e in elements} | set(edges)
    for k, i, j in itertools.product(elements, repeat=3):
        if (i, k) in pairs and (k, j) in pairs:
            pairs.add((i, j))
    return pairs


def reach_fully(elements, edges):
    pairs = reach(elements, edges)
    assert all((a, d) in pairs for a, b in pairs for c, d in pairs if b == c)
    return pairs


def minimal_bounds(elements, order, a, b):
    bounds = [c for c in elements if (a, c) in order and (b, c) in order]
    return {c for c in bounds if not any(d != c and (d, c) in order for d in bounds)}


def is_semilattice(elements, order):
    return all(len(minimal_bounds(elements, order, a, b)) <= 1 for a, b in itertools.product(elements, repeat=2))


@st.composite
def graphs(draw, names=NAMES, acyclic=False):
    """Elements and edges between them; one in three has edges against the direction of the others."""
    elements = draw(st.permutations(names))[: draw(st.integers(1, len(names)))]
    forward = list(itertools.combinations(elements, 2))
    edges = draw(st.lists(st.sampled_from(forward), unique=True, max_size=14)) if forward else []
    if edges and not acyclic and draw(st.integers(0, 2)) == 0:
        edges += [pair[::-1] for pair in draw(st.lists(st.sampled_from(forward), min_size=1, max_size=2, unique=True))]
    return list(elements), list(draw(st.permutations(edges)))


def check_counterexample(text, elements, edges, order):
    cycle = re.fullmatch(r"lattice: cycle (.+); remove one edge of it", text)
    if cycle:
        trail = cycle[1].split(" → ")
        assert trail[0] == trail[-1]
        assert len(trail) > 2
        assert set(itertools.pairwise(trail)) <= set(edges)
        return "cycle"
    found = re.fullmatch(
        r"lattice: (\S+) and (\S+) have no least upper bound: (.+) are all minimal; "
        r"add an element below them and above both, or an edge that orders them",
        text,
    )
    assert found, text
    named = found[3].split(", ")
    assert len(named) == len(set(named)) >= 2
    assert set(named) == minimal_bounds(elements, order, found[1], found[2])
    assert all((a, b) not in order or (b, a) not in order for a, b in itertools.combinations(elements, 2))  # no cycle
    return "ambiguous"


def check_lattice(lattice, elements, order):
    """Joins, order and laws, from reachability alone."""
    assert set(lattice.elements) == set(elements)
    joins = {}
    for a, b in itertools.product(elements, repeat=2):
        assert lattice.leq(a, b) == ((a, b) in order)
        bounds = minimal_bounds(elements, order, a, b)
        if bounds:
            joins[a, b] = bounds.pop()
        else:
            with pytest.raises(UserError, match="no common upper bound"):
                lattice.join(a, b)
    assert lattice.joins == joins
    for a, b in itertools.product(elements, repeat=2):
        assert joins[a, a] == a
        assert joins.get((a, b)) == joins.get((b, a))
    for a, b, c in itertools.product(elements, repeat=3):
        assert joins.get((joins.get((a, b)), c)) == joins.get((a, joins.get((b, c))))
    assert all(law.holds for law in lattice.laws())


@pytest.mark.slow
@settings(max_examples=250)
@given(graphs())
def test_a_lattice_or_a_true_counterexample(graph):
    elements, edges = graph
    order = reach_fully(elements, edges)
    cyclic = any((a, b) in order and (b, a) in order for a, b in itertools.combinations(elements, 2))
    try:
        lattice = Lattice(edges, elements)
    except UserError as error:
        kind = check_counterexample(str(error), elements, edges, order)
        assert (kind == "cycle") == cyclic
        return
    assert not cyclic
    check_lattice(lattice, elements, order)
    covering = set(lattice.edges)
    assert reach(elements, covering) == order
    assert all(reach(elements, covering - {edge}) != order for edge in covering)  # no edge is redundant


def test_the_random_graphs_reach_all_three_outcomes():
    """The test above would be empty if the strategy only ever made one kind."""
    outcomes = set()

    @settings(max_examples=200, database=None)
    @given(graphs())
    def collect(graph):
        elements, edges = graph
        try:
            Lattice(edges, elements)
            outcomes.add("nontrivial" if len(edges) > 4 else "small")
        except UserError as error:
            outcomes.add("cycle" if "cycle" in str(error) else "ambiguous")

    collect()
    assert outcomes == {"nontrivial", "small", "cycle", "ambiguous"}


@pytest.mark.slow
@settings(max_examples=150)
@given(graphs(acyclic=True), st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True))
def test_leaving_elements_out_keeps_the_order_of_the_rest(graph, gone):
    elements, edges = graph
    order = reach_fully(elements, edges)
    assume(is_semilattice(elements, order))
    lattice = Lattice(edges, elements)
    unknown = [name for name in gone if name not in elements]
    if unknown:
        with pytest.raises(UserError, match=f"{unknown[0]} is not an element"):
            lattice.without(*gone)
        return
    rest = [element for element in elements if element not in gone]
    try:
        smaller = lattice.without(*gone)
    except UserError as error:
        assert not is_semilattice(rest, order)
        check_counterexample(str(error), rest, [], order)
    else:
        check_lattice(smaller, rest, order)
    check_lattice(lattice, elements, order)  # the original stands


def test_leaving_a_meeting_point_out_can_be_refused():
    lattice = Lattice([("ant", "cat"), ("bee", "cat"), ("cat", "dog"), ("cat", "elk")])
    with pytest.raises(UserError, match="ant and bee have no least upper bound: dog, elk are all minimal"):
        lattice.without("cat")
    assert lattice.without("dog").joins == {
        pair: join for pair, join in lattice.joins.items() if "dog" not in (*pair, join)
    }


def upper_cuts(elements, order):
    """Every set of common upper bounds of a non-empty subset: what the completion's elements stand for, by definition."""
    sets = set()
    for size in range(1, len(elements) + 1):
        for subset in itertools.combinations(elements, size):
            common = frozenset(c for c in elements if all((a, c) in order for a in subset))
            if common:
                sets.add(common)
    return sets


@settings(max_examples=120)
@given(graphs(names=tuple(DTYPES_USED), acyclic=True))
def test_completions(graph):
    elements, edges = graph
    order = reach_fully(elements, edges)
    lattice, stands_for = complete("mine", elements, lambda a, b: (a, b) in order)
    added = [element for element in lattice.elements if element not in elements]
    assert set(stands_for) == set(added)
    assert not any(element in elements for element in added)
    # the order is embedded
    assert all(lattice.leq(a, b) == ((a, b) in order) for a, b in itertools.product(elements, repeat=2))
    # a semilattice, by its own order
    inner = {(a, b) for a, b in itertools.product(lattice.elements, repeat=2) if lattice.leq(a, b)}
    check_lattice(lattice, lattice.elements, inner)
    # joins that were there stay; of two comparable elements it is the larger
    for a, b in itertools.product(elements, repeat=2):
        bounds = minimal_bounds(elements, order, a, b)
        if len(bounds) == 1:
            common = {c for c in elements if (a, c) in order and (b, c) in order}
            least = next(iter(bounds))
            if all((least, c) in order for c in common):
                assert lattice.join(a, b) is least
        if (a, b) in order:
            assert lattice.join(a, b) is b
        if not bounds:
            with pytest.raises(UserError, match="no common upper bound"):
                lattice.join(a, b)
    # exactly the sets of common bounds: nothing is missing, nothing is superfluous
    ups = {e: frozenset(c for c in elements if lattice.leq(e, c)) for e in lattice.elements}
    assert set(ups.values()) == upper_cuts(elements, order)
    assert len(set(ups.values())) == len(ups)
    # an added element stands for the first of its minimal bounds
    for element, value in stands_for.items():
        minimal = [c for c in elements if c in ups[element] and not any((d, c) in order and d != c for d in ups[element])]
        assert len(minimal) >= 2
        assert value is minimal[0]
        assert element.is_abstract
    assert bool(added) == (not is_semilattice(elements, order))


def test_the_completion_of_the_smallest_ambiguous_order():
    small = [DTYPES[name] for name in ("int8", "uint8", "int16", "float16")]
    low, high = small[:2], small[2:]
    lattice, stands_for = complete("mine", small, lambda a, b: a is b or (a in low and b in high))
    (added,) = stands_for
    assert str(added) == "int8|uint8"
    assert stands_for[added] is DTYPES["int16"]
    assert lattice.join(*low) is added
    assert lattice.join(added, DTYPES["float16"]) is DTYPES["float16"]
    assert len(lattice) == 5
