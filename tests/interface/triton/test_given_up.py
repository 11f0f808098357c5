"""Tests that catch a finding and give up: they fail; launches that are refused, and pages in folders that are not there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

KERNEL = """
import torch, triton
import triton.language as tl


@triton.jit
def twice(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i) * 2, mask=i < n)


def doubled(n, device="cuda"):
    x = torch.ones(n, device=device)
    out = torch.empty(n, device="cuda")
    twice[(1,)](x, out, n, BLOCK=64)
    return out
"""

SUITE = """
import unittest
import pytest
from kernels import doubled


def test_skips():
    try:
        doubled(50)
    except Exception as error:
        pytest.skip(f"not supported: {error}")


def test_says_that_it_fails():
    try:
        doubled(50)
    except Exception:
        pytest.xfail("known")


@pytest.fixture
def array():
    try:
        return doubled(50)
    except Exception:
        pytest.skip("no array")


def test_skipped_by_its_fixture(array):
    pass


class TestClass(unittest.TestCase):
    def test_skips_itself(self):
        try:
            doubled(50)
        except Exception:
            self.skipTest("no")


def test_skips_after_it_waited():
    with pytest.raises(Exception):
        doubled(50)
    pytest.skip("nothing more to see")


def test_skips_for_another_reason():
    doubled(64)
    pytest.skip("not on this machine")


def test_refused():
    with pytest.raises(ValueError, match="cpu tensor"):
        doubled(64, "cpu")
"""


def run(folder: Path, *options: str) -> str:
    command = [sys.executable, "-m", "pytest", "-rA", "--tb=short", "-p", "joinery.triton.pytest", *options, "test_suite.py"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    return done.stdout + done.stderr


def test_findings_are_failures_where_tests_give_up(tmp_path: Path) -> None:
    (tmp_path / "kernels.py").write_text(KERNEL)
    (tmp_path / "test_suite.py").write_text(SUITE)
    said = run(tmp_path, "--joinery", "--joinery-report=out/pages/page.html")
    for line in (
        "FAILED test_suite.py::test_skips -", "FAILED test_suite.py::test_says_that_it_fails -",
        "ERROR test_suite.py::test_skipped_by_its_fixture -", "FAILED test_suite.py::TestClass::test_skips_itself -",
        "3 failed, 1 passed, 2 skipped, 1 error", "4 findings", "1 finding that tests wait for, and catch",
        "1 test passed, not launched", "2 tests skipped, launched",
    ):  # fmt: skip
        assert line in said, said
    assert "test_skips" in (tmp_path / "out" / "pages" / "page.html").read_text()


def test_pages_want_the_mode_and_a_folder(tmp_path: Path) -> None:
    (tmp_path / "test_suite.py").write_text("def test_nothing():\n    pass\n")
    assert "writes no page without --joinery" in run(tmp_path, "--joinery-report=page.html")
    (tmp_path / "file").write_text("")
    said = run(tmp_path, "--joinery", "--joinery-report=file/page.html")
    assert "is no folder, and cannot be made" in said
    assert "1 passed" not in said


PROGRAM = """
import joinery, torch, triton
import joinery.triton
from kernels import twice

joinery.triton.enable({mode!r}, check_bounds=True)
try:
    twice[(1,)](torch.ones(50), torch.ones(50), 50, BLOCK=64)
except joinery.UserError as error:
    print(error)
"""


@pytest.mark.parametrize("mode", ["native", "sanitize", "ptxsim"])
def test_a_cache_of_several_checkouts_names_the_file_that_runs(
    mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    for name in ("first", "second"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "kernels.py").write_text(KERNEL)
        (folder / "program.py").write_text(PROGRAM.format(mode=mode))
        command = [sys.executable, str(folder / "program.py")]
        said = subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder).stdout
        assert f"{folder / 'kernels.py'}:9" in said, said
        (folder / "kernels.py").unlink()
