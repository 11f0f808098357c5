"""Chooses the fastest configuration of a kernel for each set of integer arguments, and launches it."""

from __future__ import annotations

import math
import os
import threading
import time
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from ...lowering.numerics import checked_numerics
from ...lowering.tt import types as t
from ...lowering.tt.arguments import Parameter, supplied
from ...promotion.dataclass import dataclass
from ...promotion.errors import DeviceError, InternalError, JoineryError, TritonCWarning, UserError
from ...runtime.gpu import LoadedKernel
from ...runtime.storage.cache import CacheOption, CompileCache, cache_of
from ..texts import TritonCText, checked_defines, checked_path, marked_parameters, triton_c_text
from .configurations import Configuration, configurations_of, is_list, pairs_of
from .lock_file import Choice, Key, LockFile, digest_of, entry_of
from .measuring import CudaTimer, HostTimer, device_name, timer_of
from .precompiling import Job, precompiled, workers_for
from .progress import Progress

if TYPE_CHECKING:  # loads on first use, as in `interface.kernel`
    from ..cuda_launching import CudaLaunches

ROUNDS = 4
"""How often the configurations are timed by turns, so that what else the machine does hits all of them."""
MARGIN = 1.2
"""Configurations that took longer than the fastest by this factor are not timed again."""
_MEASURED = 3
"""Configurations that tell how long compiling one takes: one of either end and of the middle, since large blocks take several
times as long as small ones. The first of all is not counted; it takes longer."""
Grid = int | Sequence[int] | Callable[[dict[str, object]], int | Sequence[int]]


