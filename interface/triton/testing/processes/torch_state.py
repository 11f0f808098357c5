"""What torch keeps for a whole process: each file of tests finds it as in a process of its own.

A GPU's suites are often run file by file, and their tests set a default device and leave it. These are kept apart here:

- what importing a file sets holds for the tests of this file, and for no other file's, also where a module did it that several
  files import: the first one of them imports it;
- what files of `conftest.py` and their hooks set holds for all;
- what fixtures of a module or a class set, and leave, holds to the end of their file;
- what fixtures of a session or a package set holds until they end;
- what a test sets, and leaves, ends with the test.

Random generators go on, as they do on a GPU, whatever the order of the tests is.
"""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from ..graphs.capture import captures

_State = dict[str, Any]
"""What torch keeps, by what it is: two that are equal are the same."""


class ProcessOfItsOwn:
    """Gives each file of tests the state that torch would have in a process of its own, and each test that of its file."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._initial = self._state()
        self._of_files: dict[Path, _State] = {}  # what importing them set
        self._of_fixtures: dict[Any, _State] = {}  # what living fixtures of sessions and packages set
        self._of_test: dict[str, tuple[Any, Any]] = {}  # what fixtures of the running test set: before, and after
        self._file: Path | None = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self) -> None:
        self._initial = self._state()  # with what conftest.py and hooks set, since files that are collected leave nothing

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_make_collect_report(self, collector: Any) -> Generator[None, Any, Any]:
        file = collector.getparent(pytest.File)
        if file is None:
            return (yield)
        before = self._state()
        self._become(before | self._of_files.get(file.path, {}))
        try:
            return (yield)
        finally:
            self._of_files[file.path] = _changes(before, self._state())
            self._become(before)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: Any) -> Generator[None, Any, Any]:
        if item.path != self._file:
            self._file = item.path
            state = self._initial | self._of_files.get(item.path, {})
            for each in self._of_fixtures.values():
                state |= each
            self._become(state)
        self._of_test.clear()
        opened = list(captures)
        try:
            return (yield)
        finally:
            for capture in [each for each in captures if each not in opened]:  # by a test that ended before it
                captures.remove(capture)
                capture.end()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Generator[None, Any, Any]:
        before = self._state()
        try:
            return (yield)
        finally:
            found = _changes(before, self._state())
            if found and fixturedef.scope in ("session", "package"):
                self._of_fixtures[fixturedef] = found
            elif fixturedef.scope == "function":
                for name, value in found.items():
                    self._of_test[name] = self._of_test.get(name, (before[name],))[0], value

    def pytest_fixture_post_finalizer(self, fixturedef: Any) -> None:
        self._of_fixtures.pop(fixturedef, None)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self) -> Generator[None, Any, Any]:
        before = self._state()
        try:
            return (yield)
        finally:
            self._become(before)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self) -> Generator[None, Any, Any]:
        try:
            return (yield)
        finally:
            now = self._state()
            self._become(now | {name: before for name, (before, left) in self._of_test.items() if now[name] == left})

    def _state(self) -> _State:
        torch = self._torch
        modes = tuple(torch.overrides._get_current_function_mode_stack())
        context = getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None)
        return {
            "default device": (modes, torch.utils._device.CURRENT_DEVICE, context),
            "default dtype": torch.get_default_dtype(),
            "deterministic algorithms": torch.get_deterministic_debug_mode(),
            "filled memory": torch.utils.deterministic.fill_uninitialized_memory,
        }

    def _become(self, state: _State) -> None:
        torch = self._torch
        changed = _changes(self._state(), state)
        if "default device" in changed:
            modes, device, context = changed["default device"]
            while torch._C._len_torch_function_stack():
                torch.overrides._pop_mode()
            for mode in modes:
                torch.overrides._push_mode(mode)
            torch.utils._device.CURRENT_DEVICE = device
            torch._GLOBAL_DEVICE_CONTEXT.device_context = context
        if "default dtype" in changed:
            torch.set_default_dtype(changed["default dtype"])
        if "deterministic algorithms" in changed:
            torch.set_deterministic_debug_mode(changed["deterministic algorithms"])
        if "filled memory" in changed:
            torch.utils.deterministic.fill_uninitialized_memory = changed["filled memory"]


def _changes(before: _State, after: _State) -> _State:
    """What is not as it was."""
    return {name: value for name, value in after.items() if value != before[name]}
