"""A bar for what may take long: in terminals and notebooks, and only once it has lasted longer than ``DELAY``."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

DELAY = 2.0  # seconds


def progress(items: Iterable[Any] | None, desc: str, unit: str, total: int | None = None, delay: float = DELAY) -> Any:
    """A tqdm over ``items``, or one to be moved by ``update`` up to ``total``; it leaves no line behind."""
    from tqdm.auto import tqdm  # in a notebook a widget

    is_seen = "ipykernel" in sys.modules or sys.stderr.isatty()
    return tqdm(items, desc=desc, unit=unit, total=total, delay=delay, leave=False, disable=not is_seen)
