"""Is what fusekit did the same as what eager did? Outputs, mutated inputs, aliasing, versions, identity, exceptions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

import torch

from fusekit.escape import line
from fusekit.run.closeness import Tolerance, difference, storage_difference, ulps
from fusekit.run.observe import Named, Outcome
from fusekit.trace.entries import contents, is_array


@dataclass(frozen=True, slots=True)
class Row:
    """One fact that was compared: ``what`` it is about, and what it is in eager and in fusekit."""

    what: str
    eager: str
    fusekit: str
    ok: bool


@dataclass(frozen=True)
class CheckReport:
    """What was compared, fact by fact. Truthy when all facts agree."""

    rows: tuple[Row, ...]
    title: str = ""
    script: Callable[[], str] | None = field(default=None, repr=False, compare=False)

    @property
    def ok(self) -> bool:
        """Is everything the same as eager?"""
        return all(row.ok for row in self.rows)

    @property
    def failures(self) -> tuple[Row, ...]:
        """The rows that differ."""
        return tuple(row for row in self.rows if not row.ok)

    def __bool__(self) -> bool:
        return self.ok

    def repro(self) -> str:
        """A Python script that runs the same check on the same arguments."""
        return self.script() if self.script else "# the arguments of this check were not kept\n"

    def __repr__(self) -> str:
        shown = self.failures or self.rows
        head = f"{line(self.title or 'check')}: " + (
            "the same as eager" if self.ok else f"{len(self.failures)} of {len(self.rows)} facts differ"
        )
        table = [
            ("", "eager", "fusekit"),
            *(tuple(map(line, (f"{'' if row.ok else '! '}{row.what}", row.eager, row.fusekit))) for row in shown),
        ]
        widths = [min(max(len(cells[k]) for cells in table), 60) for k in range(3)]
        return "\n".join(
            [head, *("  ".join(c.ljust(w) for c, w in zip(cells, widths, strict=True)).rstrip() for cells in table)]
        )


def compare(
    eager: Outcome,
    ours: Outcome,
    *,
    tolerance: Tolerance | None = None,
    title: str = "",
    script: Callable[[], str] | None = None,
) -> CheckReport:
    """Compare two outcomes of one program, each from its own clones of the same arguments.

    The outputs are used up: at the end each is overwritten on both sides, and everything is compared once more.
    """
    rows: list[Row] = []
    tolerance = tolerance or Tolerance()
    if eager.error is not None or ours.error is not None:
        rows += _errors(eager, ours, tolerance)
        return CheckReport(tuple(rows), title, script)
    rows.append(_fact("structure", eager.structure, ours.structure))
    rows += _leaves(eager, ours, tolerance)
    rows += _inputs(eager, ours, tolerance)
    rows += _aliases(eager, ours)
    if all(row.ok for row in rows):
        _overwrite(eager.outputs)
        _overwrite(ours.outputs)
        rows += _after_overwrite(eager, ours, tolerance)
    return CheckReport(tuple(rows), title, script)


def _fact(what: str, eager: object, ours: object) -> Row:
    return Row(what, str(eager), str(ours), eager == ours)


def _errors(eager: Outcome, ours: Outcome, tolerance: Tolerance) -> list[Row]:
    kinds = [type(error) for error in (eager.error, ours.error)]
    texts = [_brief(error) for error in (eager.error, ours.error)]
    rows = [Row("raises", texts[0], texts[1], kinds[0] is kinds[1])]
    if eager.error is not None:
        for (name, a), (_, b), before in zip(eager.tensors, ours.tensors, ours.before, strict=True):
            untouched = torch.equal(_raw(b), before)
            same = (
                untouched or storage_difference(a.untyped_storage(), b.untyped_storage(), [a.dtype], tolerance) is None
            )
            rows.append(
                Row(f"{name} after the error", "as eager left it, or untouched", "" if same else "changed", same)
            )
    return rows


def _brief(error: Exception | None) -> str:
    return (
        "nothing" if error is None else f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0][:100]}"
    )


def _raw(tensor: torch.Tensor) -> torch.Tensor:
    storage = tensor.untyped_storage()
    return torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(storage, 0, (storage.nbytes(),), (1,))


# ---- outputs and inputs


def _leaves(eager: Outcome, ours: Outcome, tolerance: Tolerance) -> list[Row]:
    rows: list[Row] = []
    for one, other in zip_longest(eager.leaves, ours.leaves):
        if one is None or other is None:
            path = one[0] if one else other[0] if other else ""
            rows.append(Row(path, "there" if one else "missing", "there" if other else "missing", False))
            continue
        path, want, got = one[0], one[1], other[1]
        if isinstance(want, torch.Tensor) and isinstance(got, torch.Tensor):
            rows.append(_tensor(path, want, got, tolerance))
        else:
            rows.append(Row(path, repr(want)[:40], repr(got)[:40], _is_alike(want, got)))
    return rows


def _is_alike(want: object, got: object) -> bool:
    """Are two values that are no tensors the same? Arrays by contents, NaN as itself."""
    if type(want) is not type(got):
        return False
    if is_array(want):
        return contents(want) == contents(got)
    try:
        return want is got or bool(want == got or want != want)
    except Exception:  # their own comparison cannot tell
        return False


def describe(tensor: torch.Tensor) -> str:
    """``float32 (2, 3):(3, 1) cpu``, and what else can be seen of a tensor."""
    marks = [word for word, holds in (("requires_grad", tensor.requires_grad), ("conj", tensor.is_conj())) if holds]
    kind = "" if type(tensor) is torch.Tensor else f"{type(tensor).__name__} "
    dtype = str(tensor.dtype).removeprefix("torch.")
    return " ".join([f"{kind}{dtype} {tuple(tensor.shape)}:{axes(tensor)} {tensor.device}", *marks])


def axes(tensor: torch.Tensor) -> tuple[int, ...]:
    """Strides of the dimensions longer than one; nothing for a tensor without elements."""
    if tensor.numel() == 0:
        return ()
    return tuple(s for n, s in zip(tensor.shape, tensor.stride(), strict=True) if n > 1)


def _tensor(path: str, want: torch.Tensor, got: torch.Tensor, tolerance: Tolerance) -> Row:
    looks = describe(want), describe(got)
    if looks[0] != looks[1]:
        return Row(path, looks[0], looks[1], False)
    if (words := difference(want, got, tolerance)) is not None:
        return Row(path, looks[0], words, False)
    far = ulps(want, got)
    return Row(path, looks[0], "equal" if not far else f"equal within {far} ulp", True)


def _inputs(eager: Outcome, ours: Outcome, tolerance: Tolerance) -> list[Row]:
    rows: list[Row] = []
    for k, ((name, want), (_, got)) in enumerate(zip(eager.tensors, ours.tensors, strict=True)):
        looks = [f"{describe(t)}+{t.storage_offset()}" for t in (want, got)]
        if looks[0] != looks[1]:
            rows.append(Row(name, looks[0], looks[1], False))
            continue
        words = storage_difference(want.untyped_storage(), got.untyped_storage(), _dtypes(eager, want), tolerance)
        rows.append(Row(f"bytes of {name}", looks[0], words or "equal", words is None))
        moved = ["moved" if outcome.bumped[k] else "stays" for outcome in (eager, ours)]
        rows.append(_fact(f"version of {name}", moved[0], moved[1]))
    return rows


def _dtypes(outcome: Outcome, tensor: torch.Tensor) -> Sequence[torch.dtype]:
    """The element types under which the storage of ``tensor`` is seen."""
    key = tensor.untyped_storage().data_ptr()
    seen = {t.dtype: None for _, t in (*outcome.tensors, *outcome.outputs) if t.untyped_storage().data_ptr() == key}
    return tuple({tensor.dtype: None} | seen)


# ---- who shares with whom


def _aliases(eager: Outcome, ours: Outcome) -> list[Row]:
    """Whether a tensor without elements has memory is not promised: some of eager's ops copy an operand's storage."""
    empty = {name for o in (eager, ours) for name, t in (*o.tensors, *o.outputs) if not t.untyped_storage().nbytes()}
    named = [[(n, t) for n, t in (*o.tensors, *o.outputs) if n not in empty or t.numel()] for o in (eager, ours)]
    classes = [sharing(tuple(tensors)) for tensors in named]
    rows = [Row("sharing", _sharing_text(classes[0]), _sharing_text(classes[1]), classes[0] == classes[1])]
    for group in sorted(classes[0], key=sorted):
        rows += _offsets(eager, ours, group)
    rows.append(_fact("identity", _identities(eager), _identities(ours)))
    return rows


def _offsets(eager: Outcome, ours: Outcome, group: frozenset[str]) -> Iterator[Row]:
    """Where in the memory that it shares each output begins, in bytes.

    Some of eager's ops copy the whole storage of an operand: fresh memory may have less in front of all outputs.
    """
    outputs = [dict(outcome.outputs) for outcome in (eager, ours)]
    paths = sorted(name for name in group if all(name in found for found in outputs) and outputs[0][name].numel())
    starts = [[found[path].storage_offset() * found[path].element_size() for path in paths] for found in outputs]
    is_fresh = group.isdisjoint(name for name, _ in eager.tensors)
    first, other = (min(found, default=0) for found in starts)
    left_out = max(first - other, 0) if is_fresh else 0
    for path, want, got in zip(paths, *starts, strict=True):
        yield _fact(f"offset of {path}", want - left_out, got)


def sharing(tensors: Named) -> set[frozenset[str]]:
    """Names of tensors whose storages' byte ranges meet, one set a block of memory."""
    ranges = sorted(
        (s.data_ptr(), s.data_ptr() + s.nbytes(), name) for name, t in tensors if (s := t.untyped_storage()).nbytes()
    )
    groups: list[set[str]] = []
    end = -1
    for low, high, name in ranges:
        if low >= end:
            groups.append(set())
        groups[-1].add(name)
        end = max(end, high)
    return {frozenset(group) for group in groups if len(group) > 1}


