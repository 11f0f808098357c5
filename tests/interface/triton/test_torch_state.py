"""What torch keeps for a process: files of tests, and tests of a file, find it as in a process of their own."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytest.importorskip("triton")
pytest.importorskip("torch")

FILES = {
    "conftest.py": """
        import pytest, torch

        @pytest.fixture(scope="session")
        def half():
            torch.set_default_dtype(torch.float16)
            yield
            torch.set_default_dtype(torch.float32)
    """,
    "test_0_leaves.py": """
        import unittest
        import torch

        class TestLeaves(unittest.TestCase):
            @classmethod
            def setUpClass(cls):
                torch.set_default_device("cuda")

            def test_0(self):
                assert torch.empty(3).is_cuda
                torch.set_default_dtype(torch.float64)
                torch.use_deterministic_algorithms(True, warn_only=True)
                torch.device("meta").__enter__()

            def test_1(self):
                assert torch.empty(3).is_cuda and torch.ones(1).dtype == torch.float32
                assert torch.get_deterministic_debug_mode() == 0

        class TestLater:
            def setup_method(self):
                torch.set_default_device("meta")

            def test_2(self):
                assert torch.empty(3).is_meta

        def test_3():
            assert torch.empty(3).is_cuda  # what a class left holds to the end of the file
    """,
    "test_1_imports.py": """
        import pytest, torch

        torch.set_default_device("cuda")

        @pytest.mark.parametrize("x", [torch.ones(2)])
        def test_4(x):
            assert x.is_cuda and torch.empty(3).is_cuda

        def test_5():
            torch.set_default_device("cpu")

        def test_6():
            assert torch.empty(3).is_cuda
    """,
    "test_2_session.py": """
        import torch

        def test_7(half):
            assert torch.ones(2).is_cpu and torch.ones(2).dtype == torch.float16

        def test_8():
            assert torch.get_default_dtype() == torch.float16
    """,
    "test_3_later.py": """
        import torch

        first = torch.ones(1)

        def test_9():
            assert first.is_cpu and torch.ones(1).is_cpu
            assert torch.get_default_dtype() == torch.float16  # a fixture of the session lives
            torch.manual_seed(3)
            torch.rand(1, device="cuda")

        def test_10():
            x = torch.rand(1, device="cuda")
            torch.manual_seed(3)
            torch.rand(1, device="cuda")
            assert x == torch.rand(1, device="cuda")  # generators go on, as on a GPU
    """,
}


@pytest.mark.parametrize("devices", ["a device of torch's", pytest.param("one device", marks=pytest.mark.slow)])
def test_what_tests_leave_ends_with_them(tmp_path: Path, devices: str) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(textwrap.dedent(text))
    if devices == "one device":
        start = "from joinery.interface.triton.testing import guard\nguard.register = lambda torch: False\n"
        (tmp_path / "one.py").write_text(start)
    command = [sys.executable, "-m", "pytest", *(["-p", "one"] if devices == "one device" else [])]
    command += ["-p", "joinery.triton.pytest", "--joinery", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "11 passed" in done.stdout


def test_what_conftests_and_their_hooks_set_holds_for_all_and_open_captures_end_with_their_test(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    files = {
        "conftest.py": """
            import torch

            def pytest_collection_modifyitems():
                torch.use_deterministic_algorithms(True, warn_only=True)
        """,
        "sub/conftest.py": """
            import torch

            torch.set_default_dtype(torch.float64)
        """,
        "sub/test_0.py": """
            import torch

            def test_0():
                assert torch.ones(1).dtype == torch.float64 and torch.get_deterministic_debug_mode() == 1
                torch.cuda.set_stream(torch.cuda.Stream())
                torch.cuda.CUDAGraph().capture_begin()

            def test_1():
                assert not torch.cuda.is_current_stream_capturing()
                torch.cuda.synchronize()
        """,
        "test_2.py": """
            import torch

            def test_2():
                assert torch.ones(1).dtype == torch.float64 and torch.get_deterministic_debug_mode() == 1
        """,
    }
    for name, text in files.items():
        (tmp_path / name).write_text(textwrap.dedent(text))
    command = [sys.executable, "-m", "pytest", "-p", "joinery.triton.pytest", "--joinery", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert "3 passed" in done.stdout, done.stdout + done.stderr


def test_torch_is_left_as_it_is_where_nothing_stands_in(tmp_path: Path) -> None:
    (tmp_path / "test_0.py").write_text("import torch\n\ndef test_0():\n    torch.set_default_dtype(torch.float64)\n")
    (tmp_path / "test_1.py").write_text("import torch\n\ndef test_1():\n    assert torch.ones(1).dtype == torch.float64\n")
    command = [sys.executable, "-m", "pytest", "-p", "joinery.triton.pytest", "--joinery", "--joinery-device=cpu", "-q"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert "2 passed" in done.stdout, done.stdout + done.stderr
