"""What test-suites that were written for a GPU need beside torch: Triton under CUDA's name, and little autotuning."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from ....promotion.dataclass import dataclass
from ..targets import set_masquerade
from ..utilities import MEGAHERTZ
from .surface import CAPABILITY


@dataclass(frozen=True, slots=True)
class Choices:
    """What a suite was asked to run with: the plugin's options."""

    mode: str
    device: str = "cuda"
    target: str = "sm_90a"
    threads: int | None = None
    check_bounds: bool = True
    autotune: int = 1


def prepare(choices: Choices) -> None:
    """Make this process one in which kernels for a GPU run by joinery. Raises `UserError` for choices that it does not know."""
    from ..activation import activate

    if choices.device == "cuda":
        from .stand_in import install

        install()
    activate(choices.mode, choices.threads, choices.target, "strict", choices.check_bounds)
    if choices.device == "cuda":
        become_cuda()
    cut_autotuning(choices.autotune)


def become_cuda() -> None:
    """Call joinery's target that of an H100, and take the back ends of GPUs out of Triton's: they are not there."""
    from triton.backends import backends

    set_masquerade(10 * CAPABILITY[0] + CAPABILITY[1])
    for name in ("nvidia", "amd"):
        backends.pop(name, None)
    _tell_clocks()


def _tell_clocks() -> None:
    """Let Triton know the clocks of the device's properties: models of a kernel's speed ask a program of NVIDIA's."""
    import triton.testing

    plain = triton.testing.nvsmi
    clocks = {f"clocks.{when}.{what}": MEGAHERTZ for when in ("current", "max") for what in ("sm", "memory", "mem")}

    @functools.wraps(plain)
    def nvsmi(attributes: Sequence[str]) -> list[int]:
        found = [clocks.get(each) for each in attributes]
        return plain(attributes) if None in found else [each for each in found if each is not None]

    triton.testing.nvsmi = nvsmi


def cut_autotuning(configurations: int) -> None:
    """Let autotuned kernels try this many of their configurations: trying all takes as long as the suite.

    They are the first of those that the kernel's own pruning leaves, without those that do not compile.
    """
    from triton.runtime.autotuner import Autotuner

    if getattr(Autotuner, "joinery_cuts", False):
        return
    Autotuner.joinery_cuts = True
    make = Autotuner.__init__

    def make_cut(self: Any, *args: Any, **keywords: Any) -> None:
        make(self, *args, **keywords)
        if len(self.configs) > configurations:
            self.run = _CutRun(self, configurations)  # on the tuner itself: classes derived of it have a `run` of their own

    Autotuner.__init__ = make_cut


class _CutRun:
    """`run` of an autotuner with few of its configurations."""

    def __init__(self, tuner: Any, number: int) -> None:
        self._tuner, self._number = tuner, number
        self._every = list(tuner.configs)
        self._refused: list[Any] = []

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        from triton.compiler.errors import CompileTimeAssertionFailure
        from triton.runtime.errors import OutOfResources

        tuner = self._tuner
        tuner.configs = self._every
        tuner.nargs = dict(zip(tuner.arg_names, args, strict=False))
        left = [each for each in tuner.prune_configs(keywords) if each not in self._refused]
        while True:
            tuner.configs = left[: self._number]
            try:
                return type(tuner).run(tuner, *args, **keywords)
            except (CompileTimeAssertionFailure, OutOfResources):  # what autotuning goes on after
                self._refused += left[: self._number]
                del left[: self._number]
                if not left:
                    raise
