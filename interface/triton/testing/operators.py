"""What torch computes for tensors on "cuda:0", by the CPU's functions on the same memory.

torch asks for an implementation for CUDA wherever it has none that serves every device. Views are made by the CPU's own code,
which looks at shapes alone. Everything else runs on aliases of the tensors on the CPU; results are on "cuda:0" again.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from .aliases import Aliases
from .graphs.capture import captures
from .graphs.operators import compute as compute_captured
from .lacking.functions import LACKING, computed_otherwise
from .memory.exchange import Exchange
from .memory.writes import number_as_tensor
from .processes import collectives
from .surface import MEMORY

_INDEXING = frozenset({"index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index", "_unsafe_index_put"})
_MIXES = _INDEXING | {"copy_", "_foreach_copy_", "_ctc_loss", "_pack_padded_sequence"}
"""Operators that take tensors of two devices."""
_NAMESPACES = ("aten", "prims", "prim", "torchvision", "quantized")
"""Where operators are torch's own. Those of other libraries have the implementations that these register."""
_EXPLICIT = ("convolution", "convolution_backward", "copy_")
"""Operators of which torch has an implementation for every device, which chooses functions that only GPUs have."""
_NEVER = (
    "_use_cudnn_ctc_loss", "_use_cudnn_ctc_loss.Tensor", "_use_miopen_ctc_loss", "_use_miopen_ctc_loss.Tensor",
    "_use_cudnn_rnn_flatten_weight",
)  # fmt: skip
"""Operators that ask for libraries of GPUs."""
_OF_SPARSE = {
    "Sparse": (
        "_sparse_coo_tensor_with_dims", "_sparse_coo_tensor_with_dims_and_tensors", "_indices", "_values", "indices", "values",
        "sparse_dim", "dense_dim", "_nnz", "is_coalesced", "_coalesced_",
    ),
    "SparseCsr": (
        "_sparse_compressed_tensor_with_dims", "crow_indices", "col_indices", "ccol_indices", "row_indices", "values",
        "sparse_dim", "dense_dim", "_nnz",
    ),
}  # fmt: skip
"""Operators on the parts of sparse tensors, by their kind."""
_REFUSED = re.compile(r"can't allocate memory: you tried to allocate (\d+) bytes")
"""What torch's allocator for the CPU says."""
_kept: list[Any] = []


def install(torch: Any, count: Callable[[int], Any], exchange: Exchange, generator: Any) -> Operators:
    """Implement torch's operators for CUDA. What libraries register for CUDA later comes before this.

    count: see `Aliases`; generator: what random numbers of tensors on CUDA come from where a call says nothing.
    """
    operators = Operators(torch, Aliases(torch, count), exchange, generator)
    every, own = torch.library.Library("_", "IMPL"), torch.library.Library("aten", "IMPL")
    every.fallback(operators.run, "CUDA")
    every.fallback(operators.run_quantized, "QuantizedCUDA")
    moved = functools.partial(operators.quantized.moved, torch.ops.aten._to_copy.default)
    own.impl("_to_copy", moved, "QuantizedCUDA")
    nested = torch._C.DispatchKeySet(torch._C.DispatchKey.NestedTensorCPU)
    every.fallback(functools.partial(operators.run_by_parts, nested), "NestedTensorCUDA")
    for name in operators.implemented("NestedTensorCPU"):  # also where torch composes the operator of others
        of_parts = functools.partial(operators.run_by_parts, nested, _operator(torch, name))
        own.impl(name.removeprefix("aten::"), of_parts, "NestedTensorCUDA")
    padded = functools.partial(operators.run_by_parts, operators.cpu_keys, torch.ops.aten._nested_from_padded.default)
    own.impl("_nested_from_padded", padded, "CUDA")  # whose sizes are on the CPU
    for kind, names in _OF_SPARSE.items():
        every.fallback(operators.run, f"{kind}CUDA")
        for operator in (torch.ops.aten.copy_.default, torch.ops.aten.clone.default):
            own.impl(operator._opname, functools.partial(operators.run, operator), f"{kind}CUDA")
        keys = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, f"{kind}CPU"))
        for name in names:
            own.impl(name, functools.partial(operators.run_by_parts, keys, _operator(torch, f"aten::{name}")), f"{kind}CUDA")
    for name in operators.composed():
        operator = _operator(torch, name)
        if operator is not None and torch.Tag.inplace_view not in operator.tags:
            own.impl(name.removeprefix("aten::"), functools.partial(operators.run, operator), "CUDA")
    for name in _EXPLICIT:
        own.impl(name, functools.partial(operators.run, _operator(torch, f"aten::{name}")), "CUDA")
    for name, implementation in operators.special().items():
        own.impl(name, implementation, "CUDA")
    _lead_redispatch(torch, operators)
    collectives.install(torch, operators.led, _refuse_capture)
    _kept.extend([every, own])
    return operators


