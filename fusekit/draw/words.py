"""What a compiler engineer reads for a node of the graph: names, types, bytes, and index forms as Python writes them.

Every word comes from the graph; nothing here knows a picture.
"""

from __future__ import annotations

from fusekit.dtypes import DType
from fusekit.ids import NodeId
from fusekit.index import Form, Var, print_form
from fusekit.ir import Graph, Guard, Layout, Number, Op, Operand, Symbol, Tensor, core
from fusekit.memory.inverse import Kind
from fusekit.memory.relation import relate
from fusekit.ops import is_pointwise
from fusekit.passes.base import is_view
from fusekit.passes.decompositions import DECOMPOSITIONS
from fusekit.passes.lookups import RULES as LOOKUPS
from fusekit.passes.movement import RULES

REDUCTIONS = frozenset({
    "all", "amax", "amin", "aminmax", "any", "argmax", "argmin", "count_nonzero", "linalg_vector_norm", "logsumexp",
    "max", "mean", "median", "min", "nanmean", "nansum", "norm", "prod", "std", "std_mean", "sum", "var", "var_mean",
})  # fmt: skip
VALUE_VIEWS = core.Window | core.Overlay | core.Bits
_OURS: dict[type[core.Ours], str] = {
    core.Input: "inputs", core.Return: "return", core.Load: "load", core.Store: "store", core.Window: "window",
    core.Overlay: "overlay", core.Fill: "fill", core.Iota: "count up", core.Cast: "to", core.Bits: "bits as",
    core.Reduce: "reduce", core.Take: "take", core.Gather: "gather", core.CheckIndex: "check index",
}  # fmt: skip


def type_text(tensor: Tensor) -> str:
    """``f32[8,128]``."""
    return f"{tensor.dtype}{shape_text(tensor.shape)}"


def shape_text(shape: tuple[int, ...]) -> str:
    return f"[{','.join(map(str, shape))}]"


