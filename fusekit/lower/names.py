"""Names of a kernel: readable, the same for the same graph, never used twice."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Iterable

from fusekit.escape import identifier
from fusekit.ids import NodeId
from fusekit.ir import Number


class Names:
    """Gives names out; words that the source itself needs (helpers, ``range``, types) are taken from the start."""

    def __init__(self, reserved: Iterable[str] = ()):
        self._reserved = {*reserved, *keyword.kwlist, *dir(builtins)}
        self._used = set(self._reserved)
        self.blocks: dict[NodeId, str] = {}
        self.numbers: dict[str, Number] = {}

    def is_reserved(self, word: str) -> bool:
        """Does the source itself need this word?"""
        return word in self._reserved

    def fresh(self, wanted: str) -> str:
        """``wanted`` as an identifier, with ``_1``, ``_2``, ... where it is taken."""
        stem = identifier(wanted)
        if _LOOP.fullmatch(stem):
            stem = f"v_{stem}"
        name, count = stem, 0
        while name in self._used:
            count += 1
            name = f"{stem}_{count}"
        self._used.add(name)
        return name

    def memory(self, block: NodeId) -> str:
        """The parameter that holds the address of a block."""
        if block not in self.blocks:
            stem = block[1:]
            self.blocks[block] = self.fresh(f"m{stem}" if stem.isdigit() else f"m_{stem}")
        return self.blocks[block]

    def number(self, number: Number) -> str:
        """The parameter that holds a number of the graph; index forms call it the same."""
        name = f"n{number.index}"
        self.numbers.setdefault(name, number)
        return name


# i0, k0, ... are loops, n0, n1, ... numbers, bx, tx, ... axes of a launch, u0, v0, ... unrolled loops and vectors
_LOOP = re.compile(r"[iknsuv]\d+|[bt][xyz]|v")
