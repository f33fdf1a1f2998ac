"""Elements chosen by an index tensor: embedding, index_select, indexing with one tensor, gather.

Eager raises for an index out of bounds, which only the data know. So each of these is a check of its index on real
memory, which raises, and a value, which then reads in bounds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fusekit.dtypes import I32, I64
from fusekit.ids import NodeId
from fusekit.ir import Operand, core
from fusekit.passes.base import items
from fusekit.passes.build import Build, dtype_of, is_empty, shape_of, write
from fusekit.passes.call import Call, Write
from fusekit.passes.values import Value


@dataclass(frozen=True)
class Check:
    """``what`` every element of ``index`` must meet before it is looked up."""

    index: NodeId
    what: core.CheckIndex

    def always_holds(self, value: Value) -> bool:
        """Are the indices numbers that the program itself made, all in bounds?"""
        while isinstance(value.what, core.Window):
            value = value.operands[0]
        match value.what:
            case core.Fill(int(start)):
                ends = (start,)
            case core.Iota(int(start), int(step)):
                ends = (start, start + step * (max(value.numel, 1) - 1))
            case _:
                return False
        size = self.what.size
        return all((-size if self.what.wraps else 0) <= end < size for end in ends)


Step = Write | Check
Lookup = Callable[[Call], "tuple[Step, ...] | None"]


def _taken(call: Call, source: NodeId, index: NodeId, dim: int, check: Check) -> tuple[Step, ...] | None:
    """``source`` with ``index`` along ``dim``. What has nothing to look up in, eager refuses."""
    if dtype_of(call, index) not in (I32, I64) or 0 in shape_of(call, source):
        return None

    def body(b: Build, r: list[Value]) -> Value:
        at = b.values.spread(r[1], r[1].shape or (1,)) if check.what.of == "index_select" else r[1]
        if check.what.wraps:
            at = b.where(b("lt.Scalar", at, 0), b.add(at, check.what.size), at)
        return b.values.take(r[0], at, dim)

    return check, write(call, 0, body, source, index)


def embedding(call: Call) -> tuple[Step, ...] | None:
    weight, index = call.tensor(0, "weight"), call.tensor(1, "indices")
    if weight is None or index is None:
        return None
    size = shape_of(call, weight)[0]
    return _taken(call, weight, index, 0, Check(index, core.CheckIndex(size, 0, "embedding")))


def index_select(call: Call) -> tuple[Step, ...] | None:
    """Along dimension 1 eager's fast path raises RuntimeError (index_select_out_cpu_dim1_), else IndexError."""
    source, dim, index = call.tensor(0, "self"), call.arg(1, "dim"), call.tensor(2, "index")
    if source is None or index is None or type(dim) is not int or not shape_of(call, source):
        return None
    shape = shape_of(call, source)
    dim %= len(shape)
    error = "RuntimeError" if dim == 1 else "IndexError"
    return _taken(call, source, index, dim, Check(index, core.CheckIndex(shape[dim], dim, "index_select", error)))


def index(call: Call) -> tuple[Step, ...] | None:
    """``source[:, index]``: one index tensor, whose negative elements count from the end."""
    source, given = call.tensor(0, "self"), items(call.arg(1, "indices"))
    if source is None or given is None:
        return None
    found = [(k, call.operands[i.position]) for k, i in enumerate(given) if isinstance(i, Operand)]
    if is_empty(call):
        return ()
    if len(found) != 1:
        return None
    dim, at = found[0]
    size = shape_of(call, source)[dim]
    return _taken(call, source, at, dim, Check(at, core.CheckIndex(size, dim, "index", wraps=True)))


def gather(call: Call) -> tuple[Step, ...] | None:
    source, dim, at = call.tensor(0, "self"), call.arg(1, "dim"), call.tensor(2, "index")
    if source is None or at is None or type(dim) is not int:
        return None
    if is_empty(call):
        return ()
    shape = shape_of(call, source)
    if not shape or 0 in shape or len(shape_of(call, at)) != len(shape) or dtype_of(call, at) not in (I32, I64):
        return None
    dim %= len(shape)
    check = Check(at, core.CheckIndex(shape[dim], dim, "gather", "RuntimeError"))
    return check, write(call, 0, lambda b, r: b.values.gather(r[0], r[1], dim), source, at)


RULES: dict[str, Lookup] = {
    "embedding.default": embedding,
    "index_select.default": index_select,
    "index.Tensor": index,
    "gather.default": gather,
}
