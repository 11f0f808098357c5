"""What the plugin of pytest makes of findings: which fail their tests, whose they are, and those of other processes."""

from __future__ import annotations

import html
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

pytest.importorskip("triton")
pytest.importorskip("torch")

KERNELS = """
import torch
import triton
import triton.language as tl


@triton.jit
def twice(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i) * 2, mask=i < n)


@triton.jit
def checked(x, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    value = tl.load(x + i, mask=i < n, other=1)
    tl.device_assert(value > 0, "not positive")
    tl.store(x + i, value, mask=i < n)


def doubled(n):
    x = torch.ones(n, device="cuda")
    out = torch.empty_like(x)
    twice[(1,)](x, out, n, BLOCK=64)
    return out


def doubled_anyhow(n):
    try:
        return doubled(n)
    except ValueError:
        return torch.full((n,), 2.0, device="cuda")


def assert_positive(value):
    checked[(1,)](torch.full((8,), value, device="cuda"), 8, BLOCK=8, debug=True)
"""

EXPECTING = """
import contextlib, threading, unittest
import pytest, torch
from kernels import assert_positive, doubled, doubled_anyhow


def test_waits_for_it():
    with pytest.raises(ValueError, match="twice"):
        doubled(50)


def test_waits_for_an_assertion():
    with pytest.raises(RuntimeError, match="not positive"):
        assert_positive(-1.0)
    with pytest.raises(RuntimeError):
        assert_positive(0.0)
    assert_positive(1.0)


def test_names_the_error():
    try:
        doubled(50)
    except (KeyError, ValueError) as error:
        assert "twice" in str(error)


def test_by_functions():
    pytest.raises(ValueError, doubled, 50)
    unittest.TestCase().assertRaises(ValueError, doubled, 50)


class TestCase(unittest.TestCase):
    def test_in_a_class(self):
        with self.assertRaisesRegex(ValueError, "twice"):
            doubled(50)


def test_lets_it_go_by():
    try:
        doubled(50)
    except Exception:
        pass


def test_suppresses_and_then_waits():
    with contextlib.suppress(KeyError):
        with pytest.raises(ValueError):
            doubled(50)


def test_calls_what_catches_it():
    assert doubled_anyhow(50).sum() == 100


def test_does_not_catch_it():
    with pytest.raises(KeyError):
        doubled(50)


def test_is_right():
    assert doubled(64).sum() == 128


@contextlib.contextmanager
def twice_fails():
    with pytest.raises(ValueError, match="twice"):
        yield


@pytest.mark.parametrize("expectation", [pytest.raises(ValueError)])
def test_managers_made_elsewhere(expectation):
    with twice_fails():
        doubled(50)
    with expectation:
        doubled(50)
    fails = lambda: pytest.raises(ValueError)
    with fails(), torch.no_grad():
        doubled(50)
    with pytest.raises(ValueError) if expectation else contextlib.nullcontext():
        doubled(50)
    with contextlib.ExitStack() as stack:
        stack.enter_context(pytest.raises(ValueError))
        doubled(50)
    with contextlib.suppress(KeyError, ValueError):
        doubled(50)


class Swallowing:
    def __enter__(self):
        return self

    def __exit__(self, *error):
        return True


def swallowed(manager):
    with manager:
        doubled(50)


def test_swallows_by_a_class():
    swallowed(Swallowing())


def test_swallows_by_suppress():
    with contextlib.suppress(Exception):
        doubled(50)


def test_swallows_in_a_helper():
    swallowed(contextlib.suppress(KeyError, Exception))


def test_swallows_in_a_thread():
    thread = threading.Thread(target=swallowed, args=(Swallowing(),))
    thread.start()
    thread.join()


def test_swallows_around_another_check():
    with contextlib.suppress(Exception):
        with pytest.raises(KeyError):
            doubled(50)
"""
SWALLOWING = {"test_lets_it_go_by", "test_calls_what_catches_it", "test_does_not_catch_it"} | {
    f"test_swallows_{how}" for how in ("by_a_class", "by_suppress", "in_a_helper", "in_a_thread", "around_another_check")
}


def outcomes(folder: Path, suite: str, *options: str, **variables: str) -> tuple[dict[str, str], str]:
    """What became of each test of a suite, and all that pytest said."""
    (folder / "kernels.py").write_text(KERNELS)
    (folder / "test_suite.py").write_text(suite)
    command = [sys.executable, "-m", "pytest", "-rA", "--tb=short", "-p", "joinery.triton.pytest", *options, "test_suite.py"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, env={**os.environ, **variables})
    found = {}
    for line in done.stdout.splitlines():
        kind, _, rest = line.partition(" test_suite.py::")
        if kind in ("PASSED", "FAILED", "ERROR") and rest:
            found[rest.split(" - ")[0]] = kind
    assert found, done.stdout + done.stderr
    return found, done.stdout + done.stderr


