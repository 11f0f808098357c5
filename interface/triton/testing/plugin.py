"""The plugin of pytest that `joinery.triton.pytest` names: options, launches of each test, findings, the summary."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from ....promotion.errors import UnsupportedError, UserError
from .. import proving
from ..settings import MODES, VARIABLE
from .record import Finding, Record
from .reports.excerpts import Excerpt
from .reports.outcomes import CRASHED, Found, Result, counted, gist, outcome_of
from .reports.tracebacks import hide_own_frames

_PROPERTY = "joinery"
_PROVE = "prove"
_SHOWN = 20
"""Findings that the end of a run lists."""


def pytest_addoption(parser: Any) -> None:
    group = parser.getgroup("joinery", "kernels of Triton without a GPU")
    modes = f"run kernels: {', '.join(MODES)}; {_PROVE}: native, and each kernel is proven for all sizes"
    group.addoption("--joinery", nargs="?", const="native", default=None, metavar="MODE", help=modes)
    group.addoption("--joinery-target", default="sm_90a", help="the GPU whose PTX is simulated and shown (sm_90a)")
    group.addoption("--joinery-device", default="cuda", choices=["cuda", "cpu"], help="what the device is called: cuda, cpu")
    group.addoption("--joinery-autotune", type=int, default=1, metavar="N", help="configurations that autotuning tries (1)")
    group.addoption("--joinery-threads", type=int, default=None, metavar="N", help="threads of native kernels")
    group.addoption("--joinery-no-bounds", action="store_true", help="native kernels check no bounds")
    group.addoption("--joinery-report", default=None, metavar="PATH", help="write a page of HTML with every kernel and finding")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: Any, parser: Any, args: list[str]) -> None:
    """Stand in for the GPU before the project's own files ask for one."""
    options = early_config.known_args_namespace
    mode = options.joinery
    if mode is None:
        return
    if mode not in (*MODES, _PROVE) and "--joinery" in args:  # `--joinery tests`: what follows is no mode
        args[args.index("--joinery")] = "--joinery=native"
        mode = "native"
    _install(mode, options)


def pytest_configure(config: Any) -> None:
    mode, page = config.getoption("--joinery"), config.getoption("--joinery-report")
    if mode is None:
        if page:
            warning = pytest.PytestConfigWarning("--joinery-report writes no page without --joinery")
            config.issue_config_time_warning(warning, stacklevel=2)
        return
    if page:
        _make_folder(Path(page).parent)
    _install(mode, config.option)
    config.pluginmanager.register(_Plugin(config, mode), "joinery-launches")
    if config.getoption("--joinery-device") == "cuda":
        import torch

        from .processes.torch_state import ProcessOfItsOwn

        config.pluginmanager.register(ProcessOfItsOwn(torch), "joinery-torch-state")


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise pytest.UsageError(f"--joinery-report: {folder} is no folder, and cannot be made: {error.strerror}") from None


def _install(mode: str, options: Any) -> None:
    from ..activation import is_active

    if is_active():
        return
    from .suites import prepare

    try:
        if mode == _PROVE:
            proving.start()
        prepare(_choices(mode, options))
    except (UserError, UnsupportedError) as error:
        raise pytest.UsageError(f"--joinery: {error}") from None
    except ImportError as error:
        raise pytest.UsageError(f"--joinery needs {error.name} to be installed: {error}") from None


def _choices(mode: str, options: Any) -> Any:
    from .suites import Choices

    return Choices(
        "native" if mode == _PROVE else mode, options.joinery_device, options.joinery_target, options.joinery_threads,
        not options.joinery_no_bounds,
        options.joinery_autotune,
    )  # fmt: skip


