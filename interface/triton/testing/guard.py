"""Devices of CUDA in a build of torch that has none: torch is told that there is one, whose memory is the CPU's.

A tensor on "cuda:0" is then a tensor of torch like any other, and its device is torch's own affair: in C++, in backward passes,
and in libraries that register implementations for CUDA. What torch computes for it, `operators` does by the CPU's functions.

torch asks two objects of C++ about a device: its guard, and its hooks. Hooks for CUDA are there in every build, and say that
there is no CUDA; a guard is registered by a function of torch. Both get tables of functions that are copies (of those hooks,
and of the CPU's guard) in which some answer otherwise. Where each of them stands is read in torch's own headers, which come
with it, and torch has to find CUDA afterwards.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_REGISTER = "_ZN3c104impl19registerDeviceGuardENS_10DeviceTypeEPKNS0_24DeviceGuardImplInterfaceE"
_REGISTRY = "_ZN3c104impl26device_guard_impl_registryE"
_ALLOCATOR = "_ZN3c1015GetCPUAllocatorEv"
_HOOKS = "_ZN2at6detail12getCUDAHooksEv"
_CPU, _CUDA = 0, 1
"""Numbers of devices in torch."""
_DEVICE = 1
"""A `c10::Device` as a slot: its kind in the first byte, its number, 0, in the second."""
_STREAM = "stream"
_HOOK_HEADERS = ("ATen/detail/AcceleratorHooksInterface.h", "ATen/detail/CUDAHooksInterface.h")
_HOOK_ANSWERS = {
    "isBuilt": 1, "isAvailable": 1, "hasPrimaryContext": 1, "init": 1, "deviceCount": 1, "hasCUDA": 1, "getCurrentDevice": 0,
    "exchangeDevice": 0, "maybeExchangeDevice": 0, "setCurrentDevice": 0, "current_device": 0,
}  # fmt: skip
_GUARD_HEADERS = ("c10/core/impl/DeviceGuardImplInterface.h",)
_GUARD_ANSWERS: dict[str, int | str] = {
    "type": _CUDA, "exchangeDevice": _DEVICE, "getDevice": _DEVICE, "setDevice": 0, "uncheckedSetDevice": 0, "deviceCount": 1,
    "getStream": _STREAM, "getDefaultStream": _STREAM, "getStreamFromGlobalPool": _STREAM, "getNewStream": _STREAM,
    "exchangeStream": _STREAM, "destroyEvent": 0, "queryStream": 1, "synchronizeStream": 0, "synchronizeDevice": 0,
    "record": "record", "elapsedTime": "elapsed", "block": 0, "queryEvent": 1, "synchronizeEvent": 0,
}  # fmt: skip
"""What functions answer, by their names: there is one device, number 0, and one stream. Events are times of recording."""
_TEXTS = {
    _STREAM: f"""
define {{ i64, i64 }} @answerstream(ptr %this) {{
  ret {{ i64, i64 }} {{ i64 {_DEVICE}, i64 0 }}
}}""",
    "record": """
declare i32 @clock_gettime(i32, ptr)
define void @answerrecord(ptr %this, ptr %event) {
  %time = alloca { i64, i64 }
  %code = call i32 @clock_gettime(i32 1, ptr %time)
  %seconds = load i64, ptr %time
  %rest.at = getelementptr i8, ptr %time, i64 8
  %rest = load i64, ptr %rest.at
  %whole = mul i64 %seconds, 1000000000
  %nanoseconds = add i64 %whole, %rest
  store i64 %nanoseconds, ptr %event
  ret void
}""",
    "elapsed": """
