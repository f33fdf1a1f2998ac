"""A reason is a name with facts; its sentence comes from one table, so that text, tooltip and query agree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fusekit.escape import line, lines
from fusekit.ids import NodeId

Fact = str | int | float | bool

SENTENCES: dict[str, str] = {
    # alias-groups
    "share-memory": "{first} and {second} share memory: {relation}",
    "returns-operand": "the result is operand {operand} itself",
    "view-of": "a view: no bytes of its own",
    "reads-after-write": "reads what {writer} wrote ({where})",
    "writes-after-read": "overwrites what {reader} reads ({where})",
    "writes-after-write": "overwrites what {writer} wrote ({where})",
    "disjoint-in-block": "{first} and {second} lie in one block and share no byte",
    "overlap-unknown": "the search for a shared byte ran out of its budget: counted as overlapping",
    # functionalize
    "write-became-value": "the write is a value now; memory gets the last contents once",
    "read-forwarded": "reads the value that {writer} wrote, not memory",
    "read-composed": "reads what {writer} wrote where it wrote, and older contents elsewhere",
    "flush-end": "the program ends",
    "flush-check": "eager has made these writes when it raises for an index out of bounds",
    "check-index": "{op} raises for an index out of bounds: the indices are looked at before anything uses them",
    "flush-library-call": "a library call reads or writes this block",
    "flush-conservative": "byte ranges of two accesses cross, and one of them writes: a barrier",
    "flush-cut": "the program asks for a boundary here (fk.cut{where})",
    "flush-accident": "eager's result depends on its own loop order: this op runs in eager on real memory",
    "flush-no-relation": "no closed relation between this access and a pending write",
    "flush-overlays": "{count} live overlays",
    "flush-budget": "one element would need {pulls} values: the producers are written to memory first",
    "flush-repeats": "a reduction would be computed {times} times over: the producers are written to memory first",
    "taken-along": "written too, since it still reads {block} before that is overwritten",
    "library-call": "no generated kernel: {because}",
    "only-views": "only a view: nothing to compute",
    "dropped-dead": "nothing observes it",
    "number-is-parameter": "{name} differs from call to call: a kernel parameter",
    "is-computed": "no view: {op} makes it",
    "allocated": "its bytes lie as {chain} of its dimensions",
    # races of a kernel
    "never-meet": "no iteration loads {load} from a byte that one stores as {store}",
    "meet-in-one": "{load} is loaded by the very iteration that stores {store}",
    "meet-across": "{load} is loaded by another iteration than stores {store}: {remedy}",
    "meet-paired": "one iteration loads {load} and stores {store}: it works for all that swap elements with it",
    "remedy-left": "{remedy} for {load}: {why}",
    # tidy
    "casts-joined": "{between} in between holds every value: one cast",
    "cast-and-back": "{dtype} holds every value: there and back is nothing",
    "undone-twice": "{op} of {op} gives what was there",
    "before-repeat": "{op} is computed for {few} elements, not for their {many} repetitions",
    "views-joined": "views of views are one index",
    "view-undone": "computed over {shape} at once: the views in front and behind undo one another",
    "parts-of-one": "{parts} parts of one tensor, put together as they were",
    "computed-already": "{op} is the same",
    # output-aliases
    "view-of-argument": "a view of {base}: nothing is computed, and the view is made after the launches",
    "stored-in-base": "only a view of {base}, which is stored; the view is made after the launches",
    "needed-through-view": "a computation needs it in this shape, {shape}: it is stored in it",
    "base-is-no-simpler": "{base}, of which it is a view, would be no simpler to compute",
    "merge-gap": "dimensions {first} and {second} cannot be one: a step of {stride} elements, where {span} lie inside "
    "it",
    "merge-expanded": "dimensions {first} and {second} cannot be one: one of them repeats its elements",
    "split-expanded": "dimension {dim} repeats its elements, and a part of it cannot join the dimension before",
    "split-remainder": "dimension {dim} of {extent} elements is no multiple of {factor}",
    "order-differs": "dimensions {first} and {second} cannot be one: they lie in memory in the other order",
    "not-expandable": "{first} does not broadcast to {second}",
    # sink-reshapes
    "reshape-sunk": "computed and stored over {shape}, the space in front of the reshape, which is only a view now",
    "needed-in-its-shape": "{op} needs it in the reshaped form, {shape}",
    "sink-divides": "{operand} would need divisions in its index over {shape}",
    # forward
    "forwarded": "{ops} trivial ops travel into {consumers} consumers: {again} bytes to read, stored once {stored}",
    "may-not-travel": "a {kind} does not travel into consumers",
    "would-repeat": "{op} would be computed for every repetition along an expanded axis",
    "written-later": "{place} is written later: what reads it stays in front of that",
    "is-stored": "{place} holds it anyway",
    "taken-from-memory": "{op}, a library call, takes it from memory",
    "cheaper-stored": "computed by each consumer it would move {again} bytes, stored once {stored}",
    # segment
    "one-kernel": "one kernel over {space}: {because}",
    "single-store": "nothing else is stored along with it",
    "whole-graph": "everything that is stored, {count} stores, fits one kernel",
    "shares-memory": "one store overwrites what the other's value reads",
    "shares-values": "the stores share values or loads",
    "same-space": "the stores run over one iteration space",
    "space-differs": "iteration spaces differ ({first} against {second}) and no byte is shared: one kernel would save "
    "only a launch; one shape, or a tensor that both read, would join them",
    "reductions-differ": "one reduces the dimensions {first}, the other {second}, and no byte is shared: one kernel "
    "would save only a launch; reducing the same dimensions, or a tensor that both read, would join them",
    "too-large": "one kernel of both would hold {values} ops, over {limit}; SegmentOps({option}={values}) allows it",
    "must-follow": "{block} must be written before it is read: {because}",
    "in-order": "{then} must come after {first}",
    "cycle": "{through} must run after {first} and before {then}: one launch of both would wait for itself; {change}",
    "no-common-loops": "no nest of loops holds both: {because}; one {first}, the other {second}; {change}",
    "not-tried": "one kernel of both would save {saved} bytes and a launch; what_if(merge=...) tries it",
    "kept-apart": "what_if(split=...) keeps them apart",
    "put-together": "what_if(merge=...) puts them together",
    "asked-order": "what_if(order=...) launches {first} before {then}",
    "stored-once": "a value in memory: {because}",
    "turned": "stored over {shape}, the space of what it permutes: one nest of loops holds both",
    "cannot-lower": "no kernel: {because}",
    "devices-differ": "one stores on {first}, the other on {second}: a kernel runs on one device",
    "cannot-nest": "no nest of loops holds both: {because}",
    "one-element": "one element more, in a kernel that runs anyway",
    "alias-only": "only views of what is there: nothing is launched",
    "computed-again": "{op} is computed in each of these kernels: it is not in memory when the later one runs",
    "extern-call": "{op} is a library call, which no kernel takes in",
    "own-words": "{text}",
    # schedule
    "scheduled-by": "{scheduler}, for {target}: {chain}",
    "runs-over": "the loops run over {space}, the space of {root}",
    "refused-by": "not {scheduler}: {because}",
    "no-scheduler": "no scheduler takes it",
    "does-not-lower": "its loops make no kernel: {because}",
    "copies-more": "it would copy {nbytes} bytes to be safe, more than {other}",
    "copies-as-much": "it would copy as many bytes to be safe",
    "schedule-given": "written by hand: {chain}",
    "not-only-views": "{op} is more than a view",
    "no-library-call": "no library call",
    "computes-nothing": "it stores nothing",
    "has-reductions": "{op} is a reduction ({count} in all)",
    "read-across": "{place} is walked across the innermost loop",
    "read-in-part": "{op} reads a part of a value, or puts one into another",
    "no-reduction": "it has no reduction",
    "folds-differ": "{first} and {second} fold other axes",
    "store-is-larger": "{op} stores more elements than {reduction} folds",
    "reads-again": "{op} needs the elements again after {reduction}",
    "reads-once": "nothing needs the elements again after a reduction",
    "read-along": "everything is walked along the innermost loop",
    "read-whole": "everything is read whole",
}


@dataclass(frozen=True, slots=True)
class Reason:
    """``name`` is a row of SENTENCES; ``facts`` fill its braces."""

    name: str
    facts: tuple[tuple[str, Fact], ...] = ()

    def __post_init__(self) -> None:
        if self.name not in SENTENCES:
            raise KeyError(f"no sentence for the reason {self.name!r}: add it to fusekit.why.SENTENCES")

    @staticmethod
    def of(name: str, **facts: Fact) -> Reason:
        """The reason of that row, with its facts."""
        return Reason(name, tuple(facts.items()))

    @staticmethod
    def say(text: str) -> Reason:
        """A reason in the words of a pass that a user wrote."""
        return Reason.of("own-words", text=text)

    def __getitem__(self, fact: str) -> Fact:
        return dict(self.facts)[fact]

    def __str__(self) -> str:
        return lines(SENTENCES[self.name].format(**dict(self.facts)))


@dataclass(frozen=True, slots=True, repr=False)
class Explanation:
    """What a pass did to ``subject`` or declined to do, why, on which evidence (nodes of the graph before or after)."""

    subject: tuple[NodeId, ...]
    verdict: Literal["did", "declined"]
    reason: Reason
    evidence: tuple[NodeId, ...] = ()
    by: str = ""

    def __repr__(self) -> str:
        mark = "" if self.verdict == "did" else "not done: "
        return line(f"{', '.join(self.subject)}: {mark}{self.reason} [{self.by}]")
