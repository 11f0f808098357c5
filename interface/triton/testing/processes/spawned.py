"""A GPU for the processes that a test starts: programs, and workers of `multiprocessing`.

They are told by an environment variable, and start with a module of Python's own start-up, `sitecustomize`, which is in a
folder that the environment adds to theirs. It waits for torch or Triton to be imported. Nothing of it is there without
`--joinery`.
"""

from __future__ import annotations

import dataclasses
import importlib.machinery
import importlib.util
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

VARIABLE = "JOINERY_SUITE"
"""What processes of a suite are told: the choices, and the folder that they write their launches to."""
_PATH = "PYTHONPATH"
_START = """
import os, sys

def run_other():
    own, here = sys.modules.pop(__name__), os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [each for each in sys.path if os.path.abspath(each) != here]
    try:
        import sitecustomize
    except ImportError as error:
        if error.name != __name__:
            raise
    finally:
        sys.modules.setdefault(__name__, own)

run_other()
try:
    from joinery.interface.triton.testing.processes.spawned import watch
except ImportError as error:
    print(f"joinery: no GPU in {sys.executable}, where joinery is not installed: {error}", file=sys.stderr)
else:
    watch()
"""
"""The start-up module. It runs the one that would have been found without it, too."""


def announce(choices: Any, records: str, startup: str) -> None:
    """Let processes that start from now on have a GPU too, and write what they launch to a folder.

    choices: `Choices`; startup: a folder for what they start with.
    """
    (Path(startup) / "sitecustomize.py").write_text(_START, encoding="utf-8")
    previous = json.loads(os.environ.get(VARIABLE, "{}")).get("startup")
    told = {"choices": dataclasses.asdict(choices), "records": records, "startup": startup}
    os.environ[VARIABLE] = json.dumps(told)
    others = [each for each in os.environ.get(_PATH, "").split(os.pathsep) if each and each != previous]
    os.environ[_PATH] = os.pathsep.join([startup, *others])


def withdraw(startup: str) -> None:
    """Let processes that start from now on have none."""
    os.environ.pop(VARIABLE, None)
    others = [each for each in os.environ.get(_PATH, "").split(os.pathsep) if each and each != startup]
    os.environ[_PATH] = os.pathsep.join(others)
    if not others:
        del os.environ[_PATH]


def watch() -> None:
    """Prepare this process when it has imported torch or Triton, if a suite started it."""
    if VARIABLE in os.environ:
        sys.meta_path.insert(0, _Watcher(_prepare))


def _prepare() -> None:
    try:
        told = json.loads(os.environ[VARIABLE])
        from .. import record
        from ..suites import Choices, prepare

        prepare(Choices(**told["choices"]))
        record.write_to(told["records"])
    except Exception as error:  # the process is the test's, and goes on
        print(
            f"joinery: this process has no GPU, since its test-suite's could not be stood in for: {error}; fix: install "
            f"joinery, torch and triton for {sys.executable}",
            file=sys.stderr,
        )


class _Watcher:
    """Calls a function once, when torch or Triton has been imported: torch first, if both are being imported."""

    def __init__(self, ready: Callable[[], None]) -> None:
        self._ready = ready
        self._running: list[str] = []
        self._is_searching = self._is_done = False

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if name not in ("torch", "triton") or self._is_searching or self._is_done:
            return None
        self._is_searching = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._is_searching = False
        if spec is None or spec.loader is None:
            return None
        loader: Any = spec.loader
        plain = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            loader.exec_module = plain
            self._running.append(name)
            try:
                plain(module)
            finally:
                self._running.remove(name)
            if not self._running and not self._is_done:
                self._is_done = True
                sys.meta_path.remove(self)
                self._ready()

        loader.exec_module = exec_module
        return spec
