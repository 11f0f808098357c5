"""Checks joinery on this machine's CUDA device, and times it beside torch and Triton.

python benchmarks/gpu.py                     everything: the corpus of block kernels, the cases, MiniLM; below 8 minutes
python benchmarks/gpu.py attention softmax-f32 corpus      only these
python benchmarks/gpu.py --minutes 3         with less time

It needs a CUDA driver and cuda-python; torch and Triton are measured where they are installed. Nothing is downloaded. Every
case runs in a process of its own. gpu_cases.py and gpu_timing.py say what is measured, and how. Results are written to
benchmarks/results/DATE-gpu-NAME.json; the exit status says whether everything that ran was right.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness import Measurement, report, table

RESULTS = Path(__file__).resolve().parent / "results"
CASES = (
    "matmul-4096", "matmul-8192", "attention", "attention-causal", "softmax-f32", "softmax-bf16", "layer-norm-f32",
    "layer-norm-bf16", "vec-add",
)  # fmt: skip
OTHERS = ("corpus", "minilm")
STALL = 45.0
"""Seconds without output after which a process is killed."""
MOST_ATTEMPTS = 4
CORPUS_SHARE = 0.35
"""The largest share of the time that the corpus may take."""


@dataclass
class Run:
    """The output of a process, and how it ended."""

    lines: list[dict[str, Any]] = field(default_factory=list)
    problem: str = ""
    is_lost: bool = False  # the process did not end, or the device was lost

    def found(self, key: str) -> list[Any]:
        return [line[key] for line in self.lines if key in line]

    @property
    def last(self) -> str:
        """The last step that the process announced."""
        return str((self.found("at") or ["start"])[-1])


class Child:
    """A process that writes lines of JSON to a file."""

    def __init__(
        self, command: Sequence[str], arguments: Sequence[str], folder: Path, environment: Mapping[str, str] | None
    ) -> None:
        self._out, self._err = (Path(tempfile.mkstemp(dir=folder)[1]) for _ in range(2))
        with self._err.open("wb") as errors:
            self._process = subprocess.Popen(
                [*command, "--child", str(self._out), *arguments], stdout=subprocess.DEVNULL, stderr=errors,
                env=environment,
            )  # fmt: skip
        self._size, self._moved = 0, time.monotonic()

    def poll(self, deadline: float) -> Run | None:
        """Returns its output once it has ended; kills it when it writes nothing for long or is out of time."""
        code, now, why = self._process.poll(), time.monotonic(), ""
        size = self._out.stat().st_size
        if size != self._size:
            self._size, self._moved = size, now
        if code is None:
            if now < deadline and now - self._moved < STALL:
                return None
            why = "out of time" if now >= deadline else f"nothing was heard of it for {STALL:.0f} s"
            self.end()
        lines = [json.loads(line) for line in self._out.read_text().splitlines() if line.endswith("}")]
        run = Run(lines, why, bool(why) or (code or 0) < 0)
        if code:
            errors = self._err.read_text(errors="replace").strip().splitlines()
            run.problem = f"exit status {code}" + (f": {errors[-1]}" if errors else "")
            run.is_lost = run.is_lost or "DeviceError" in run.problem
        return run

    def end(self) -> None:
        self._process.kill()
        self._process.wait()

    def wait(self, deadline: float) -> Run:
        while (run := self.poll(deadline)) is None:
            time.sleep(0.05)
        return run


@dataclass
class Bench:
    """The settings of a run. command: starts a child.  end: when everything has to be done (time.monotonic)."""

    command: Sequence[str]
    folder: Path
    end: float
    seconds: float
    small: bool
    jobs: int
    environment: Mapping[str, str] | None = None

    def child(self, *arguments: str) -> Child:
        extra = ["--small"] if self.small else []
        return Child(self.command, [*arguments, "--seconds", str(self.seconds), *extra], self.folder, self.environment)

    def measure(self, name: str, share: float) -> tuple[Measurement | None, str]:
        """Measures a case, without the configurations that do not end or lose the device; without a result,
        says why there is none."""
        deadline, without = min(self.end, time.monotonic() + share), []
        problem = "out of time"
        for _ in range(MOST_ATTEMPTS):
            if time.monotonic() > deadline:
                break
            run = self.child(name, *(f"--without={label}" for label in without)).wait(deadline)
            for found in run.found("measurement"):
                facts = (found[key] for key in ("name", "limit_reason", "samples"))
                return Measurement(*facts, tuple(found["ours"]), found["notes"]), ""
            problem = f"at {run.last!r}: {run.problem or 'it ended without a result'}"
            if not run.is_lost or run.last in (*without, "inputs", "start"):
                break
            without.append(run.last)
        return None, problem

    def corpus(self, names: Sequence[str]) -> dict[str, str]:
        """Returns, by case, what is wrong, "" for nothing. Runs several processes at once; one that ended
        early is restarted after the case that ended it."""
        deadline = min(self.end, time.monotonic() + CORPUS_SHARE * max(self.end - time.monotonic(), 0))
        found: dict[str, str] = {}
        waiting = [list(names[start :: self.jobs]) for start in range(self.jobs)]
        running: list[tuple[Child, list[str]]] = [(self.child("corpus", *part), part) for part in waiting if part]
        while running:
            for entry in list(running):
                run = entry[0].poll(deadline)
                if run is None:
                    continue
                running.remove(entry)
                done = {line["case"]: line["problem"] for line in run.lines if "case" in line}
                left = [name for name in entry[1] if name not in done]
                if run.last in left:
                    done[run.last] = run.problem or "it ended"
                    left.remove(run.last)
                if left and done and time.monotonic() < deadline:
                    running.append((self.child("corpus", *left), left))
                else:
                    done |= dict.fromkeys(left, run.problem or "it ended")
                found |= done
            time.sleep(0.05)
        return {name: found[name] for name in names}


def options_of(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", help=f"{', '.join((*CASES, *OTHERS))}; all when none is given")
    parser.add_argument("--minutes", type=float, default=7.5, help="time for everything (default: 7.5)")
    parser.add_argument("--seconds", type=float, default=3.0, help="sampling time per case (default: 3)")
    parser.add_argument("--jobs", type=int, default=6, help="processes that check the corpus at once (default: 6)")
    parser.add_argument("--small", action="store_true", help="sizes for a simulator; the times mean nothing")
    parser.add_argument("--output", type=Path, help="result file (default: benchmarks/results/DATE-gpu-NAME.json)")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--without", action="append", default=[], help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.child is None:
        unknown = sorted(set(options.cases) - {*CASES, *OTHERS})
        if unknown:
            raise SystemExit(f"no such case: {', '.join(unknown)}; there are: {', '.join((*CASES, *OTHERS))}")
    return options


def be_a_child(options: argparse.Namespace) -> int:
    import gpu_children as children

    what, *names = options.cases
    write = children.writer(options.child)
    if what == "facts":
        children.facts(write)
    elif what == "corpus":
        children.check_corpus(names, write)
    elif what == "minilm":
        children.minilm(options.seconds, options.small, write)
    else:
        children.measure(what, options.seconds, options.small, options.without, write)
    return 0


def main(argv: Sequence[str], command: Sequence[str] = (sys.executable, str(Path(__file__).resolve()))) -> int:
    options = options_of(argv)
    if options.child is not None:
        return be_a_child(options)
    end = time.monotonic() + 60 * options.minutes
    chosen = options.cases or [*CASES, *OTHERS]
    with tempfile.TemporaryDirectory() as folder:
        environment = environment_for(Path(folder))
        bench = Bench(command, Path(folder), end, options.seconds, options.small, max(options.jobs, 1), environment)
        run = bench.child("facts").wait(end)
        if not run.found("device"):
            print(f"there is nothing to measure: {run.problem}")
            return 1
        facts = run.lines[-1]
        names = facts.pop("cases")
        print(f"{facts['device']['name']}, {facts['device']['target']}, driver for CUDA {facts['device']['driver']}")
        print("  ".join(f"{name} {version}" for name, version in facts["versions"].items()) + "\n", flush=True)
        result, wrong = measured(bench, chosen, names)
    date = datetime.datetime.now(datetime.UTC)
    slug = re.sub(r"[^a-z0-9]+", "-", facts["device"]["name"].lower()).strip("-")
    output = options.output or RESULTS / f"{date:%Y-%m-%d-%H%M}-gpu-{slug}.json"
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps({"date": date.isoformat(timespec="seconds"), **facts, **result}, indent=1) + "\n")
    print(f"\nwritten to {output}")
    return int(wrong)


def environment_for(folder: Path) -> dict[str, str] | None:
    """Returns an environment in which children can import joinery: if it is not installed, the folder gets a
    link to this checkout."""
    if importlib.util.find_spec("joinery") is not None:
        return None
    (folder / "packages").mkdir()
    (folder / "packages" / "joinery").symlink_to(Path(__file__).resolve().parents[1], target_is_directory=True)
    paths = [str(folder / "packages"), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def measured(bench: Bench, chosen: Sequence[str], corpus: Sequence[str]) -> tuple[dict[str, Any], bool]:
    """Returns the content of the result file, and whether something was wrong."""
    result: dict[str, Any] = {"cases": [], "failures": {}}
    if "corpus" in chosen:
        problems = bench.corpus(corpus)
        failed = {name: problem for name, problem in problems.items() if problem}
        result["corpus"] = {"cases": len(problems), "failures": failed}
        print(f"corpus: {len(problems) - len(failed)} of {len(problems)} cases right")
        for name, problem in failed.items():
            print(f"  {name}: {problem}")
        print(flush=True)
    measurements: list[Measurement] = []
    cases = [name for name in CASES if name in chosen]
    rest = [*cases, *(["minilm"] if "minilm" in chosen else [])]
    for number, name in enumerate(cases):
        share = 2.5 * (bench.end - time.monotonic()) / (len(rest) - number)  # some cases need little time, some are restarted
        measurement, problem = bench.measure(name, share)
        if measurement is None:
            result["failures"][name] = problem
            print(f"{name}: {problem}\n", flush=True)
            continue
        measurements.append(measurement)
        result["cases"].append({"case": name, **measurement.as_dict()})
        result["failures"] |= {f"{name}, {what}": note for what, note in measurement.notes.items() if what.startswith("WRONG")}
        print(report(measurement) + "\n", flush=True)
    if "minilm" in chosen:
        run = bench.child("minilm").wait(bench.end)
        found = (run.found("minilm") or [{"absent": each} for each in run.found("absent")] or [{}])[0]
        result["minilm"] = found
        if problem := found.get("problem") or ("" if found else f"at {run.last!r}: {run.problem}"):
            result["failures"]["minilm"] = problem
        print(f"MiniLM: {found.get('absent') or problem or describe(found)}\n", flush=True)
    if measurements:
        print(table(measurements))
    for what, problem in result["failures"].items():
        print(f"FAILED {what}: {problem}")
    return result, bool(result["failures"] or result.get("corpus", {}).get("failures"))


def describe(found: dict[str, Any]) -> str:
    low, middle, high = (1e3 * each for each in found["quartiles_s"])
    return (
        f"({found['batch']}, {found['length']}) in {middle:.2f} ms ({low:.2f} to {high:.2f}), from host to host; relative "
        f"error against the CPU {found['relative_error']:.1e}"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
