"""Compiles LLVM IR text to PTX through llvmlite.

The back end aborts the process on what it cannot select, so the emitters print only what it can.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import llvmlite.binding as llvm

from ...promotion.errors import InternalError
from .nvptx.functions import ALWAYS_INLINE
from .nvptx.targets import GpuTarget

TRIPLE = "nvptx64-nvidia-cuda"
MAX_INLINED = 4000
"""The most instructions that a kernel may grow by for one function that it calls; beyond that the calls stay."""
_NUMBERS = re.compile(" // callseq [0-9, ]+")
"""Comments that count the calls of the whole process; without them the same kernel has the same text."""
_NONE: Mapping[str, str] = MappingProxyType({})


@functools.cache
def _initialize() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


@functools.lru_cache(maxsize=8)
def target_machine(target: GpuTarget) -> Any:
    _initialize()
    return llvm.Target.from_triple(TRIPLE).create_target_machine(cpu=target.name, features=target.feature_text, opt=3)


def compile_ptx(text: str, target: GpuTarget, linked: Mapping[str, str] = _NONE) -> str:
    """Compiles a module to PTX. linked: functions that it declares → modules that define them, optimised."""
    machine = target_machine(target)
    try:
        module = llvm.parse_assembly(text)
        module.triple = TRIPLE
        module.data_layout = str(machine.target_data)
        module.verify()
    except RuntimeError as error:
        raise InternalError(f"generated LLVM IR is invalid: {str(error).strip()}") from error
    if linked:
        _link(module, machine, linked, text)
    _simplify(module, machine)
    return _NUMBERS.sub("", str(machine.emit_assembly(module)))


def _link(module: Any, machine: Any, linked: Mapping[str, str], text: str) -> None:
    """Links functions into the module as internal ones. Definitions that several of them bring are kept once."""
    defined = {function.name for function in module.functions if not function.is_declaration}
    for name in sorted(linked):
        module.link_in(llvm.parse_assembly(linked[name]))
        calls = text.count(f" @{name}(") - 1  # without the declaration
        is_short = calls * linked[name].count("\n  ") <= MAX_INLINED
        module.get_function(name).add_function_attribute("alwaysinline" if is_short else "noinline")
    for value in (*module.functions, *module.global_variables):
        if not value.is_declaration and value.name not in defined:
            value.linkage = llvm.Linkage.internal
    passes = llvm.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    passes.add_global_opt_pass()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(module, llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(2)))


def _simplify(module: Any, machine: Any) -> None:
    """Runs the few passes that pay on straight-line code, and disables the back end's own passes on IR.

    Those (above all straight-line strength reduction) took two thirds of the time and found nothing: addresses are printed
    as accesses want them. `optnone` leaves them out and keeps what `opt=0` would lose, the coalescing of registers.
    """
    options = llvm.create_pipeline_tuning_options(2)
    options.loop_unrolling = False
    options.loop_vectorization = False
    builder = llvm.create_pass_builder(machine, options)
    passes = llvm.create_new_function_pass_manager()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    passes.add_dead_code_elimination_pass()
    defined = [function for function in module.functions if not function.is_declaration]
    for function in defined:
        passes.run(function, builder)
    to_inline = [function for function in defined if any(ALWAYS_INLINE.encode() in each for each in function.attributes)]
    if to_inline:
        inlining = llvm.create_new_module_pass_manager()
        inlining.add_always_inliner_pass()
        inlining.run(module, builder)
    for function in module.functions:
        if not function.is_declaration:
            function.add_function_attribute("noinline")
            function.add_function_attribute("optnone")
