"""What a recording is: a graph, and how its inputs are found again and its outputs put together at a call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import CodeType
from typing import Any, Protocol

import torch

from fusekit.ir import Graph, Number
from fusekit.trace.foreign import Seen
from fusekit.trace.program import Call, Program
from fusekit.trace.reach import MISSING, Entry
from fusekit.trace.results import Structure
from fusekit.trace.swap import TorchCall


@dataclass(frozen=True, slots=True)
class Argument:
    """The input is leaf number ``leaf`` of ``tree_flatten((args, kwargs))``."""

    leaf: int
    path: str


@dataclass(frozen=True, slots=True)
class Capture:
    """The input is read again at each call: ``entry.read()``."""

    entry: Entry


@dataclass(frozen=True, slots=True, eq=False)
class Constant:
    """The input is a tensor that the program holds: never written, since literals are copied first."""

    tensor: torch.Tensor


Source = Argument | Capture | Constant


def source_name(source: Source) -> str:
    """How a person would call it: ``argument [0][1]``, ``self.weight``."""
    match source:
        case Argument():
            return f"argument {source.path}"
        case Capture():
            return source.entry.path
        case Constant():
            return "a constant"


class Sourced(Protocol):
    """What knows where each result of ``^in`` comes from."""

    @property
    def inputs(self) -> Sequence[Source]: ...


def tensors_of(sources: Sequence[Source], leaves: Sequence[Any], read: Callable[[Entry], Any]) -> list[Any]:
    """The tensors of a call for the results of ``^in``, in order; ``MISSING`` where a leaf or a place is gone."""
    return [
        (leaves[source.leaf] if source.leaf < len(leaves) else MISSING)
        if isinstance(source, Argument)
        else read(source.entry)
        if isinstance(source, Capture)
        else source.tensor
        for source in sources
    ]


@dataclass(frozen=True, slots=True, eq=False)
class Output:
    """One output leaf: operand ``operand`` of ``fk.return``, or (``operand`` None) the plain ``value``."""

    operand: int | None
    value: Any = None


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    """A function as a program-stage graph, for one key.

    ``inputs``: where each result of ``^in`` comes from, in order. ``outputs``: the leaves, to be put into
    ``out_spec``. ``guards``: places whose values the function may have read. ``watched``: named places of every
    tensor that took part. ``objects``: what the Symbols ``leaf:<n>`` and ``object:<n>`` in the graph mean (a leaf
    number or the object). ``grad``: recorded with grad on: replay under no_grad (nothing that leaves carries a
    gradient). ``is_exact``: storages matter as such. ``parameters``: for each Number of the graph, its position in
    the numbers of ``signature``.
    """

    graph: Graph
    inputs: tuple[Source, ...]
    outputs: tuple[Output, ...]
    out_spec: Structure
    guards: tuple[Entry, ...]
    watched: tuple[Entry, ...]
    ambient: tuple[Any, ...]
    objects: dict[str, Any]
    grad: bool
    is_exact: bool
    program: Program
    script: tuple[TorchCall, ...] = field(repr=False)
    fakes: tuple[torch.Tensor, ...] = field(repr=False)  # of the caller's tensors, in the order of their first use
    out_fakes: tuple[Any, ...] = field(repr=False)  # the stand-in of each output leaf that is a tensor
    parameters: tuple[int, ...] = ()
    sites: dict[tuple[int, str], Number] = field(default_factory=dict, repr=False)  # (call, argument) -> parameter
    codes: frozenset[CodeType] = field(default=frozenset(), repr=False)  # what ran, whose reads ``guards`` know
    foreign: Seen = ()  # foreign calls, with the layouts of their results that the program assumes
    is_wide: bool = False  # names were made at run time: the guards are of all that the function reaches

    def tensors(self, leaves: Sequence[Any], read: Callable[[Entry], Any] = Entry.read) -> list[Any]:
        """The tensors of a call for the results of ``^in``, in order; ``MISSING`` where a leaf or a place is gone.

        ``leaves`` are the call's flattened (args, kwargs); ``read`` gives what is at the place of a capture now.
        """
        return tensors_of(self.inputs, leaves, read)

    def result(self, flat: Sequence[Any], call: tuple[Sequence[Any], Mapping[str, Any]]) -> Any:
        """The result of a call with these args and kwargs, whose output leaves are ``flat``."""
        build = self.out_spec.builder()
        return build(flat, *call) if self.out_spec.given else build(flat)

    @property
    def calls(self) -> tuple[Call, ...]:
        """The recorded ATen calls in order, overloads and all."""
        return self.program.calls

    @property
    def name(self) -> str:
        return self.graph.name

    @property
    def examples(self) -> tuple[int | float, ...]:
        """The graph's parameters as they were recorded."""
        return tuple(number.example for number in self.graph.numbers())