@pytest.mark.parametrize("mode", ["native", "sanitize"])
def test_errors_that_a_test_waits_for_do_not_fail_it(mode: str, tmp_path: Path) -> None:
    found, said = outcomes(tmp_path, EXPECTING, f"--joinery={mode}")
    failed = {name for name, kind in found.items() if kind != "PASSED"}
    assert failed == SWALLOWING, said
    assert len(found) == 16
    assert "8 findings" in said
    assert "14 findings that tests wait for, and catch" in said, said


PARTS = """
import unittest
from kernels import doubled


class TestParts(unittest.TestCase):
    def test_sizes(self):
        for n in (64, 50, 63):
            with self.subTest("size", n=n):
                doubled(n)


def test_parts(subtests):
    for n in (64, 40, 64):
        with subtests.test(n=n):
            try:
                doubled(n)
            except Exception:
                pass
    with subtests.test("whole"):
        doubled(64)


def test_after():
    doubled(64)
"""


def test_findings_name_the_part_of_the_test(tmp_path: Path) -> None:
    pytest.importorskip("_pytest.subtests")
    found, said = outcomes(tmp_path, PARTS, "--joinery")
    assert found["test_after"] == "PASSED"
    assert "3 findings" in said
    _, _, summary = said.partition("= joinery =")
    for line in (
        "test_suite.py::TestParts::test_sizes [size] n=50: twice", "test_suite.py::TestParts::test_sizes [size] n=63: twice",
        "test_suite.py::test_parts n=40: twice", "2 tests failed, launched", "1 test passed, launched",
    ):
        assert line in summary, said
    assert said.count("SUBFAILED") >= 3
    assert "whole" not in summary


PROCESSES = """
import multiprocessing, os, subprocess, sys
import pytest, torch
from kernels import doubled, doubled_anyhow

PROGRAM = "import torch; assert torch.cuda.is_available(); from kernels import doubled; assert doubled(64).is_cuda"


def total(n):
    return doubled(n).sum().item()


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_workers(method):
    with multiprocessing.get_context(method).Pool(1) as pool:
        assert pool.map(total, [64, 64]) == [128, 128]


def test_a_program_that_finds_something():
    done = subprocess.run([sys.executable, "-c", "from kernels import doubled_anyhow; doubled_anyhow(50)"])
    assert done.returncode == 0


def test_a_program_with_a_start_up_file_of_its_own(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.own = 3")
    paths = [os.environ["PYTHONPATH"], str(tmp_path)]
    surroundings = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    subprocess.run([sys.executable, "-c", "import sys; assert sys.own == 3; " + PROGRAM], check=True, env=surroundings)


def test_nothing_is_imported_for_others():
    text = "import sys; assert not {'torch', 'triton', 'numpy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", text], check=True)


def test_tensors_are_not_sent(tmp_path):
    with pytest.raises(NotImplementedError, match="cpu()"):
        torch.multiprocessing.reductions.reduce_tensor(torch.ones(3, device="cuda"))
"""


@pytest.mark.slow
def test_processes_have_a_gpu_and_tell_what_they_found(tmp_path: Path) -> None:
    found, said = outcomes(tmp_path, PROCESSES, "--joinery")
    assert {name for name, kind in found.items() if kind != "PASSED"} == {"test_a_program_that_finds_something"}, said
    for line in (
        "in a process that the test started: AccessError", "3 tests passed, launched", "2 tests passed, not launched",
        "6 launches, 1 finding",
    ):
        assert line in said, said


def test_workers_of_xdist_tell_their_own(tmp_path: Path) -> None:
    pytest.importorskip("xdist")
    found, said = outcomes(tmp_path, EXPECTING, "--joinery", "-n1")
    assert sorted(found.values()).count("FAILED") == len(SWALLOWING), said
    assert "8 findings" in said
    assert "14 findings that" in said


