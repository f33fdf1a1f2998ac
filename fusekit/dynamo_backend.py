"""``torch.compile(model, backend="fusekit")``: the entry point that Dynamo finds by name.

Dynamo guards no overlap of its arguments, so one graph of Dynamo's serves calls whose arguments share memory in
different ways. The graph is therefore recorded at the call, for each layout and overlap by itself, with the key of
``jit``. With gradients AOT first splits it into a forward and a backward graph, once for each overlap too: AOT would
hide it.
"""

from __future__ import annotations

import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import fields, replace
from typing import Any

import torch
from torch._ops import OpOverload

from fusekit.errors import FusekitError, UnsupportedError
from fusekit.escape import line
from fusekit.jit import KEYS, JitFunction, forget_last_run
from fusekit.pipeline import Options
from fusekit.run import zeros
from fusekit.run.forks import Lock
from fusekit.trace.dynamo import GraphCall, refusal_of
from fusekit.trace.fallback import without_aot_check
from fusekit.trace.foreign import is_foreign
from fusekit.trace.gradients import Differentiated, exact_key
from fusekit.trace.private import C

PATTERNS = 64  # AOT compilations kept for one graph
TRIALS = 2  # a refusal may be another thread's doing, that drew random numbers during the recording


class FallbackWarning(UserWarning):
    """A graph, or a call of it, runs in eager PyTorch: the results are eager's, and nothing of it is fused."""


