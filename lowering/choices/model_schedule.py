"""Defines schedules of whole models: values that users print, edit, keep in files and compile with.

Their text is TOML, a table for each kernel:

    # matmul, relu: m 512, n 768, k 3072
    [contract_matmul_relu_0]
    blocks = {m = 256, n = 64, k = 512}
    group = 4

What a table does not say, the cost model chooses.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import field, fields, replace
from pathlib import Path
from typing import Any, Literal

from ...promotion.dataclass import dataclass
from ...promotion.errors import UserError, close_names

Algorithm = Literal["plain", "winograd", "winograd4"]
ALGORITHMS = {"plain": 1, "winograd": 2, "winograd4": 4}
"""How many results along each axis of space a tile of each algorithm has."""
MAX_TEXT = 4 << 20
MAX_BLOCK = 1 << 48  # blocks of ordered scatters are whole lines, whatever their length
MAX_LINE = 4096  # the time to read a line may grow with the square of its length


def allowed_algorithms(numerics: str) -> tuple[Algorithm, ...]:
    """Returns the algorithms of convolutions that are within the bounds of these numerics."""
    match numerics:
        case "reproducible":
            return ("plain",)
        case "fast":
            return ("plain", "winograd", "winograd4")
    return ("plain", "winograd")


@dataclass(frozen=True, slots=True)
class KernelSchedule:
    """How one kernel is cut into programs. None: what the cost model chooses.

    Attributes:
        blocks: the extents of blocks by the names of their axes, powers of two, in the order of the blocks' dimensions. Axes
            that are not named are taken one position at a time. They replace all that the cost model chooses.
        algorithm: how a convolution is computed, "plain", "winograd" or, in fast numerics, "winograd4"; others have none.
        streaming: whether stores of a CPU bypass the caches.
        group: how many blocks of rows of a product pass over all columns together; 0 for all.
        warps: how many warps of a GPU run one program.
        lanes: whether what a block has of the reduced axis is combined position by position, and reduced once in the end.
    """

    blocks: Mapping[str, int] | None = None
    algorithm: Algorithm | None = None
    streaming: bool | None = None
    group: int | None = None
    warps: int | None = None
    lanes: bool | None = None

    def __str__(self) -> str:
        found = [(each.name, getattr(self, each.name)) for each in fields(self)]
        return "\n".join([f"{name} = {_toml(value)}" for name, value in found if value is not None])


@dataclass(frozen=True, slots=True)
class ModelSchedule:
    """The schedules of a model's kernels by name, as `Model.schedule` returns them and `joinery.compile(schedule=)` takes them.

    Kernels are named as `Model.kernels` names them; those that run one program under several names have each of them.
    `about` says what kernels are, in comments of the text. Two schedules are equal if they say the same of the same kernels.
    """

    kernels: Mapping[str, KernelSchedule] = field(default_factory=dict)
    about: Mapping[str, str] = field(default_factory=dict, compare=False)

    def __getitem__(self, name: str) -> KernelSchedule:
        if name not in self.kernels:
            raise UserError(f"schedule: {_no_kernel(name, self.kernels)}")
        return self.kernels[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.kernels)

    def __len__(self) -> int:
        return len(self.kernels)

    def replaced(self, name: str, **changes: Any) -> ModelSchedule:
        """Return a schedule in which a kernel has other values: `schedule.replaced("contract_matmul_0", group=8)`.

        Raises `UserError` for a kernel or a value that does not exist.
        """
        changed = _kernel(name, {**_said(self[name]), **changes})
        return replace(self, kernels={**self.kernels, name: changed})

    def __str__(self) -> str:
        tables = []
        for name, kernel in self.kernels.items():
            about = f"# {self.about[name]}\n" if name in self.about else ""
            tables.append(f"{about}[{name}]\n{kernel}\n")
        return "\n".join(tables)

    @staticmethod
    def from_text(text: str) -> ModelSchedule:
        """Return the schedule of a text in TOML. Raises `UserError` for a text that says anything else."""
        if not isinstance(text, str) or len(text) > MAX_TEXT:
            raise UserError(f"schedule: expected a text of up to {MAX_TEXT >> 20} MiB; fix: str(model.schedule)")
        longest = max(map(len, text.splitlines()), default=0)
        if longest > MAX_LINE:
            raise UserError(f"schedule: a line of {longest} characters; fix: at most {MAX_LINE}, as in `str(m.schedule)`")
        try:
            tables = tomllib.loads(text)
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise UserError(f"schedule: no TOML: {error}; fix: tables as `print(model.schedule)` shows them") from error
        return ModelSchedule({name: _kernel(name, table) for name, table in tables.items()})

    def save(self, path: str | Path) -> None:
        """Write the text to a file, for `joinery.compile(graph, schedule=path)`."""
        try:
            Path(path).write_text(str(self), encoding="utf-8")
        except OSError as error:
            raise UserError(f"schedule: {path} cannot be written: {error.strerror or error}") from error


EMPTY = ModelSchedule()


class ScheduleError(UserError):
    """Raised where a schedule names a kernel, an axis or an algorithm that a model has not, or is illegal for it."""


def checked_schedule(schedule: object, what: str) -> ModelSchedule:
    """Returns what the user gave as the option `schedule`, a `ModelSchedule`, a path of its text, or None for none.

    Raises `UserError`, whose message begins with `what`, for anything else.
    """
    if schedule is None:
        return EMPTY
    if isinstance(schedule, ModelSchedule):
        return ModelSchedule({name: _kernel(name, _said(each)) for name, each in schedule.kernels.items()}, schedule.about)
    if not isinstance(schedule, str | Path):
        raise UserError(
            f"{what}: schedule is {type(schedule).__name__}; fix: a joinery.ModelSchedule, such as model.schedule, or the path "
            "of a file with its text"
        )
    if isinstance(schedule, str) and "\n" in schedule:
        raise UserError(f"{what}: schedule is the text of one, not a path; fix: schedule=joinery.ModelSchedule.from_text(text)")
    try:
        with Path(schedule).open(encoding="utf-8") as file:
            text = file.read(MAX_TEXT + 1)
    except (OSError, ValueError) as error:
        raise UserError(
            f"{what}: schedule {str(schedule)[:200]!r} cannot be read: {error}; fix: the path of a file, or "
            "joinery.ModelSchedule.from_text(text)"
        ) from error
    return ModelSchedule.from_text(text)


def require_kernels(schedule: ModelSchedule, names: Mapping[str, object], what: str) -> None:
    """Raises `ScheduleError` for the first kernel of the schedule that is not among `names`."""
    for name in schedule.kernels:
        if name not in names:
            raise ScheduleError(f"{what}: {_no_kernel(name, names)}")


def _no_kernel(name: str, names: Mapping[str, object]) -> str:
    close = close_names(name, names, n=3) or list(names)[:3]
    return f"no kernel is called {name!r}; fix: {', '.join(map(repr, close)) or 'there is none'}, as in model.kernels"


def _said(kernel: KernelSchedule) -> dict[str, Any]:
    if not isinstance(kernel, KernelSchedule):
        raise UserError(f"schedule: expected a joinery.KernelSchedule, got {type(kernel).__name__}")
    return {each.name: value for each in fields(kernel) if (value := getattr(kernel, each.name)) is not None}


def _kernel(name: str, table: object) -> KernelSchedule:
    """Returns the schedule of a kernel from what a table says, after checking kinds of values."""
    if not isinstance(table, dict):
        raise UserError(f"schedule: {name!r} is no table; fix: [{name}] before what is said of the kernel")
    known = [each.name for each in fields(KernelSchedule)]
    for key, value in table.items():
        if key not in known:
            raise UserError(f"schedule: kernel {name!r}: {key!r}; fix: {', '.join(known)}")
        if not _fits(key, value):
            raise UserError(f"schedule: kernel {name!r}: {key} is {value!r:.200}; fix: {_EXPECTED[key]}")
    blocks = table.get("blocks")
    return KernelSchedule(**{**table, "blocks": None if blocks is None else dict(blocks)})


_EXPECTED = {
    "blocks": "names of axes and powers of two, {m = 128, n = 64}",
    "algorithm": '"plain", "winograd" or "winograd4"',
    "streaming": "true or false",
    "lanes": "true or false",
    "group": "an integer of 0 or more",
    "warps": "a power of two",
}


def _fits(key: str, value: object) -> bool:
    match key:
        case "blocks":
            return isinstance(value, Mapping) and all(
                isinstance(name, str) and _is_count(size, 1, MAX_BLOCK) for name, size in value.items()
            )
        case "algorithm":
            return value in ALGORITHMS
        case "streaming" | "lanes":
            return isinstance(value, bool)
        case "group":
            return _is_count(value, 0)
    return _is_count(value, 1)


def _is_count(value: object, lowest: int, highest: int = (1 << 31) - 1) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and lowest <= value <= highest


def _toml(value: object) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join([f"{key} = {number}" for key, number in value.items()]) + "}"
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)


__all__ = ["EMPTY", "Algorithm", "KernelSchedule", "ModelSchedule", "ScheduleError", "checked_schedule", "require_kernels"]
