"""Encodes a `CompiledGraph` as bytes and decodes it: a JSON header, then the large texts and the object code;
the format itself holds nothing that decoding would execute.

    8 bytes   length of the header, little-endian
    header    UTF-8 JSON: every small field, and the length of every blob
    blobs     object code, LLVM IR, the block program of every kernel, the PTX of every GPU kernel, back to back

Decoding trusts nothing: it rejects unknown and missing fields, wrong types, values out of range and lengths that do
not add up.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from ...graph.dims.binding import parse_extent
from ...graph.dims.dim import Dim
from ...lowering.artifact import (
    NUMERICS,
    ArgumentExpression,
    CompiledGraph,
    ConstantSpec,
    GpuLaunch,
    GpuProgram,
    KernelCode,
    KernelReport,
    TensorMap,
    TensorSource,
    TensorSpec,
)
from ...promotion.errors import UserError
from ..gpu import PARAMETER_BYTES
from .gpu_steps import check_steps, location, step_fields, steps
from .header import (
    MAX_RANK,
    Check,
    Fields,
    Json,
    checked_fields,
    dtype_name,
    extents,
    integer,
    items,
    non_negative,
    parse_json,
    row,
    size,
    text,
)
from .weight_packing import stored_shape

FORMAT = 4
MAX_HEADER_BYTES = 64 << 20
MAX_THREADS = 1024
MAX_BOX, MAX_MAP_RANK, SWIZZLES = 256, 5, (0, 32, 64, 128)


def encode_compiled(compiled: CompiledGraph) -> bytes:
    """Encodes a compiled graph as bytes; equal graphs give equal bytes."""
    ttir = [(name, text.encode()) for name, text in compiled.ttir.items()]
    llvm_ir = compiled.llvm_ir.encode()
    codes = [code.ptx.encode() for code in compiled.gpu.kernels] if compiled.gpu is not None else []
    header = {
        "format": FORMAT,
        "name": compiled.name,
        "target": compiled.target,
        "key": compiled.key,
        "numerics": compiled.numerics,
        "dims": list(compiled.dims),
        "inputs": [[spec.name, spec.dtype, list(spec.shape)] for spec in compiled.inputs],
        "outputs": [[spec.name, spec.dtype, list(spec.shape)] for spec in compiled.outputs],
        "constants": [[spec.name, spec.dtype, list(spec.shape), spec.layout, spec.weight] for spec in compiled.constants],
        "checks": list(compiled.checks),
        "kernels": [_kernel_fields(kernel) for kernel in compiled.kernels],
        "object_code": len(compiled.object_code),
        "llvm_ir": len(llvm_ir),
        "ttir": [[name, len(text)] for name, text in ttir],
        "gpu": None if compiled.gpu is None else _gpu_fields(compiled.gpu),
        "ptx": [len(code) for code in codes],
    }
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
    blobs = [compiled.object_code, llvm_ir, *(text for _, text in ttir), *codes]
    return b"".join([len(text).to_bytes(8, "little"), text, *blobs])


def _kernel_fields(kernel: KernelReport) -> Json:
    tiles: Json = [list(tile) for tile in kernel.tiles]
    sizes = [kernel.grid, kernel.bytes_read, kernel.bytes_written, kernel.flops]
    return [kernel.name, kernel.template, list(kernel.fused), tiles, *sizes]


def _gpu_fields(gpu: GpuProgram) -> Json:
    return {
        "kernels": [
            [
                k.name,
                k.target,
                k.ptx_version,
                k.threads,
                k.shared_bytes,
                list(k.parameters),
                [[_source_fields(m.source), m.element, list(m.box), m.swizzle] for m in k.tensor_maps],
            ]
            for k in gpu.kernels
        ],
        "launches": [
            [each.kernel, [list(a) if isinstance(a, tuple) else a for a in each.arguments], each.grid]
            for each in gpu.launches
        ],
        "offsets": list(gpu.offsets),
        "arena_bytes": gpu.arena_bytes,
        "checks": [list(check) for check in gpu.checks],
        "steps": [step_fields(step) for step in gpu.steps],
        "variables": gpu.variables,
    }


def _source_fields(source: TensorSource) -> Json:
    extents, strides = ([_steps(each) for each in expressions] for expressions in (source.extents, source.strides))
    return [source.parameter, extents, strides, _steps(source.pads_with_nan)]


def _steps(expression: ArgumentExpression) -> Json:
    return [list(step) for step in expression.steps]


def is_current(data: bytes | memoryview) -> bool:
    """Return whether bytes are a compiled graph of this format; False for what only an older or newer joinery runs.

    Bytes that are no compiled graph count as one of this format: `decode_compiled` says what is wrong with them.
    """
    view = memoryview(data)
    length = int.from_bytes(view[:8], "little") if len(view) >= 8 else len(view)
    if length > min(MAX_HEADER_BYTES, len(view) - 8):
        return True
    header = parse_json(bytes(view[8 : 8 + length]), "compiled graph")
    found = header.get("format") if isinstance(header, dict) else None
    return type(found) is not int or found == FORMAT


def decode_compiled(data: bytes | memoryview) -> CompiledGraph:
    """Decodes what `encode_compiled` wrote. Raises `UserError`, which says what is wrong with the bytes."""
    view = memoryview(data)
    if len(view) < 8:
        raise _bad("it is shorter than its length field")
    length = int.from_bytes(view[:8], "little")
    if length > min(MAX_HEADER_BYTES, len(view) - 8):
        raise _bad(f"a header of {length} bytes does not fit")
    header = parse_json(bytes(view[8 : 8 + length]), "compiled graph")
    fields = checked_fields(header, _FIELDS, "compiled graph")
    if fields["format"] != FORMAT:
        raise _bad(f"format {fields['format']} is not {FORMAT}")
    if fields["numerics"] not in NUMERICS:
        raise _bad(f"numerics {fields['numerics']!r} is none of {', '.join(NUMERICS)}")
    _check_dims(fields["dims"], fields["inputs"])
    blobs = view[8 + length :]
    code_length, ir_length = fields["object_code"], fields["llvm_ir"]
    texts = sum(size for _, size in fields["ttir"]) + sum(fields["ptx"])
    if code_length + ir_length + texts != len(blobs):
        raise _bad("the lengths of its parts do not add up")
    at = code_length + ir_length
    ttir: dict[str, str] = {}
    for name, length in fields["ttir"]:
        ttir[name] = _utf8(blobs[at : at + length], f"block program {name!r}")
        at += length
    codes = []
    for length in fields["ptx"]:
        codes.append(_utf8(blobs[at : at + length], "PTX"))
        at += length
    return CompiledGraph(
        name=fields["name"],
        target=fields["target"],
        key=fields["key"],
        object_code=bytes(blobs[:code_length]),
        dims=fields["dims"],
        inputs=fields["inputs"],
        outputs=fields["outputs"],
        constants=fields["constants"],
        checks=fields["checks"],
        kernels=fields["kernels"],
        ttir=ttir,
        llvm_ir=_utf8(blobs[code_length : code_length + ir_length], "LLVM IR"),
        gpu=_gpu_program(fields, codes),
        numerics=fields["numerics"],
    )


def _check_dims(dims: Sequence[str], inputs: Sequence[TensorSpec]) -> None:
    """Raises `UserError` unless inputs determine every dim, and each has one position among the sizes that the code takes."""
    sizes = [parse_extent(extent) for spec in inputs for extent in spec.shape]
    mentioned = {name for extent in sizes if isinstance(extent, Dim) for name in extent.symbols()}
    seen: set[str] = set()
    for name in dims:
        if name not in mentioned or name in seen:
            problem = "is listed twice" if name in seen else "is none of its inputs'"
            raise _bad(f"dim {name[:100]!r} {problem}")
        seen.add(name)


def _gpu_program(fields: Fields, codes: list[str]) -> GpuProgram | None:
    """Returns the GPU's part of a graph, after a check that its indices and counts fit the rest."""
    gpu = fields["gpu"]
    if gpu is None:
        if codes:
            raise _bad("it has PTX of no kernel")
        return None
    if len(gpu["kernels"]) != len(codes):
        raise _bad(f"{len(gpu['kernels'])} kernels with {len(codes)} texts of PTX")
    if len(gpu["checks"]) != len(fields["checks"]):
        raise _bad(f"{len(gpu['checks'])} checks with {len(fields['checks'])} messages")
    counts = {
        "input": len(fields["inputs"]),
        "constant": len(fields["constants"]),
        "output": len(fields["outputs"]),
        "temporary": len(gpu["offsets"]),
        "variable": gpu["variables"],
    }
    kernels = tuple(replace(kernel, ptx=ptx) for kernel, ptx in zip(gpu["kernels"], codes, strict=True))
    for launch in gpu["launches"]:
        if launch.kernel >= len(kernels):
            raise _bad(f"a launch of kernel {launch.kernel} of {len(kernels)}")
        code = kernels[launch.kernel]
        if len(launch.arguments) != len(code.parameters) - len(code.tensor_maps):
            raise _bad(f"a launch of {code.name[:100]!r} with another number of arguments")
        for argument in launch.arguments:
            if isinstance(argument, tuple) and argument[1] >= counts[argument[0]]:
                raise _bad(f"a launch reads {argument[0]} {argument[1]} of {counts[argument[0]]}")
    problem = check_steps(gpu["steps"], len(gpu["launches"]), counts)
    if problem:
        raise _bad(f"a step with {problem}")
    return GpuProgram(
        kernels, gpu["launches"], gpu["offsets"], gpu["arena_bytes"], gpu["checks"], gpu["steps"], gpu["variables"]
    )


