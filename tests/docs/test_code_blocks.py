"""The Python code of the README and the tutorials runs, block by block, as a reader would type it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs" / "tutorials").glob("*.md"))]
FENCE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def python_blocks(text: str) -> list[str]:
    """The code between Python fences, moved down to its own lines so that errors point into the document."""
    return ["\n" * text.count("\n", 0, found.start(1)) + found.group(1) for found in FENCE.finditer(text)]


def run(document: Path) -> int:
    """Run all blocks of a document in one namespace; how many there were."""
    blocks = python_blocks(document.read_text(encoding="utf-8"))
    namespace = {"__name__": document.stem}
    for block in blocks:
        exec(compile(block, str(document), "exec"), namespace)
    return len(blocks)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_the_code_of_a_document_runs(document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))  # where the compile cache is
    assert run(document) > 0


def test_a_false_statement_in_a_document_is_found(tmp_path: Path) -> None:
    document = tmp_path / "page.md"
    document.write_text("Text.\n\n```python\nx = 1\n```\n\nMore.\n\n```python\nassert x == 2\n```\n")
    with pytest.raises(AssertionError) as caught:
        run(document)
    assert caught.traceback[-1].lineno == 9


def test_links_between_documents_lead_somewhere() -> None:
    broken = []
    for document in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+)\)", document.read_text(encoding="utf-8")):
            if "://" not in target and not (document.parent / target).exists():
                broken.append(f"{document.relative_to(ROOT)}: {target}")
    assert not broken
