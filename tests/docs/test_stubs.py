"""`__init__.pyi` is what the code says, and a type checker rejects what joinery would."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import joinery as jn
import pytest

ROOT = Path(__file__).resolve().parents[2]

GOOD = """
import numpy as np
import joinery as jn

g = jn.Graph("g", inputs=[jn.TensorType(jn.float32, ("n", 8), name="x"), jn.TensorType("int8", ())])
x, i = g.inputs
y = jn.softmax(x @ np.ones((8, 4), np.float32) + 1, axis=-1)
z = jn.concat([y, y.astype("float32")], axis=0).sum(axis=(0, 1), keepdims=True)
w = jn.where(x > 0, x / np.sqrt(64), 0.0).max(axis=1)
v = jn.pad(jn.roll(x, 1, 0), [(1, 1), (0, 0)], value=2) + jn.zeros(g, (1, 8), jn.float32)
a = jn.arange(x, x.shape[0], dtype=jn.int32)
halves: tuple[jn.Symbol, ...] = jn.split(x, 2, axis=1)
g.output(z, w, v, a, jn.clip(x, 0, 1), jn.atan2(1.0, x), jn.einsum("ij->i", x), jn.reshape(x, (-1,)), *halves)
m: jn.Model = jn.compile(g, device="cpu")
text, arrays = jn.to_text(g)
d: jn.DType = jn.promotion.rules("max").join(jn.bool, jn.uint8)
n: jn.Dim = jn.dim("n")
error: type[Exception] = jn.UserError
"""

BAD = {
    "jn.does_not_exist": "attr-defined",
    'jn.softmax(x, axis="last")': "arg-type",
    'jn.exp("text")': "arg-type",
    "jn.exp(3.0)": "arg-type",
    "jn.sum(x, dim=1)": "call-arg",
    "jn.add(x)": "call-arg",
    "jn.add(x, [1, 2])": "arg-type",
    "jn.concat(x)": "arg-type",
    "jn.cast(x)": "call-arg",
    "jn.cast(x, 3)": "arg-type",
    "jn.reshape(x, 2.5)": "arg-type",
    "jn.zeros((3,), jn.float32)": "arg-type",
    "jn.dim(3)": "arg-type",
    'x.sum(axis="a")': "arg-type",
    "x.does_not_exist": "attr-defined",
    "jn.compile(g, device=1)": "arg-type",
    'jn.TensorType(("n", 8), jn.float32)': "arg-type",
    "jn.Graph()": "call-arg",
    "number: int = jn.sum(x)": "assignment",
}
"""Lines a checker must reject, and the kind of its error."""

PRELUDE = """
import joinery as jn

g = jn.Graph("g", inputs=[jn.TensorType(jn.float32, (2, 8), name="x")])
(x,) = g.inputs
"""


def _script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_stubs", ROOT / "docs" / "stubs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_stub_is_what_the_code_says() -> None:
    assert (ROOT / "__init__.pyi").read_text(encoding="utf-8") == _script().stub(), "fix: make docs"


def test_the_stub_declares_exactly_the_public_names() -> None:
    text = (ROOT / "__init__.pyi").read_text(encoding="utf-8")
    pattern = r"^(?:def (\w+)|(\w+): DType|from \S+ import (\w+) as \3$|(__version__): str)"
    declared = set(re.findall(pattern, text, re.MULTILINE))
    names = [name for groups in declared for name in groups if name]
    assert sorted(names) == sorted(set(names))
    assert set(names) == set(dir(jn))


def test_the_stub_is_part_of_the_package() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert {"py.typed", "__init__.pyi"} <= set(settings["tool"]["setuptools"]["package-data"]["joinery"])


def test_the_script_checks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    script = _script()
    assert script.main(["--check"]) == 0
    monkeypatch.setattr(script, "PATH", tmp_path / "__init__.pyi")
    assert script.main(["--check"]) == 1
    assert "fix: make docs" in capsys.readouterr().out
    assert script.main([]) == 0
    assert script.main(["--check"]) == 0
    assert script.main(["--chekc"]) == 2


@pytest.mark.slow
def test_a_strict_checker_accepts_programs_and_rejects_mistakes(tmp_path: Path) -> None:
    """Without `strict` types of the package itself: those are `make types`."""
    (tmp_path / "joinery").symlink_to(ROOT)
    (tmp_path / "good.py").write_text(GOOD, encoding="utf-8")
    (tmp_path / "bad.py").write_text(PRELUDE + "\n".join(BAD) + "\n", encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--no-error-summary"]
    command += ["--cache-dir", str(ROOT / ".mypy_cache" / "stubs"), "good.py", "bad.py"]
    done = subprocess.run(
        command, cwd=tmp_path, env={"MYPYPATH": str(tmp_path), "PATH": ""}, capture_output=True, text=True, check=False
    )
    assert "good.py" not in done.stdout, done.stdout
    errors = dict(re.findall(r"^bad\.py:(\d+): error: .*\[([\w-]+)\]$", done.stdout, re.MULTILINE)[::-1])
    first = PRELUDE.count("\n") + 1
    assert {line: errors.get(str(first + place)) for place, line in enumerate(BAD)} == BAD, done.stdout + done.stderr


@pytest.mark.slow
def test_a_strict_checker_accepts_the_pass_that_a_page_shows(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "passes.md").read_text(encoding="utf-8")
    (tmp_path / "joinery").symlink_to(ROOT)
    (tmp_path / "remove_prints.py").write_text(page[page.index("# my_package/") :].partition("```")[0], encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--no-error-summary"]
    command += ["--cache-dir", str(ROOT / ".mypy_cache" / "stubs"), "remove_prints.py"]
    done = subprocess.run(
        command, cwd=tmp_path, env={"MYPYPATH": str(tmp_path), "PATH": ""}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
