"""The Python code of the README and of all pages runs and prints what is shown; links between pages lead somewhere."""

from __future__ import annotations

import contextlib
import io
import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]
EXAMPLE = re.compile(r"^```python\n(.*?)^```$(?:\n\n^```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)
CODE_BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"^```.*?^```$|`[^`\n]+`", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^()\s]+)\)")


def has_examples(page: Path) -> bool:
    return bool(EXAMPLE.search(page.read_text(encoding="utf-8")))


def run(document: Path) -> int:
    """Run all Python blocks of a document in one namespace; how many there were.

    A block that is followed by a block of text prints it; it is run as the file `example.py`. The lines of the others are
    those of the document, so that errors point into it.
    """
    text = document.read_text(encoding="utf-8")
    namespace = {"__name__": document.stem}
    examples = list(EXAMPLE.finditer(text))
    for found in examples:
        code, expected = found.groups()
        if expected is None:
            code = "\n" * text.count("\n", 0, found.start(1)) + code
            exec(compile(code, str(document), "exec", dont_inherit=True), namespace)
        else:
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(code, "example.py", "exec", dont_inherit=True), namespace)
            assert printed.getvalue() == expected, f"{document.name} shows what its code does not print"
    return len(examples)


@pytest.mark.parametrize(
    "document", list(filter(has_examples, PAGES)), ids=lambda path: str(path.relative_to(ROOT).with_suffix(""))
)
def test_the_code_of_a_document_runs(document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))  # where the compile cache is
    assert run(document) > 0


def test_a_false_statement_in_a_document_is_found(tmp_path: Path) -> None:
    document = tmp_path / "page.md"
    document.write_text("Text.\n\n```python\nx = 1\n```\n\nMore.\n\n```python\nassert x == 2\n```\n")
    with pytest.raises(AssertionError) as caught:
        run(document)
    assert caught.traceback[-1].lineno == 9


def test_a_false_output_in_a_document_is_found(tmp_path: Path) -> None:
    document = tmp_path / "page.md"
    document.write_text("```python\nprint(1)\n```\n\n```text\n1\n```\n")
    assert run(document) == 1
    document.write_text("```python\nprint(1)\n```\n\n```text\n2\n```\n")
    with pytest.raises(AssertionError, match="does not print"):
        run(document)


# --- links


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