def _sharing_text(classes: set[frozenset[str]]) -> str:
    return "; ".join(" ~ ".join(sorted(group)) for group in sorted(classes, key=sorted)) or "none"


def _identities(outcome: Outcome) -> str:
    """Which outputs are the very object of an argument, a capture or an earlier output."""
    seen = {id(tensor): name for name, tensor in reversed(outcome.tensors)}
    words = []
    for path, tensor in outcome.outputs:
        if id(tensor) in seen:
            words.append(f"{path} is {seen[id(tensor)]}")
        seen.setdefault(id(tensor), path)
    return ", ".join(words) or "all new"


# ---- write through every output, and look again


def _overwrite(outputs: Named) -> None:
    for k, (_, tensor) in enumerate(outputs):
        with torch.no_grad(), torch.inference_mode(tensor.is_inference()):
            tensor.detach().fill_(k % 2 == 0 if tensor.dtype == torch.bool else k + 1)


def _after_overwrite(eager: Outcome, ours: Outcome, tolerance: Tolerance) -> list[Row]:
    """One row for each tensor that differs now; one for all where none does."""
    found: list[tuple[str, str | None]] = []
    for (path, want), (_, got) in zip(eager.outputs, ours.outputs, strict=True):
        found.append((path, difference(want, got, tolerance)))
    for (name, want), (_, got) in zip(eager.tensors, ours.tensors, strict=True):
        storages = want.untyped_storage(), got.untyped_storage()
        found.append((f"bytes of {name}", storage_difference(*storages, _dtypes(eager, want), tolerance)))
    wrong = [Row(f"{what} after writes to outputs", "", words, False) for what, words in found if words is not None]
    return wrong or [Row("all after writes to outputs", "", "equal", True)]
