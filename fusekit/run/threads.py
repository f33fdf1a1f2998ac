"""Whether parallel loops may run: a threading layer that bears concurrent calls, in a process that did not fork."""

from __future__ import annotations

import os
from functools import cache
from importlib import import_module
from typing import Any

import numba
from numba import threading_layer  # type: ignore[attr-defined]
from numba.core import config as numba_config
from numba.np.ufunc.parallel import _launch_threads

# Layers that two threads may enter at once; Numba's third one, workqueue, aborts the process then.
_LAYERS = ("tbb", "omp")
_CONFIG: Any = numba_config
_state = {"forked": False}


def _forked() -> None:
    _state["forked"] = True


os.register_at_fork(after_in_child=_forked)


def may_run() -> bool:
    """Not after a fork: OpenMP's threads do not survive it, and the child would be killed."""
    return not _state["forked"]


@cache
def available() -> bool:
    """Is there a safe threading layer, and more than one thread? Starts the layer, once a process."""
    return may_run() and numba.get_num_threads() > 1 and (_running() or any(map(_start, _LAYERS)))


def _running() -> bool:
    """Did someone start a safe layer before us?"""
    try:
        return threading_layer() in _LAYERS
    except ValueError:
        return False


def _start(layer: str) -> bool:
    if _CONFIG.THREADING_LAYER not in ("default", "threadsafe", layer):  # the user's choice stays
        return False
    before = _CONFIG.THREADING_LAYER
    try:
        import_module(f"numba.np.ufunc.{layer}pool")
        _CONFIG.THREADING_LAYER = layer
        _launch_threads()  # as the first parallel function would, which takes a second to compile
    except (ImportError, ValueError, RuntimeError):
        _CONFIG.THREADING_LAYER = before
    return _running()


# Numba must not fuse two loops over raw addresses, nor make loops of its own.
OPTIONS: Any = {
    "prange": True,
    "comprehension": False,
    "reduction": True,
    "inplace_binop": False,
    "setitem": False,
    "numpy": False,
    "stencil": False,
    "fusion": False,
}
