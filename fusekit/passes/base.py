"""What a pass is: a frozen dataclass whose fields are its options, and a pure call from a graph to the next one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Protocol, runtime_checkable

from fusekit.ids import NodeId
from fusekit.ir import Graph, Invariant, Layout, Op, Operand, PassResult, is_tuple
from fusekit.memory import describe


@runtime_checkable
class Pass(Protocol):
    """``name`` is the step's name; ``expects`` must hold for a graph that goes in, ``ensures`` holds for every one that
    comes out."""

    name: ClassVar[str]
    expects: ClassVar[tuple[Invariant, ...]]
    ensures: ClassVar[tuple[Invariant, ...]]

    def __call__(self, graph: Graph) -> PassResult:
        """The next graph, with an explanation for each edit and each refusal; the same graph gives the same result."""
        ...


def is_view(graph: Graph, op: NodeId) -> bool:
    """Does the op only give other layouts of memory that it takes?"""
    if graph.op(op).writes or not graph.results(op) or not graph.operands(op):
        return False
    homes = {graph.block_of(t) for t in graph.operands(op)}
    return all(not graph.is_value(t) and graph.block_of(t) in homes for t in graph.results(op))


def is_value_op(graph: Graph, op: NodeId) -> bool:
    """Does the op only make values?"""
    return bool(graph.results(op)) and all(graph.is_value(t) for t in graph.results(op))


_METADATA = frozenset(
    {"t_", "transpose_", "squeeze_", "unsqueeze_", "swapaxes_", "swapdims_", "as_strided_", "detach_", "rename_"}
)


def is_metadata(op: Op) -> bool:
    """Does the op change a tensor object's layout, and no byte of memory?"""
    return op.target.split(".")[1] in _METADATA


def shared_elements(one: Layout, other: Layout) -> str:
    """Which elements two layouts share, as a part of the larger: ``element [0,0]``, ``row 3``, ``same elements``."""
    small, large = (one, other) if one.numel <= other.numel else (other, one)
    return describe(small, large)


def tensors_of(value: object, operands: Sequence[NodeId]) -> list[NodeId]:
    """The tensors that an argument of an op mentions, in order."""
    if isinstance(value, Operand):
        return [operands[value.position]]
    return [t for item in items(value) or () for t in tensors_of(item, operands)]


def items(value: object) -> tuple[object, ...] | None:
    """A list among the arguments of an op; None for anything else."""
    return value if is_tuple(value) else None


def argument(op: Op, position: int, name: str, default: object = None) -> object:
    """An argument that may be given by position or by name."""
    return op.args[position] if position < len(op.args) else op.kwarg(name, default)
