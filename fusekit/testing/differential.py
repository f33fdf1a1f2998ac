"""Eager against anything that claims to be the same function: one call of each on clones of one set of arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

from fusekit.kinds import expect_function
from fusekit.run.clones import clones
from fusekit.run.closeness import Tolerance
from fusekit.run.compare import CheckReport, compare
from fusekit.run.observe import observe
from fusekit.run.repro import repro


def clone_arguments(
    args: Sequence[object], kwargs: Mapping[str, object]
) -> tuple[tuple[object, ...], dict[str, object]]:
    """The arguments with every tensor cloned; clones share memory as the tensors do."""
    leaves, spec = tree_flatten((tuple(args), dict(kwargs)))
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    copies = iter(clones(tensors))
    return tree_unflatten([next(copies) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves], spec)


def differential(
    eager: Callable[..., object],
    candidate: Callable[..., object],
    args: Sequence[object] = (),
    kwargs: Mapping[str, object] | None = None,
    *,
    captures: Iterable[tuple[str, torch.Tensor]] = (),
    tolerance: Tolerance | None = None,
    title: str = "",
) -> CheckReport:
    """Compare ``candidate`` with ``eager``. The arguments stay as they are; both calls get clones and one random state.

    ``captures``: (name, tensor) of captured tensors that the function may write; they are put back after each call.
    """
    expect_function("fk.testing.differential", eager)
    expect_function("fk.testing.differential", candidate)
    kwargs, captures = dict(kwargs or {}), tuple(captures)
    random = torch.get_rng_state()
    want = observe(eager, *clone_arguments(args, kwargs), captures=captures)
    torch.set_rng_state(random)
    got = observe(candidate, *clone_arguments(args, kwargs), captures=captures)
    torch.set_rng_state(random)
    return compare(want, got, tolerance=tolerance, title=title, script=lambda: repro(eager, args, kwargs))
