"""Draws Hasse diagrams of promotion lattices: larger dtypes above smaller ones, a line per covering edge.

Lines show what a cast along them can lose (`RuleSet.losses`). `to_dot` returns Graphviz text, `to_svg` a
picture laid out by `layers.py`. The picture needs no background of its own: text stands on filled boxes and
lines are of medium lightness, so that it is legible on dark and light pages.
"""

from __future__ import annotations

import html
from itertools import pairwise

from ..dtype import ABSTRACT, DType
from ..errors import UserError
from ..joins import Joins
from ..lattices.lattice import Lattice
from .layers import Layout, lay_out

# line colour and dash pattern; the dashes are for readers who cannot tell the colours apart
_LINES = {
    "exact": ("#808080", ""),
    "rounding": ("#c77a00", ""),
    "sign": ("#9a6bdc", "2 4"),
    "overflow": ("#e0455a", "9 4"),
}
_MEANING = {
    "exact": "keeps every value",
    "rounding": "can round",
    "sign": "can change the sign",
    "overflow": "can overflow",
}
_FILLS = {"bool": "#ececec", "int": "#dbe8fb", "uint": "#d8f1ee", "float": "#fdeed3", "complex": "#ece2fa"}
_TEXT = "#1b1b1b"
_OUTLINE = "#6f7680"
_WEAK_DASH = "6 4"
_UNSTORED_DASH = "1.5 3"

_CHARACTER = 7.9  # width of a character of a 13 px monospace font, in pixels
_BOX_HEIGHT = 28
_LAYER_GAP = 44
_NODE_GAP = 22
_MARGIN = 16
_RADIUS = 6
_LEGEND_LINE = 22


def to_dot(rule_set: Joins) -> str:
    """Return the diagram as Graphviz text with edges upwards.

    Lossy edges are coloured and labelled with their loss class, weak elements are dashed. Elements that the
    completion of an order added are small circles without a label. Raises `UserError` for rule sets without a
    lattice.
    """
    lattice = _lattice(rule_set, "to_dot")
    lines = [
        f"digraph {_quoted(rule_set.name)} {{",
        '  rankdir="BT";',
        '  node [shape="box", style="rounded", fontname="monospace"];',
        '  edge [dir="none", fontname="sans-serif"];',
    ]
    for element in lattice.elements:
        lines.append(f"  {_quoted(element.name)}{_dot_style(element)};")
    losses = rule_set.losses()
    for smaller, larger in lattice.edges:
        loss = losses.get((smaller, larger), "exact")
        color = _quoted(_LINES[loss][0])
        style = "" if loss == "exact" else f" [label={_quoted(loss)}, color={color}, fontcolor={color}, penwidth=2]"
        lines.append(f"  {_quoted(smaller.name)} -> {_quoted(larger.name)}{style};")
    return "\n".join([*lines, "}"])


def to_svg(rule_set: Joins) -> str:
    """Return the diagram as an SVG document with a legend of the loss classes that occur.

    Equal rule sets give equal text. Weak elements have dashed outlines; elements that the completion of an
    order added are small circles whose `<title>` names what they lie above. Raises `UserError` for rule sets
    without a lattice.
    """
    lattice = _lattice(rule_set, "to_svg")
    picture = _Picture(rule_set, lattice)
    title = html.escape(f"Promotion lattice of rule set {rule_set.name}")
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{picture.width:.0f}" height="{picture.height:.0f}" '
            f'viewBox="0 0 {picture.width:.0f} {picture.height:.0f}" role="img" aria-label="{title}">',
            f"<title>{title}</title>",
            f'<g fill="none" stroke-linecap="round">\n{chr(10).join(picture.edges())}\n</g>',
            f'<g font-family="monospace" font-size="13" fill="{_TEXT}" text-anchor="middle">\n'
            f"{chr(10).join(picture.nodes())}\n</g>",
            f'<g font-family="sans-serif" font-size="12" fill="{_TEXT}">\n{chr(10).join(picture.legend())}\n</g>',
            "</svg>",
        ]
    )