def backend(
    graph: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: Options | Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """The callable that stands for a graph which Dynamo captured.

    ``options``: fields of ``fusekit.Options``, as a dict or as such. Raises UnsupportedError for any other, and for a
    ``mode``.
    """
    if mode not in (None, "default"):
        raise UnsupportedError(f"mode={mode!r} of torch.compile", fix="leave it out, or set options={...}")
    return _Backend(GraphCall(graph), _options(options))


def _options(given: Options | Mapping[str, Any] | None) -> Options:
    if isinstance(given, Options):
        return given
    known = [field.name for field in fields(Options)]
    unknown = sorted(set(given or {}) - set(known))
    if unknown:
        fix = f"use some of {', '.join(known)}"
        raise UnsupportedError(f"the option {unknown[0]!r}", 'torch.compile(backend="fusekit", options=...)', fix)
    return replace(Options(), **(given or {}))


class _Fused:
    """A graph through ``jit``; what the recorder refuses runs in eager, with a warning, before anything is written."""

    def __init__(self, call: GraphCall, options: Options, watches: bool = True):
        self.call, self.options = call, options
        self.jit = _Jit(call, options, watches)
        self._refused: dict[object, int] = {}  # how often, by key
        self._said: set[str] = set()

    def __call__(self, *args: Any) -> Any:
        flat = self.call.arguments(args)
        if self._refused and not self.options.strict and self._refused.get(exact_key(flat, True), 0) >= TRIALS:
            return self.call.eager(args)
        try:
            return self.jit(*flat)
        except UnsupportedError as error:
            self._refuse(flat)
            if self.options.strict or str(error) not in self._said:
                self._said.add(str(error))
                warn_of_fallback(self.call, self.options, error)
        return self.call.eager(args)

    def _refuse(self, flat: Sequence[Any]) -> None:
        """Count that a call like this one was refused."""
        key = exact_key(flat, True)
        if len(self._refused) >= KEYS:
            self._refused.clear()
        self._refused[key] = self._refused.get(key, 0) + 1


class _Jit(JitFunction):
    """A refusal after the first op ran must not look like one before it."""

    def __init__(self, call: GraphCall, options: Options, watches: bool):
        super().__init__(call, options)
        self._watches = watches

    def _execute(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super()._execute(*args, **kwargs)
        except UnsupportedError as error:
            raise FusekitError(f"a plan ended half way: {error.what}", error.where, error.fix) from error


def warn_of_fallback(call: GraphCall, options: Options, error: UnsupportedError) -> None:
    """Say why eager takes over, and where; ``strict`` allows no such thing."""
    if options.strict:
        raise error
    graph = "" if error.where or not call.where else f" (the graph that begins at {call.where})"
    warnings.warn(line(f"runs in eager PyTorch, not fused: {error}{graph}"), FallbackWarning, stacklevel=3)


class _Backend:
    """One graph of Dynamo's: recordings for calls without gradients, AOT's graphs by pattern for those with."""

    def __init__(self, call: GraphCall, options: Options):
        self.call, self.options = call, options
        self.fused = _Fused(call, options)
        self.trained: OrderedDict[object, Differentiated | None] = OrderedDict()  # None: in eager
        self.refused = refusal_of(call)
        self.is_exact = self._is_said = False
        self._lock = Lock()
        self._versions = threading.local()

    def __call__(self, *args: Any) -> Any:
        forget_last_run()
        if self.refused is not None:
            return self._in_eager(args)
        if not torch.is_grad_enabled():
            return self.fused(*args)
        flat = self.call.arguments(args)
        if not any(isinstance(a, torch.Tensor) and a.requires_grad for a in flat):
            return self.fused(*args)
        if zeros.are_in(flat):
            return zeros.called(self, args, {})
        trained = self._trained(flat)
        if trained is None:
            return self.call.eager(args)
        return self._train(trained, flat)

    def _in_eager(self, args: Sequence[Any]) -> Any:
        """A graph that is refused by its nodes, before any of them ran."""
        assert self.refused is not None
        if not self._is_said or self.options.strict:
            self._is_said = True
            warn_of_fallback(self.call, self.options, self.refused)
        return self.call.eager(args)

    def _train(self, trained: Differentiated, flat: Sequence[Any]) -> Any:
        """AOT bumps the versions of inputs written in the graph once more, after it saved them: they are set back.

        An input that requires grad, or does so afterwards, is written by AOT itself, from a clone: its only bump.
        """
        tensors = [a for a in flat if isinstance(a, torch.Tensor)]
        self._versions.watched = [t for t in tensors if not t.requires_grad and not t.is_inference()]
        self._versions.now = ()
        out = trained(flat)
        for t, version in zip(self._versions.watched, self._versions.now, strict=False):
            if t._version != version and not t.requires_grad:
                C._autograd._unsafe_set_version_counter((t,), (version,))
        self._versions.watched = ()
        return out

    def _trained(self, flat: Sequence[Any]) -> Differentiated | None:
        with self._lock:
            key = exact_key(flat, self.is_exact)
            if key not in self.trained:
                made = self._differentiate(flat)
                if made is not None and made.is_exact and not self.is_exact:
                    self.is_exact = True
                    key = exact_key(flat, True)
                self.trained[key] = made
                if len(self.trained) > PATTERNS:
                    self.trained.popitem(last=False)
            self.trained.move_to_end(key)
            return self.trained[key]

    def _differentiate(self, flat: Sequence[Any]) -> Differentiated | None:
        try:
            return Differentiated(self.call, flat, self._compile)
        except UnsupportedError as error:
            found = error
        except Exception as error:
            found = UnsupportedError(f"no backward graph: {type(error).__name__}: {str(error)[:200]}")
            found.__cause__ = error
        warn_of_fallback(self.call, self.options, found)
        return None

    def _compile(self, call: GraphCall, is_forward: bool) -> Callable[..., Any]:
        fused = _Fused(call, self.options, watches=False)  # AOT has built the layouts of its stand-ins into the graphs
        if not is_forward:
            return fused

        is_foreign_free = not any(isinstance(n.target, OpOverload) and is_foreign(n.target) for n in call.nodes())

        def run(*args: Any) -> Any:
            with C._DisableAutocast(), without_aot_check() if is_foreign_free else nullcontext():
                out = fused(*args)  # its casts are in the graph
            self._versions.now = [t._version for t in self._versions.watched]
            return out

        return run
