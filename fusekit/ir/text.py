"""A graph as text: one fact a line, the same text for the same graph, and ``parse`` reads it back to an equal graph.

Layouts print as ``(shape):(strides)+offset`` in elements, or with a ``b`` after the colon in bytes where elements do
not fit. Source lines are comments. Index variables are ``i0, i1, ...`` (positions in the result) and ``n0, ...``
(numbers of the call).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import isfinite

from fusekit.dtypes import DType
from fusekit.escape import comment, line, literal, phrase, symbol, word
from fusekit.ids import NodeId
from fusekit.index import Form, Var, print_form
from fusekit.ir.arguments import Guard, Number, Operand, Symbol, is_tuple
from fusekit.ir.domain_text import print_domains
from fusekit.ir.graph import Graph
from fusekit.ir.layout import Layout
from fusekit.why import Explanation


def print_graph(graph: Graph, explanations: Iterable[Explanation] = (), *, lines: bool = True) -> str:
    """The text of a graph, and of the explanations as a ``because`` block; ``lines``: with the users' lines."""
    rows = [f"graph {word(graph.name)} {{", *(f"  {row}" for row in _body(graph, lines)), "}"]
    because = print_explanations(explanations)
    return "\n".join([*rows, because] if because else rows) + "\n"


def print_explanations(explanations: Iterable[Explanation]) -> str:
    """One explanation a line: pass, subject, verdict, reason with its facts, evidence."""
    rows = [f"  {print_explanation(e)}" for e in explanations]
    return "\n".join(["because {", *rows, "}"]) if rows else ""


def print_explanation(e: Explanation) -> str:
    facts = ", ".join(f"{word(k)}={v!r}" for k, v in e.reason.facts)
    evidence = f" <- {' '.join(e.evidence)}" if e.evidence else ""
    return line(f"{e.by}: {' '.join(e.subject)} {e.verdict} {e.reason.name}({facts}){evidence}")


def _body(graph: Graph, lines: bool) -> Iterator[str]:
    for var in sorted(_parameters(graph), key=lambda v: v.name):
        yield f"number {var.name} < {var.extent}"
    for node in graph.blocks():
        block = graph.block(node)
        yield f"{node} : {block.nbytes} bytes {word(block.device)} {word(block.kind)}"
    for node in graph.tensors():
        yield f"{node} : {_tensor(graph, node)}"
    for node in graph.ops():
        yield _op_line(graph, node, lines)
    for first, then, ordering in graph.orderings():
        where = f" {literal(ordering.where)}" if ordering.where else ""
        yield f"order {first} -> {then} {' '.join(ordering.kinds)}{where}"
    for node in graph.segments():
        segment = graph.segment(node)
        space = f"[{','.join(map(str, segment.space))}]"
        made = f" by {word(segment.by)}: {phrase(segment.schedule)}" if segment.by else ""
        yield f"segment {node} {word(segment.scheduler)} {space} {{ {' '.join(graph.members(node))} }}{made}"
    for first, then, tensor, boundary in graph.boundaries():
        yield f"boundary {first} -> {then} at {tensor} {boundary.nbytes} bytes"
    yield from print_domains(graph)


def _tensor(graph: Graph, node: NodeId) -> str:
    tensor, lives = graph.tensor(node), graph.lives(node)
    if lives is None:
        return f"{tensor.dtype} [{','.join(map(str, tensor.shape))}]"
    return f"{tensor.dtype} {print_layout(lives.layout)} in {graph.block_of(node)} {word(lives.role)}"


def print_layout(layout: Layout) -> str:
    """``(4,3):(3,1)+0``, in elements; ``(4,3):b(12,4)+2`` in bytes where an element count would be a fraction."""
    width = layout.dtype.width
    whole = layout.offset.is_divisible(width) and all(s % width == 0 for s in layout.strides)
    strides = [s // width for s in layout.strides] if whole else layout.strides
    offset = layout.offset.exact_quotient(width) if whole else layout.offset
    shown = str(offset.const) if offset.is_constant else f"{{{print_form(offset)}}}"
    return f"({','.join(map(str, layout.shape))}):{'' if whole else 'b'}({','.join(map(str, strides))})+{shown}"


def _op_line(graph: Graph, node: NodeId, lines: bool) -> str:
    op = graph.op(node)
    results = ", ".join(graph.results(node))
    out = f"{node} {results + ' ' if results else ''}= {print_call(graph, node)}"
    if op.writes:
        out += f" writes {', '.join(map(str, op.writes))}"
    if op.same:
        out += f" same {', '.join(f'{r}:{o}' for r, o in op.same)}"
    if op.forward:
        out += " forward"
    return out + (f"  # {comment(op.origin)}" if op.origin and lines else "")


def print_call(graph: Graph, node: NodeId) -> str:
    """``aten.add.Tensor(%a, %b, alpha=2)``."""
    op, operands = graph.op(node), graph.operands(node)
    words = [print_arg(a, operands) for a in op.args]
    words += [f"{word(k)}={print_arg(v, operands)}" for k, v in op.kwargs]
    return f"{word(op.target)}({', '.join(words)})"


def print_arg(value: object, operands: tuple[NodeId, ...]) -> str:
    match value:
        case Operand(position):
            return operands[position]
        case Number(index, example):
            return f"<n{index} {print_arg(example, operands)}>"
        case Symbol(name):
            return symbol(name)
        case Guard(form, extent):
            return f"{{0 <= {print_form(form)} < {extent}}}"
        case Form():
            return f"{{{print_form(value)}}}"
        case DType():
            return value.name
        case _ if is_tuple(value):
            return "[" + ", ".join(print_arg(item, operands) for item in value) + "]"
        case float() if not isfinite(value):
            return f"float({str(value)!r})"
        case complex():
            return f"complex({value.real!r}, {value.imag!r})"
        case str():
            return literal(value)
        case _:
            return line(repr(value))


def _parameters(graph: Graph) -> set[Var]:
    """Variables n0, n1, ... with the ranges that forms give them."""
    forms = [graph.layout(node).offset for node in graph.tensors() if not graph.is_value(node)]
    leaves = [
        value.form if isinstance(value, Guard) else value for op in graph.ops() for value in graph.op(op).leaves()
    ]
    forms += [value for value in leaves if isinstance(value, Form)]
    return {var for form in forms for var in form.free if var.kind == "number"}
