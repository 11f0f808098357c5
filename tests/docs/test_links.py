"""Links between pages lead to files and headings that are there, and the navigation of the site has every page."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]
CODE_BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"^```.*?^```$|`[^`\n]+`", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^()\s]+)\)")


def anchors(page: Path) -> set[str]:
    """What links to headings of a page may end in, as GitHub and the site make it of their text."""
    seen: Counter[str] = Counter()
    found = set()
    for title in re.findall(r"^#{1,6} +(.+?) *$", CODE_BLOCK.sub("", page.read_text(encoding="utf-8")), re.MULTILINE):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).replace("`", "").replace("*", "")
        slug = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
        found.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return found


def broken_links(page: Path) -> list[str]:
    """Relative links of a page that name no file, or no heading of it."""
    broken = []
    for target in LINK.findall(CODE.sub("", page.read_text(encoding="utf-8"))):
        if re.match(r"\w+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = page.parent / path if path else page
        if not file.is_file() or (anchor and anchor not in anchors(file)):
            broken.append(target)
    return broken


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT).with_suffix("")))
def test_links_lead_somewhere(page: Path) -> None:
    assert broken_links(page) == []


def test_broken_links_are_found(tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text("# A title, with `code`\n\n## Twice\n\n## Twice\n\n```text\n# no title\n```\n")
    page = tmp_path / "page.md"
    page.write_text(
        "[a](other.md) [b](other.md#a-title-with-code) [c](other.md#twice-1) [d](missing.md) [e](other.md#no-title)\n"
        "[f](#here) `[g](nothing.md)` [h](https://example.org)\n\n# Here\n\n[i](#there) [j](other.md#twice-2)\n"
    )
    assert broken_links(page) == ["missing.md", "other.md#no-title", "#there", "other.md#twice-2"]


def test_the_navigation_of_the_site_has_every_page() -> None:
    """Pages stand in a table of contents of docs/index.md, or below a page that does (BELOW in docs/conf.py)."""
    named = set()
    for block in re.findall(r"^```{toctree}\n(.*?)^```$", (DOCS / "index.md").read_text(), re.MULTILINE | re.DOTALL):
        for entry in block.splitlines():
            if entry and not entry.startswith(":"):
                named |= {path.relative_to(DOCS) for path in DOCS.glob(f"{entry}.md")}
    below = re.search(r"^BELOW = .*", (DOCS / "conf.py").read_text(), re.MULTILINE)
    assert below is not None
    for pattern in re.findall(r'"([\w/-]+\*)"', below.group()):
        named |= {path.relative_to(DOCS) for path in DOCS.glob(f"{pattern}.md")}
    pages = {path.relative_to(DOCS) for path in DOCS.rglob("*.md")} - {Path("index.md")}
    assert sorted(pages - named) == [], "fix: name them in docs/index.md"
