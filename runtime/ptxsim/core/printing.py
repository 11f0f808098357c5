"""Implements vprintf and __assertfail of the device's run-time system.

Arguments of vprintf are in a local buffer, each at its natural alignment, floats as double. Source: CUDA C++ Programming Guide,
"Formatted Output"; PTX Writer's Guide to Interoperability, "System Calls".
"""

from __future__ import annotations

import math
import re

import numpy as np

from ..checks.findings import Fault
from ..memory.spaces import LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW, Space
from .context import MachineContext
from .types import Mask, Step

MAX_STRING = 1 << 12

_DIRECTIVE = re.compile(r"%([-+ #0]*)(\d*)((?:\.\d+)?)(hh|h|ll|l|z|j|t)?([%diouxXeEfFgGaAcsp])")


def builtin(machine: MachineContext, name: str, given: list[str], wanted: list[str]) -> Step | None:
    """Returns the step of a function of the device's run-time system; None where there is none of that name."""
    if name == "vprintf":
        return _bind_print(machine, given, wanted)
    if name == "__assertfail":
        return _bind_assert(machine, given)
    return None


def _bind_print(machine: MachineContext, given: list[str], wanted: list[str]) -> Step:
    function = machine.function_being_bound
    fmt, buffer = (machine.areas[function, name][0] for name in given)
    result = machine.areas[function, wanted[0]][0] if wanted else None
    local = machine.local

    def step(mask: Mask) -> None:
        octets = local.octets[: local.size * machine.lanes].reshape(machine.lanes, -1)
        for lane in range(machine.lanes) if mask is None else np.flatnonzero(mask).tolist():
            pointers = [int(octets[lane, at : at + 8].view(np.uint64)[0]) for at in (fmt, buffer)]
            count = _print(machine, lane, *pointers)
            if result is not None:
                octets[lane, result : result + 4] = np.array([count], np.int32).view(np.uint8)

    return step


def _bind_assert(machine: MachineContext, given: list[str]) -> Step:
    function = machine.function_being_bound
    positions = [machine.areas[function, name] for name in given]
    local = machine.local

    def step(mask: Mask) -> None:
        octets = local.octets[: local.size * machine.lanes].reshape(machine.lanes, -1)
        lane = 0 if mask is None else int(np.flatnonzero(mask)[0])
        values = [int.from_bytes(octets[lane, at : at + size].tobytes(), "little") for at, size in positions]
        message, file = string_at(machine, lane, values[0]), string_at(machine, lane, values[1])
        where = string_at(machine, lane, values[3]) if len(values) > 3 and values[3] else ""
        raise Fault("assert", f"{message} ({file}:{values[2]}{', ' + where if where else ''})", [lane])

    return step


def _print(machine: MachineContext, lane: int, fmt: int, buffer: int) -> int:
    """Prints one lane's output; returns the number of arguments."""
    offset, count = buffer, 0

    def argument(size: int) -> bytes:
        nonlocal offset, count
        offset = -(-offset // size) * size
        found = bytes_at(machine, lane, offset, size)
        offset += size
        count += 1
        return found

    def replaced(match: re.Match[str]) -> str:
        flags, width, precision, length, letter = match.groups()
        if letter == "%":
            return "%"
        if letter in "eEfFgGaA":
            number = float(np.frombuffer(argument(8), np.float64)[0])
            if letter in "aA":
                return _hexadecimal(number)
            return f"%{flags}{width}{precision}{letter}" % number
        if letter == "s":
            return f"%{flags}{width}{precision}s" % string_at(
                machine, lane, int.from_bytes(argument(8), "little")
            )
        if letter == "p":
            return f"{int.from_bytes(argument(8), 'little'):#x}"
        size = 8 if length in ("l", "ll", "z", "j", "t") else 4
        value = int.from_bytes(argument(size), "little", signed=letter in "di")
        narrow = {"hh": 8, "h": 16}.get(length or "")
        if narrow:
            value &= (1 << narrow) - 1
            value -= (value >> (narrow - 1) << narrow) if letter in "di" else 0
        if letter == "c":
            return chr(value & 255)
        return f"%{flags}{width}{precision}{'d' if letter == 'u' else letter}" % value

    text = _DIRECTIVE.sub(replaced, string_at(machine, lane, fmt))
    machine.printer.add(text)
    return count


def _hexadecimal(number: float) -> str:
    """Formats a float as C's %a does, without trailing zeros."""
    if not math.isfinite(number):
        return f"{number:f}"
    digits, exponent = number.hex().split("p")
    return f"{digits.rstrip('0').rstrip('.') if '.' in digits else digits}p{exponent}"


def bytes_at(machine: MachineContext, lane: int, address: int, size: int) -> bytes:
    """Returns the bytes at a generic address."""
    window = address >> 56 << 56
    if window == LOCAL_WINDOW:
        start = address - LOCAL_WINDOW
        if start + size > machine.local.size:
            raise Fault("bounds", f"{size} bytes at local address {start:#x}", [lane])
        start += lane * machine.local.size
        return bytes(machine.local.octets[start : start + size])
    if window in (SHARED_WINDOW, PARAM_WINDOW):
        space: Space = machine.cta.shared if window == SHARED_WINDOW else machine.parameters
        start = address - window
        if start + size > space.size:
            raise Fault("bounds", f"{size} bytes at {space.kind} address {start:#x}", [lane])
        return bytes(space.octets[start : start + size])
    offset = machine.memory.one(address, size, False)
    return bytes(machine.memory.octets[offset : offset + size])


def string_at(machine: MachineContext, lane: int, address: int) -> str:
    """Returns the zero-terminated text at a generic address."""
    found = bytearray()
    while len(found) < MAX_STRING:
        (octet,) = bytes_at(machine, lane, address + len(found), 1)
        if octet == 0:
            break
        found.append(octet)
    return found.decode("utf-8", "replace")
