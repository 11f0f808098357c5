"""The Python code of the README and of all pages runs, as a reader would type it, and prints what is shown."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]
EXAMPLE = re.compile(r"^```python\n(.*?)^```$(?:\n\n^```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)


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