def _lead_redispatch(torch: Any, operators: Operators) -> None:
    """Let libraries call torch's implementations for every device, which have functions of their own for GPUs."""
    explicit = {_operator(torch, f"aten::{name}") for name in _EXPLICIT}
    overload = torch._ops.OpOverload
    plain = overload.redispatch

    @functools.wraps(plain)
    def redispatch(self: Any, /, keys: Any, *args: Any, **keywords: Any) -> Any:
        if self in explicit and any(isinstance(arg, torch.Tensor) and arg.is_cuda for arg in args):
            return operators.run(self, *args, **keywords)
        return plain(self, keys, *args, **keywords)

    overload.redispatch = redispatch


def _operator(torch: Any, name: str) -> Any:
    packet, _, overload = name.removeprefix("aten::").partition(".")
    found = getattr(torch.ops.aten, packet, None)
    return getattr(found, overload or "default", None)


_WRITES_STATISTICS = frozenset({"native_batch_norm", "cudnn_batch_norm", "batch_norm_update_stats"})
_UNDECLARED = ("running_mean", "running_var")
"""Arguments that these operators write although their schemas do not say so."""


class _Plan:
    """What is known of an operator: whether it makes views, what it writes, and which of its arguments it returns."""

    def __init__(self, operator: Any, Tag: Any, takes_numbers: Callable[[str], bool]) -> None:
        schema = operator._schema
        writes = [argument.name for argument in schema.arguments if argument.alias_info and argument.alias_info.is_write]
        positional = [argument.name for argument in schema.arguments if not argument.kwarg_only]
        self.writes = [(positional.index(name) if name in positional else None, name) for name in writes]
        unsaid = _UNDECLARED if operator._opname in _WRITES_STATISTICS else ()
        self.undeclared = [(positional.index(name), name) for name in unsaid if name in positional]
        self.outs = {argument.name for argument in schema.arguments if argument.is_out}
        self.is_view = not writes and any(each.alias_info for each in schema.returns)
        self.mixes = operator._opname in _MIXES
        self.indexes = operator._opname in _INDEXING
        self.tensors = [i for i, each in enumerate(schema.arguments) if not each.kwarg_only and str(each.type) == "Tensor"]
        self.is_strided = "as_strided" in operator._opname  # which reaches beyond the tensor
        self.is_lacking = operator._opname in LACKING
        self.takes_numbers = not self.is_lacking and takes_numbers(operator._opname)
        self.is_own = operator.namespace in _NAMESPACES
        names = [each.name for each in schema.arguments]
        self.generator = names.index("generator") if "generator" in names else None
        self.draws = self.generator is not None or Tag.nondeterministic_seeded in operator.tags
        self.returned: list[int | None] = []
        for each in schema.returns:
            names = each.alias_info.before_set if each.alias_info and each.alias_info.is_write else set()
            of = [i for i, name in enumerate(writes) if names and _aliases(schema, name) & names]
            self.returned.append(of[0] if of else None)