class LaunchableKernel(Protocol):
    """What tuning needs of a kernel."""

    name: str

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The parameters of a launch, in order."""

    @property
    def on_cuda(self) -> CudaLaunches:
        """Launches on CUDA devices."""

    def use_native(self, code: bytes) -> None:
        """Take the code of an equal kernel, in place of compiling it for the CPU."""

    def launch(
        self, grid: int | Sequence[int], *args: Any, device: str = ..., threads: int | None = ..., warps: int = ...,
        check_bounds: bool = ...,
    ) -> None:  # fmt: skip
        """Run all programs of the grid."""


K = TypeVar("K", bound=LaunchableKernel)
MakeKernel = Callable[[TritonCText, str | None, CompileCache | None, str, bool], K]


@dataclass(frozen=True, slots=True)
class Best(Generic[K]):
    """What was chosen for one set of integer arguments.

    Attributes:
        kernel: compiled with the macros that were chosen.
        defines: all macros, with one value each.
        warps: how many warps run a program on a GPU.
        grid: the grid of the launch that asked.
    """

    kernel: K
    defines: dict[str, object]
    warps: int
    grid: int | Sequence[int]


class TunedKernel(Generic[K]):
    """A kernel in several configurations, of which launches run the fastest. Made by `jn.kernel.tune`.

    Attributes:
        name: of the kernel.
        configurations: all that are tried.
        key: the names of the parameters whose values a choice holds for.
        dropped: configuration → why it cannot be compiled, as far as this is known, or could not be launched when the
            configurations were timed last.
    """

    def __init__(
        self,
        make: Callable[[TritonCText], K],
        job: Callable[[TritonCText], Job],
        base: TritonCText,
        configurations: tuple[Configuration, ...],
        key: Sequence[str] | None,
        lock: Path | None,
        numerics: str,
        progress: bool | None,
    ) -> None:
        """Find the first configuration that can be read."""
        self.configurations = configurations
        self.dropped: dict[Configuration, str] = {}
        self._unreadable: dict[Configuration, str] = {}
        self._make = make
        self._job = job
        self._base = base
        self._progress = progress
        self._kernels: dict[Configuration, K] = {}
        self._precompiled: dict[Configuration, bytes] = {}
        self._chosen: dict[tuple[str, Key], Configuration] = {}
        self._mutex = threading.RLock()
        first, kernel = self._first()
        self.name: str = kernel.name
        self.parameters: tuple[Parameter, ...] = kernel.parameters
        self._text = first.text(base)
        reading = self._text.reading()
        self._visible = self.parameters[: len(self.parameters) - len(reading.typed.kernel.tables)]
        for each in reading.diagnostics.warnings:
            warnings.warn(each.text, TritonCWarning, stacklevel=3)
        self.key = self._checked_key(key, marked_parameters(reading, "retune"))
        entry = entry_of(self.name, base, numerics)
        self._lock_file = None if lock is None else LockFile(lock, entry, digest_of(base, numerics))

    def __repr__(self) -> str:
        return f"<TunedKernel {self.name!r}: {len(self.configurations)} configurations, key {', '.join(self.key) or 'none'}>"

    def launch(self, grid: Grid, *args: Any, device: str = "cpu", threads: int | None = None) -> None:
        """Run all programs of the grid in the fastest configuration; without a choice for these arguments, time all first.

        Args:
            grid: as for `Kernel.launch`, or a function of the macros: `lambda macros: (n // macros["TM"],)`.
            args: one per parameter. Timing writes to arrays and leaves them as they were.
            device: "cpu", "cuda" and so on; "auto": "cuda" if there is one, else "cpu".
            threads: of the CPU.

        Raises what `Kernel.launch` raises, and `UserError` if no configuration runs.
        """
        device = _device(device)
        best = self.best(grid, *args, device=device, threads=threads)
        best.kernel.launch(best.grid, *args, device=device, threads=threads, warps=best.warps)

    def best(
        self, grid: Grid, *args: Any, device: str = "cpu", threads: int | None = None, check_bounds: bool = False
    ) -> Best[K]:
        """Return what `launch` would run: the kernel, its macros and the number of warps.

        check_bounds: run each configuration once on the CPU as `Kernel.launch` does with it, before it is timed without; one
        that leaves its arrays is dropped.
        """
        device = _device(device)
        args = self._text.flattened(args)
        key = self._key_of(args)
        name = device_name(device)
        with self._mutex:
            configuration = self._known(name, key)
            if configuration is None:
                configuration = self._tuned(timer_of(device, args), grid, device, threads, key, check_bounds)
            self._chosen[name, key] = configuration
            defines = configuration.defines
            return Best(self._kernels[configuration], defines, configuration.warps, _extents(grid, defines))

    # Kernels

    def _kernel(self, configuration: Configuration) -> K | None:
        """Return the kernel of a configuration; None for one that is dropped."""
        if configuration in self._unreadable:
            return None
        if configuration not in self._kernels:
            text = configuration.text(self._base)
            twin = next((each for each in self._kernels if each.bodies == configuration.bodies), None)
            try:
                kernel = self._make(text) if twin is None else self._kernels[twin]
            except JoineryError as error:
                self._drop(configuration, error, self._unreadable)
                return None
            names = [each.name for each in kernel.parameters]
            if self._kernels and names != [each.name for each in self.parameters]:
                reason = f"its parameters are {', '.join(names)}, and others have other ones"
                self._drop(configuration, reason, self._unreadable)
                return None
            self._kernels[configuration] = kernel
            code = self._precompiled.pop(configuration, None)
            if code is not None:
                kernel.use_native(code)
        return self._kernels[configuration]

    def _drop(self, configuration: Configuration, reason: object, *tables: dict[Configuration, str]) -> None:
        if isinstance(reason, InternalError | DeviceError):
            raise reason  # a fault of ours, or a device that is gone
        for table in (self.dropped, *tables):
            table[configuration] = str(reason)

    def _first(self) -> tuple[Configuration, K]:
        for each in self.configurations:
            kernel = self._kernel(each)
            if kernel is not None:
                return each, kernel
        raise self._nothing_left()

    def _nothing_left(self) -> UserError:
        reasons: dict[str, Configuration] = {}
        for each in self.configurations:
            reasons.setdefault(self.dropped.get(each, "it was not tried"), each)
        shown = "\n".join(f"{each}: {reason}" for reason, each in list(reasons.items())[:4])
        more = f"\nand {len(reasons) - 4} other reasons" if len(reasons) > 4 else ""
        return UserError(f"tune: none of {len(self.configurations)} configurations can be run\n{shown}{more}")

    # Keys

    def _checked_key(self, key: Sequence[str] | None, marked: Collection[str]) -> tuple[str, ...]:
        integers = [each.name for each in self.parameters if t.is_integer(each.type)]
        if key is None:
            return tuple(name for name in integers if not marked or name in marked)
        if not isinstance(key, str | Iterable):
            fix = f"key=[{integers[0]!r}]" if integers else "no key: it has none"
            raise UserError(f"tune: key is {key!r}, expected names of integer parameters of {self.name}; fix: {fix}")
        names = [key] if isinstance(key, str) else list(key)
        for name in names:
            if name not in integers:
                known = ", ".join(integers) or "none"
                raise UserError(f"tune: key has {name!r}, which is no integer parameter of {self.name}; it has {known}")
        return tuple(name for name in integers if name in names)

    def _key_of(self, args: Sequence[Any]) -> Key:
        given = supplied(self.name, self.parameters if len(args) == len(self.parameters) else self._visible, args)
        return tuple((each.name, int(each.scalar(arg))) for each, arg in given if each.name in self.key)

    def _known(self, device: str, key: Key) -> Configuration | None:
        """Return what was chosen before, here or in the lock file, if it can still be run."""
        if (device, key) in self._chosen:
            return self._chosen[device, key]
        found = None if self._lock_file is None else self._lock_file.choice(device, key)
        if found is None:
            return None
        for each in self.configurations:
            if _choice(each) == (tuple(sorted(found[0])), found[1]):
                return each if self._kernel(each) is not None else None
        return None

    # Timing

    def _tuned(
        self, timer: HostTimer | CudaTimer, grid: Grid, device: str, threads: int | None, key: Key, check_bounds: bool
    ) -> Configuration:
        """Time all configurations, and return the fastest."""
        tried = _ends_first(self._distinct(timer))
        launches: dict[Configuration, Callable[[], object]] = {}
        best: dict[Configuration, float] = {}
        failures: list[JoineryError] = []
        self.dropped = dict(self._unreadable)
        with timer, Progress(f"tuning {self.name} on {device}", len(tried), self._progress) as progress:
            taken: list[float] = []
            is_decided = False
            loaded: list[LoadedKernel] = []  # keeps them until they are launched
            for number, each in enumerate(tried):
                if len(taken) == _MEASURED and not is_decided:
                    jobs = self._jobs(tried[number:], timer, grid, device)
                    loaded += self._precompile(jobs, sum(taken[1:]) / (_MEASURED - 1), timer)
                    is_decided = True
                start = time.perf_counter()
                kernel = self._kernel(each)
                if kernel is not None:
                    extents = _extents(grid, each.defines)
                    launch = _launch(kernel, extents, timer.args, device, threads, each.warps)
                    try:
                        if check_bounds:
                            timer.once(_launch(kernel, extents, timer.args, device, threads, each.warps, check_bounds))
                        timer.once(launch)
                        compiled = time.perf_counter() - start
                        best[each] = timer.seconds(launch)
                        taken.append(compiled - best[each])
                        launches[each] = launch
                    except JoineryError as error:
                        self._drop(each, error)
                        failures.append(error)
                progress.step(f"{each}: {_shown(best.get(each))}")
            if not best:
                if len({str(error) for error in failures}) == 1:
                    raise failures[0]  # it is the launch that is wrong, not the configurations
                raise self._nothing_left()
            for _ in range(ROUNDS - 1):
                limit = min(best.values()) * MARGIN
                close = [each for each, seconds in best.items() if seconds <= limit]
                for each in close if len(close) > 1 else ():
                    best[each] = min(best[each], timer.seconds(launches[each]))
        configuration = min(best, key=best.__getitem__)
        if self._lock_file is not None:
            self._lock_file.keep(timer.name, key, _choice(configuration))
        return configuration

    def _jobs(
        self, rest: Sequence[Configuration], timer: HostTimer | CudaTimer, grid: Grid, device: str
    ) -> dict[Configuration, Job]:
        """Return the code that launches of these configurations will ask for, without what is known to have errors."""
        jobs: dict[Configuration, Job] = {}
        for each in rest:
            job = self._job(each.text(self._base))
            if isinstance(timer, HostTimer):
                if each not in self._kernels and each not in self._unreadable:
                    jobs[each] = job
                continue
            kernel = self._kernel(each)  # whose parameters say what the code depends on
            if kernel is not None:
                try:
                    extents = _extents(grid, each.defines)
                    jobs[each] = replace(job, gpu=kernel.on_cuda.request(device, extents, timer.args, each.warps))
                except JoineryError:
                    continue  # the launch raises it
        return jobs

    def _precompile(
        self, jobs: dict[Configuration, Job], seconds: float, timer: HostTimer | CudaTimer
    ) -> Sequence[LoadedKernel]:
        """Compile these configurations in several processes, if that is faster. Nothing is timed meanwhile.

        seconds: what one configuration takes in this process. Return what a GPU has loaded, to be kept until it is launched.
        """
        workers = workers_for(len(jobs), seconds)
        if not workers:
            return ()
        found = dict(zip(jobs, precompiled(list(jobs.values()), workers), strict=True))
        self._precompiled = {each: code for each, code in found.items() if isinstance(code, bytes)}
        if isinstance(timer, HostTimer):
            return ()
        entries = [(each, code) for each, code in found.items() if isinstance(code, tuple)]
        return timer.preload([self._kernels[each].on_cuda.keep(entry) for each, entry in entries])

    def _distinct(self, timer: HostTimer | CudaTimer) -> list[Configuration]:
        """Return the configurations without those that are the same code on a device."""
        if timer.has_warps:
            return list(self.configurations)
        return list({each.bodies: each for each in reversed(self.configurations)}.values())[::-1]


class Tuner(Generic[K]):
    """Makes tuned kernels of a class of kernels."""

    def __init__(self, make: MakeKernel[K]) -> None:
        self._make = make

    def tune(
        self,
        text_or_path: str | os.PathLike[str],
        defines: Mapping[str, object] | None = None,
        name: str | None = None,
        *,
        warps: int | Sequence[int] = (4,),
        key: Sequence[str] | None = None,
        configurations: Sequence[tuple[Mapping[str, object], int]] | None = None,
        lock: str | os.PathLike[str] | None = None,
        progress: bool | None = None,
        include: Mapping[str, str | os.PathLike[str]] | Sequence[str | os.PathLike[str]] = (),
        single_precision_constants: bool = False,
        numerics: str = "strict",
        debug: bool = False,
        cache: CacheOption = True,
    ) -> TunedKernel[K]:
        """Read a kernel in Triton-C in several configurations, which the first launch with new sizes times to keep the fastest.

        Args:
            defines: as for `from_triton_c`; a macro may have a list of values. All combinations are tried.
            warps: numbers of warps to try on GPUs. On the CPU they make no difference, and none is tried twice.
            key: names of integer parameters. A choice holds for their values; other values are timed anew. By default those
                that the text marks `__retune`, and if it marks none all integer parameters.
            configurations: pairs of macros and a number of warps to try, in place of lists and `warps`.
            lock: a file that keeps choices between processes, by the model of the device, the text and the key. It can be
                committed, and several kernels can share it.
            progress: whether to show on standard error how far tuning is; None: if that is a terminal.
            name, include, single_precision_constants, numerics, debug, cache: as for `from_triton_c`.

        What cannot be compiled or launched is left out; `TunedKernel.dropped` has the reasons. Raises `UserError` if nothing
        is left.
        """
        numerics = checked_numerics(numerics, "tune")
        defines = checked_defines(defines, "tune")
        listed = None if configurations is None else pairs_of(configurations)
        chosen = {macro for macros, _ in listed or () for macro in macros}
        fixed = {macro: value for macro, value in defines.items() if not is_list(value) and macro not in chosen}
        base = triton_c_text(text_or_path, fixed, name, include, single_precision_constants)
        store = cache_of(cache)
        return TunedKernel(
            lambda text: self._make(text, name, store, numerics, debug),
            lambda text: Job(text, name, numerics, debug),
            base,
            configurations_of(defines, warps, listed),
            key,
            None if lock is None else checked_path(lock, "tune: lock file"),
            numerics,
            progress,
        )


def _device(device: str) -> str:
    if device != "auto":
        return device
    from ...runtime.cuda.current import why_unavailable

    return "cpu" if why_unavailable() is not None else "cuda"


def _choice(configuration: Configuration) -> Choice:
    return tuple(sorted(configuration.bodies)), configuration.warps


def _ends_first(configurations: list[Configuration]) -> list[Configuration]:
    """Return the first configuration, the last, the one in the middle, and then the others."""
    count = len(configurations)
    order = dict.fromkeys([0, count - 1, count // 2, *range(count)] if count else [])
    return [configurations[number] for number in order]


def _extents(grid: Grid, defines: dict[str, object]) -> int | Sequence[int]:
    return grid(defines) if callable(grid) else grid


def _launch(
    kernel: LaunchableKernel, grid: int | Sequence[int], args: Sequence[Any], device: str, threads: int | None, warps: int,
    check_bounds: bool = False,
) -> Callable[[], object]:  # fmt: skip
    return lambda: kernel.launch(grid, *args, device=device, threads=threads, warps=warps, check_bounds=check_bounds)


def _shown(seconds: float | None) -> str:
    if seconds is None or math.isinf(seconds):
        return "dropped"
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3g} us"


__all__ = ["Best", "TunedKernel", "Tuner"]