OUTSIDE = """
import os, signal
import pytest, torch
from kernels import assert_positive, doubled, doubled_anyhow


@pytest.fixture
def found():
    return doubled(50)


@pytest.fixture
def hidden():
    return doubled_anyhow(50)


@pytest.fixture
def later():
    yield
    doubled(50)


@pytest.fixture
def waited_for():
    with pytest.raises(ValueError, match="twice"):
        doubled(50)


def test_set_up(found):
    pass


def test_set_up_that_catches_it(hidden):
    pass


def test_teardown(later):
    doubled(64)


def test_set_up_that_waits_for_it(waited_for):
    pass


def test_assertion():
    assert_positive(-1.0)


@pytest.mark.xfail(reason="a <known> bug")
def test_expected_failure():
    doubled(50)


@pytest.mark.xfail
def test_expected_failure_that_is_caught():
    doubled_anyhow(50)


@pytest.mark.xfail
def test_unexpected_pass():
    doubled(64)


@pytest.mark.parametrize("text", ["<script>alert(1)</script>"])
def test_named(text):
    raise ValueError("<b>nothing of a kernel</b>")


def test_that_ends_its_process():
    if "ENDS" in os.environ:
        os.kill(os.getpid(), signal.SIGSEGV)
"""


def own_cache(folder: Path) -> dict[str, str]:
    """A cache of Triton's without texts that name a file of the same content elsewhere, which is gone."""
    return {"TRITON_CACHE_DIR": str(folder / "cache")}


def summary_of(said: str) -> str:
    return said.partition("= joinery =")[2].partition("short test summary")[0]


def test_findings_outside_of_tests_and_marks(tmp_path: Path) -> None:
    found, said = outcomes(tmp_path, OUTSIDE, "--joinery", "--joinery-report=page.html", **own_cache(tmp_path))
    assert {name for name, kind in found.items() if kind == "ERROR"} == {
        "test_set_up", "test_set_up_that_catches_it", "test_teardown",
    }, said  # fmt: skip
    summary = summary_of(said)
    for line in (
        "4 tests failed, launched", "1 test failed, not launched", "1 test passed, launched", "1 test passed, not launched",
        "2 tests xfailed, launched", "1 test xpassed, launched", "6 findings", "1 finding that tests wait for",
        "test_set_up: twice: AccessError", "test_assertion: checked: KernelAssertionError: the kernel's assertion at ",
        "kernels.py:17 fails in program (0, 0, 0), element (0,): not positive",
    ):
        assert line in summary, said
    page = (tmp_path / "page.html").read_text()
    for text in (
        "<mark><i>17</i>    tl.device_assert(value &gt; 0, &quot;not positive&quot;)</mark>", "in teardown: ", "in set-up: ",
        "a &lt;known&gt; bug", "test_suite.py::test_named[&lt;script&gt;alert(1)&lt;/script&gt;]", "&lt;b&gt;nothing",
        "<article class=caught>", "prefers-color-scheme: dark",
    ):
        assert text in page, page
    assert "<script" not in page
    assert "http:" not in page
    assert "https:" not in page


@pytest.mark.parametrize("mode", ["interpret", "ptxsim"])
def test_assertions_are_findings_in_every_mode(mode: str, tmp_path: Path) -> None:
    suite = """
import pytest
from kernels import assert_positive

def test_assertion():
    assert_positive(-1.0)

def test_waits_for_it():
    with pytest.raises(RuntimeError):
        assert_positive(-1.0)
"""
    found, said = outcomes(tmp_path, suite, f"--joinery={mode}", "--joinery-report=page.html", **own_cache(tmp_path))
    assert found == {"test_assertion": "FAILED", "test_waits_for_it": "PASSED"}
    summary = summary_of(said)
    for line in ("1 finding\n", "1 finding that tests wait", "test_assertion: checked: KernelAssertion", "kernels.py:17"):
        assert line in summary, said
    for internal in ("runtime/jit.py", "launcher.py", "gpu_code.py", "effects.py"):
        assert internal not in said
    assert "E   joinery.KernelAssertionError: " in said
    assert "<mark><i>17</i>" in (tmp_path / "page.html").read_text()


def test_a_test_that_ends_its_worker_is_counted(tmp_path: Path) -> None:
    pytest.importorskip("xdist")
    found, said = outcomes(tmp_path, OUTSIDE, "--joinery", "-n1", "--joinery-report=page.html", ENDS="1")
    assert found["test_that_ends_its_process"] == "FAILED"
    summary = summary_of(said)
    for line in ("1 test crashed, launches unknown", "4 tests failed, launched", "6 findings"):
        assert line in summary, said
    assert "not launched" in summary  # test_named alone: the one that crashed is in no other count
    assert "passed, not launched" not in summary
    assert "1 crashed, launches unknown" in (tmp_path / "page.html").read_text()


def test_a_project_in_the_folder_of_the_package(tmp_path: Path) -> None:
    """Frames are told by their modules, not by where they lie."""
    import joinery

    package = Path(str(joinery.__file__)).parent
    with tempfile.TemporaryDirectory(dir=package / "tests", prefix="project_") as folder:
        (Path(folder) / "pytest.ini").write_text("[pytest]\n")
        _, said = outcomes(Path(folder), "from kernels import doubled\n\n\ndef test_it():\n    doubled(50)\n", "--joinery")
    assert "E   joinery.AccessError: " in said
    assert "launcher.py" not in said


