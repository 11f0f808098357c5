"""One compile cache, many processes: concurrent writers, writers that are killed, damage, and who touches the disk."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.runtime.storage import cache

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="forks its writers")

# What every process here does: graphs that differ by `number`, and what they must compute.
GRAPHS = """
import os, signal, sys
import joinery as jn
import numpy as np

x = np.arange(12, dtype=np.int64).reshape(3, 4)

def build(number):
    g = jn.Graph(f"graph{number}", [jn.TensorType(jn.int64, ("n", 4), name="x")])
    y = g.inputs[0]
    for step in range(number + 1):
        y = y * 3 + step
    g.output(jn.sum(y, axis=1))
    return g

def expected(number):
    y = x
    for step in range(number + 1):
        y = y * 3 + step
    return y.sum(axis=1)
"""


def run(code: str, *arguments: object, home: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    if home is not None:
        environment["HOME"] = str(home)
    command = [sys.executable, "-c", GRAPHS + code, *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)


@pytest.fixture(scope="module")
def graphs() -> dict[str, Any]:
    namespace: dict[str, Any] = {}
    exec(GRAPHS, namespace)
    return namespace


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def entries(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.suffix == ".entry"}


def unfinished(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir() if path.suffix != ".entry")


def check_all_hit(
    graphs: dict[str, Any], directory: Path, numbers: Iterator[int] | range | list[int]
) -> None:
    """Every graph is served by the directory, and what it holds is right."""
    before = entries(directory)
    for number in numbers:
        cache = jn.CompileCache(directory)
        m = jn.compile(graphs["build"](number), cache=cache)
        assert (cache.misses, cache.problem) == (0, None)
        assert cache.hits >= 1
        assert m.name == f"graph{number}"
        np.testing.assert_array_equal(m(graphs["x"]), graphs["expected"](number), strict=True)
    assert entries(directory) == before


# --- concurrent writers

TEN = """
import joinery.lowering.pipeline  # loaded once, before the fork
directory, numbers = sys.argv[1], range(5)
ready, go = os.pipe(), os.pipe()
children = []
for worker in range(10):
    child = os.fork()
    if child == 0:
        os.close(go[1])
        os.write(ready[1], b"r")
        os.read(go[0], 1)  # returns when the parent closes its end: all start at once
        code = 1
        try:
            mine = [0, 1 + worker % 4, 10 + worker]  # one graph for all, one for some, one for itself
            good = [np.array_equal(jn.compile(build(n), cache=directory)(x), expected(n)) for n in mine]
            code = 0 if all(good) else 2
        finally:
            os._exit(code)
    children.append(child)
for _ in children:
    os.read(ready[0], 1)
os.close(go[1])
print([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children])
"""


@pytest.mark.slow
def test_ten_processes_share_a_directory(directory: Path, graphs: dict[str, Any]) -> None:
    done = run(TEN, directory)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[0] == str([0] * 10), done.stderr
    assert unfinished(directory) == []
    check_all_hit(graphs, directory, [*range(5), *range(10, 20)])


# --- killed writers

KILLED = """
directory, moment = sys.argv[1:]

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

from joinery.runtime.storage import cache
if moment == "before the rename":
    cache.os.replace = die