class _Plugin:
    """Counts the launches of every test, fails those whose launches found something, and says it all at the end."""

    def __init__(self, config: Any, mode: str) -> None:
        self.config = config
        self.mode = mode
        self.results: list[Result] = []
        self.findings: list[Found] = []
        self.proofs: dict[str, proving.Proven] = {}
        self._outcomes: dict[str, tuple[str, str]] = {}  # by test: reports of several workers come mixed
        self._last: list[Finding] = []
        self._folder = tempfile.mkdtemp(prefix="joinery-")
        self._records, self._startup = (str(Path(self._folder) / name) for name in ("records", "startup"))
        self._follow_processes()

    def _follow_processes(self) -> None:
        """Give processes that tests start a GPU, and look at what they launch."""
        from . import record
        from .processes.spawned import announce

        for folder in (self._records, self._startup):
            Path(folder).mkdir()
        record.stop_writing()
        announce(_choices(self.mode, self.config.option), self._records, self._startup)
        os.register_at_fork(after_in_child=lambda: record.write_to(self._records))

    def pytest_unconfigure(self) -> None:
        from .processes.spawned import withdraw

        withdraw(self._startup)
        shutil.rmtree(self._folder, ignore_errors=True)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: Any, nextitem: Any) -> Generator[None, Any, Any]:
        from . import record

        record.take_from(self._records, None)
        item.joinery_record = record.start()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: Any, call: Any) -> Generator[None, Any, Any]:
        hide_own_frames(call)
        report: Any = yield
        record = getattr(item, "joinery_record", None)
        if record is None:
            return report
        self._judge(item, call, report, record)
        if report.when == "teardown":
            findings = [
                (each.subtest, each.kernel, each.text, each.is_expected, [dataclasses.astuple(part) for part in each.excerpts])
                for each in record.findings
            ]
            content = {"launches": dict(record.launches), "findings": findings, "proofs": proving.take()}
            report.user_properties.append((_PROPERTY, json.dumps(content)))
        return report

    def _judge(self, item: Any, call: Any, report: Any, record: Record) -> None:
        """Fail what has passed, or been skipped, although something was found that it did not wait for.

        That is a phase of a test, or a part of it. One that is marked to fail does so, as its mark says.
        """
        from .expected import is_expected
        from .record import take_from

        take_from(self._records, record)
        self._last = record.findings[record.judged :]
        record.judged = len(record.findings)
        raised = call.excinfo.value if call.excinfo is not None else None
        for each in self._last:
            if each.error is not None:
                each.is_expected, each.error = is_expected(each.error, raised, item.path), None
        failures = [each for each in self._last if not each.is_expected]
        is_given_up = isinstance(raised, pytest.skip.Exception | pytest.xfail.Exception)  # in a clause that caught the finding
        if failures and (report.outcome == "passed" or is_given_up):
            if is_given_up and hasattr(report, "wasxfail"):
                del report.wasxfail
            report.outcome = "skipped" if hasattr(report, "wasxfail") else "failed"
            report.longrepr = "\n\n".join(f"joinery, kernel {each.kernel}: {each.text}" for each in failures)

    def pytest_runtest_logreport(self, report: Any) -> None:
        part = getattr(report, "context", None)  # of a subtest, reported right after it was judged
        if part is not None:
            named = [f"[{part.msg}]"] if part.msg is not None else []
            for each in self._last:
                each.subtest = " ".join([*named, *(f"{name}={value}" for name, value in part.kwargs.items())])
        test = report.nodeid
        if report.when not in ("setup", "call", "teardown"):  # by xdist, of a worker that ended in a test
            self._outcomes.pop(test, None)
            self.results.append(Result(test, CRASHED, None, outcome_of(report)[1]))
            return
        failed = self._outcomes.get(test, ("", ""))[0] == "failed"  # as the test does of which a part has
        if not failed and (report.when != "teardown" or report.outcome == "failed"):
            self._outcomes[test] = outcome_of(report)
        if report.when == "teardown":
            for name, content in report.user_properties:
                if name == _PROPERTY:
                    self._note(test, json.loads(content))

    def _note(self, test: str, content: dict[str, Any]) -> None:
        outcome, reason = self._outcomes.pop(test, ("not run", ""))
        self.results.append(Result(test, outcome, content["launches"], reason))
        self.proofs |= {each[0]: proving.Proven(*each) for each in content["proofs"]}
        for part, kernel, text, is_expected, shown in content["findings"]:
            excerpts = [Excerpt(*each) for each in shown]
            self.findings.append(Found(f"{test} {part}".rstrip(), kernel, text, is_expected, excerpts))

    def pytest_report_header(self, config: Any) -> str:
        from ..memory import device

        devices = ""
        if self.config.getoption("--joinery-device") == "cuda":
            devices = '; "cuda:0" is a device beside "cpu"' if device() == "cuda" else '; "cuda:0" is the CPU, the only device'
        return f"joinery: kernels of Triton run on the CPU, mode {self.mode} ({VARIABLE}){devices}"

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        from .reports.page import GUESSED, launches_of, remarks_of, write_page

        write = terminalreporter.write_line
        terminalreporter.section("joinery")
        for kind, count in sorted(Counter(each.kind for each in self.results).items()):
            write(f"{counted(count, 'test', 6)} {kind}")
        launches = launches_of(self.results)
        findings = [each for each in self.findings if not each.is_expected]
        totals = counted(launches.total(), "launch"), counted(len(findings), "finding")
        write(", ".join([counted(len(launches), "kernel", 6), *totals]))
        if caught := len(self.findings) - len(findings):
            write(f"{counted(caught, 'finding', 6)} that tests wait for, and catch")
        for each in findings[:_SHOWN]:
            write(f"  {each.test}: {each.kernel}: {gist(each.text)}")
        if self.proofs:
            write(f"{counted(len(self.proofs), 'proof', 6)}, {GUESSED}")
        for proven in self.proofs.values():
            write(f"  {proven.kernel}: {proven.verdicts}")
            for remark in remarks_of(proven):
                write(f"    {remark}")
            for line in proven.text.split("\n"):
                write(f"    {line}")
        path = self.config.getoption("--joinery-report")
        if len(findings) > _SHOWN:
            write(f"  and {len(findings) - _SHOWN} more{'' if path else ': --joinery-report=page.html lists all'}")
        if path:
            try:
                write_page(path, self.mode, self.results, self.findings, self.proofs.values())
            except OSError as error:
                write(f"  {path} could not be written: {error.strerror}")
            else:
                write(f"  {path}")
