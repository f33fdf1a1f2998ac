"""Iteration spaces of which one splits the dimensions of the other."""

from __future__ import annotations

from collections.abc import Sequence

from fusekit.index import Form, loop_vars
from fusekit.passes.values import Index

Groups = tuple[tuple[int, ...], ...]


def groups(whole: Sequence[int], parts: Sequence[int]) -> Groups | None:
    """The sizes of ``parts`` that make up each dimension of ``whole``, in row-major order; None where some dimension
    of ``parts`` would have to be split. A size of 1 between two dimensions belongs to the first."""
    found: list[list[int]] = [[] for _ in whole]
    if not all(whole) or not all(parts):
        return None
    k, left = 0, whole[0] if whole else 1
    for n in parts:
        while left == 1 and n != 1 and k + 1 < len(whole):
            k += 1
            left = whole[k]
        if not whole or left % n:
            return None
        found[k].append(n)
        left //= n
    if left != 1 or any(n != 1 for n in whole[k + 1 :]):
        return None
    return tuple(map(tuple, found))


def merged_index(parts: Sequence[int], whole: Sequence[int]) -> Index | None:
    """The index of a tensor of shape ``parts`` for each element of its reshape to ``whole``, where that only merges."""
    found = groups(whole, parts)
    if found is None:
        return None
    index: list[Form] = []
    for at, sizes in zip(loop_vars(tuple(whole)), found, strict=True):
        step = 1
        own: list[Form] = []
        for k, n in reversed(list(enumerate(sizes))):
            outermost = all(m == 1 for m in sizes[:k])
            own.insert(0, Form() if n == 1 else at // step if outermost else (at // step) % n)
            step *= n
        index += own
    return tuple(index)


def split_index(found: Groups, shape: Sequence[int]) -> Index:
    """The index of a tensor of ``shape``, which has one dimension a group (or 1), over the dimensions of the groups."""
    index: list[Form] = []
    at = iter(loop_vars(split_shape(found, shape)))
    for sizes, n in zip(found, shape, strict=True):
        form = Form()
        for m in sizes:
            own = next(at)
            form = form * m + own
        index.append(form if n != 1 else Form())
    return tuple(index)


def split_shape(found: Groups, shape: Sequence[int]) -> tuple[int, ...]:
    """The groups in a row; those of a dimension of one element are ones."""
    return tuple(m if n != 1 else 1 for sizes, n in zip(found, shape, strict=True) for m in sizes)
