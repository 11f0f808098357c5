"""Hasse diagrams: what they show is the lattice, read back from the picture, and nothing in it overlaps."""

from __future__ import annotations

import itertools
import re
from typing import NamedTuple
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from joinery.promotion import ABSTRACT, DTYPES, PRESETS, RuleSet, UserError, loss_class, rules
from joinery.promotion.drawing.layers import crossings, lay_out, layer_of

SVG = "{http://www.w3.org/2000/svg}"
LATTICES = ("max", "jax", "exact")
"""Presets that are lattices and whose pictures are looked at; others may be added."""
MEANINGS = {
    "exact": "keeps every value",
    "rounding": "can round",
    "sign": "can change the sign",
    "overflow": "can overflow",
}
SIGNS = RuleSet.from_edges(
    "signs", [("int64", "uint64"), ("float32", "float16"), ("float32", "bfloat16"), ("bool", "int8")]
)


class Box(NamedTuple):
    left: float
    top: float
    right: float
    bottom: float

    def overlaps(self, other: Box) -> bool:
        across = self.left < other.right and other.left < self.right
        return across and self.top < other.bottom and other.top < self.bottom

    def contains(self, x: float, y: float) -> bool:
        return self.left < x < self.right and self.top < y < self.bottom


def parsed(rule_set: RuleSet) -> ElementTree.Element:
    return ElementTree.fromstring(rule_set.hasse_svg())


def box(element: ElementTree.Element) -> Box:
    x, y, width, height = (float(element.get(key, "nan")) for key in ("x", "y", "width", "height"))
    return Box(x, y, x + width, y + height)


def element_boxes(root: ElementTree.Element) -> dict[str, Box]:
    """The box of each labelled element, and of each circle, by name."""
    group = root.findall(f"{SVG}g")[1]
    outer = [each for each in group.findall(f"{SVG}rect") if each.get("fill") != "none"]
    found = {text.text: box(rect) for rect, text in zip(outer, group.findall(f"{SVG}text"), strict=True)}
    for circle in group.findall(f"{SVG}circle"):
        x, y, r = (float(circle.get(key, "nan")) for key in ("cx", "cy", "r"))
        name = circle.find(f"{SVG}title").text.removeprefix("no dtype: the least above ").replace(", ", "|")
        found[name] = Box(x - r, y - r, x + r, y + r)
    return found


def paths(root: ElementTree.Element) -> dict[tuple[str, str], tuple[str, list[tuple[float, float]]]]:
    """(smaller, larger) → what the line says, and points along it."""
    found = {}
    for path in root.findall(f"{SVG}g")[0].findall(f"{SVG}path"):
        smaller, larger, meaning = re.fullmatch(r"(.+) → (.+): (.+)", path.find(f"{SVG}title").text).groups()
        found[smaller, larger] = meaning, points(path.get("d"))
    return found


def points(data: str) -> list[tuple[float, float]]:
    """Points on a path of M, C and V commands, 20 for each curve."""
    along: list[tuple[float, float]] = []
    for command, text in re.findall(r"([MCV])([^MCV]*)", data):
        numbers = [float(number) for number in text.split()]
        if command == "M":
            along.append((numbers[0], numbers[1]))
        elif command == "V":
            along.append((along[-1][0], numbers[0]))
        else:
            controls = [along[-1], *zip(numbers[::2], numbers[1::2], strict=True)]
            for step in range(1, 21):
                t = step / 20
                weights = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3)
                x, y = (sum(w * c[axis] for w, c in zip(weights, controls, strict=True)) for axis in (0, 1))
                along.append((x, y))
    return along