class _Picture:
    """The layout of one lattice in pixels, and the parts of its drawing as SVG elements."""

    def __init__(self, rule_set: Joins, lattice: Lattice[DType]) -> None:
        self.elements = lattice.elements
        self.losses = rule_set.losses()
        index = {element: position for position, element in enumerate(lattice.elements)}
        self.pairs = [(index[smaller], index[larger]) for smaller, larger in lattice.edges]
        self.layout: Layout = lay_out(list(map(_width, lattice.elements)), self.pairs, _NODE_GAP)
        self.entries = self._legend_entries()
        self.legend_width = 54 + 7.0 * max(len(text) for _, text in self.entries) if self.entries else 0.0
        self.body = len(self.layout.layers) * (_BOX_HEIGHT + _LAYER_GAP) - _LAYER_GAP if self.elements else 0
        inner = max(self.layout.width, self.legend_width)
        self.left = _MARGIN + (inner - self.layout.width) / 2
        self.width = inner + 2 * _MARGIN
        self.height = self.body + len(self.entries) * _LEGEND_LINE + 20 + (_MARGIN * 3 if self.elements else _MARGIN * 2)
        self.level = {node: level for level, layer in enumerate(self.layout.layers) for node in layer}

    def _x(self, node: int) -> float:
        return self.left + self.layout.x[node]

    def _top(self, node: int) -> float:
        """Return the y coordinate of the top of a node's or bend's row; the lowest layer is the last row."""
        return _MARGIN + self.body - _BOX_HEIGHT - self.level[node] * (_BOX_HEIGHT + _LAYER_GAP)

    def _ends(self, node: int) -> tuple[float, float]:
        """Return the y coordinates where lines from below reach a node or bend and lines upwards leave it."""
        top = self._top(node)
        if node < len(self.elements) and _is_added(self.elements[node]):
            return top + _BOX_HEIGHT / 2 + _RADIUS, top + _BOX_HEIGHT / 2 - _RADIUS
        return top + _BOX_HEIGHT, top

    def edges(self) -> list[str]:
        """Return a path for every covering edge.

        Paths are curves between rows, and vertical in rows that they pass, so that they cross no box.
        """
        drawn = []
        for pair in self.pairs:
            chain = self.layout.chains[pair]
            path = [f"M{self._x(chain[0]):.1f} {self._ends(chain[0])[1]:.1f}"]
            for lower, upper in pairwise(chain):
                (_, start), (end, beyond) = self._ends(lower), self._ends(upper)
                bow = (start - end) * 0.4
                path.append(
                    f"C{self._x(lower):.1f} {start - bow:.1f} {self._x(upper):.1f} {end + bow:.1f} "
                    f"{self._x(upper):.1f} {end:.1f}"
                )
                if upper >= len(self.elements):
                    path.append(f"V{beyond:.1f}")
            smaller, larger = (self.elements[node] for node in pair)
            loss = self.losses.get((smaller, larger), "exact")
            title = html.escape(f"{smaller} → {larger}: {_MEANING[loss]}")
            drawn.append(f'<path d="{" ".join(path)}"{_stroke(loss)}><title>{title}</title></path>')
        return drawn

    def nodes(self) -> list[str]:
        drawn = []
        for node, element in enumerate(self.elements):
            x, top = self._x(node), self._top(node)
            middle, name = top + _BOX_HEIGHT / 2, html.escape(element.name)
            fill = _FILLS[element.kind]
            if _is_added(element):
                title = html.escape(f"no dtype: the least above {element.name.replace('|', ', ')}")
                circle = f'<circle cx="{x:.1f}" cy="{middle:.1f}" r="{_RADIUS}" fill="{fill}" stroke="{_OUTLINE}">'
                drawn.append(f"{circle}<title>{title}</title></circle>")
                continue
            width = _width(element)
            box = _box(x - width / 2, top, width, _BOX_HEIGHT, fill, _outline_dash(element))
            drawn.append(f'{box}<text x="{x:.1f}" y="{middle + 4.5:.1f}">{name}</text>')
        return drawn

    def _legend_entries(self) -> list[tuple[str, str]]:
        """Return pairs (line class or node class, text) for what the drawing shows and needs explaining."""
        found = {self.losses.get(edge, "exact") for edge in self._element_pairs()}
        entries = [(loss, f"a cast up this line {_MEANING[loss]}") for loss in _LINES if loss in found]
        if any(element.is_weak for element in self.elements):
            entries.append(("weak", "weak: gives way to any dtype of its kind"))
        if any(_is_unstored(element) for element in self.elements):
            entries.append(("unstored", "has no dtype: what ends here has no join"))
        if any(map(_is_added, self.elements)):
            entries.append(("added", "added: several dtypes above would do"))
        return entries

    def _element_pairs(self) -> list[tuple[DType, DType]]:
        return [(self.elements[smaller], self.elements[larger]) for smaller, larger in self.pairs]

    def legend(self) -> list[str]:
        """Return the parts of the legend: a filled box below the lattice with one line per entry."""
        if not self.entries:
            return []
        top = self.height - _MARGIN - len(self.entries) * _LEGEND_LINE - 12
        left = (self.width - self.legend_width) / 2
        height = len(self.entries) * _LEGEND_LINE + 12
        drawn = [
            f'<rect x="{left:.1f}" y="{top:.1f}" width="{self.legend_width:.1f}" height="{height}" rx="6" '
            f'fill="#ffffff" stroke="{_OUTLINE}"/>'
        ]
        for line, (mark, text) in enumerate(self.entries):
            middle = top + 6 + (line + 0.5) * _LEGEND_LINE
            drawn.append(_legend_mark(mark, left + 12, middle))
            drawn.append(f'<text x="{left + 46:.1f}" y="{middle + 4:.1f}">{html.escape(text)}</text>')
        return drawn


