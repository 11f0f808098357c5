"""Provides `joinery.load`.

A file with code, whose digest the caller knows, is opened without the modules of graphs, which take longer than the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from os import PathLike
from typing import TYPE_CHECKING

from ...lowering.artifact import CompiledGraph, ConstantSpec
from ...lowering.gc_paused import loading_modules
from ...promotion.arrays import Array
from ...promotion.dtype import DType
from ...promotion.errors import UserError
from ...runtime.host.threads import resolve_threads
from ...runtime.model.model import Archive
from ...runtime.native.library import native_library
from ...runtime.storage import artifact_file
from ...runtime.storage.artifact_source import Location
from ...runtime.storage.cache import CacheOption, cache_of
from ..model import Model
from . import devices

if TYPE_CHECKING:
    from ...graph.reference.budget import Budget
    from ...lowering.stages import Tiled


def load(
    source: Location,
    device: str = "auto",
    *,
    target: str | None = None,
    threads: int | None = None,
    trusted: bool = False,
    budget: Budget | None = None,
    cache: CacheOption = True,
    digest: str | None = None,
    verify: bool = True,
) -> Model:
    """Open a model that `Model.save` or `save` wrote.

    Devices and targets are those of `compile`, `numerics` is that of the saved model. No code in the file runs unless `trusted`
    is True, which is for files you wrote yourself; otherwise the graph is compiled anew, through the cache.

    Args:
        source: a path; bytes, a memoryview, or anything else with contiguous memory; or a file open for reading bytes, which is
            read from where it stands to its end. A file is read as a whole and checked, so later changes to it have no effect.
            Read-only memory on a 64-byte boundary, such as a mapped file or an object store gives, is used in place: processes
            share it, and nobody may change it as long as the model lives. Other memory is copied.
        digest: what `Model.digest` of the model must be; a file with another one is refused.
        verify: False believes that the bytes are those that `digest` stands for, and does not read them all to find out before
            the model is saved.
        budget: what a run of a file that is not trusted may need, by default `Budget()`. Anything beyond it is refused
            when the file is read or, where it depends on the sizes of the inputs, by the run. A trusted file has no budget
            unless one is given.

    Raises `UserError` for a file that is no artifact, damaged, changed or beyond its budget, and for `trusted` or `verify`
    that is no bool.
    """
    require_trusted(trusted, "load")
    if not isinstance(verify, bool):
        fix = "fix: True, or False with the digest of a file that you have checked"
        raise UserError(f"load: verify={verify!r:.80} is no bool; {fix}")
    if budget is not None:
        from ..compiling import require_budget

        require_budget(budget)
    store = cache_of(cache)
    device, resolved = devices.resolve(device, target, "load")
    native_library(store)  # before memory is asked of it without the store, which keeps its code
    opened = artifact_file.load(source, trusted=trusted, target=devices.same_code(resolved), digest=digest, verify=verify)
    is_limited = False
    # Who asks for a digest knows the file: its code was written with its graph, which need not be read to find that out.
    kept = None if digest is None or budget is not None else _kept_constants(opened)
    if kept is None:
        with loading_modules():
            from ..compiling import code_of_file

        found = code_of_file(opened, device, resolved, target, threads, cache, store, budget, trusted)
        if isinstance(found, Model):
            return found
        compiled, constants, is_limited = found
    else:
        compiled, constants = kept

    # What `save` needs is in the file already, so the graph and the unpacked copies of its weights are not kept. A budget
    # belongs to this call, not to the file.
    def archive() -> Archive:
        from ..compiling import archive_of_file

        return archive_of_file(opened, compiled, resolved, cache, store, is_limited, resolve_threads(threads))

    def tiled() -> Tiled:
        from ..compiling import tiled_of_file

        own = compiled is opened.compiled
        return tiled_of_file(opened, resolved, budget, trusted, None if own else resolve_threads(threads))

    def saving(assembled: artifact_file.Assembled, path: str | PathLike[str], targets: Sequence[str]) -> None:
        from ..compiling import save_for

        save_for(assembled, path, targets)

    return Model(
        compiled, constants, "", threads, archive=archive, device=devices.device_of(device, resolved, store), tiled=tiled,
        digest=opened.manifest.digest, saving=saving,
    )  # fmt: skip


def require_trusted(trusted: object, what: str) -> None:
    """Raise `UserError` for what is no bool: a text such as "no" must not let code run."""
    if not isinstance(trusted, bool):
        raise UserError(f"{what}: trusted={trusted!r:.80} is no bool; fix: True for files you wrote yourself, or False")


def _kept_constants(opened: artifact_file.Artifact) -> tuple[CompiledGraph, list[Array]] | None:
    """Return the code of a file and the arrays that it reads, as the file has them; None without code that says which they are.

    Raises `UserError` where the file has no such weight.
    """
    compiled = opened.compiled
    if compiled is None or any(not spec.weight for spec in compiled.constants):
        return None
    entries = {entry.name: entry for entry in opened.manifest.weights}
    constants = []
    for spec in compiled.constants:
        entry = entries.get(spec.weight)
        if entry is None or _nbytes(entry) != _nbytes(spec):
            raise UserError(f"artifact {opened.source}: its code reads {spec.name!r}, which is none of its weights")
        if (entry.layout, entry.dtype, entry.shape) == (spec.layout, spec.dtype, spec.shape):
            constants.append(opened.weights[entry.name])
        else:  # arrays of equal bytes are one weight, whatever their dtypes and shapes
            plain = opened.plain_weight(entry.name).reshape(-1).view(DType(spec.dtype).numpy)
            constants.append(devices.stored(spec, plain.reshape(spec.shape)))
    return compiled, constants


def _nbytes(array: artifact_file.WeightEntry | ConstantSpec) -> int:
    """Return the bytes of an array in the plain layout."""
    return prod(array.shape) * DType(array.dtype).numpy.itemsize


__all__ = ["load"]
