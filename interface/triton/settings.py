"""How kernels that Triton launches are run: natively, interpreted, sanitized, or as simulated PTX.

What a launch says (`kernel[grid](…, sanitize=True)`) goes before what `enable` said, and that before the environment.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace

from ...promotion.dataclass import dataclass
from ...promotion.errors import UserError, close_names

MODES = ("native", "interpret", "sanitize", "ptxsim")
VARIABLE = "JOINERY_TRITON"
"""The environment variable that makes joinery Triton's back end: 1 or on, or one of `MODES`; 0, off or nothing for no."""
_OFF, _ON = ("", "0", "off", "false", "no"), ("1", "on", "true", "yes")


@dataclass(frozen=True, slots=True)
class Settings:
    """How launches run that do not say it themselves.

    mode: one of `MODES`.
    threads: threads of the CPU for native code; None for the default.
    target: the GPU that PTX is made for.
    numerics: "strict", "fast" or "reproducible", as `joinery.kernel.from_ttir` takes it.
    """

    mode: str = "native"
    threads: int | None = None
    target: str = "sm_90a"
    numerics: str = "strict"


def checked_mode(mode: str, where: str) -> str:
    """The mode. Raises `UserError` for what is none."""
    if mode not in MODES:
        close = close_names(str(mode), MODES, 1)
        hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(MODES)}"
        raise UserError(f"{where}: unknown mode {mode!r}; {hint}")
    return mode


def is_asked_for(environment: Mapping[str, str] | None = None) -> bool:
    """Whether the environment asks for joinery: by `JOINERY_TRITON`, or Triton's own `TRITON_DEFAULT_BACKEND=cpu`."""
    environment = os.environ if environment is None else environment
    named = environment.get(VARIABLE, "").lower() not in _OFF
    return named or environment.get("TRITON_DEFAULT_BACKEND") == "cpu"


def from_environment(environment: Mapping[str, str] | None = None) -> Settings:
    """The settings that the environment asks for: `JOINERY_TRITON` (a mode), `JOINERY_TRITON_THREADS`, `JOINERY_TRITON_TARGET`.

    Raises `UserError` for values that say nothing.
    """
    environment = os.environ if environment is None else environment
    found = Settings()
    mode = environment.get(VARIABLE, "").lower()
    if mode not in _OFF and mode not in _ON:
        found = replace(found, mode=checked_mode(mode, f"the environment variable {VARIABLE}"))
    threads = environment.get("JOINERY_TRITON_THREADS", "")
    if threads:
        if not threads.isdecimal() or not 1 <= int(threads) <= 1024:
            raise UserError(f"the environment variable JOINERY_TRITON_THREADS is {threads!r}, expected a number from 1 to 1024")
        found = replace(found, threads=int(threads))
    target = environment.get("JOINERY_TRITON_TARGET", "")
    return replace(found, target=target) if target else found


_current: list[Settings] = []


def current() -> Settings:
    """The settings of launches that say nothing themselves."""
    if not _current:
        _current.append(from_environment())
    return _current[0]


def set_current(settings: Settings) -> None:
    """Make these the settings of launches that say nothing themselves."""
    _current[:] = [settings]


_PRECISION_VARIABLE = "TRITON_F32_DEFAULT"
_preferred: list[str] = []


def prefer_float32() -> None:
    """Let `tl.dot` of float32 compute in float32 unless the program or the user asks for something else.

    Triton takes tf32, which GPUs are fast at; processors have nothing to gain from it, and references are in float32.
    """
    if _PRECISION_VARIABLE not in os.environ:
        os.environ[_PRECISION_VARIABLE] = "ieee"
        _preferred.append("ieee")


def forget_preference() -> None:
    """Undo `prefer_float32`."""
    if _preferred and os.environ.get(_PRECISION_VARIABLE) == _preferred.pop():
        del os.environ[_PRECISION_VARIABLE]


def default_precision() -> str:
    """What products of float32 that say nothing are computed in."""
    return os.environ.get(_PRECISION_VARIABLE, "")
