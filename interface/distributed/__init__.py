"""Runs saved models over many blocks, on an engine that runs already: Dask, Ray, or a pool of processes.

    reference = joinery.distributed.reference("model.joinery", trusted=True)
    y = joinery.distributed.map_blocks(reference, x)            # arrays of Dask, lazily
    for number, out in joinery.distributed.stream(reference, blocks, client): ...

A reference travels to workers in the place of the model. Each process opens the model once, and a block's result depends on
the block alone. `joinery batch` does the same from files to files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from .failures import BlocksFailed, Failure, RunError
from .references import ModelReference, reference

__all__ = [
    "BlocksFailed", "Failure", "ModelReference", "RunError", "apply", "bring", "map_blocks", "ray_actor", "reference", "stream",
]  # fmt: skip


def map_blocks(
    reference: ModelReference, *arrays: Any, independent: Iterable[str] = (), same_target: bool = False, **named: Any
) -> Any:
    """Apply a model to arrays of Dask, block by block, and return its output as such an array, or a tuple of them.

    Nothing is computed. Dtypes, ranks, sizes and chunks are checked against the graph first: an axis may have several chunks if
    it is a dim of its own in the graph, and the graph treats each of its elements alone. Dtypes, shapes and chunks of results
    are those that the graph says.

    Args:
        reference: what `reference` returned.
        arrays, named: one array per input, by position or by name; what is no array of Dask is one block, however large, unless
            it has chunks of its own, as arrays of Zarr have.
        independent: dims of which you know that the graph treats each element alone, where joinery does not find it out.
        same_target: whether blocks are refused by workers whose code is not that of this machine's kind of CPU.

    Raises `UserError` for arrays that do not fit the graph, and names the rechunking that would do.
    """
    from .dask_arrays import map_blocks

    return map_blocks(reference, arrays, named, independent, same_target)


def apply(
    reference: ModelReference, *arrays: Any, output_dims: Mapping[str, Sequence[str]] | None = None,
    independent: Iterable[str] = (), same_target: bool = False, **named: Any,
) -> Any:
    """Apply a model to arrays of xarray by `xarray.apply_ufunc`, lazily where they hold arrays of Dask.

    Args:
        reference: what `reference` returned.
        arrays, named: one `DataArray` per input, its axes in the order of the graph's.
        output_dims: names for all axes of an output; by default those that the inputs have for the same dims, and for other
            axes the output's name and the axis's number. The arrays that come back have the outputs' names.
        independent, same_target: as for `map_blocks`, which arrays of Dask are given to.

    Raises `UserError` as `map_blocks` does.
    """
    from .xarrays import apply

    return apply(reference, arrays, named, output_dims, independent, same_target)


def stream(
    reference: ModelReference, blocks: Iterable[Any], client: Any = None, *, in_flight: int = 2, retries: int = 3,
    ordered: bool = True, same_target: bool = False,
) -> Iterator[tuple[int, Any]]:
    """Run a model over blocks as they come, and yield the number and the output of each, or the tuple of its outputs.

    A bounded number of blocks is in flight, so that memory does not grow with their number.

    Args:
        reference: what `reference` returned.
        blocks: any iterable of arrays, tuples of arrays, or mappings from input names to arrays.
        client: a `distributed.Client`, an executor of `concurrent.futures` such as `MPIPoolExecutor`, "ray", or None for this
            process.
        in_flight: blocks that are begun, for each worker.
        retries: how often a block is tried again that raised anything but an error of joinery about the block.
        ordered: whether results come in the order of the blocks; otherwise as they finish.
        same_target: whether results of code for different kinds of CPUs are refused.

    A block whose worker died runs again by itself, and has failed if its worker dies then too. Raises `BlocksFailed` at the
    end if blocks have failed, `RunError` where no block can be computed, `UserError` for a block with other arrays than inputs,
    and what `blocks` raises, once the blocks before it are done. These have a note that names the blocks that failed before.
    """
    from .streaming import stream

    return stream(reference, blocks, client, in_flight, retries, ordered, same_target)


def bring(client: Any, reference: ModelReference) -> None:
    """Bring the file of a model to workers of Dask that do not see its path, and to those that start later.

    The file goes to the scheduler once, which keeps it on its disk, and from there once to each host.

    Args:
        client: a `distributed.Client`.
        reference: what `reference` returned; its path is read here.

    Raises `UserError` for another client.
    """
    from .extras import required

    required("distributed", "bring")
    from .dask_workers import bring

    bring(client, reference)


def ray_actor(reference: ModelReference, *, independent: Iterable[str] = ()) -> Callable[[], Any]:
    """Return a class for actors of Ray, such as those of `ActorPool`.

    Ray Data: `dataset.map_batches(ray_actor(reference), compute=ray.data.ActorPoolStrategy(size=4))`. Its objects open the
    model when they are made, and take a batch as columns by name, lists of one length too. They return the outputs by name, and
    the columns that are no inputs.

    Args:
        reference: what `reference` returned.
        independent: dims of which you know that the graph treats each element alone, where joinery does not find it out.

    Raises `UserError` for a graph that does not treat each row alone, since Ray decides which rows are a batch, and for outputs
    that have not a row for each row of the batch.
    """
    from .ray_actors import actor_class

    return actor_class(reference, independent)