def _legend_mark(mark: str, x: float, y: float) -> str:
    if mark in _LINES:
        return f'<path d="M{x:.1f} {y:.1f}h24" fill="none"{_stroke(mark)}/>'
    if mark == "added":
        return f'<circle cx="{x + 12:.1f}" cy="{y:.1f}" r="{_RADIUS}" fill="#ffffff" stroke="{_OUTLINE}"/>'
    return _box(x, y - 8, 24, 16, "#ffffff", _WEAK_DASH if mark == "weak" else _UNSTORED_DASH)


def _box(x: float, y: float, width: float, height: float, fill: str, dash: str) -> str:
    """Return a rounded box.

    A dashed outline is drawn inside the fill, because on its edge a dark page would hide it.
    """
    outer = f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height}" rx="6" fill="{fill}"'
    if not dash:
        return f'{outer} stroke="{_OUTLINE}"/>'
    return (
        f'{outer}/><rect x="{x + 1.5:.1f}" y="{y + 1.5:.1f}" width="{width - 3:.1f}" height="{height - 3}" rx="5" '
        f'fill="none" stroke="{_TEXT}" stroke-dasharray="{dash}"/>'
    )


def _lattice(rule_set: Joins, function: str) -> Lattice[DType]:
    if rule_set.lattice is None:
        raise UserError(
            f"{function}: rule set {rule_set.name} is no lattice, so there is no Hasse diagram of it; "
            "fix: show its table with .table().to_html(), or in text: print(.table())"
        )
    return rule_set.lattice


def _is_added(element: DType) -> bool:
    """Return whether a completion added the element; see `lattices/completion.py`."""
    return element.is_abstract and element not in ABSTRACT


def _is_unstored(element: DType) -> bool:
    """Return whether the element is named, but neither a dtype nor weak, such as the wide integer."""
    return element in ABSTRACT and not element.is_weak


def _outline_dash(element: DType) -> str:
    return _WEAK_DASH if element.is_weak else _UNSTORED_DASH if _is_unstored(element) else ""


def _width(element: DType) -> float:
    return 2.0 * _RADIUS if _is_added(element) else _CHARACTER * len(element.name) + 18


def _stroke(loss: str) -> str:
    color, dash = _LINES[loss]
    pattern = f' stroke-dasharray="{dash}"' if dash else ""
    return f' stroke="{color}" stroke-width="{1.3 if loss == "exact" else 2.4}"{pattern}'


def _dot_style(element: DType) -> str:
    if _is_added(element):
        tooltip = _quoted(f"no dtype: the least above {element.name.replace('|', ', ')}")
        return f' [shape="circle", style="", label="", width=0.15, tooltip={tooltip}]'
    if element.is_weak:
        return ' [style="rounded,dashed"]'
    return ' [style="rounded,dotted"]' if _is_unstored(element) else ""


def _quoted(text: str) -> str:
    """Quote a string for Graphviz, in which backslashes start escape sequences."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
