"""Reads the worked examples of docs/extending.md, and applies them to a copy of the repository."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.util import cache_from_source
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(diff|py)\n(.*?)^```$", re.M | re.S)


@dataclass
class Example:
    """What a section says: changes by file, and the programs that then run."""

    changes: list[tuple[str, list[str]]] = field(default_factory=list)
    programs: list[str] = field(default_factory=list)

    @property
    def files(self) -> int:
        """The number of files of the package that change."""
        return len({name for name, _ in self.changes if not name.startswith("tests/")})


def examples() -> dict[str, Example]:
    """The examples by the titles of their sections."""
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
    """The text with the added lines below the lines of context, or at the end.

    A text that has the added lines stays: somebody has followed the example.
    """
    added = "".join(f"{line[1:]}\n" for line in lines if line[:1] == "+")
    context = "".join(f"{line[1:]}\n" for line in lines if line[:1] != "+")
    if added.strip("\n") in source:
        return source
    if not context:
        return source + added
    assert source.count(context) == 1, f"docs/extending.md: {context!r} stands {source.count(context)} times in its file"
    return source.replace(context, context + added)


@dataclass
class Copy:
    """A copy of the repository that may be changed. Its folder has the name of the package."""

    root: Path

    @staticmethod
    def made_in(folder: Path) -> Copy:
        """Copy what git would: everything but what tools leave behind."""
        root = folder / "joinery"
        left_behind = shutil.ignore_patterns(".*", "__pycache__", "out", "build", "*.egg-info")
        shutil.copytree(ROOT, root, ignore=left_behind)
        return Copy(root)

    def apply(self, example: Example) -> None:
        for name, lines in example.changes:
            path = self.root / name
            text = path.read_text(encoding="utf-8") if path.exists() else ""
            path.write_text(applied(text, lines), encoding="utf-8")
            _forget_bytecode(path)

    def restore(self, example: Example) -> None:
        for name in {name for name, _ in example.changes}:
            path, original = self.root / name, ROOT / name
            if original.exists():
                shutil.copy(original, path)
            else:
                path.unlink(missing_ok=True)
            _forget_bytecode(path)

    def run(self, *command: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        """Run Python in the copy, with the copy as `joinery`."""
        return self._python(self.root, command, timeout)

    def run_program(self, program: str) -> subprocess.CompletedProcess[str]:
        """Run a program, from a folder that is not the package."""
        whole = f"import joinery\nassert joinery.__path__[0] == {str(self.root)!r}, joinery.__path__\n{program}"
        return self._python(self.root.parent, ("-c", whole), 120)

    def _python(self, folder: Path, command: Sequence[str], timeout: float) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONPATH": str(self.root.parent)}
        return subprocess.run(
            [sys.executable, *command], env=environment, cwd=folder, capture_output=True, text=True, timeout=timeout
        )


def _forget_bytecode(path: Path) -> None:
    """Remove what was compiled of a file: Python takes it for that of another text of the same second and length."""
    if path.suffix == ".py":
        Path(cache_from_source(str(path))).unlink(missing_ok=True)
