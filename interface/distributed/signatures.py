"""Tells what a referenced model takes and returns, and which of its dims may be cut into blocks, without compiling it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from itertools import product

from ...graph.data_sizes import mentioned
from ...graph.dims.dim import Dim
from ...graph.graph import Graph
from ...graph.reference.budget import Budget
from ...graph.reference.evaluate import require_checks
from ...graph.symbol import Symbol
from ...graph.text.parsing import stored_graph
from ...lowering.artifact import TensorSpec
from ...promotion.dataclass import dataclass
from ...promotion.errors import UserError
from ...runtime.model.inputs import InputSpec
from ...runtime.storage import artifact_file
from .failures import RunError
from .independence import Along, Mixture, State, independence
from .references import ModelReference

_INSTEAD = {
    "batch": "joinery.load(path) and a call with all rows, or --independent",
    "ray_actor": "joinery.distributed.stream with blocks of rows that belong together, or independent=[…] with its name",
}
"""What there is instead of blocks, by what was asked for them; for arrays with chunks it is one chunk."""


@dataclass(frozen=True, slots=True, eq=False)
class Signature:
    """The inputs and outputs of a model, and its graph."""

    name: str
    inputs: tuple[InputSpec, ...]
    outputs: tuple[InputSpec, ...]
    graph: Graph

    def require_inputs(self, names: Iterable[str], what: str) -> None:
        """Raise `UserError` unless these are the inputs, each once."""
        given, expected = list(names), [spec.name for spec in self.inputs]
        if sorted(given) != sorted(expected):
            raise UserError(
                f"{what}: model {self.name!r} takes {', '.join(spec.text for spec in self.inputs)}; got "
                f"{', '.join(given) or 'nothing'}; fix: one array for each of {', '.join(expected)}"
            )

    def require_known_sizes(self, what: str) -> None:
        """Raise `UserError` for an output whose size values decide, and no sizes of inputs: blocks of it have no places."""
        known = {name for spec in self.inputs for extent in spec.shape if isinstance(extent, Dim) for name in extent.symbols()}
        for spec in self.outputs:
            for extent in spec.shape:
                if isinstance(extent, Dim) and extent.symbols() - known:
                    raise UserError(
                        f"{what}: output {spec.text} of model {self.name!r} has the size {str(extent)!r}, which values decide, "
                        "so nobody knows before a run which part of it a block gives; fix: joinery.distributed.stream, which "
                        "yields what each block gives, or an output of a size that inputs have"
                    )

    def refusal(self, sizes: Mapping[str, Collection[int]]) -> tuple[str, list[str]] | None:
        """Return why the graph's checks refuse a call of such sizes, and the dims that it is about; None where none is refused.

        sizes: for each dim those that calls have. Checks of dims that it lacks are left to the calls.
        """
        for check in self.graph.checks:
            names = sorted(mentioned(check[:2]))
            if sizes.keys() >= set(names):
                for found in product(*[sorted(sizes[name]) for name in names]):
                    try:
                        require_checks([check], dict(zip(names, found, strict=True)), f"model {self.name!r}")
                    except UserError as error:
                        return str(error).partition("; fix: ")[0], names
        return None

    def independence(self, dim: str) -> dict[str, State] | Mixture:
        """Return where each output has a dim whose elements the graph treats alone, or the operation that mixes them."""
        return _independence(self.graph, dim)

    def named_dims(self, independent: object, what: str) -> set[str]:
        """Return the names of dims that a caller gives.

        Raises `UserError` for what is no collection of them, a text above all, and for dims that the graph does not have.
        """
        if isinstance(independent, str) or not isinstance(independent, Iterable):
            one = independent if isinstance(independent, str) else "batch"
            raise UserError(f"{what}: independent={independent!r:.80} is no list of dims; fix: independent=[{one!r:.80}]")
        found = list(independent)
        if wrong := [each for each in found if not isinstance(each, str)]:
            raise UserError(f"{what}: independent has {wrong[0]!r:.80}, which is no name of a dim; fix: names as in the graph")
        if unknown := set(found) - set(self.graph.dim_names):
            dims = self.graph.dim_names
            fix = "these alone" if dims else "none"
            raise UserError(f"{what}: independent={sorted(unknown)}; model {self.name!r} has the dims {dims}; fix: {fix}")
        return set(found)

    def cut_along(self, dim: str, what: str) -> dict[str, Along]:
        """Return where each output has a dim along which inputs are cut into blocks.

        Raises `UserError` where the blocks would not give what the whole gives.
        """
        found = self.independence(dim)
        if isinstance(found, Mixture):
            otherwise = f"one block along {dim!r} (dask: x.rechunk({{axis: -1}}), xarray: x.chunk({{dim: -1}})), or"
            fix = _INSTEAD.get(what, f"{otherwise} independent=[…] with its name")
            raise UserError(
                f"{what}: model {self.name!r} cannot be computed in blocks along {dim!r}: {found}; fix: {fix} if you know "
                "better"
            )
        return _present(found, self, dim, what)

    def believed(self, dim: str, what: str) -> dict[str, Along]:
        """Return where each output has a dim of which the caller says that blocks along it are independent."""
        found: dict[str, State] = {}
        for spec in self.outputs:
            # A size such as batch + 1 on another axis would be another one in each block.
            axes = [axis for axis, extent in enumerate(spec.shape) if isinstance(extent, Dim) and dim in extent.symbols()]
            found[spec.name] = Along(axes[0]) if [spec.shape[axis] for axis in axes] == [Dim(dim)] else None
        return _present(found, self, dim, what)


def _present(found: dict[str, State], signature: Signature, dim: str, what: str) -> dict[str, Along]:
    known = {name: along for name, along in found.items() if along is not None and along.outer == 1}
    for spec in signature.outputs:
        if spec.name not in known:
            raise UserError(
                f"{what}: output {spec.text} of model {signature.name!r} has no axis {dim!r} of its own, so blocks along it "
                f"cannot be put together; fix: one block along {dim!r}"
            )
    return known


@lru_cache(maxsize=64)
def _independence(graph: Graph, dim: str) -> dict[str, State] | Mixture:
    return independence(graph, dim)


def require_flag(value: object, name: str, what: str) -> None:
    """Raise `UserError` for what is no bool: a text such as "no" would count as True."""
    if not isinstance(value, bool):
        raise UserError(f"{what}: {name}={value!r:.80} is no bool; fix: True or False")


def signature(reference: ModelReference, what: str) -> Signature:
    """Return what a referenced model takes and returns.

    Raises `UserError` for what is no reference, `RunError` where its file cannot be read, or is another one.
    """
    require_reference(reference, what)
    try:
        return _signature(reference.digest, reference.location, reference.trusted)
    except UserError as error:
        raise RunError(f"{what}: model {reference.name!r} in {reference.location}: {error}") from error


def require_reference(reference: object, what: str) -> None:
    """Raise `UserError` for a model, a path or anything else in the place of a reference."""
    if not isinstance(reference, ModelReference):
        raise UserError(
            f"{what}: expected a reference to a model, got {type(reference).__name__}; fix: "
            "joinery.distributed.reference(model or path)"
        )


@lru_cache(maxsize=16)
def _signature(digest: str, location: str, trusted: bool) -> Signature:
    artifact = artifact_file.load(location, digest=digest)
    weights = {entry.name: artifact.plain_weight(entry.name) for entry in artifact.manifest.weights}
    graph = stored_graph(artifact.graph_text, weights, None if trusted else Budget())
    outputs = zip(graph.output_names, graph.outputs, strict=True)
    return Signature(
        graph.name, tuple([_spec(symbol.name or "", symbol) for symbol in graph.inputs]),
        tuple([_spec(name, symbol) for name, symbol in outputs]), graph,
    )  # fmt: skip


def _spec(name: str, symbol: Symbol) -> InputSpec:
    shape = tuple([extent if isinstance(extent, int) else str(extent) for extent in symbol.shape])
    return InputSpec.of(TensorSpec(name, symbol.dtype.name, shape))