define double @answerelapsed(ptr %this, i64 %start, i64 %end) {
  %nanoseconds = sub i64 %end, %start
  %number = sitofp i64 %nanoseconds to double
  %milliseconds = fdiv double %number, 1.0e6
  ret double %milliseconds
}""",
}
"""Functions that answer more than a number."""
_kept: list[Any] = []


def register(torch: Any) -> bool:
    """Tell torch of one device of CUDA, number 0. Returns false where it cannot be told, and changes nothing then.

    It can where it is built for no GPU, and has the functions and the headers that this needs.
    """
    find = getattr(torch._C, "_accelerator_getAccelerator", None)
    if torch.version.cuda or torch.version.hip or find is None or find() is not None:
        return False
    folder = Path(torch.__file__).parent
    c10, core = _library(folder, "c10", _REGISTER), _library(folder, "torch_cpu", _HOOKS)
    guard_names, hook_names = _functions(folder, _GUARD_HEADERS), _functions(folder, _HOOK_HEADERS)
    if c10 is None or core is None or not set(_GUARD_ANSWERS) <= set(guard_names) or not set(_HOOK_ANSWERS) <= set(hook_names):
        return False
    allocator = c10[_ALLOCATOR]
    allocator.restype = ctypes.c_void_p
    hook_answers: dict[str, int | str] = {**_HOOK_ANSWERS, "getPinnedMemoryAllocator": int(allocator())}
    compiled = _compiled({*hook_answers.values(), *_GUARD_ANSWERS.values()})
    hooks = core[_HOOKS]
    hooks.restype = ctypes.c_void_p
    table = ctypes.c_void_p.from_address(hooks())
    plain = int(table.value or 0)
    table.value = _table(plain, hook_names, hook_answers, compiled)
    if find() != torch.device("cuda"):
        table.value = plain
        return False
    registry = (ctypes.c_void_p * (_CPU + 1)).in_dll(c10, _REGISTRY)
    model = ctypes.c_void_p.from_address(int(registry[_CPU] or 0))
    guard = ctypes.c_void_p(_table(int(model.value or 0), guard_names, _GUARD_ANSWERS, compiled))  # an object: its table alone
    register_guard = c10[_REGISTER]
    register_guard.argtypes, register_guard.restype = [ctypes.c_int8, ctypes.c_void_p], None
    register_guard(_CUDA, ctypes.addressof(guard))
    _kept.append(guard)
    atexit.register(_await_backward, torch)
    return True


def _await_backward(torch: Any) -> None:
    """Wait until the thread that CUDA's backward passes run on has dropped what it held: it needs Python to drop Python's."""
    with contextlib.suppress(RuntimeError):  # a forked process has no such thread
        last, gradient = torch.empty(1, device="cuda", requires_grad=True), torch.empty(1, device="cuda")
        viewed = last.view(1)
        torch.autograd.backward(viewed, gradient)
        _kept.extend([last, viewed, gradient])  # not the thread's to drop
        time.sleep(0.002)


def _library(folder: Path, name: str, symbol: str) -> ctypes.CDLL | None:
    """One of torch's libraries, if it has the function."""
    for path in sorted((folder / "lib").glob(f"lib{name}.*")):
        library = ctypes.CDLL(str(path))
        if hasattr(library, symbol):
            return library
    return None


def _functions(folder: Path, headers: tuple[str, ...]) -> list[str]:
    """The functions of a class's table in its order. A destructor has two places."""
    names: list[str] = []
    for path in (folder / "include" / header for header in headers):
        if not path.is_file():
            return []
        text = re.sub(r"(?s)#ifdef USE_ROCM.*?#endif", "", path.read_text(encoding="utf-8"))
        for name in re.findall(r"(?m)^ +virtual [^;(]*?(~?\w+)\(", text):
            names += [name, name] if name.startswith("~") else [name]
    return names


def _table(plain: int, names: list[str], answers: Mapping[str, int | str], compiled: Mapping[int | str, int]) -> int:
    """The address of a copy of a table in which functions have these answers."""
    slot = ctypes.sizeof(ctypes.c_void_p)
    slots = len(names) + 2  # two in front, by which C++ knows the class
    copy = (ctypes.c_void_p * slots).from_buffer_copy(ctypes.string_at(plain - 2 * slot, slots * slot))
    for name, answer in answers.items():
        copy[names.index(name) + 2] = compiled[answer]
    _kept.append(copy)
    return ctypes.addressof(copy) + 2 * slot


def _compiled(answers: set[int | str]) -> dict[int | str, int]:
    """Addresses of functions that return these values. Functions of Python would be called after Python has ended."""
    import llvmlite.binding as llvm

    texts = [f"define i64 @answer{i}(ptr %this) {{\n  ret i64 {i}\n}}" for i in answers if i not in _TEXTS]
    texts += [_TEXTS[i] for i in answers if isinstance(i, str)]
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    module = llvm.parse_assembly("\n".join(texts))
    engine = llvm.create_mcjit_compiler(module, llvm.Target.from_default_triple().create_target_machine())
    engine.finalize_object()
    _kept.append(engine)
    return {answer: int(engine.get_function_address(f"answer{answer}")) for answer in answers}
