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

    def cut_along(self, dim: str, what: str) -> dict[str, Along]:
        """Return where each output has a dim along which inputs are cut into blocks.

        Raises `UserError` where the blocks would not give what the whole gives.
        """
        found = self.independence(dim)
        if isinstance(found, Mixture):
            fix = (
                "joinery.load(path) and a call with all rows, or --independent" if what == "batch" else
                f"one block along {dim!r} (dask: x.rechunk({{axis: -1}}), xarray: x.chunk({{dim: -1}})), or independent=[…] "
                "with its name"
            )  # fmt: skip
            raise UserError(
                f"{what}: model {self.name!r} cannot be computed in blocks along {dim!r}: {found}; fix: {fix} if you know "
                "better"
            )
        return _present(found, self, dim, what)

    def believed(self, dim: str, what: str) -> dict[str, Along]:
        """Return where each output has a dim of which the caller says that blocks along it are independent."""
        found: dict[str, State] = {}
        for spec in self.outputs:
            axes = [axis for axis, extent in enumerate(spec.shape) if getattr(extent, "name", None) == dim]
            found[spec.name] = Along(axes[0]) if len(axes) == 1 else None
        return _present(found, self, dim, what)


def _present(found: dict[str, State], signature: Signature, dim: str, what: str) -> dict[str, Along]:
    known = {name: along for name, along in found.items() if along is not None and along.outer == 1}
    for spec in signature.outputs:
        if spec.name not in known:
            raise UserError(
                f"{what}: output {spec.text} of model {signature.name!r} has no axis {dim!r}, so blocks along it cannot be put "
                f"together; fix: one block along {dim!r}"
            )
    return known


@lru_cache(maxsize=64)
def _independence(graph: Graph, dim: str) -> dict[str, State] | Mixture:
    return independence(graph, dim)


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
