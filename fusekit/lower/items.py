"""Statements of the flat list, and where they stand."""

from __future__ import annotations

from dataclasses import dataclass

from fusekit.ids import NodeId
from fusekit.index import Var
from fusekit.lower.contexts import Use
from fusekit.lower.program import Assign, Finish, Load, Test, TileLoad

Path = tuple[tuple[int, int], ...]
"""The loops around a statement: for each, the step of the body that it runs in, and which loop of the order it is."""


@dataclass(frozen=True, slots=True)
class Item:
    """One statement of the flat list.

    ``uses``: values it takes and the tests under which it takes them. ``free``: variables in its index. It stands in
    the loops ``path``, in step ``step`` of the innermost body.
    ``extent``: bytes that a load's whole tensor may touch.
    """

    statement: Load | Assign | Test | Finish | TileLoad
    uses: tuple[Use, ...]
    free: frozenset[Var]
    path: Path = ()
    step: int = 0
    block: NodeId | None = None
    extent: tuple[int, int] = (0, 0)

    @property
    def name(self) -> str:
        return self.statement.name

    @property
    def depth(self) -> int:
        return len(self.path)

    @property
    def lanes(self) -> bool:
        return self.statement.lanes


@dataclass(frozen=True, slots=True)
class Result:
    """What finishes a reduction, and from where on it is there: step ``step`` of the body in the loops ``path``."""

    statement: Finish
    path: Path
    step: int