def _bad(what: str) -> UserError:
    return UserError(f"this is not a compiled graph: {what}")


def _utf8(data: memoryview, what: str) -> str:
    try:
        return bytes(data).decode()
    except UnicodeDecodeError as error:
        raise _bad(f"its {what} is not UTF-8") from error


def _shape(value: object) -> tuple[int | str, ...]:
    shape = items(size)(value)
    if len(shape) > MAX_RANK:
        raise ValueError(f"rank {len(shape)}")
    return shape


def _tensor(value: object) -> TensorSpec:
    return TensorSpec(*row(value, text, dtype_name, _shape))


def _constant(value: object) -> ConstantSpec:
    spec = ConstantSpec(*row(value, text, dtype_name, extents, text, text))
    stored_shape(spec.shape, spec.layout)
    return spec


def _tile(value: object) -> tuple[str, int]:
    axis, extent = row(value, text, non_negative)
    return axis, extent


def _kernel(value: object) -> KernelReport:
    name, template, fused, tiles, grid, read, written, flops = row(
        value, text, text, items(text), items(_tile), size, size, size, size
    )
    return KernelReport(name, template, fused, grid, tiles, read, written, flops)


def _blob(value: object) -> tuple[str, int]:
    name, length = row(value, text, non_negative)
    return name, length


