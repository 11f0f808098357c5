"""What test-suites that were written for a GPU need beside torch: Triton under CUDA's name, and little autotuning."""

from __future__ import annotations

from typing import Any

from ..targets import set_masquerade
from .stand_in import CAPABILITY


def become_cuda() -> None:
    """Call joinery's target that of an H100, and take the back ends of GPUs out of Triton's: they are not there."""
    from triton.backends import backends

    set_masquerade(10 * CAPABILITY[0] + CAPABILITY[1])
    for name in ("nvidia", "amd"):
        backends.pop(name, None)


def cut_autotuning(configurations: int) -> None:
    """Let autotuned kernels try this many of their configurations: trying all takes as long as the suite."""
    from triton.runtime.autotuner import Autotuner

    if getattr(Autotuner, "joinery_cuts", False):
        return
    Autotuner.joinery_cuts = True
    make = Autotuner.__init__

    def make_cut(self: Any, *args: Any, **keywords: Any) -> None:
        make(self, *args, **keywords)
        self.configs = self.configs[:configurations]

    Autotuner.__init__ = make_cut