@pytest.mark.parametrize("rule_set", [*map(rules, LATTICES), SIGNS], ids=lambda r: r.name)
class TestPicture:
    def test_it_shows_every_element_and_covering_edge_upwards(self, rule_set: RuleSet) -> None:
        root = parsed(rule_set)
        boxes, lines = element_boxes(root), paths(root)
        assert set(boxes) == {element.name for element in rule_set.lattice.elements}
        assert set(lines) == {(a.name, b.name) for a, b in rule_set.lattice.edges}
        for (smaller, larger), (_, along) in lines.items():
            low, high = boxes[smaller], boxes[larger]
            assert high.bottom < low.top
            assert along[0] == pytest.approx(((low.left + low.right) / 2, low.top), abs=0.2)
            assert along[-1] == pytest.approx(((high.left + high.right) / 2, high.bottom), abs=0.2)

    def test_nothing_overlaps(self, rule_set: RuleSet) -> None:
        root = parsed(rule_set)
        boxes = element_boxes(root)
        legend = box(root.findall(f"{SVG}g")[2].find(f"{SVG}rect"))
        for one, other in itertools.combinations([*boxes.values(), legend], 2):
            assert not one.overlaps(other)
        for _, along in paths(root).values():
            assert not any(each.contains(*point) for point in along for each in boxes.values())
        whole = Box(0, 0, float(root.get("width")), float(root.get("height")))
        for each in [*boxes.values(), legend]:
            assert whole.left <= each.left < each.right <= whole.right
            assert whole.top <= each.top < each.bottom <= whole.bottom

    def test_labels_fit_their_boxes(self, rule_set: RuleSet) -> None:
        root = parsed(rule_set)
        for name, each in element_boxes(root).items():
            if name in DTYPES:  # 0.602 em is the advance of common monospace fonts
                assert each.right - each.left > len(name) * 13 * 0.602 + 8

    def test_lines_say_what_casts_lose(self, rule_set: RuleSet) -> None:
        for (smaller, larger), (meaning, _) in paths(parsed(rule_set)).items():
            if smaller in DTYPES and larger in DTYPES:
                assert meaning == MEANINGS[loss_class(DTYPES[smaller], DTYPES[larger])]

    def test_the_legend_has_the_classes_that_occur(self, rule_set: RuleSet) -> None:
        root = parsed(rule_set)
        shown = " ".join(text.text for text in root.findall(f"{SVG}g")[2].findall(f"{SVG}text"))
        occurring = {meaning for meaning, _ in paths(root).values()}
        assert {meaning for meaning in MEANINGS.values() if meaning in shown} == occurring
        assert ("weak" in shown) is (rule_set.name == "jax")
        assert ("added" in shown) is (rule_set.name == "exact")

    def test_it_stands_alone_and_is_deterministic(self, rule_set: RuleSet) -> None:
        text = rule_set.hasse_svg()
        assert text == RuleSet(rule_set.definition).hasse_svg()
        assert re.findall(r"https?://[^\"]*", text) == ["http://www.w3.org/2000/svg"]
        assert not re.search(r"<(script|image|style|use|foreignObject)|href|url\(", text)

    def test_dot(self, rule_set: RuleSet) -> None:
        text = rule_set.hasse_dot()
        assert text.startswith(f'digraph "{rule_set.name}" {{\n  rankdir="BT";')
        nodes = re.findall(r'^  "([^"]+)"(?: \[(.*)\])?;$', text, re.MULTILINE)
        assert {name for name, _ in nodes} == {element.name for element in rule_set.lattice.elements}
        for name, style in nodes:
            assert ("dashed" in style) is name.startswith("weak_")
            assert ('label=""' in style) is ("|" in name)
        edges = re.findall(r'^  "([^"]+)" -> "([^"]+)"(?: \[label="(\w+)", color="#\w+".*\])?;$', text, re.MULTILINE)
        losses = {(a.name, b.name): loss for (a, b), loss in rule_set.losses().items()}
        assert {(a, b): loss or "exact" for a, b, loss in edges} == {
            (a.name, b.name): losses.get((a.name, b.name), "exact") for a, b in rule_set.lattice.edges
        }


def test_lossy_edges_of_max() -> None:
    lossy = {pair: meaning for pair, (meaning, _) in paths(parsed(rules("max"))).items() if "keeps" not in meaning}
    assert lossy == {
        ("int64", "float16"): "can overflow",
        ("uint64", "float16"): "can overflow",
        ("float16", "bfloat16"): "can round",
        ("float32", "tensor_float32"): "can round",
    }


def test_an_edge_up_to_a_weak_element_is_judged_by_its_dtype() -> None:
    lossy = {pair: meaning for pair, (meaning, _) in paths(parsed(rules("jax"))).items() if "keeps" not in meaning}
    assert lossy == {("int64", "weak_float"): "can round", ("uint64", "weak_float"): "can round"}