def _kernel_code(value: object) -> KernelCode:
    """Returns a kernel without its PTX, which follows the header."""
    name, target, version, threads, shared, parameters, maps = row(
        value, text, text, non_negative, non_negative, non_negative, items(text), items(_tensor_map)
    )
    code = KernelCode(name, target, "", version, threads, shared, parameters, maps)
    if not 1 <= code.threads <= MAX_THREADS:
        raise ValueError(f"{code.threads} threads")
    arguments = len(code.parameters) - len(code.tensor_maps)
    unknown = [type_ for type_ in code.parameters[:arguments] if type_ not in PARAMETER_BYTES or type_ == "ptr"]
    unknown += [type_ for type_ in code.parameters[max(arguments, 0) :] if type_ != "ptr"]
    if unknown or arguments < 0:
        raise ValueError(f"a parameter of type {unknown[0][:100]!r}" if unknown else "more tensor maps than parameters")
    for each in code.tensor_maps:
        _check_source(each.source, code.parameters[:arguments])
    return code


def _check_source(source: TensorSource, types: Sequence[str]) -> None:
    """Raises `ValueError` unless a map's expressions read integers only. types: those of the arguments that
    they may read."""
    if source.parameter >= len(types) or types[source.parameter] != "i64":
        raise ValueError(f"a tensor map of parameter {source.parameter}, of {len(types)}")
    for expression in (*source.extents, *source.strides, source.pads_with_nan):
        problem = expression.problem(lambda number: 0 <= number < len(types) and types[number].startswith("i"))
        if problem:
            raise ValueError(f"a tensor map made with {problem}")


def _tensor_map(value: object) -> TensorMap:
    found = TensorMap(*row(value, _source, text, items(non_negative), non_negative))
    sizes, box = found.source, all(1 <= extent <= MAX_BOX for extent in found.box)
    fits = len(sizes.extents) == len(sizes.strides) == found.rank
    if not 1 <= found.rank <= MAX_MAP_RANK or not fits or not box or found.swizzle not in SWIZZLES:
        raise ValueError(f"a tensor map of rank {len(sizes.extents)}, box {found.box[:9]}, swizzle {found.swizzle}")
    return found


def _source(value: object) -> TensorSource:
    return TensorSource(*row(value, non_negative, items(_expression), items(_expression), _expression))


def _expression(value: object) -> ArgumentExpression:
    return ArgumentExpression(items(_step)(value))


def _step(value: object) -> tuple[str, int, int]:
    operation, width, number = row(value, text, non_negative, integer)
    return operation, width, number


def _launch(value: object) -> GpuLaunch:
    return GpuLaunch(*row(value, non_negative, items(_argument), size))


def _argument(value: object) -> tuple[str, int] | int | str:
    """Checks a buffer, or a size that may be negative, as strides can be."""
    if isinstance(value, list):
        return location(value)
    return text(value) if isinstance(value, str) else integer(value)


def _check(value: object) -> tuple[int | str, int | str]:
    left, right = row(value, size, size)
    return left, right


_GPU_FIELDS: dict[str, Check] = {
    "kernels": items(_kernel_code),
    "launches": items(_launch),
    "offsets": items(size),
    "arena_bytes": size,
    "checks": items(_check),
    "steps": steps,
    "variables": non_negative,
}


def _gpu(value: object) -> Fields | None:
    return None if value is None else checked_fields(value, _GPU_FIELDS, "GPU program")


_FIELDS: dict[str, Check] = {
    "format": non_negative,
    "name": text,
    "target": text,
    "key": text,
    "numerics": text,
    "dims": items(text),
    "inputs": items(_tensor),
    "outputs": items(_tensor),
    "constants": items(_constant),
    "checks": items(text),
    "kernels": items(_kernel),
    "object_code": non_negative,
    "llvm_ir": non_negative,
    "ttir": items(_blob),
    "gpu": _gpu,
    "ptx": items(non_negative),
}
