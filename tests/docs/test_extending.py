"""docs/extending.md: each example, applied to a copy of the package, works in as many files as the page says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(diff|py)\n(.*?)^```$", re.M | re.S)


@dataclass
class Example:
    """What a section says: changes by file, and the program that then runs."""

    changes: list[tuple[str, list[str]]] = field(default_factory=list)
    programs: list[str] = field(default_factory=list)

    @property
    def files(self) -> int:
        return len({name for name, _ in self.changes})


def examples() -> dict[str, Example]:
    found = {}
    for section in PAGE.split("\n## ")[1:]:
        title = section.split("\n", 1)[0]
        example = Example()
        for kind, text in BLOCK.findall(section):
            if kind == "py":
                example.programs.append(text)
            else:
                name, *lines = text.splitlines()
                example.changes.append((name, lines))
        if example.changes:
            found[title] = example
    return found


def applied(source: str, lines: list[str]) -> str:
    """The text with the added lines below the context line, instead of the removed one, or at the end."""
    added = "".join(f"{line[1:]}\n" for line in lines if line[:1] == "+")
    anchors = [line for line in lines if line[:1] in (" ", "-")]
    if not anchors:
        return source + added
    (anchor,) = anchors
    kept = f"{anchor[1:]}\n"
    assert source.count(kept) == 1, f"{anchor!r} is not one line of the file"
    return source.replace(kept, (kept if anchor[0] == " " else "") + added)


EXAMPLES = examples()


def test_the_table_says_how_many_files_each_example_has() -> None:
    rows = dict(re.findall(r"^\| \[(.+?)\]\(#.+?\) \| (\d+) \|$", PAGE, re.M))
    counted = {title[0].lower() + title[1:]: str(example.files) for title, example in EXAMPLES.items()}
    assert {title: rows[title] for title in counted} == counted


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package that an example may change."""
    copy = tmp_path_factory.mktemp("extended") / "joinery"
    copy.mkdir()
    for layer in ("promotion", "graph", "lowering", "runtime", "interface"):
        shutil.copytree(ROOT / layer, copy / layer, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ROOT.glob("*.py*"):
        if file.is_file():
            shutil.copy(file, copy)
    return copy


@pytest.mark.parametrize("title", EXAMPLES)
def test_an_example_works_in_a_copy_of_the_package(title: str, package: Path) -> None:
    example = EXAMPLES[title]
    before: dict[Path, str | None] = {}
    try:
        for name, lines in example.changes:
            path = package / name
            text = path.read_text(encoding="utf-8") if path.exists() else None
            before.setdefault(path, text)
            path.write_text(applied(text or "", lines), encoding="utf-8")
        assert example.programs
        for program in example.programs:
            environment = {**os.environ, "PYTHONPATH": str(package.parent), "PYTHONDONTWRITEBYTECODE": "1"}
            whole = f"import joinery\nassert joinery.__path__[0] == {str(package)!r}, joinery.__path__\n{program}"
            done = subprocess.run(
                [sys.executable, "-c", whole], env=environment, cwd=package.parent, capture_output=True, text=True, timeout=120
            )
            assert done.returncode == 0, done.stderr
    finally:
        for path, text in before.items():
            if text is None:
                path.unlink()
            else:
                path.write_text(text, encoding="utf-8")