def test_weak_elements_are_dashed_and_dtypes_are_not() -> None:
    group = parsed(rules("jax")).findall(f"{SVG}g")[1]
    previous_dashed, dashed = False, set()
    for each in group:
        if each.tag == f"{SVG}rect":
            previous_dashed = each.get("stroke-dasharray") is not None
        elif previous_dashed:
            dashed.add(each.text)
    assert dashed == {element.name for element in ABSTRACT if element.is_weak}


def test_pictures_have_a_reasonable_size() -> None:
    for name in LATTICES:
        root = parsed(rules(name))
        assert float(root.get("width")) <= 700
        assert float(root.get("height")) <= 1000


@pytest.mark.parametrize("name", [name for name in PRESETS if rules(name).lattice is None])
@pytest.mark.parametrize("method", ["hasse_dot", "hasse_svg"])
def test_no_lattice_no_diagram(name: str, method: str) -> None:
    with pytest.raises(UserError, match=rf"rule set {name} is no lattice.*fix: .*to_html"):
        getattr(rules(name), method)()


def test_any_name_gives_well_formed_text() -> None:
    odd = RuleSet.from_edges('a<b & "c\\"é', [("bool", "int8")])
    root = parsed(odd)
    assert root.find(f"{SVG}title").text == 'Promotion lattice of rule set a<b & "c\\"é'
    assert odd.hasse_dot().startswith('digraph "a<b & \\"c\\\\\\"é"')


def test_a_lattice_of_one_element() -> None:
    one = RuleSet.from_dict({"name": "one", "elements": ["int8"], "edges": []})
    assert set(element_boxes(parsed(one))) == {"int8"}
    assert '"int8";' in one.hasse_dot()


# --- layering


def test_layers_are_longest_paths_and_loose_ends_move_up() -> None:
    edges = [(0, 1), (1, 2), (2, 3), (0, 3), (4, 3)]
    assert layer_of(6, edges) == [0, 1, 2, 3, 2, 0]


def test_crossings_are_counted() -> None:
    assert crossings([[0, 1], [2, 3]], [(0, 3), (1, 2)]) == 1
    assert crossings([[0, 1], [3, 2]], [(0, 3), (1, 2)]) == 0
    assert crossings([[0, 1, 2], [3, 4, 5]], [(a, b) for a in (0, 1, 2) for b in (3, 4, 5)]) == 9


def test_crossings_that_can_be_avoided_are() -> None:
    edges = [(0, 7), (1, 6), (2, 5), (3, 4)]  # as given, all six pairs cross
    layout = lay_out([50] * 8, edges, 10)
    assert crossings(layout.layers, edges) == 0


def test_a_chain_is_upright_and_symmetric_things_are_symmetric() -> None:
    layout = lay_out([50, 90, 20], [(0, 1), (1, 2)], 10)
    assert len({round(place, 3) for place in layout.x.values()}) == 1
    diamond = lay_out([50] * 4, [(0, 1), (0, 2), (1, 3), (2, 3)], 10)
    assert diamond.x[0] == pytest.approx(diamond.x[3])
    assert diamond.x[0] == pytest.approx((diamond.x[1] + diamond.x[2]) / 2)
    assert diamond.width == pytest.approx(110)


@settings(max_examples=40)
@given(st.sets(st.tuples(st.integers(0, 13), st.integers(0, 13)), max_size=30))
def test_layouts_of_random_graphs(pairs: set[tuple[int, int]]) -> None:
    """Neighbours never come closer than the gap, edges go up layer by layer, and places start at 0."""
    edges = sorted({(min(pair), max(pair)) for pair in pairs if pair[0] != pair[1]})
    widths = [20.0 + 7 * (node % 5) for node in range(14)]
    layout = lay_out(widths, edges, 12)
    level = {node: height for height, layer in enumerate(layout.layers) for node in layer}
    for edge in edges:
        chain = layout.chains[edge]
        assert (chain[0], chain[-1]) == edge
        assert [level[node] for node in chain] == list(range(level[edge[0]], level[edge[1]] + 1))
    for layer in layout.layers:
        real = [node for node in layer if node < 14]
        for left, right in itertools.pairwise(real):
            assert layout.x[right] - layout.x[left] >= (widths[left] + widths[right]) / 2 + 12 - 1e-6
    sides = [(layout.x[node] - widths[node] / 2, layout.x[node] + widths[node] / 2) for node in range(14)]
    assert min(left for left, _ in sides) >= -1e-6
    assert max(right for _, right in sides) <= layout.width + 1e-6