else:  # with a part of the entry written
    open_file = os.fdopen

    class Dying:
        def __init__(self, file): self.file, self.written = file, 0
        def __enter__(self): return self
        def __exit__(self, *_): pass
        def write(self, data):
            self.file.write(data[: len(data) // 2])
            self.file.flush()
            self.written += 1
            if self.written == 2:
                die()

    cache.os.fdopen = lambda descriptor, mode: Dying(open_file(descriptor, mode))
jn.compile(build(3), cache=directory)
print("survived")
"""


@pytest.mark.one_in(2)
@pytest.mark.parametrize("moment", ["before the rename", "half written"])
def test_a_writer_killed_while_writing(
    directory: Path, graphs: dict[str, Any], moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    jn.compile(graphs["build"](1), cache=directory)
    before = entries(directory)
    done = run(KILLED, directory, moment)
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, "")
    assert len(unfinished(directory)) == 1, "the kill came in the middle of a write"
    assert entries(directory) == before
    m = jn.compile(graphs["build"](3), cache=directory)
    np.testing.assert_array_equal(m(graphs["x"]), graphs["expected"](3))
    check_all_hit(graphs, directory, [1, 3])
    # the leftover goes once nobody can be writing it any more, with the first entry that a process writes
    (leftover,) = unfinished(directory)
    assert (directory / leftover).exists()
    os.utime(directory / leftover, (time.time() - 7200,) * 2)
    monkeypatch.setattr(cache, "_WRITTEN", {})
    jn.compile(graphs["build"](2), cache=directory)
    assert unfinished(directory) == []


LOOP = """
print("started", flush=True)
for number in range(10_000):
    jn.compile(build(number % 20), cache=sys.argv[1])
    if number % 20 == 19:
        for entry in os.scandir(sys.argv[1]):
            os.unlink(entry.path)
"""


@pytest.mark.slow
def test_writers_killed_at_any_moment(directory: Path, graphs: dict[str, Any]) -> None:
    command = [sys.executable, "-c", GRAPHS + LOOP, str(directory)]
    for delay in (0.6, 0.8):
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "started\n"
            time.sleep(delay)
            assert process.poll() is None
            process.kill()
    for number in range(6):
        m = jn.compile(graphs["build"](number), cache=directory)
        np.testing.assert_array_equal(m(graphs["x"]), graphs["expected"](number))
    check_all_hit(graphs, directory, range(6))


# --- damage


@pytest.mark.one_in(6)
@pytest.mark.parametrize(
    "damage", ["empty", "truncated", "one bit", "longer", "garbage", "another entry", "directory"]
)
def test_damaged_entries_are_compiled_anew(directory: Path, graphs: dict[str, Any], damage: str) -> None:
    for number in (1, 2):
        jn.compile(graphs["build"](number), cache=directory)
    good = entries(directory)
    contents = sorted(good.values(), key=len)
    for name, content in good.items():
        path = directory / name
        match damage:
            case "empty":
                path.write_bytes(b"")
            case "truncated":
                path.write_bytes(content[:-7])
            case "one bit":
                path.write_bytes(content[:-100] + bytes([content[-100] ^ 4]) + content[-99:])
            case "longer":
                path.write_bytes(content + b"\0")
            case "garbage":
                path.write_bytes(os.urandom(len(content)))
            case "another entry":
                path.write_bytes(contents[0] if content != contents[0] else contents[-1])
            case "directory":
                path.unlink()
                path.mkdir()
    for number in (1, 2):
        cache = jn.CompileCache(directory)
        m = jn.compile(graphs["build"](number), cache=cache)
        assert cache.misses >= 1
        np.testing.assert_array_equal(m(graphs["x"]), graphs["expected"](number))
    if damage != "directory":
        assert entries(directory).keys() == good.keys()
        check_all_hit(graphs, directory, [1, 2])


def test_a_directory_that_cannot_be_used_only_costs_the_caching(
    tmp_path: Path, graphs: dict[str, Any]
) -> None:
    occupied = tmp_path / "file"
    occupied.write_text("not a directory")
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    for directory, problem in (
        (occupied, "cannot be used"),
        (shared, "others may write to the cache directory"),
    ):
        cache = jn.CompileCache(directory)
        np.testing.assert_array_equal(
            jn.compile(graphs["build"](1), cache=cache)(graphs["x"]), graphs["expected"](1)
        )
        assert cache.problem is not None
        assert problem in cache.problem
    assert occupied.read_text() == "not a directory"
    assert list(shared.iterdir()) == []


# --- which graphs share an entry


def test_equal_graphs_share_an_entry_whatever_their_names(directory: Path) -> None:
    def build(name: str, seed: int) -> tuple[jn.Graph, np.ndarray]:
        w = np.random.default_rng(seed).standard_normal((64, 64)).astype(np.float32)
        g = jn.Graph(name, [jn.TensorType(jn.float32, ("n", 64), name="x")])
        g.output(g.inputs[0] + g.weight("w", w[0]))
        return g, w[0]

    x = np.ones((2, 64), np.float32)
    for number, name in enumerate(("first", "second", "third")):
        graph, w = build(name, number)
        cache = jn.CompileCache(directory)
        m = jn.compile(graph, cache=cache)
        assert (cache.hits > 0) == (number > 0)
        assert m.name == name
        np.testing.assert_array_equal(
            m(x), 1 + np.broadcast_to(w, (2, 64))
        )  # its own weights, not the first one's


@pytest.mark.parametrize("count", [3, 600])
def test_graphs_that_differ_in_values_do_not_mix(directory: Path, count: int) -> None:
    x = np.ones(count, np.float32)
    for value in (1.0, 2.0, -0.0):
        g = jn.Graph("g", [jn.TensorType(jn.float32, (count,), name="x")])
        g.output(g.inputs[0] * np.full(count, value, np.float32))
        result = jn.compile(g, cache=directory)(x)
        assert result.tobytes() == np.full(count, value, np.float32).tobytes()


# --- must-hit and no cache


def test_must_hit(tmp_path: Path, graphs: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(
        jn.UserError, match=r"graph 'graph4' is not in the cache \(key [0-9a-f]{16}…\); fix: compile it once"
    ):
        jn.compile(graphs["build"](4), cache="must-hit")
    jn.compile(graphs["build"](4), cache=True)
    m = jn.compile(graphs["build"](4), cache="must-hit")
    np.testing.assert_array_equal(m(graphs["x"]), graphs["expected"](4))
    with pytest.raises(jn.UserError, match="is not in the cache"):
        jn.compile(graphs["build"](5), cache="must-hit")
    done = run(
        'print(jn.compile(build(4), cache="must-hit")(x).tolist(), "xdsl" in sys.modules)', home=tmp_path
    )
    assert done.stdout.strip() == f"{graphs['expected'](4).tolist()} False", done.stderr


TOUCHED = """
touched = []

def watch(event, arguments):
    if event == "open" and isinstance(arguments[0], (str, bytes)) and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
        touched.append(os.fsdecode(arguments[0]))
    elif event in ("os.mkdir", "os.rename", "os.remove", "os.utime", "os.link", "os.symlink"):
        touched.append(f"{event} {arguments[0]}")

sys.addaudithook(watch)
cache = {"True": True, "False": False}[sys.argv[1]]
m = jn.compile(build(2), cache=cache)
assert np.array_equal(m(x), expected(2))
print(len(touched), touched)
"""


@pytest.mark.slow
def test_without_a_cache_nothing_is_written(tmp_path: Path) -> None:
    done = run(TOUCHED, False, home=tmp_path)
    assert done.stdout == "0 []\n", done.stderr
    assert list(tmp_path.iterdir()) == []
    done = run(TOUCHED, True, home=tmp_path)  # the witness sees what the cache does
    assert int(done.stdout.split()[0]) >= 3, done.stderr
    assert len(entries(tmp_path / ".cache" / "joinery")) >= 1
    assert (tmp_path / ".cache" / "joinery").stat().st_mode & 0o777 == 0o700
