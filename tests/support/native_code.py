"""Compiles LLVM IR text and runs it: the harness of the tests of `lowering/llvm/math`."""

from __future__ import annotations

import ctypes
import functools
import itertools
import platform
from collections.abc import Callable, Sequence

import llvmlite.binding as llvm
import numpy as np
from joinery.lowering.llvm import ir

_COUNTER = itertools.count()
_ALIVE: list[object] = []  # linked libraries; their code must outlive every address that is returned

NUMPY_TYPES = {"float": np.float32, "double": np.float64, "half": np.float16, "bfloat": np.uint16}
NUMPY_TYPES |= {f"i{n}": np.dtype(f"int{n}") for n in (8, 16, 32, 64)}

HASWELL = "haswell"


def kept(facts: tuple[str, ...], make: Callable[[], bytes]) -> bytes:
    """Makes code; `kept_code` puts what it keeps here."""
    return make()


def host_has_avx2() -> bool:
    features = llvm.get_host_cpu_features()
    return platform.machine() == "x86_64" and features.get("avx2", False) and features.get("fma", False)


@functools.cache
def target_machine(cpu: str | None = None) -> llvm.TargetMachine:
    """Returns the host's machine, or one for a named x86 CPU with no features beyond that CPU's."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = llvm.get_host_cpu_features().flatten() if cpu is None else ""
    return llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(
        cpu=cpu or llvm.get_host_cpu_name(), features=features, opt=2, reloc="pic", codemodel="small"
    )


@functools.cache
def _jit() -> llvm.LLJIT:
    target_machine()
    machine = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine()
    return llvm.create_lljit_compiler(machine)


def parse(module_text: str, cpu: str | None = None) -> llvm.ModuleRef:
    machine = target_machine(cpu)
    module = llvm.parse_assembly(module_text)
    module.triple = llvm.get_process_triple()
    module.data_layout = str(machine.target_data)
    module.verify()
    return module


def assembly(module_text: str, cpu: str | None = None) -> str:
    return str(target_machine(cpu).emit_assembly(parse(module_text, cpu)))


def compile_and_link(module_text: str, names: Sequence[str], cpu: str | None = None) -> dict[str, int]:
    """Returns the addresses of the named functions. No symbol is imported: code that calls a library fails to
    link."""
    code = kept((module_text, str(cpu)), lambda: bytes(target_machine(cpu).emit_object(parse(module_text, cpu))))
    builder = llvm.JITLibraryBuilder().add_object_img(code)
    for name in names:
        builder.export_symbol(name)
    library = builder.link(_jit(), f"test{next(_COUNTER)}")
    _ALIVE.append(library)
    return {name: library[name] for name in names}


Emit = Callable[..., ir.V]


def map_module(
    emit: Emit, inputs: Sequence[str], output: str, lanes: int, features: frozenset[str] = frozenset()
) -> str:
    """Builds a module with `kernel(n, out, in...)`, which applies `emit(fn, *values)` to vectors of `lanes`
    elements; n is a multiple of `lanes`. features: those that emitters may make use of."""
    module = ir.Module(features=features)
    params = [("i64", "n"), ("ptr noalias", "out"), *(("ptr noalias", f"in{i}") for i in range(len(inputs)))]
    fn = ir.Function(module, "kernel", params)
    n, out, *pointers = fn.params
    with fn.loop(0, n, lanes) as loop:
        values = [
            fn.load(ir.vector(t, lanes), fn.gep(p, loop.index, t))
            for t, p in zip(inputs, pointers, strict=True)
        ]
        result = emit(fn, *values)
        assert result.type == ir.vector(output, lanes), result
        fn.store(result, fn.gep(out, loop.index, output))
    fn.ret()
    module.add(fn)
    return module.text()


class MapKernel:
    """An emitter compiled to an array function, which takes NumPy arrays and returns one."""

    def __init__(
        self,
        emit: Emit,
        inputs: Sequence[str],
        output: str,
        lanes: int = 16,
        cpu: str | None = None,
        features: frozenset[str] = frozenset(),
    ) -> None:
        self.text = map_module(emit, inputs, output, lanes, features)
        address = compile_and_link(self.text, ["kernel"], cpu)["kernel"]
        self._call = ctypes.CFUNCTYPE(None, ctypes.c_int64, *[ctypes.c_void_p] * (1 + len(inputs)))(address)
        self._inputs = [np.dtype(NUMPY_TYPES[t]) for t in inputs]
        self._output = np.dtype(NUMPY_TYPES[output])
        self._lanes = lanes

    def __call__(self, *arrays: np.ndarray) -> np.ndarray:
        size = arrays[0].size
        padded = -(-size // self._lanes) * self._lanes
        buffers = []
        for array, dtype in zip(arrays, self._inputs, strict=True):
            assert array.size == size
            assert array.dtype.itemsize == dtype.itemsize, (array.dtype, dtype)
            buffers.append(np.resize(np.ascontiguousarray(array).reshape(-1), padded))
        out = np.empty(padded, self._output)
        self._call(padded, out.ctypes.data, *(b.ctypes.data for b in buffers))
        return out[:size]