def bytes_text(count: int) -> str:
    """``12 B``, ``256.5 KiB``, ``4.0 MiB``."""
    if count < 1024:
        return f"{count} B"
    power = min((count.bit_length() - 1) // 10, 4)
    size, unit = count / 1024**power, ("B", "KiB", "MiB", "GiB", "TiB")[power]
    return f"{size:.1f} {unit}" if size < 100 or unit == "KiB" else f"{size:.0f} {unit}"


def plural(count: int, word: str) -> str:
    """``1 op``, ``3 ops``, ``2 copies``."""
    many = word[:-1] + "ies" if word.endswith("y") and word[-2] not in "aeo" else word + "s"
    return f"{count:,} {word if count == 1 else many}"


def line_text(op: Op) -> str:
    return f"line {op.origin.line}" if op.origin else ""


def segment_text(segment: NodeId) -> str:
    """``$0`` -> ``S0``."""
    return "S" + segment[1:]


def letter_of(graph: Graph, block: NodeId | None) -> str:
    """A, B, ... for ``@0``, ``@1``, ...; so a block keeps its letter from step to step. "" for no block."""
    if block is None:
        return ""
    number = int(block[1:]) if block[1:].isdigit() else graph.blocks().index(block)
    letters = ""
    while number >= 0:
        number, rest = divmod(number, 26)
        letters, number = chr(65 + rest) + letters, number - 1
    return letters


# ---- ops ----------------------------------------------------------------------------------------------------------


def base_name(op: Op) -> str:
    """``aten.add_.Tensor`` -> ``add_``; of another library's op the name alone, too."""
    if not isinstance(op.what, core.Call):
        return _OURS[type(op.what)]
    parts = op.target.split(".")
    name = parts[1] if len(parts) > 1 else op.target
    return name.lstrip("_") or name


def op_title(graph: Graph, node: NodeId) -> str:
    """The name of an op with the numbers it takes: ``mul 0.5``, ``to f32``, ``fill 0``."""
    op = graph.op(node)
    name = base_name(op)
    match op.what:
        case core.Cast() | core.Bits() | core.Call("aten._to_copy.default"):
            return f"{name.removesuffix('_copy')} {graph.tensor(graph.results(node)[0]).dtype}"
        case core.Fill(value):
            return f"{name} {argument_text(value)}"
        case core.Reduce(kind):
            return kind
        case core.Call():
            pass
        case _:
            return name
    numbers = [argument_text(a) for a in op.args if isinstance(a, (int, float, Number)) and not isinstance(a, bool)]
    text = " ".join(numbers[:2])
    return f"{name} {text}" if text and len(text) <= 14 and is_pointwise(op.target) else name


def op_kind(graph: Graph, node: NodeId) -> str:
    """Which icon and frame: pointwise, reduction, view, in-place, library, constant."""
    op = graph.op(node)
    if isinstance(op.what, VALUE_VIEWS):
        return "view"
    if isinstance(op.what, core.Fill | core.Iota):
        return "constant"
    if isinstance(op.what, core.Reduce):
        return "reduction"
    if not isinstance(op.what, core.Call):
        return "pointwise"
    if any(graph.segment(s).scheduler == "extern" for s in graph.segments_of(node)):
        return "library"
    if op.writes:
        return "in-place"
    if is_view(graph, node):
        return "view"
    if is_reduction(graph, node):
        return "reduction"
    overload = op.target.removeprefix("aten.")
    if overload in DECOMPOSITIONS and overload not in LOOKUPS:
        return "reduction"
    if not is_pointwise(op.target) and overload.partition(".")[0] not in RULES and overload not in LOOKUPS:
        return "library"
    return "pointwise" if graph.operands(node) else "constant"


def is_reduction(graph: Graph, node: NodeId) -> bool:
    """By name; ``max`` and ``min`` of two tensors are none."""
    operands, results = graph.operands(node), graph.results(node)
    if base_name(graph.op(node)) not in REDUCTIONS or not results or not operands:
        return False
    return len(operands) == 1 or graph.tensor(results[0]).shape != graph.tensor(operands[0]).shape


def op_detail(graph: Graph, node: NodeId) -> str:
    """The second line of a card: the type of the result, or what a view takes from where."""
    op, operands, results = graph.op(node), graph.operands(node), graph.results(node)
    match op.what:
        case core.Window(index):
            return window_text(graph, node, index)
        case core.Overlay(_, where):
            return overlay_text(graph, node, where)
        case core.Reduce(_, dims):
            return reduce_text(graph, node, dims)
        case core.Take(dim) | core.Gather(dim):
            source, at = (tensor_text(graph, t) for t in operands)
            return f"of {source}, by {at} along {dim}"
        case _:
            pass
    if op.writes and operands:
        return "writes " + ", ".join(place_text(graph, operands[k]) for k in op.writes)
    if not results:
        return ""
    reduces = is_reduction(graph, node)
    types = ", ".join(type_text(graph.tensor(t)) for t in results)
    if operands and (reduces or is_view(graph, node)):
        after = types if reduces else ", ".join(shape_text(graph.tensor(t).shape) for t in results)
        return f"{shape_text(graph.tensor(operands[0]).shape)} → {after}"
    return types


def reduce_text(graph: Graph, node: NodeId, dims: tuple[int, ...]) -> str:
    """``over 4·16·16 → f32[2,32]``."""
    shape = graph.tensor(graph.operands(node)[0]).shape
    sizes = [str(shape[k]) for k in dims]
    types = ", ".join(type_text(graph.tensor(t)) for t in graph.results(node))
    return f"over {'·'.join(sizes) or 'nothing'} → {types}"


def argument_text(value: object) -> str:
    """A constant argument, short."""
    match value:
        case Number(index, example):
            return f"n{index} ({_number(example)})"
        case Operand():
            return "·"
        case Symbol(name):
            return name.removeprefix("torch.").removeprefix("device:")
        case DType():
            return value.name
        case Form():
            return print_form(value)
        case tuple():
            return f"[{', '.join(argument_text(v) for v in value)}]"  # pyright: ignore[reportUnknownVariableType]
        case bool() | int() | float():
            return _number(value)
        case _:
            return str(value)


def _number(value: float) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


# ---- tensors ------------------------------------------------------------------------------------------------------


def tensor_text(graph: Graph, tensor: NodeId) -> str:
    """What to call a tensor: its name in the program, else what made it, else its id."""
    payload = graph.tensor(tensor)
    if graph.has_producer(tensor):
        op = graph.producer(tensor)
        match graph.what(op):
            case core.Load():
                return tensor_text(graph, graph.operands(op)[0])
            case core.Cast() | core.Fill() | core.Reduce():
                return op_title(graph, op)
            case _ if graph.is_value(tensor):
                return base_name(graph.op(op))
            case _:
                pass
    return payload.name or tensor[1:]


def place_text(graph: Graph, tensor: NodeId) -> str:
    """A place by name, and where it lies in the first input of its block: ``b = a[0,0]``."""
    name = tensor_text(graph, tensor)
    block = graph.block_of(tensor)
    base = next((t for t in graph.inputs() if graph.block_of(t) == block), None)
    if base is None or base == tensor or graph.layout(base) == graph.layout(tensor):
        return name
    where = region_text(graph.layout(tensor), graph.layout(base))
    return f"{name} = {tensor_text(graph, base)}{where}" if where else name


def region_text(layout: Layout, base: Layout) -> str:
    """Where in ``base`` a layout lies, as Python indexes: ``[0,0]``, ``[1:]``; "" where there is no such text."""
    relation = relate(layout, base)
    return (index_text(relation.index, base.shape) or "") if relation.kind is Kind.INSIDE else ""


# ---- index forms --------------------------------------------------------------------------------------------------


def window_text(graph: Graph, node: NodeId, index: core.Index) -> str:
    """``of exp, at [0,0]``; ``of w, axes 1, 0``; ``of x, [2,128] → [2,32,4]``."""
    source = graph.operands(node)[0]
    shape = graph.tensor(source).shape
    result = graph.tensor(graph.results(node)[0]).shape
    what = f"of {tensor_text(graph, source)}"
    if len(index) != len(shape):
        return what
    if spread := _spread_text(index, shape, result):
        return f"{what}, {spread}"
    if text := index_text(index, shape):
        return f"{what}, at {text}"
    if all(isinstance(a, Var) for form in index for a, _ in form.terms):
        return f"{what}, at [{', '.join(map(print_form, index))}]"
    return f"{what}, {shape_text(shape)} → {shape_text(result)}"


def overlay_text(graph: Graph, node: NodeId, where: tuple[Guard, ...]) -> str:
    """``tanh over exp, at [0,0]``; ``mul over a where i0 + i1 < 4``."""
    base, over = graph.operands(node)
    what = f"{tensor_text(graph, over)} over {tensor_text(graph, base)}"
    if not where:
        return f"{what}, everywhere"
    return f"{what}, {guards_text(where, graph.tensor(base).shape)}"


def guards_text(guards: tuple[Guard, ...], shape: tuple[int, ...]) -> str:
    """``at [0,1:]`` where the guards are a box of the shape, else ``where`` and the conditions."""
    box = [(0, n) for n in shape]
    for guard in guards:
        form, extent = guard
        (atom, c), *more = form.terms or ((None, 0),)
        axis = _axis(atom)
        if more or c != 1 or axis is None or axis >= len(shape):
            return "where " + " and ".join(map(guard_text, guards))
        low, high = box[axis]
        box[axis] = max(low, -form.const), min(high, extent - form.const)
    pieces = [
        _slice(low, high, 1, n) if high - low != 1 or n == 1 else str(low)
        for (low, high), n in zip(box, shape, strict=True)
    ]
    return f"at [{_joined(pieces)}]"


def guard_text(guard: Guard) -> str:
    """``0 <= form < extent`` with what is known left out: ``i0 == 2``, ``i0 >= 1``, ``i0 + i1 < 4``."""
    form, extent = guard
    least, most = form.bounds
    low, high = -form.const, extent - form.const
    text = print_form(form - form.const)
    if extent == 1:
        return f"{text} == {low}"
    if least >= 0:
        return f"{text} < {high}"
    return f"{text} >= {low}" if most < extent else f"{low} <= {text} < {high}"


def index_text(index: tuple[Form, ...], shape: tuple[int, ...]) -> str | None:
    """Index forms as Python would write them, ``[0,1:,::2]``; None where they are no list of numbers and slices."""
    pieces, last = [], -1
    for form, size in zip(index, shape, strict=True):
        moving = [(atom, c) for atom, c in form.terms if _axis(atom) is not None or not isinstance(atom, Var)]
        if not moving:
            pieces.append(":" if size == 1 and form == Form() and len(shape) > 1 else print_form(form))
            continue
        (atom, step), *more = moving
        axis = _axis(atom)
        if more or axis is None or axis <= last or not isinstance(atom, Var):
            return None
        last = axis
        start = form - Form.of(atom) * step
        if start.is_constant:
            stop = start.const + step * (atom.extent - 1) + (1 if step > 0 else -1)
            pieces.append(_slice(start.const, stop, step, size))
        elif step == 1:  # a number of the call moves it
            pieces.append(f"{print_form(start)}:{print_form(start + atom.extent)}")
        else:
            return None
    return f"[{_joined(pieces)}]" if pieces else "[]"


def _spread_text(index: tuple[Form, ...], shape: tuple[int, ...], result: tuple[int, ...]) -> str | None:
    """A broadcast, or a plain permutation of axes."""
    axes = [_axis(form.terms[0][0]) if len(form.terms) == 1 and form.const == 0 else None for form in index]
    whole = all(
        (axis is not None and form.terms[0][1] == 1 and result[axis] == n)
        or (form.is_constant and n == 1 and form.const == 0)
        for axis, form, n in zip(axes, index, shape, strict=True)
    )
    real = [axis for axis in axes if axis is not None]
    if not whole or len(set(real)) != len(real):
        return None
    if real == sorted(real):
        return f"{shape_text(shape)} → {shape_text(result)}"
    if len(real) == len(result):
        order = sorted(range(len(axes)), key=lambda k: axes[k] or 0)
        return f"axes {', '.join(map(str, order))}"
    return None


def _axis(atom: object) -> int | None:
    return int(atom.name[1:]) if isinstance(atom, Var) and atom.kind == "loop" else None  # of loop_vars: i0, i1, ...


def _slice(low: int, high: int, step: int, size: int) -> str:
    if step < 0:
        first, last = ("" if low == size - 1 else str(low)), ("" if high < 0 else str(high))
        return f"{first}:{last}:{step}"
    first, last = ("" if low == 0 else str(low)), ("" if high + step > size else str(high))
    return f"{first}:{last}" + (f":{step}" if step != 1 else "")


def _joined(pieces: list[str]) -> str:
    while len(pieces) > 1 and pieces[-1] == ":":  # as Python may leave them out
        pieces = pieces[:-1]
    return ",".join(pieces)
