"""Measures what a user waits for before the first result: importing, and compiling with and without a warm cache.

Every sample is a fresh process, contenders in turn. The process prints the seconds it measured itself, so
the start of the interpreter does not count.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from harness import BRIEF_PROCESSES, Measurement
from peers import Peers

HERE = Path(__file__).resolve().parent
ROUNDS = 7
IMPORT = "import time; start = time.perf_counter(); import {statement}; print(time.perf_counter() - start)"


def fresh_processes(
    commands: Mapping[str, list[str]], rounds: int, warmed: Collection[str] | None = None
) -> dict[str, list[float]]:
    """Returns the seconds that each command prints on its last line, in turn, after a first round that warms the file cache.

    `warmed`: the commands that take part in the first round, by default all. Python may write bytecode files, as it does for a
    user: installed packages have them anyway.
    """
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    samples: dict[str, list[float]] = {name: [] for name in commands}
    for turn in range(rounds + 1):
        for name, command in commands.items():
            if not turn and warmed is not None and name not in warmed:
                continue
            done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
            if done.returncode:
                raise SystemExit(f"{name} failed:\n{done.stderr}")
            if turn:
                samples[name].append(float(json.loads(done.stdout.splitlines()[-1])))
    return samples


def imports(peers: Peers, brief: bool = False) -> Measurement:
    """Measures imports. `import joinery` loads its parts on first use, so a second line also imports what a
    graph needs."""
    statements = {name: name for name in peers.modules}
    ours: tuple[str, ...] = ()
    if "joinery" in peers.modules:
        statements["joinery, Graph, compile"] = "joinery; joinery.Graph; joinery.compile"
        ours = ("joinery", "joinery, Graph, compile")
    commands = {
        name: [sys.executable, "-c", IMPORT.format(statement=statement)]
        for name, statement in statements.items()
    }
    samples = fresh_processes(commands, BRIEF_PROCESSES, ()) if brief else fresh_processes(commands, ROUNDS)
    return Measurement("import", "", samples, ours)


def compilation(task: str, moment: str, rounds: int) -> Callable[..., Measurement]:
    """Measures from graph to first result: the process's first compilation, which may load compilers, a later
    one, or with all imports."""

    def measure(peers: Peers, brief: bool = False) -> Measurement:
        with tempfile.TemporaryDirectory(prefix="joinery-bench-") as cache:
            script = str(HERE / "compile_once.py")
            commands = {
                name: [sys.executable, script, task, name, moment, "none"]
                for name in ("onnxruntime", "jax")
                if name in peers.modules and (moment, name) != ("process", "onnxruntime")  # onnx makes its model
            }
            ours: tuple[str, ...] = ()
            if "joinery" in peers.modules:
                commands["joinery (cold)"] = [sys.executable, script, task, "joinery", moment, "none"]
                commands["joinery (cached)"] = [sys.executable, script, task, "joinery", moment, cache]
                ours = ("joinery (cold)", "joinery (cached)")
            if brief:  # what fills the cache of "cached" is no sample of it
                samples = fresh_processes(commands, BRIEF_PROCESSES, ("joinery (cached)",))
            else:
                samples = fresh_processes(commands, rounds)
            return Measurement(f"compile {task}, {moment}", "", samples, ours)

    return measure


STARTUP_CASES: dict[str, Callable[..., Measurement]] = {
    "import": imports,
    "process-ten-ops": compilation("ten-ops", "process", ROUNDS),
    "compile-ten-ops": compilation("ten-ops", "later", ROUNDS),
    "compile-ten-ops-first": compilation("ten-ops", "first", ROUNDS),
    "compile-minilm": compilation("minilm", "first", 3),
}
