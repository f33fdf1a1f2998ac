"""A relation in a few words, for pictures and reasons."""

from __future__ import annotations

from fusekit.index import Form, Var, loop_vars, print_form
from fusekit.ir import Layout
from fusekit.memory.inverse import Kind, Relation
from fusekit.memory.overlap import Overlap, overlap, shared_bytes
from fusekit.memory.relation import relate


def describe(layout: Layout, region: Layout) -> str:
    """What ``layout`` is of ``region``: "same elements", "row 3", "columns 1::2", "transpose", "shift by 4 (...)".

    Ranges name their first and last: "rows 2 to 8". Layouts that meet in no simple way are counted.
    """
    found = relate(layout, region)
    if found.kind is Kind.DISJOINT:
        return "no common element"
    if found.kind is Kind.INSIDE:
        return _cast(_inside(layout, region, found), layout, region)
    back = relate(region, layout)
    if back.kind is Kind.INSIDE:
        return f"all, as {_cast(_inside(region, layout, back), region, layout)} of it"
    if by := _shift(layout, region, found):
        return _cast(f"shift by {by}{_counted(layout, region)}", layout, region)
    if layout.dtype != region.dtype and overlap(layout, region) is Overlap.SAME:
        return f"reinterpreted as {layout.dtype}"
    return _cast(_count(layout, region) or "some elements", layout, region)


def _cast(text: str, layout: Layout, region: Layout) -> str:
    if layout.dtype == region.dtype:
        return text
    return f"reinterpreted as {layout.dtype}" + ("" if text == "same elements" else f", {text}")


def _counted(layout: Layout, region: Layout) -> str:
    count = _count(layout, region)
    return f" ({count})" if count else ""


def _count(layout: Layout, region: Layout) -> str:
    """Like "12 of 16 elements" of the region, in bytes where elements do not match."""
    shared = shared_bytes(layout, region)
    if shared is None:
        return ""
    unit, word = region.dtype.width, "elements"
    if layout.dtype.width != unit or shared % unit:
        unit, word = 1, "bytes"
    return f"{shared // unit} of {region.nbytes // unit} {word}"


def _shift(layout: Layout, region: Layout, found: Relation) -> str:
    """Like "4" or "(1, -2)" where every digit is its own loop variable plus a constant, "4 elements" across rows."""
    if layout.shape != region.shape or layout.strides != region.strides or found.kind is not Kind.PARTIAL:
        return ""
    moves = [digit - own for digit, own in zip(found.index, loop_vars(layout.shape), strict=True)]
    moving = [m for m, n in zip(moves, layout.shape, strict=True) if n > 1]
    if any(_moves_with_loop(m) for m in moving):
        delta = layout.offset - region.offset
        return f"{print_form(delta.exact_quotient(layout.dtype.width))} elements"
    texts = [print_form(m) for m in moving]
    return texts[0] if len(texts) == 1 else f"({', '.join(texts)})"


def _moves_with_loop(form: Form) -> bool:
    return any(var.kind == "loop" for var in form.free)


# ---- a layout inside a region ---------------------------------------------------------------------------------------


def _inside(layout: Layout, region: Layout, found: Relation) -> str:
    moving = [(k, digit, n) for k, (digit, n) in enumerate(zip(found.index, region.shape, strict=True)) if n > 1]
    own = [form for form in loop_vars(layout.shape) if form.terms]
    digits = [digit for _, digit, _ in moving]
    if digits == own and all(_is_whole(d, n) for _, d, n in moving):
        return "same elements"
    if digits and not any(_moves_with_loop(d) for d in digits):
        return f"{_element(found.index)}{', repeated' if own else ''}"
    if (order := _slices(digits, own)) is None:
        if len(own) == 1 and set(digits) == set(own):
            whole = layout.numel == min(n for _, _, n in moving)
            return "diagonal" if whole else f"first {layout.numel} of the diagonal"
        if layout.numel == region.numel and overlap(layout, region) is Overlap.SAME:
            return "same elements, another shape"
        return f"{layout.numel} of {region.numel} elements"
    if digits != own and all(_is_whole(d, n) for _, d, n in moving):
        return "transpose" if len(digits) == len(own) else "same elements, repeated"
    if sorted(digits, key=str) != sorted(own, key=str) and all(_is_flip_or_whole(d, n) for _, d, n in moving):
        return "flip" if order else "flip, transpose"
    repeated = len(own) > sum(_moves_with_loop(d) for d in digits)
    words = [_part(digit, n) for digit, n in zip(found.index, region.shape, strict=True)]
    return _named(words, region.shape) + ("" if order else ", transposed") + (", repeated" if repeated else "")


def _element(index: tuple[Form, ...]) -> str:
    return f"element [{','.join(print_form(d) for d in index)}]"


def _slices(digits: list[Form], own: list[Form]) -> bool | None:
    """Has every digit at most one loop variable, its own? True in the order of the loops, False in another."""
    seen: list[Var] = []
    for digit in digits:
        variables = [v for v in digit.free if v.kind == "loop"]
        if len(variables) > 1 or any(not isinstance(atom, Var) for atom, _ in digit.terms):
            return None
        seen += variables
    if len(set(seen)) < len(seen):
        return None
    positions = [own.index(Form.of(v)) for v in seen]
    return positions == sorted(positions)


def _bounds(digit: Form, n: int) -> tuple[int, int, int] | None:
    """(first, last, step) of a digit on its loop, None where a parameter moves it."""
    if any(isinstance(atom, Var) and atom.kind != "loop" for atom, _ in digit.terms):
        return None
    (var, step), *_ = digit.terms
    assert isinstance(var, Var)
    return digit.const, digit.const + step * (var.extent - 1), step


def _is_whole(digit: Form, n: int) -> bool:
    return bool(digit.terms) and _bounds(digit, n) == (0, n - 1, 1)


def _is_flip_or_whole(digit: Form, n: int) -> bool:
    return bool(digit.terms) and _bounds(digit, n) in ((0, n - 1, 1), (n - 1, 0, -1))


def _part(digit: Form, n: int) -> tuple[str, str]:
    """(kind, text) of one dimension: all, one ("3"), range ("2 to 8") or steps ("1::2")."""
    if not _moves_with_loop(digit):
        return ("all", ":") if n == 1 else ("one", print_form(digit))
    limits = _bounds(digit, n)
    if limits is None:
        return "steps", print_form(digit)
    first, last, step = limits
    if limits == (0, n - 1, 1):
        return "all", ":"
    if step == 1:
        return "range", f"{first} to {last}"
    ends = not 0 <= last + step < n
    stop = "" if ends else str(last + (1 if step > 0 else -1))
    return "steps", f"{first or ('' if step > 0 else '0')}:{stop}:{step}"


def _named(words: list[tuple[str, str]], shape: tuple[int, ...]) -> str:
    """Like "row 3", "columns 1::2", "elements 2 to 8" where one dimension is cut, else "[2:5, 1]"."""
    cut = [k for k, (kind, _) in enumerate(words) if kind != "all"]
    if not cut:
        return "same elements"
    if len(cut) == 1 and len(shape) <= 2:
        kind, text = words[cut[0]]
        noun = "element" if len(shape) == 1 else ("row", "column")[cut[0]]
        return f"{noun}{'' if kind == 'one' else 's'} {text}"
    return f"[{', '.join(text.replace(' to ', '..') for _, text in words)}]"