def test_a_project_that_has_the_settings_of_the_clone() -> None:
    """One without settings of its own, in a folder of the clone's."""
    import joinery

    with tempfile.TemporaryDirectory(dir=Path(str(joinery.__file__)).parent / "examples", prefix="project_") as folder:
        (Path(folder) / "test_suite.py").write_text("def test_it():\n    pass\n")
        command = [sys.executable, "-m", "pytest", "-q", "-p", "joinery.triton.pytest", "--joinery"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    assert "1 test passed, not launched" in done.stdout, done.stdout + done.stderr


REFUSED = """
import triton, triton.language as tl
from kernels import torch

@triton.jit
def inner(x, BLOCK: tl.constexpr):
    tl.static_assert(BLOCK % 16 == 0, "blocks of sixteens")
    return x

@triton.jit
def refused(x, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + i, nothing)

@triton.jit
def calls(x, BLOCK: tl.constexpr):
    tl.store(inner(x, BLOCK), 0.0)

def test_by_a_name():
    refused[(1,)](torch.ones(8, device="cuda"), BLOCK=8)

def test_in_what_is_called():
    calls[(1,)](torch.ones(8, device="cuda"), BLOCK=8)
"""


def test_what_triton_refuses_keeps_its_reason(tmp_path: Path) -> None:
    found, _ = outcomes(tmp_path, REFUSED, "--joinery", "--joinery-report=page.html")
    assert set(found.values()) == {"FAILED"}
    page = (tmp_path / "page.html").read_text()
    assert "NameError(&#x27;nothing is not defined&#x27;)" in page
    assert "blocks of sixteens" in page


def test_kernels_are_proven_from_their_launches(tmp_path: Path) -> None:
    pytest.importorskip("z3")
    (tmp_path / "test_proven.py").write_text("""
import torch, triton
import triton.language as tl


@triton.jit
def copy(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n), mask=i < n)


@triton.jit
def behind(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + n + i, tl.load(x + i))


def test_sizes():
    for n in (100, 300):
        x = torch.randn(n, device="cuda")
        out = torch.empty_like(x)
        copy[(triton.cdiv(n, 64),)](x, out, n, BLOCK=64)
        assert torch.equal(x, out)


def test_in_place():
    x = torch.randn(128, device="cuda")
    copy[(2,)](x, x, 128, BLOCK=64)  # specialised to multiples of 16: a kernel of its own


@triton.jit
def both(x, out, n, m):
    i = tl.program_id(0)
    tl.store(out + i, tl.load(x + i, mask=(i < n) & (i < m)), mask=(i < n) & (i < m))


def test_some_share_memory():
    x, y = torch.randn(100, device="cuda"), torch.empty(100, device="cuda")
    both[(5,)](x, x, 9, 7)
    both[(5,)](x, y, 9, 7)
    both[(5,)](y, y, 9, 7)
    both[(5,)](x[:50], y[48:], 7, 9)


def test_behind():
    for programs, n in ((3, 3), (2, 65), (2, 65), (3, 20)):  # by the first one there are n programs
        x = torch.randn(64 * programs, device="cuda")
        out = torch.empty(64 * programs + n, device="cuda")
        behind[(programs,)](x, out, n, BLOCK=64)
        assert torch.equal(x, out[n:])
""")
    command = [sys.executable, "-P", "-m", "pytest", "-q", "-p", "joinery.triton.pytest", "--joinery=prove", "test_proven.py"]
    command.append("--joinery-report=page.html")
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 proofs" in done.stdout
    _, _, said = done.stdout.partition("  both: ")
    assert "says nothing of 1 launch with other sizes, or with arrays that share memory" in said
    assert "copy: bounds proven, races proven, overflow proven" in done.stdout
    assert "prove(assume=['n >= 1'], extents={'x': 'n', 'out': 'n'}, grid=('cdiv(n, 64)',))" in done.stdout
    assert "x and out share memory" in done.stdout
    _, _, said = done.stdout.partition("  behind: ")
    assert "guessed from 2 launches" in said
    assert "extents={'x': '64 * grid_x', 'out': '64 * grid_x + n'}, grid=('grid_x',))" in said
    page = (tmp_path / "page.html").read_text()
    assert page.count("<code>behind</code>: bounds proven") == 1
    assert "guessed from 2 launches" in page
    assert html.escape("extents={'x': '64 * grid_x', 'out': '64 * grid_x + n'}, grid=('grid_x',))") in page
