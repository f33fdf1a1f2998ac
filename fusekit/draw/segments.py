"""The view "segments": what runs together, what is launched and moved, why the rest is apart, and each race record."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from fusekit.draw.flow import Flow
from fusekit.draw.notes import Notes
from fusekit.draw.orders import hazards, shown_orders
from fusekit.draw.parts import Cut, Edge, Frame, Part, Picture, Record, Tab
from fusekit.draw.program import input_capsules, last_row
from fusekit.draw.traffic import traffic_text
from fusekit.draw.words import bytes_text, letter_of, plural, segment_text
from fusekit.ids import NodeId
from fusekit.ir import Graph, core
from fusekit.lower.program import Snapshot
from fusekit.lower.record import access_text

if TYPE_CHECKING:
    from fusekit.lower.kernel import Kernel

Kernels = Mapping[NodeId, "Kernel"]
RACES = 8  # rows of a record
CROSS, LONG = "  ×  ", 60
_NO_OPS: frozenset[NodeId] = frozenset()


def segments_picture(graph: Graph, notes: Notes, kernels: Kernels, title: str, note: str) -> Picture:
    """Every op a card in the frame of its segment."""
    flow = _without_idle(graph, Flow(graph, notes).walk())
    capsules, spines, taken = input_capsules(graph, flow, notes)
    cuts, edges = _cuts(graph, flow, notes)
    orders, _ = shown_orders(graph, flow)
    between = [o for o in orders if set(graph.segments_of(o[0])).isdisjoint(graph.segments_of(o[1]))]
    nodes, order_edges = hazards(graph, flow, notes, between)
    frames = [_frame(graph, flow, notes, kernels, s, k) for k, s in enumerate(graph.segments())]
    loose: list[Part] = [part for key, part in flow.parts.items() if flow.home[key] is None and key not in taken]
    records = list(_records(graph, kernels))
    said = note or notes.summary(graph) or segments_note(graph)
    last = [key for key, part in flow.parts.items() if part.node in graph.outputs()] or list(flow.parts)[-1:]
    ties = [Edge(key, record.key, "hidden") for record in records[:1] for key in last]
    ties += [Edge(a.key, b.key, "hidden") for a, b in itertools.pairwise(records)]
    desc = f"{title}. {said}. " + " ".join(_sentence(graph, kernels, s) for s in graph.segments())
    parts = (*capsules, *loose, *frames, *cuts, *nodes, *records)
    rows = (*_first_row(graph, flow, taken), *last_row(graph, flow))
    return Picture(title, said, parts, (*spines, *edges, *order_edges, *ties), desc, rows)


def _first_row(graph: Graph, flow: Flow, taken: set[str]) -> tuple[tuple[str, ...], ...]:
    """Inputs side by side above a single launch; above several, each stands best near the segment that reads it."""
    launching = [s for s in graph.segments() if graph.segment(s).scheduler != "alias"]
    keys = tuple(str(t) for t in graph.inputs() if t in flow.parts and t not in taken)
    return (keys,) if len(launching) == 1 and 1 < len(keys) <= 6 and not taken else ()


def _without_idle(graph: Graph, flow: Flow) -> Flow:
    """Less the inputs that nothing reads under their own name, where another tensor of their block is drawn."""
    busy = {key for edge in flow.edges for key in (edge.tail, edge.head)}
    blocks = {graph.block_of(t) for t in graph.inputs() if t in busy}
    for tensor in graph.inputs():
        if tensor not in busy and graph.block_of(tensor) in blocks:
            del flow.parts[tensor]
    return flow


def segments_note(graph: Graph) -> str:
    """``2 kernels, 1 library call, 1 segment without a launch``."""
    schedulers = [graph.segment(s).scheduler for s in graph.segments()]
    if not schedulers:
        return "not segmented yet"
    externs, aliases = schedulers.count("extern"), schedulers.count("alias")
    words = [plural(len(schedulers) - externs - aliases, "kernel")]
    words += [plural(externs, "library call")] if externs else []
    words += [f"{plural(aliases, 'segment')} without a launch"] if aliases else []
    return ", ".join(words)


def tab_of(graph: Graph, segment: NodeId, kernels: Kernels) -> Tab:
    """Id, scheduler, launches and bytes of a segment."""
    scheduler, kernel = graph.segment(segment).scheduler, kernels.get(segment)
    launches = {"alias": "no kernel", "extern": "1 call"}.get(scheduler, "1 kernel")
    copied = 0
    if kernel is not None and kernel.copies:
        launches += f", {plural(kernel.copies, 'snapshot')}"
        copied = sum(s.last - s.first for s in kernel.program.body if isinstance(s, Snapshot))
    word = "library" if scheduler == "extern" else graph.segment(segment).taken_by
    return Tab(segment_text(segment), word, launches, traffic_text(graph, segment, copied))


def segment_tip(graph: Graph, notes: Notes, segment: NodeId) -> str:
    space = graph.segment(segment).space
    count = plural(len(graph.members(segment)), "op")
    over = f" over [{', '.join(map(str, space))}]" if space else ""
    return notes.tip(f"{segment} {graph.segment(segment).taken_by}, {count}{over}", about=(segment,))


def _sentence(graph: Graph, kernels: Kernels, segment: NodeId) -> str:
    tab = tab_of(graph, segment, kernels)
    return f"{tab.id} {tab.scheduler}, {plural(len(graph.members(segment)), 'op')}, {tab.launches}, {tab.traffic}."


# ---- frames -------------------------------------------------------------------------------------------------------


def _frame(graph: Graph, flow: Flow, notes: Notes, kernels: Kernels, segment: NodeId, parity: int) -> Frame:
    inside = [part for key, part in flow.parts.items() if flow.home[key] == segment]
    early, late = _once(graph, segment, kernels[segment]) if segment in kernels else (_NO_OPS, _NO_OPS)
    first = tuple(part for part in inside if part.node in early)
    last = tuple(part for part in inside if part.node in late)
    parts: tuple[Part | Frame, ...] = tuple(part for part in inside if part.node not in early | late)
    if parts and first:
        parts = (Frame(f"{segment}/before", segment, "phase", Tab("before the loop, once"), first), *parts)
    if parts and last:
        parts = (*parts, Frame(f"{segment}/after", segment, "phase", Tab("after the loop, once"), last))
    parts = parts or tuple(inside)
    empty = graph.segment(segment).scheduler == "alias"
    mark = notes.mark(segment)
    return Frame(
        segment, segment, "empty" if empty else "segment", tab_of(graph, segment, kernels), parts, parity,
        mark if mark == "added" else "", "", segment_tip(graph, notes, segment),
    )  # fmt: skip


def _once(graph: Graph, segment: NodeId, kernel: Kernel) -> tuple[frozenset[NodeId], frozenset[NodeId]]:
    """Ops that the kernel computes in front of its first loop and nowhere else, and those behind its last one; each
    with the windows that only they use. What stands between two loops is in neither."""
    body = kernel.program.body
    loops = [k for k, statement in enumerate(body) if _has_loop(statement)]
    if not loops:
        return _NO_OPS, _NO_OPS
    parts = (body[: loops[0]], body[loops[0] : loops[-1] + 1], body[loops[-1] + 1 :])
    before, inside, after = ({op for statement in part for op in _ops(statement)} for part in parts)
    early, late = before - inside - after, after - inside - before
    return _with_windows(graph, segment, early, inside | after), _with_windows(graph, segment, late, before | inside)


def _with_windows(graph: Graph, segment: NodeId, ops: set[NodeId], others: set[NodeId]) -> frozenset[NodeId]:
    """A window has no statement of its own: it stands with the ops that read it."""
    found = set(ops)
    for op in reversed(graph.members(segment)):
        users = {user for t in graph.results(op) for user in graph.users(t)}
        if isinstance(graph.what(op), core.Window) and op not in others and users and users <= found:
            found.add(op)
    return frozenset(found)


def _has_loop(statement: object) -> bool:
    return type(statement).__name__ == "For" or any(_has_loop(s) for s in getattr(statement, "body", ()))


def _ops(statement: object) -> Iterator[NodeId]:
    yield from getattr(statement, "ops", ())
    for inner in getattr(statement, "body", ()):
        yield from _ops(inner)


# ---- boundaries ---------------------------------------------------------------------------------------------------


def _cuts(graph: Graph, flow: Flow, notes: Notes) -> tuple[list[Cut], list[Edge]]:
    """Arrows from segment to segment lead through a double bar with the reason; one bar a tensor and pair."""
    crossing = {(a, b, t): boundary for a, b, t, boundary in graph.boundaries()}
    cuts: dict[str, Cut] = {}
    edges: list[Edge] = []
    for edge in flow.edges:
        found = _crossing(graph, flow, edge, crossing.keys())
        if found is None or edge.look == "ghost":
            edges.append(edge)
            continue
        first, then, tensor = found
        key = f"{first}|{then}|{tensor}"
        if key not in cuts:
            reasons = notes.reasons(first, then)
            reason = (
                _plain(graph, reasons[0]) if reasons else f"{bytes_text(crossing[found].nbytes)} written, then read"
            )
            cuts[key] = Cut(key, key, reason, "\n".join([_crosses(graph, *found), *reasons]))
            edges.append(Edge(edge.tail, key, edge.look, headless=True))
        edges.append(Edge(key, edge.head, edge.look))
    return list(cuts.values()), edges


def _crosses(graph: Graph, first: NodeId, then: NodeId, tensor: NodeId) -> str:
    size = bytes_text(graph.layout(tensor).nbytes)
    return f"{tensor} crosses from {segment_text(first)} to {segment_text(then)}, {size}"


def boundary_tips(graph: Graph, notes: Notes) -> dict[tuple[str, str], str]:
    """What crosses between two segments, and why the two are not one: the tooltip of an arrow between them."""
    found: dict[tuple[str, str], list[str]] = {}
    for first, then, tensor, _ in graph.boundaries():
        found.setdefault((first, then), []).append(_crosses(graph, first, then, tensor))
    return {pair: "\n".join([*lines, *notes.reasons(*map(NodeId, pair))]) for pair, lines in found.items()}


def _crossing(graph: Graph, flow: Flow, edge: Edge, known: object) -> tuple[NodeId, NodeId, NodeId] | None:
    """The boundary that an arrow crosses, if the graph has one for it."""
    tail, head = flow.parts[edge.tail], flow.parts[edge.head]
    then = flow.home[edge.head]
    for first, second, tensor in known:  # type: ignore[attr-defined]
        made = tensor if graph.is_value(tensor) or not graph.has_producer(tensor) else graph.producer(tensor)
        if second == then and tail.node in (tensor, made) and then != flow.home[edge.tail] and head.node != tensor:
            return first, second, tensor
    return None


def _plain(graph: Graph, sentence: str) -> str:
    """The reason with blocks by letter, without the name of the pass and what would mend it; the tooltip has both."""
    reason = (sentence.partition(": ")[2] or sentence).partition("; ")[0]
    return re.sub(r"@\d+", lambda found: f"block {letter_of(graph, NodeId(found[0]))}", reason)


# ---- race records -------------------------------------------------------------------------------------------------


def _records(graph: Graph, kernels: Kernels) -> Iterator[Record]:
    for segment in graph.segments():
        kernel = kernels.get(segment)
        rows = tuple(dict.fromkeys(_race_row(graph, race) for race in kernel.races)) if kernel is not None else ()
        if rows:
            short = rows if len(rows) <= RACES else tuple(_some(rows))
            more = ((f"and {len(short) - RACES} rows more", ""),) if len(short) > RACES else ()
            yield Record(f"{segment}/races", segment, f"Race record of {segment_text(segment)}", short[:RACES] + more)


def _some(rows: tuple[tuple[str, str], ...]) -> Iterator[tuple[str, str]]:
    """Of the pairs with one remedy one, and how many more there are; a long one takes two rows."""
    count = Counter(about for _, about in rows)
    for text, about in {about: (text, about) for text, about in reversed(rows)}.values():
        load, cross, store = text.partition(CROSS)
        yield from [(text, about)] if len(text) <= LONG else [(load, about), (f"{cross}{store}".strip(), "")]
        if count[about] > 1:
            yield f"and {plural(count[about] - 1, 'pair')} more", about


def _race_row(graph: Graph, race: object) -> tuple[str, str]:
    load, store = race.load, race.store  # type: ignore[attr-defined]
    verdict, remedy = race.verdict.value, race.remedy  # type: ignore[attr-defined]
    about = verdict if verdict == "never" else f"{verdict}: {'free' if remedy in ('', 'none needed') else remedy}"
    return f"load {access_text(graph, load)}{CROSS}store {access_text(graph, store)}", about