@functools.cache
def _of_numbers(operator: Any, positions: tuple[int, ...]) -> Any:
    """The overload that takes numbers at these positions, whose dtypes decide nothing; None where there is none."""
    own = operator._schema.arguments
    for name in operator.overloadpacket.overloads():
        overload = getattr(operator.overloadpacket, name)
        other = overload._schema.arguments
        expected = ["number" if i in positions else str(each.type) for i, each in enumerate(own)]
        if [str(each.type) for each in other] == expected and [each.is_out for each in other] == [each.is_out for each in own]:
            return overload
    return None


def _check_devices(plan: _Plan, operator: Any, args: Sequence[Any]) -> None:
    """Raise `RuntimeError` where torch refuses tensors of two devices."""
    if plan.indexes:
        put = [each for each in args[2:3] if hasattr(each, "dim")]
        if not any(each.dim() and each.is_cuda != args[0].is_cuda for each in put):
            indices = [each for each in args[1] if each is not None]
            if args[0].is_cuda or not any(each.is_cuda for each in indices):
                return  # indices on the CPU are taken by tensors on both devices
            raise RuntimeError("indices should be either on cpu or on the same device as the indexed tensor (cpu)")
    elif plan.mixes:
        return
    raise RuntimeError(
        f"Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu! ({operator})"
    )


def _dense(values: Any, tensor: Any, strided: Any) -> Iterator[Any]:
    """The tensors on "cuda:0" among values and lists of them that have one storage each."""
    for value in values:
        if isinstance(value, tensor):
            if value.is_cuda and value.layout == strided:
                yield value
        elif isinstance(value, list | tuple):
            yield from _dense(value, tensor, strided)


def _contiguous(shape: Sequence[int]) -> list[int]:
    strides = [1]
    for extent in reversed(shape[1:]):
        strides.append(strides[-1] * max(extent, 1))
    return strides[::-1] if shape else []


def _refuse_capture(what: Any) -> None:
    """Raises `NotImplementedError` for what no graph of CUDA replays here, while one is captured."""
    if captures:
        captures[0].refuse(str(what), "it could not be replayed")


def _aliases(schema: Any, name: str) -> set[str]:
    argument = next(each for each in schema.arguments if each.name == name)
    return set(argument.alias_info.before_set)


