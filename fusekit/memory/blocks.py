"""Which byte ranges share memory."""

from __future__ import annotations

from collections.abc import Sequence


def join(spans: Sequence[tuple[int, int]]) -> tuple[tuple[int, ...], ...]:
    """Spans ``[low, high)`` grouped into blocks: the numbers of the spans of each, blocks by their first span.

    Spans that share a byte, also through others, are one block. An empty span is a block of its own; spans that
    only touch are two.
    """
    blocks: list[list[int]] = []
    current: list[int] | None = None
    end = 0
    for k in sorted(range(len(spans)), key=lambda k: spans[k]):
        low, high = spans[k]
        if low >= high:
            blocks.append([k])
            continue
        if current is not None and low < end:
            current.append(k)
        else:
            current = [k]
            blocks.append(current)
        end = max(end, high)
    return tuple(sorted(tuple(sorted(block)) for block in blocks))
