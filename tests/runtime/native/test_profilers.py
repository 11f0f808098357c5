"""What debuggers and profilers are told of linked code, read by their own formats and by gdb and perf where these are."""

from __future__ import annotations

import itertools
import os
import re
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import joinery as jn
import pytest
from joinery.runtime.native.line_tables import read_object

from ...support.lines import line_rows, tool

SCRIPT = """
import os
import joinery as jn, numpy as np
g = jn.Graph("model", inputs=[jn.TensorType(jn.float32, (64, 512), name="x")])
h = jn.exp(g.inputs[0])  # 5
h = jn.tanh(h * 2.0)     # 6
g.output(jn.sum(h, axis=1))
m = jn.compile(g, device="cpu", cache=False, debug=True, threads=1)
m(np.ones((64, 512), np.float32))
print(os.getpid(), m.kernels[0].name, flush=True)
"""
ROOT = Path(jn.__file__).parent


def environment(tmp_path: Path, **more: str) -> dict[str, str]:
    paths = [str(ROOT.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "TMPDIR": str(tmp_path), **more}


def run(tmp_path: Path, kind: str) -> tuple[int, str]:
    """Process and kernel of the script; `kind` is JOINERY_PERF."""
    (tmp_path / "model.py").write_text(SCRIPT)
    command = [sys.executable, str(tmp_path / "model.py")]
    done = subprocess.run(command, env=environment(tmp_path, JOINERY_PERF=kind), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    process, kernel = done.stdout.split()
    return int(process), kernel


def compiled() -> Any:
    g = jn.Graph("model", inputs=[jn.TensorType(jn.float32, (64, 512), name="x")])
    h = jn.exp(g.inputs[0])
    g.output(jn.sum(jn.tanh(h * 2.0), axis=1))
    return jn.compile(g, device="cpu", cache=False, debug=True).compiled


def test_line_tables_are_read_as_binutils_reads_them(tmp_path: Path) -> None:
    code = compiled().object_code
    (tmp_path / "model.o").write_bytes(code)
    found = read_object(code)
    assert found is not None
    assert [(entry.start, entry.line) for entry in found.lines] == line_rows(tmp_path / "model.o")
    assert {entry.file for entry in found.lines if entry.line} == {__file__}
    shown = subprocess.run([tool("readelf"), "--syms", "-W", tmp_path / "model.o"], capture_output=True, text=True).stdout
    symbols = {(m[3], int(m[1], 16), int(m[2])) for m in re.finditer(r": ([0-9a-f]+)\s+(\d+) FUNC .* (\S+)$", shown, re.M)}
    assert symbols == {(each.name, each.start, each.size) for each in found.symbols}


def test_code_without_lines_has_symbols_and_no_lines() -> None:
    g = jn.Graph("model", inputs=[jn.TensorType(jn.float32, (64,))])
    g.output(jn.exp(g.inputs[0]))
    found = read_object(jn.compile(g, device="cpu", cache=False).compiled.object_code)
    assert found is not None
    assert found.lines == ()
    assert {"jn_prepare", "jn_run"} < {each.name for each in found.symbols}


@pytest.mark.parametrize("data", [b"", b"MZ\x90\x00", b"\x7fELF\x01\x01" + bytes(64)])
def test_other_formats_are_left_alone(data: bytes) -> None:
    assert read_object(data) is None


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="perf is a profiler of Linux")
def test_the_map_names_the_kernels(tmp_path: Path) -> None:
    process, kernel = run(tmp_path, "map")
    path = Path(f"/tmp/perf-{process}.map")
    try:
        rows = [line.split(" ", 2) for line in path.read_text().splitlines()]
    finally:
        path.unlink()
    by_name = {name: (int(start, 16), int(size, 16)) for start, size, name in rows}
    assert {kernel, "jn_run", "jn_parallel"} <= set(by_name)
    ends = sorted(by_name.values())
    assert all(start + size <= following for (start, size), (following, _) in itertools.pairwise(ends))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="perf is a profiler of Linux")
def test_the_dump_holds_code_and_lines(tmp_path: Path) -> None:
    process, kernel = run(tmp_path, "jitdump")
    data = (tmp_path / f"jit-{process}.dump").read_bytes()
    magic, version, size, _, _, written_by = struct.unpack_from("<IIIIII", data)
    assert (magic, version, size, written_by) == (0x4A695444, 1, 40, process)
    lines: dict[int, list[tuple[int, int, str]]] = {}
    loaded: dict[str, tuple[int, bytes]] = {}
    at = size
    while at < len(data):
        kind, length, _ = struct.unpack_from("<IIQ", data, at)
        body = data[at + 16 : at + length]
        if kind == 0:
            _, _, _, address, count, _ = struct.unpack_from("<IIQQQQ", body)
            name, _, code = body[40:].partition(b"\0")
            assert len(code) == count
            loaded[name.decode()] = (address, code)
        else:
            assert kind == 2
            address, count = struct.unpack_from("<QQ", body)
            rest, found = body[16:], []
            for _ in range(count):
                start, line, _ = struct.unpack_from("<Qii", rest)
                name, _, rest = rest[16:].partition(b"\0")
                found.append((start, line, name.decode()))
            lines[address] = found
        at += length
    address, code = loaded[kernel]
    assert {line for _, line, _ in lines[address]} == {5, 6, 7}
    assert {file for _, _, file in lines[address]} == {str(tmp_path / "model.py")}
    assert all(address <= start < address + len(code) for start, _, _ in lines[address])


@pytest.mark.slow
def test_another_value_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(SCRIPT)
    command = [sys.executable, str(tmp_path / "model.py")]
    done = subprocess.run(command, env=environment(tmp_path, JOINERY_PERF="yes"), capture_output=True, text=True)
    assert "UserError: JOINERY_PERF='yes'; fix: one of map, jitdump, or leave it out" in done.stderr


@pytest.mark.slow
def test_nothing_is_written_unasked(tmp_path: Path) -> None:
    process, _ = run(tmp_path, "")
    assert not Path(f"/tmp/perf-{process}.map").exists()
    assert not list(tmp_path.glob("jit-*"))


@pytest.mark.slow
def test_gdb_stops_at_a_line_of_the_graph(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(SCRIPT)
    commands = ["set breakpoint pending on", "break model.py:6", f"run {tmp_path / 'model.py'}", "bt 1", "list 6,6"]
    options = [part for command in commands for part in ("-ex", command)]
    done = subprocess.run(
        [tool("gdb"), "-nx", "-q", "-batch", *options, sys.executable],
        env=environment(tmp_path), capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert re.search(r"hit Breakpoint 1, row_\w+ \(\) at .*/model\.py:6\n", done.stdout), done.stdout + done.stderr
    assert "6\th = jn.tanh(h * 2.0)     # 6\n" in done.stdout


