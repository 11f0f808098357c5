"""Lattices: joins against a brute-force definition, refusals with counterexamples, random partial orders."""

from itertools import product

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from joinery.promotion import Lattice, UserError, check_laws

from ...support.tiers import examples


def least_upper_bound(graph, a, b):
    """The definition, over a networkx DAG: the upper bound below all others; None without upper bounds."""
    bounds = (nx.descendants(graph, a) | {a}) & (nx.descendants(graph, b) | {b})
    if not bounds:
        return None
    least = [c for c in bounds if bounds <= nx.descendants(graph, c) | {c}]
    return least[0] if least else LookupError


def as_graph(edges, elements=()):
    graph = nx.DiGraph()
    graph.add_nodes_from(elements)
    graph.add_edges_from(edges)
    return graph


DIAMOND = (("bottom", "left"), ("bottom", "right"), ("left", "top"), ("right", "top"))


def test_diamond():
    lattice = Lattice(DIAMOND)
    assert lattice.join("left", "right") == "top"
    assert lattice.join("bottom", "right") == "right"
    assert lattice.join_all(["bottom", "left", "right", "left"]) == "top"
    assert lattice.leq("bottom", "top")
    assert not lattice.leq("left", "right")
    assert lattice.upper_bounds("left", "bottom") == ("left", "top")
    assert lattice.path("bottom", "top") in (("bottom", "left", "top"), ("bottom", "right", "top"))
    assert lattice.path("left", "left") == ("left",)
    assert all(law.holds for law in lattice.laws())
    assert [law.cases for law in lattice.laws()] == [4, 6, 64, 16, 64]


def test_redundant_edges_are_dropped():
    lattice = Lattice([*DIAMOND, ("bottom", "top")])
    assert set(lattice.edges) == set(DIAMOND)
    assert lattice == Lattice(reversed(DIAMOND))
    assert hash(lattice) == hash(Lattice(reversed(DIAMOND)))
    assert lattice != Lattice(DIAMOND[:2])


def test_cycle_is_shown():
    with pytest.raises(UserError, match=r"cycle (a → b → c → a|b → c → a → b|c → a → b → c); remove"):
        Lattice([("a", "b"), ("b", "c"), ("c", "a")])
    with pytest.raises(UserError, match="joins an element to itself"):
        Lattice([("a", "a")])


def test_two_minimal_upper_bounds_are_shown():
    edges = [("x", "p"), ("x", "q"), ("y", "p"), ("y", "q")]
    with pytest.raises(UserError, match="x and y have no least upper bound: p, q are all minimal"):
        Lattice(edges)
    repaired = Lattice([*edges, ("p", "q")])
    assert repaired.join("x", "y") == "p"


def test_unknown_and_unbounded_pairs():
    lattice = Lattice([("a", "b")], elements=["alone"])
    assert lattice.join("alone", "alone") == "alone"
    with pytest.raises(UserError, match="a and alone have no common upper bound"):
        lattice.join("a", "alone")
    with pytest.raises(UserError, match="nowhere is not an element; elements: a, b, alone"):
        lattice.join("a", "nowhere")
    with pytest.raises(UserError, match="not an element"):
        lattice.leq("nowhere", "a")
    with pytest.raises(UserError, match="b is not below a"):
        lattice.path("b", "a")
    with pytest.raises(UserError, match="at least one"):
        lattice.join_all([])


def test_a_lattice_is_a_value():
    lattice = Lattice(DIAMOND)
    with pytest.raises(AttributeError, match="immutable"):
        lattice.edges = ()
    with pytest.raises(AttributeError, match="immutable"):
        del lattice.edges
    lattice.joins.clear()  # a copy
    assert lattice.join("left", "right") == "top"


def test_laws_show_counterexamples_of_a_bad_table():
    table = {("a", "a"): "a", ("b", "b"): "a", ("a", "b"): "a", ("b", "a"): "b"}
    laws = check_laws(["a", "b"], lambda a, b: table[a, b])
    assert not laws
    assert not laws["idempotent"].holds
    assert "b ∨ b = a" in laws["idempotent"].counterexamples
    assert "a ∨ b = a, but b ∨ a = b" in laws["commutative"].counterexamples
    assert "FAILS" in str(laws)
    with pytest.raises(KeyError):
        laws["distributive"]


def test_associativity_counterexample():
    beats = {frozenset("rp"): "p", frozenset("ps"): "s", frozenset("rs"): "r"}
    laws = check_laws("rps", lambda a, b: a if a == b else beats[frozenset((a, b))])
    assert laws["commutative"].holds
    assert laws["associative"].failures == 6
    assert "(r ∨ r)" not in str(laws)


@st.composite
def partial_orders(draw):
    """A random DAG on up to seven elements: edges only from lower to higher numbers, then relabelled."""
    count = draw(st.integers(1, 7))
    pairs = [(i, j) for i in range(count) for j in range(i + 1, count)]
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    labels = draw(st.permutations(range(count)))
    return [(labels[i], labels[j]) for i, j in chosen], list(range(count))


@settings(max_examples=examples(200))
@given(partial_orders())
def test_random_partial_orders_against_the_definition(order):
    edges, elements = order
    graph = as_graph(edges, elements)
    expected = {(a, b): least_upper_bound(graph, a, b) for a, b in product(elements, repeat=2)}
    if LookupError in expected.values():
        with pytest.raises(UserError, match="no least upper bound"):
            Lattice(edges, elements)
        return
    lattice = Lattice(edges, elements)
    assert lattice.joins == {pair: join for pair, join in expected.items() if join is not None}
    assert set(lattice.edges) == set(nx.transitive_reduction(graph).edges)
    assert all(law.holds for law in lattice.laws())
    for a, b in product(elements, repeat=2):
        assert lattice.leq(a, b) == (a == b or nx.has_path(graph, a, b))
        if lattice.leq(a, b):
            path = lattice.path(a, b)
            assert (
                len(path) - 1 == nx.shortest_path_length(nx.DiGraph(lattice.edges), a, b) if a != b else True
            )
            assert (path[0], path[-1]) == (a, b)


@settings(max_examples=examples(100))
@given(partial_orders(), st.integers(0, 6), st.integers(0, 6))
def test_adding_a_back_edge_is_a_cycle(order, i, j):
    edges, elements = order
    graph = as_graph(edges, elements)
    a, b = elements[i % len(elements)], elements[j % len(elements)]
    if a == b or not nx.has_path(graph, a, b):
        return
    with pytest.raises(UserError, match="cycle"):
        Lattice([*edges, (b, a)], elements)
