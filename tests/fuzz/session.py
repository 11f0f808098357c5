"""Runs cases one after the other, each in a child; failures are shrunk and kept."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from .cases import Data, Fault, Kind, Outcome, Settings, as_json
from .child import Ended, in_child
from .choices import Choices, Record
from .features import WANTED, features
from .graph_cases import warm_up
from .kinds import KINDS, kind_named
from .shrinking import Budget, shorter, shrunk

SHRINK_TRIES = 2000
SHRINK_SECONDS = 120.0
KEPT_PER_SIGNATURE = 3
CASE_SECONDS = 90.0
TELL_SECONDS = 300.0
"""How often progress is reported."""


@dataclass(slots=True)
class Found:
    """A failure of one case, with the case."""

    kind: str
    seed: str
    fault: Fault
    record: Record
    data: Data | None


@dataclass(slots=True)
class Totals:
    """The results of a session, by kind."""

    programs: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    runs: int = 0
    unlike: int = 0
    elements: int = 0
    unbounded: int = 0
    seconds: float = 0.0
    faults: Counter[str] = field(default_factory=Counter)
    busy: Counter[str] = field(default_factory=Counter)
    compared: Counter[str] = field(default_factory=Counter)
    others: Counter[str] = field(default_factory=Counter)
    features: dict[str, Counter[str]] = field(default_factory=dict)

    def add(self, kind: str, outcome: Outcome, found: Collection[str] = (), seconds: float = 0.0) -> None:
        self.programs[kind] += 1
        self.refused[kind] += outcome.refused
        self.busy[kind] += seconds
        self.compared[kind] += outcome.runs
        self.others[kind] += outcome.unlike
        self.features.setdefault(kind, Counter()).update(found)
        self.runs += outcome.runs
        self.unlike += outcome.unlike
        self.elements += outcome.elements
        self.unbounded += outcome.unbounded

    def report(self) -> str:
        share = 100 * self.unbounded / self.elements if self.elements else 0.0
        lines = [f"{'kind':11} {'programs':>9} {'refused':>8} {'compared':>9} {'other runs':>11} {'seconds':>8}"]
        rows = sorted(self.programs)
        for kind in rows:
            numbers = self.programs[kind], self.refused[kind], self.compared[kind], self.others[kind]
            lines.append(_row(kind, *numbers, self.busy[kind]))
        lines += [
            _row("in all", sum(self.programs.values()), sum(self.refused.values()), self.runs, self.unlike, self.seconds),
            f"elements compared: {self.elements}, of these without a bound: {self.unbounded} ({share:.3f} %)",
            *[line for kind in rows for line in self._occurrences(kind)],
            f"faults: {sum(self.faults.values())}, of {len(self.faults)} sorts",
        ]
        return "\n".join(
            [*lines, *[f"  {count:4} × {signature}" for signature, count in self.faults.most_common()]]
        )

    def _occurrences(self, kind: str) -> list[str]:
        """Reports how many cases have each wanted feature, which of those are rare, and how many different
        ops occurred."""
        counts, wanted = self.features.get(kind, Counter()), WANTED.get(kind, ())
        told = wanted or sorted(counts)
        if not told:
            return []
        lines = [f"{kind}, cases with: " + ", ".join(f"{name.removeprefix('step ')} {counts[name]}" for name in told)]
        thin = [name for name in wanted if 100 * counts[name] < self.programs[kind]]
        if thin:
            lines.append(f"{kind}, in less than a hundredth of cases: {', '.join(thin)}")
        ops = {name: count for name, count in counts.items() if name.startswith("op ")}
        if ops:
            lines.append(f"{kind}, different ops: {len(ops)}, at least three times: {sum(n > 2 for n in ops.values())}")
        return lines


def _row(name: str, programs: int, refused: int, compared: int, others: int, seconds: float) -> str:
    return f"{name:11} {programs:9} {refused:8} {compared:9} {others:11} {seconds:8.0f}"


class Session:
    """Runs cases and counts the results. kinds: the kinds to try. folder: where failures are written, or None. say: prints a
    line."""

    def __init__(
        self, settings: Settings, kinds: Sequence[Kind] = KINDS, folder: Path | None = None,
        say: Callable[[str], Any] = print, shrink_seconds: float = SHRINK_SECONDS, case_seconds: float = CASE_SECONDS,
        shrink_tries: int = SHRINK_TRIES,
    ) -> None:  # fmt: skip
        self.settings, self.kinds, self.folder, self.say = settings, kinds, folder, say
        self.shrink_seconds, self.case_seconds, self.shrink_tries = shrink_seconds, case_seconds, shrink_tries
        self.totals = Totals()
        self.found: list[Found] = []

    def run(self, seed: int, *, minutes: float = 0.0, cases: int = 0, first: int = 0) -> Totals:
        """Tries cases until the minutes are over, or that many; the seed alone decides which."""
        warm_up()
        start = told = time.monotonic()
        for number, (kind, name) in enumerate(self._cases(seed, first)):
            if time.monotonic() > told + TELL_SECONDS:
                told = time.monotonic()
                self.say(f"{number} cases, {sum(self.totals.faults.values())} faults")
            if number >= cases if cases else time.monotonic() > start + 60 * minutes:
                break
            self.attempt(kind, name)
        self.totals.seconds = time.monotonic() - start
        return self.totals

    def _cases(self, seed: int, first: int) -> Iterator[tuple[Kind, str]]:
        wheel = [kind for kind in self.kinds for _ in range(kind.weight)]
        number = first
        while True:
            kind = Choices(f"{seed}/{number}").one(*wheel)
            yield kind, f"{seed}/{kind.name}/{number}"
            number += 1

    def attempt(self, kind: Kind, seed: str) -> list[Fault]:
        """Tries one case; counts its faults, and shrinks and writes new sorts of them."""
        start = time.monotonic()
        record, data, outcome = self._generated(kind, Choices(seed))
        self.totals.add(kind.name, outcome, features(data) if data else (), time.monotonic() - start)
        sorts = {fault.signature: fault for fault in reversed(outcome.faults)}
        for signature, fault in sorts.items():
            self.totals.faults[f"{kind.name}: {signature}"] += 1
            if self.totals.faults[f"{kind.name}: {signature}"] <= KEPT_PER_SIGNATURE:
                self._keep(kind, seed, fault, record, data)
        return list(sorts.values())

    # -- one case ---------------------------------------------------------------------------------------------------------

    def _generated(
        self, kind: Kind, choices: Choices, settings: Settings | None = None
    ) -> tuple[Record, Data | None, Outcome]:
        """Returns a case and its outcome. Generating may fail as well: then there is no data."""
        made = in_child(lambda: (kind.generate(choices, self.settings), choices.record), self.case_seconds)
        if made.how != "returned":
            return choices.record or [], None, Outcome([_ended("generate", made)])
        data, record = made.value
        return record, data, self._outcome(kind, data, settings)

    def _outcome(self, kind: Kind, data: Data, settings: Settings | None = None) -> Outcome:
        ended = in_child(lambda: kind.run(data, settings or self.settings), self.case_seconds)
        return ended.value if ended.how == "returned" else Outcome([_ended("run", ended)])

    def _keep(self, kind: Kind, seed: str, fault: Fault, record: Record, data: Data | None) -> None:
        self.say(f"{kind.name} {seed}: {fault.where}: {fault.what.splitlines()[0][:300]}")
        if self.shrink_seconds:
            record, data, fault = self._shrunk(kind, record, data, fault)
        found = Found(kind.name, seed, fault, record, data)
        self.found.append(found)
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
            path = self.folder / f"{seed.replace('/', '-')}-{abs(hash_of(fault.signature)):08x}.json"
            path.write_text(as_json({"case": data, "choices": record, "kind": kind.name, "seed": seed,
                                     "where": fault.where, "what": fault.what, "text": fault.text}))  # fmt: skip
            self.say(f"  kept as {path}")

    def _shrunk(
        self, kind: Kind, record: Record, data: Data | None, fault: Fault
    ) -> tuple[Record, Data | None, Fault]:
        budget = Budget(self.shrink_seconds, self.shrink_tries)
        best = [record, data, fault]

        settings = replace(self.settings, only=fault.where)

        def fails(candidate: Record) -> bool:
            _, again, outcome = self._generated(kind, Choices(record=candidate), settings)
            same = [each for each in outcome.faults if each.signature == fault.signature]
            if same:
                best[:] = [candidate, again, same[0]]
            return bool(same)

        if record:
            shrunk(record, fails, budget)
        if best[1] is not None and kind.text and isinstance(best[1].get(kind.text), str):
            self._fewer_lines(kind, best, Budget(self.shrink_seconds / 2, self.shrink_tries))
        return best[0], best[1], best[2]

    def _fewer_lines(self, kind: Kind, best: list[Any], budget: Budget) -> None:
        signature = best[2].signature
        settings = replace(self.settings, only=best[2].where)

        def fails(lines: Sequence[str]) -> bool:
            candidate = {**best[1], kind.text: kind.tidy("".join(lines))}
            same = [
                each
                for each in self._outcome(kind, candidate, settings).faults
                if each.signature == signature
            ]
            if same:
                best[1:] = [candidate, same[0]]
            return bool(same)

        while True:
            shorter(best[1][kind.text].splitlines(keepends=True), fails, budget)
            if not any(budget.spend() and fails([text]) for text in kind.simpler(best[1][kind.text])):
                return


def _ended(stage: str, ended: Ended) -> Fault:
    lines = [line for line in ended.text.splitlines() if line.strip()]
    what = lines[-1] if ended.how == "raised" and lines else (lines[0] if lines else "")
    frames = [line.strip() for line in lines if line.strip().startswith("File ")]
    place = f" at {frames[-1]}" if frames and ended.how == "raised" else ""
    return Fault(stage, f"{ended.how}: {what}{place}", ended.text)


def hash_of(text: str) -> int:
    import zlib

    return zlib.crc32(text.encode())


def replay(path: Path, settings: Settings) -> Outcome:
    """Runs the case of a file again, in a child."""
    stored = json.loads(path.read_text())
    kind = kind_named(stored["kind"])
    session = Session(settings, [kind])
    if stored["case"] is None:
        return session._generated(kind, Choices(record=stored["choices"]))[2]
    return session._outcome(kind, stored["case"])