class Operators:
    """Computes what torch asks for on CUDA."""

    def __init__(self, torch: Any, aliases: Aliases, exchange: Exchange, generator: Any) -> None:
        self.torch = self._torch = torch
        self._tensor = torch.Tensor
        self._aliases, self._exchange, self._generator = aliases, exchange, generator
        self._plans: dict[Any, _Plan] = {}
        self.cpu_keys = self._keys = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
        self._cpu, self._meta = torch.device("cpu"), torch.device("meta")
        self._empty, self._empty_strided = torch.ops.aten.empty.memory_format, torch.ops.aten.empty_strided.default
        self._set = torch.ops.aten.set_.source_Storage_storage_offset
        self._numbers = (bool, int, float, complex)
        self.quantized = aliases.quantized

    def composed(self) -> list[str]:
        """Operators that torch composes of others for devices that lack them; the CPU has its own, as GPUs have."""
        has = self._torch._C._dispatch_has_kernel_for_dispatch_key
        names = [name for name in self._torch._C._dispatch_get_all_op_names() if name.startswith("aten::")]
        composed, whole = "CompositeExplicitAutogradNonFunctional", "CompositeExplicitAutograd"
        return [name for name in names if has(name, composed) or (has(name, whole) and has(name, "CPU"))]

    def implemented(self, key: str) -> list[str]:
        """Operators of torch's own that have an implementation for this key."""
        has = self._torch._C._dispatch_has_kernel_for_dispatch_key
        names = self._torch._C._dispatch_get_all_op_names()
        return [name for name in names if name.startswith("aten::") and has(name, key)]

    def special(self) -> dict[str, Callable[..., Any]]:
        """Operators that are no computation, by name."""
        return {
            "empty.memory_format": self.empty,
            "empty_strided": self.empty_strided,
            "_efficientzerotensor": self.zeros,
            "resize_": self.resize,
            "_fused_sdp_choice": lambda *args, **keywords: 0,  # in single operations: the others are a GPU's
            "record_stream": lambda *args: None,
            **{name: lambda *args, **keywords: False for name in _NEVER},
            "set_": lambda tensor: self.set_tensor(tensor, self.empty([0], dtype=tensor.dtype)),
            "set_.source_Storage": self.set_storage,
            "set_.source_Storage_storage_offset": self._put,
            "set_.source_Tensor": self.set_tensor,
        }

    def led(self, tensor: Any) -> Any:
        """The memory of a tensor on "cuda:0", as a tensor on the CPU."""
        return self._aliases.on_cpu(tensor)

    def alias(self, tensor: Any) -> Any:
        """Another tensor in the same place."""
        return self._aliases.viewed(tensor, tensor.shape, tensor.stride())

    def set_storage(self, tensor: Any, storage: Any) -> Any:
        return self._put(tensor, storage, 0, [storage.nbytes() // tensor.element_size()], [1])

    def set_tensor(self, tensor: Any, source: Any) -> Any:
        return self._put(tensor, source.untyped_storage(), source.storage_offset(), source.shape, source.stride())

    def run(self, operator: Any, *args: Any, **keywords: Any) -> Any:
        """Compute what an operator does, by the CPU's implementation.

        Raises `RuntimeError` for tensors of two devices, and `NotImplementedError` for what other libraries have for no GPU.
        """
        plan = self._plans.get(operator) or self._plan(operator)
        if plan.is_view:
            return operator.redispatch(self._keys, *args, **keywords)
        if captures and plan.is_own and captures[0].concerns():
            return compute_captured(captures[0], self, plan, operator, args, keywords)
        return self.computed(plan, operator, args, keywords)

    def computed(self, plan: _Plan, operator: Any, args: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        """What `run` returns of an operator that makes no view."""
        on_cpu = self._aliases.whole_on_cpu if plan.is_strided else self._aliases.on_cpu
        if plan.writes and len(shared := self._shared(args, keywords)):
            on_cpu = functools.partial(self._aliases.in_shared, shared)
        led = _Led(self._tensor, on_cpu, self._cpu, self._torch.strided, operator)
        led_args, led_keywords = [led(arg) for arg in args], {name: led(value) for name, value in keywords.items()}
        computes = operator
        if not plan.takes_numbers:
            numbers = tuple([i for i in plan.tensors if i < len(args) and isinstance(args[i], self._numbers)])
            if numbers and (computes := _of_numbers(operator, numbers)) is None:  # which torch made of tensors
                computes = operator
                for i in numbers:
                    led_args[i] = number_as_tensor(self._torch, args[i])
        if not plan.is_own:
            raise NotImplementedError(f"Could not run '{operator}' with arguments from the 'CUDA' backend.")
        if led.devices == 3:
            _check_devices(plan, operator, args)
        written = [args[i] if i is not None and i < len(args) else keywords.get(name) for i, name in plan.writes]
        for name in plan.outs:
            if isinstance(out := keywords.get(name), self._tensor) and out.is_cuda and out.numel() == 0:
                led_keywords[name] = self._torch.empty(0, dtype=out.dtype)  # memory that may grow
        addresses = self._addresses(written)
        result = NotImplemented
        if plan.is_lacking:
            result = computed_otherwise(operator.overloadpacket, led_args, led_keywords, self._torch)
        if result is NotImplemented:
            compute = functools.partial(self._drawn, plan, operator) if plan.draws else computes
            if self._torch.is_autocast_enabled("cpu"):  # of the CPU's operators, which this one is not
                compute = self._torch.autocast("cpu", enabled=False)(compute)
            try:
                result = compute(*led_args, **led_keywords)
            except RuntimeError as error:
                if found := _REFUSED.search(str(error)):
                    raise self._too_large(int(found[1])) from None
                if not plan.outs or "not resizable" not in str(error):
                    raise
                fresh = {name: self._torch.empty(0, dtype=led_keywords[name].dtype) for name in plan.outs}
                led_keywords |= fresh
                result = compute(*led_args, **led_keywords)
        for (position, name), tensor, address in zip(plan.writes, written, addresses, strict=True):
            alias = led_args[position] if position is not None and position < len(led_args) else led_keywords.get(name)
            self._adopt(tensor, address, alias)
        return self._returned(plan, result, written, led.aliases)

    def _shared(self, args: Any, keywords: Any) -> dict[int, Any]:
        """Storages in which several of the tensors lie, by their addresses, as the CPU's: torch looks whether what is written
        overlaps with what is read, and compares storages."""
        seen: set[int] = set()
        found: dict[int, Any] = {}
        for each in _dense((*args, *keywords.values()), self._tensor, self._torch.strided):
            storage = each.untyped_storage()
            address = storage.data_ptr()
            if address in seen and address not in found and storage.nbytes():
                whole = self.empty([0], dtype=self._torch.uint8)
                self._set.redispatch(self._keys, whole, storage, 0, [storage.nbytes()], [1])
                found[address] = self._aliases.on_cpu(whole).untyped_storage()
            seen.add(address)
        return found

    def _drawn(self, plan: _Plan, operator: Any, *args: Any, **keywords: Any) -> Any:
        """Compute what draws random numbers, from the device's own generator. Raises `RuntimeError` for one of the CPU's."""
        at = plan.generator
        if at is None:
            return self._dropped(operator, *args, **keywords)
        given = args[at] if at < len(args) else keywords.get("generator")
        source = self._generator.source(given)
        if source is None:
            raise RuntimeError(f"Expected a 'cuda' device type for generator but found 'cpu' ({operator})")
        if at < len(args):
            args = (*args[:at], source, *args[at + 1 :])
        else:
            keywords["generator"] = source
        return operator(*args, **keywords)

    def _dropped(self, operator: Any, x: Any, p: float = 0, train: bool | None = True, **keywords: Any) -> tuple[Any, Any]:
        """What `native_dropout` returns, with numbers of the device's generator: it takes none.

        Raises `NotImplementedError` for other operators that draw and take none.
        """
        if operator._opname != "native_dropout" or keywords:
            raise NotImplementedError(f"{operator} draws random numbers, and takes no generator of the 'cuda' without a GPU")
        if train is False:
            return x.clone(), self._torch.ones_like(x, dtype=self._torch.bool)
        mask = self._torch.empty_like(x, dtype=self._torch.bool).bernoulli_(1 - p, generator=self._generator.source())
        return x.mul(mask).mul_(1 / (1 - p) if p < 1 else 0.0), mask

    def run_quantized(self, operator: Any, *args: Any, **keywords: Any) -> Any:
        """Do what an operator does with quantized tensors."""
        _refuse_capture(operator)
        return self.quantized.run(operator, *args, **keywords)

    def run_by_parts(self, keys: Any, operator: Any, *args: Any, **keywords: Any) -> Any:
        """Do what an operator does with the parts of a sparse or nested tensor, by the CPU's code: it asks for each again."""
        _refuse_capture(operator)
        plan = self._plans.get(operator) or self._plan(operator)
        given = list(args)
        for i in plan.tensors:
            if i < len(args) and isinstance(args[i], self._numbers):  # which torch made of a tensor
                given[i] = number_as_tensor(self._torch, args[i])
        return operator.redispatch(keys, *given, **keywords)

    def _plan(self, operator: Any) -> _Plan:
        plan = self._plans[operator] = _Plan(operator, self._torch.Tag, self._torch._C._should_allow_numbers_as_tensors)
        return plan

    def _returned(self, plan: _Plan, result: Any, written: Sequence[Any], aliases: Mapping[int, Any]) -> Any:
        if len(plan.returned) == 1:
            first = plan.returned[0]
            return written[first] if first is not None else self._on_cuda(result, aliases)
        if not isinstance(result, tuple):
            return self._on_cuda(result, aliases)
        each = zip(plan.returned, result, strict=True)
        return tuple([written[i] if i is not None else self._on_cuda(value, aliases) for i, value in each])

    def _on_cuda(self, value: Any, aliases: Mapping[int, Any]) -> Any:
        if isinstance(value, self._tensor):
            if not value.is_cpu:
                return value
            if value.layout != self._torch.strided:
                return self._aliases.sparse_moved(value, self._aliases.on_cuda)
            address = value.data_ptr()
            if not address and value.numel():  # zeros that nobody has written out
                value = value.clone()
            same = aliases.get(address)
            if same is not None and same.dtype == value.dtype and value.numel():  # an argument is returned: it keeps its memory
                return self._aliases.viewed(same, value.shape, value.stride())
            return self._aliases.on_cuda(value)
        if isinstance(value, list | tuple):
            return type(value)([self._on_cuda(each, aliases) for each in value])
        return value

    def _addresses(self, written: Any) -> Any:
        if isinstance(written, list | tuple):
            return [self._addresses(each) for each in written]
        is_dense = isinstance(written, self._tensor) and written.layout == self._torch.strided
        return written.data_ptr() if is_dense else None

    def _adopt(self, tensor: Any, address: Any, alias: Any) -> None:
        """Let a tensor that was written have the shape and the elements that the CPU gave its alias. address: where it lay."""
        if isinstance(tensor, list | tuple):
            for each, before, other in zip(tensor, address, alias, strict=True):
                self._adopt(each, before, other)
        elif isinstance(tensor, self._tensor) and tensor.is_cuda and tensor.layout == self._torch.strided:
            storage, offset = tensor.untyped_storage(), tensor.storage_offset()
            if alias.data_ptr() == address:
                if tensor.shape != alias.shape:
                    self._put(tensor, storage, offset, alias.shape, alias.stride())
            elif storage.nbytes():
                self._put(tensor, storage, offset, alias.shape, alias.stride())
                self._aliases.on_cpu(tensor).copy_(alias)
            else:
                moved = self._aliases.on_cuda(alias)
                self._exchange(storage, moved.untyped_storage())
                self._put(tensor, storage, moved.storage_offset(), alias.shape, alias.stride())

    def _put(self, tensor: Any, storage: Any, offset: int, shape: Sequence[int], strides: Sequence[int] = ()) -> Any:
        """Let a tensor lie in a storage, which grows as needed."""
        if storage.device.type != "cuda":
            raise RuntimeError(
                'Attempted to set the storage of a tensor on device "cuda:0" to a storage on different device '
                f'"{storage.device}"'
            )
        size = tensor.element_size()
        strides = list(strides) or _contiguous(shape)
        last = offset + sum((extent - 1) * stride for extent, stride in zip(shape, strides, strict=True))
        if 0 not in shape and (last + 1) * size > storage.nbytes():
            self.resize_storage(storage, (last + 1) * size)
        return self._set.redispatch(self._keys, tensor, storage, offset, list(shape), list(strides))

    def resize_storage(self, storage: Any, number: int) -> None:
        """Give a storage this many bytes, with those that it has. All tensors that lie in it see the new ones."""
        if storage.nbytes():
            _refuse_capture("to resize a storage that has memory")
        fresh = self._allocated(self._empty, [number], dtype=self._torch.uint8)
        kept = min(number, storage.nbytes())
        if kept:
            old = self.empty([0], dtype=self._torch.uint8)
            self._set.redispatch(self._keys, old, storage, 0, [kept], [1])
            fresh[:kept] = self._aliases.on_cpu(old)
        self._exchange(storage, self._aliases.on_cuda(fresh).untyped_storage())

    def zeros(self, size: Any, **keywords: Any) -> Any:
        """Zeros that have memory: those that torch makes without any cannot be handed over."""
        return self.empty(size, **keywords).zero_()

    def empty(self, size: Any, *, device: Any = None, pin_memory: Any = None, layout: Any = None, **keywords: Any) -> Any:
        self._check(device)
        made = self._allocated(self._empty, size, layout=layout, **keywords)
        return self._aliases.on_cuda(made)

    def empty_strided(self, size: Any, stride: Any, *, device: Any = None, pin_memory: Any = None, **keywords: Any) -> Any:
        self._check(device)
        return self._aliases.on_cuda(self._allocated(self._empty_strided, size, stride, **keywords))

    def _allocated(self, empty: Any, *args: Any, **keywords: Any) -> Any:
        """Memory of the CPU's. Raises torch's `OutOfMemoryError` for more than a GPU has, or than there is."""
        try:
            made = empty(*args, device=self._cpu, **keywords)
        except RuntimeError as error:
            if (found := _REFUSED.search(str(error))) is None:
                raise
            raise self._too_large(int(found[1])) from None
        if made.numel() > MEMORY >> 4 and made.layout == self._torch.strided:  # 16 bytes an element at most
            size = made.untyped_storage().nbytes()
            if size > MEMORY:
                raise self._too_large(size)
        return made

    def _too_large(self, size: int) -> Exception:
        free = max(MEMORY - self._torch.cuda.memory_allocated(), 0)
        found: Exception = self._torch.OutOfMemoryError(
            f"CUDA out of memory. Tried to allocate {size / (1 << 30):.2f} GiB. GPU 0 has a total capacity of "
            f"{MEMORY / (1 << 30):.2f} GiB of which {free / (1 << 30):.2f} GiB is free."
        )
        return found

    def resize(self, tensor: Any, size: Any, *, memory_format: Any = None) -> Any:
        strides = self._empty(size, dtype=tensor.dtype, device=self._meta, memory_format=memory_format).stride()
        return self._put(tensor, tensor.untyped_storage(), tensor.storage_offset(), size, strides)

    def _check(self, device: Any) -> None:
        if device is not None and device.index:
            raise RuntimeError(f"CUDA error: invalid device ordinal: {device}; there is one device")


class _Led:
    """Arguments as the CPU is given them, and what devices they are on: 1 for "cuda:0", 2 for the CPU, 3 for both.

    aliases: those on "cuda:0", by their addresses. Calling it raises `RuntimeError` for tensors whose memory was taken away.
    """

    def __init__(self, tensor: Any, on_cpu: Callable[[Any], Any], cpu: Any, strided: Any, operator: Any) -> None:
        self.devices = 0
        self._operator = operator
        self.aliases: dict[int, Any] = {}
        self._tensor, self._on_cpu, self._cpu, self._strided = tensor, on_cpu, cpu, strided

    def __call__(self, value: Any) -> Any:
        if isinstance(value, self._tensor):
            if value.is_cuda:
                self.devices |= 1
                if value.layout == self._strided:
                    address = value.data_ptr()
                    if not address and value.numel():
                        raise RuntimeError(
                            f"{self._operator}: an argument of shape {list(value.shape)} lies in a storage of "
                            f"{value.untyped_storage().nbytes()} bytes; fix: untyped_storage().resize_(…) before it is used"
                        )
                    self.aliases[address] = value
                return self._on_cpu(value)
            if value.dim():
                self.devices |= 2
            return value
        if isinstance(value, list | tuple):
            return type(value)([self(each) for each in value])
        return self._cpu if getattr(value, "type", None) == "cuda" else value
