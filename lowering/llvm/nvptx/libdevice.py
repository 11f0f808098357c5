"""Extracts functions of NVIDIA's libdevice as LLVM IR text, one at a time.

The library is one module of bitcode with 350 functions, compiled for no GPU in particular: where code depends on the GPU or on
a compiler's options it calls `__nvvm_reflect`. A function is taken out of it with its callees, these calls are replaced by
their answers, and it is optimised once; kernels are linked with the result (`compile_ptx`).

Sources: NVIDIA, "Libdevice User's Guide"; "NVVM IR Specification", "Reflection"; "CUDA C++ Programming Guide", options -ftz,
-prec-sqrt and -prec-div.
"""

from __future__ import annotations

import hashlib
import re
import threading
from typing import Any, Protocol

import llvmlite.binding as llvm

from ....promotion.errors import UserError
from ...keys import source_fingerprint
from ...libdevice.signatures import SIGNATURES, Signature
from ..compile import llvm_version
from ..compile_ptx import TRIPLE, target_machine
from ..elementwise import register_element
from .targets import GpuTarget

_REFLECT = re.compile(r'(%[\w.]+) = (?:tail )?call i32 @__nvvm_reflect\(ptr (?:noundef )?(@[\w.]+)\).*')
_STRING = re.compile(r'^(@[\w.]+) = .*\bc"(\w+)\\00"', re.MULTILINE)
_DROPPED = ("declare ", "!llvm.ident", "!nvvmir.version", "source_filename", ";")
"""The beginnings of lines that are dropped: intrinsics declare themselves, with the attributes that this LLVM gives them."""


class TextStore(Protocol):
    """A store that keeps extracted functions between processes."""

    def get_bytes(self, key: str) -> bytes | None: ...

    def put_bytes(self, key: str, data: bytes) -> None: ...


class Libdevice:
    """The functions of one libdevice.10.bc."""

    def __init__(self, data: bytes, name: str) -> None:
        """Takes the bytes of the file, and the name that errors call it."""
        self.name = name
        self.digest = hashlib.sha256(data).hexdigest()
        self._data = data
        self._texts: dict[tuple[str, str], str] = {}
        self._lock = threading.Lock()

    def function(self, symbol: str, target: GpuTarget, store: TextStore | None = None) -> str | None:
        """Returns a module with this function for a target, optimised.

        None where the library has no function of that name with the types of `SIGNATURES`. Float arithmetic is as exact as the
        library offers: denormals are kept, square roots and quotients are IEEE's.

        Raises `UserError` if the file is no library that can be used.
        """
        with self._lock:
            found = self._texts.get((symbol, target.key))
            if found is None:
                found = self._texts[symbol, target.key] = self._stored(SIGNATURES[symbol], target, store)
        return found or None

    def _stored(self, signature: Signature, target: GpuTarget, store: TextStore | None) -> str:
        parts = ("libdevice", self.digest, signature.symbol, target.key, llvm_version(), source_fingerprint())
        key = hashlib.sha256("\0".join(parts).encode()).hexdigest()
        kept = store.get_bytes(key) if store is not None else None
        if kept is not None:
            return kept.decode()
        text = self._extracted(signature, target)
        if store is not None:
            store.put_bytes(key, text.encode())
        return text

    def _extracted(self, signature: Signature, target: GpuTarget) -> str:
        """Returns the module's text; empty if there is no such function."""
        machine = target_machine(target)
        module = self._module()
        try:
            wanted = module.get_function(signature.symbol)
        except NameError:
            return ""
        if wanted.is_declaration or str(wanted.global_value_type) != _llvm_type(signature):
            return ""
        for value in (*module.functions, *module.global_variables):
            if not value.is_declaration and value.name != signature.symbol:
                value.linkage = llvm.Linkage.linkonce_odr  # once in a kernel, whichever functions need it
        module.triple = TRIPLE
        module.data_layout = str(machine.target_data)
        options = llvm.create_pipeline_tuning_options(3)
        options.loop_unrolling = options.loop_vectorization = options.slp_vectorization = False
        builder = llvm.create_pass_builder(machine, options)
        alone = llvm.create_new_module_pass_manager()
        alone.add_global_dead_code_eliminate_pass()
        alone.run(module, builder)
        try:
            module = llvm.parse_assembly(_answered(str(module), target))
            builder.getModulePassManager().run(module, builder)
            text = _stripped(str(module))
            llvm.parse_assembly(text).verify()  # an intrinsic that this LLVM does not know would abort the process later
        except (RuntimeError, _Unanswered) as error:
            raise self._unusable(f"{signature.symbol}: {error}") from error
        return text

    def _module(self) -> Any:
        try:
            module = llvm.parse_bitcode(self._data)
            module.verify()
        except RuntimeError as error:
            raise self._unusable(str(error)) from error
        return module

    def functions(self) -> int:
        """Counts the functions of `SIGNATURES` that the library has. Raises `UserError` if it cannot be read."""
        module = self._module()
        types = {each.name: str(each.global_value_type) for each in module.functions if not each.is_declaration}
        return sum(types.get(each.symbol) == _llvm_type(each) for each in SIGNATURES.values())

    def _unusable(self, why: str) -> UserError:
        said = " ".join(why.split())
        return UserError(
            f"{self.name} is no libdevice that can be used: {said}; fix: another one (JOINERY_LIBDEVICE=PATH), or "
            "joinery's own functions (JOINERY_LIBDEVICE=none)"
        )


def _llvm_type(signature: Signature) -> str:
    arguments = ", ".join(register_element(elem) for elem in signature.arguments)
    return f"{register_element(signature.result)} ({arguments})"


class _Unanswered(Exception):
    """A call of `__nvvm_reflect` that is not understood."""


def _answered(text: str, target: GpuTarget) -> str:
    """Returns the text with answers in place of calls of `__nvvm_reflect`.

    LLVM's own pass knows only the architecture and ftz, and answers 0 to the rest: square roots would be approximations.
    """
    answers = {"__CUDA_ARCH": 10 * target.capability, "__CUDA_FTZ": 0, "__CUDA_PREC_SQRT": 1, "__CUDA_PREC_DIV": 1}
    names = dict(_STRING.findall(text))

    def answer(match: re.Match[str]) -> str:
        name = names.get(match[2])
        if name not in answers:
            raise _Unanswered(f"it asks for {name or match[2]}, which is not known")
        return f"{match[1]} = add i32 {answers[name]}, 0"

    text = _REFLECT.sub(answer, text)
    if "call i32 @__nvvm_reflect" in text:
        raise _Unanswered("it calls __nvvm_reflect in a way that is not known")
    return text


def _stripped(text: str) -> str:
    """Drops how the library was compiled, and the request to be inlined: `compile_ptx` decides."""
    lines = []
    for line in text.split("\n"):
        if not line or line.startswith(_DROPPED):
            continue
        if line.startswith("attributes "):
            line = re.sub(r' "[^"]*"="[^"]*"', "", line).replace(" alwaysinline", "")
        lines.append(re.sub(r", !srcloc !\d+", "", line))
    return "\n".join([*lines, ""])
