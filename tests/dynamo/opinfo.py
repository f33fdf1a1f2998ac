"""Torch's own samples of its operators, with gradients, through the Dynamo backend against eager.

``python -m tests.dynamo.opinfo float32 bfloat16 complex64`` runs all; ``--ops nn.functional.*`` some.
"""

from __future__ import annotations

import argparse
import collections
import fnmatch
import itertools
import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_leaves, tree_map

from fusekit.dynamo_backend import FallbackWarning, backend

UNSET = re.compile(r"^(new_)?empty(_like|_strided|_permuted)?$|^resize_")  # results are memory as it was
SEED = 3
WRONG, CRASH, EAGER, FUSED = "wrong", "crash", "fallback", "fused"


@dataclass(frozen=True)
class Outcome:
    """How one sample of an operator ended, and what was seen."""

    op: str
    kind: str
    seen: str = ""


def operators(pattern: str = "*") -> list[Any]:
    return [op for op in op_db if fnmatch.fnmatch(name_of(op), pattern)]


def name_of(op: Any) -> str:
    return op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")


def outcomes(op: Any, dtype: torch.dtype, most: int = 2) -> Iterator[Outcome]:
    """One for each of the first samples for which eager has a gradient, or at least a result."""
    if dtype not in op.dtypes:
        return
    needs = dtype in op.supported_backward_dtypes("cpu") and op.supports_autograd
    torch.manual_seed(0)
    try:
        samples = list(itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=needs), most))
    except Exception:  # what makes the samples needs a library that is not there
        return
    for sample in samples:
        torch._dynamo.reset()
        yield _outcome(op, sample)
    torch._dynamo.reset()


def _outcome(op: Any, sample: Any) -> Outcome:
    name = name_of(op)

    def plain(*args: Any, **kwargs: Any) -> Any:
        return op.op(*args, **kwargs)

    want = _seen(plain, sample)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        got = _seen(torch.compile(plain, backend=backend), sample)
    if isinstance(want, Exception) or isinstance(got, Exception):
        if isinstance(want, Exception) and isinstance(got, Exception):
            return Outcome(name, EAGER, "eager raises, too")
        return Outcome(name, CRASH, f"{type(got).__name__}: {got}" if isinstance(got, Exception) else f"eager: {want}")
    difference = next(_differences(want, got, is_set=not UNSET.search(op.name)), None)
    if difference is not None:
        return Outcome(name, WRONG, difference)
    fell = [str(w.message) for w in said if issubclass(w.category, FallbackWarning)]
    return Outcome(name, EAGER if fell else FUSED, fell[0] if fell else "")


def _seen(fn: Callable[..., Any], sample: Any) -> list[tuple[str, Any]] | Exception:
    """Results, gradients and the generator's state; or what was raised."""

    def copied(t: Any) -> Any:
        return t.detach().clone().requires_grad_(t.requires_grad) if isinstance(t, torch.Tensor) else t

    tree = tree_map(copied, (sample.input, tuple(sample.args), dict(sample.kwargs)))
    leaves = [t for t in tree_leaves(tree) if isinstance(t, torch.Tensor)]
    torch.manual_seed(SEED)
    try:
        given = sample.output_process_fn_grad(fn(tree[0], *tree[1], **tree[2]))  # eigenvectors up to a phase, say
        results = [t for t in tree_leaves(given) if isinstance(t, torch.Tensor)]
        losses = [t for t in results if t.requires_grad]
        wanted = [t for t in leaves if t.requires_grad]
        gradients = ()
        if losses and wanted:
            gradients = torch.autograd.grad(losses, wanted, [_weights(t) for t in losses], allow_unused=True)
    except Exception as error:  # whatever is raised is compared
        return error
    named = [(f"result {k}", t.detach()) for k, t in enumerate(results)]
    named += [(f"gradient {k}", t) for k, t in enumerate(gradients)]
    named += [(f"argument {k}", t.detach()) for k, t in enumerate(leaves)]
    return [*named, ("generator", torch.get_rng_state())]


def _weights(t: torch.Tensor) -> torch.Tensor:
    count = max(t.numel(), 1)
    return torch.linspace(0.5, 1.5, count).to(t.dtype)[: t.numel()].reshape(t.shape)


def _differences(want: list[tuple[str, Any]], got: list[tuple[str, Any]], is_set: bool) -> Iterator[str]:
    if len(want) != len(got):
        yield f"{len(got)} tensors, not {len(want)}"
        return
    for (what, one), (_, other) in zip(want, got, strict=True):
        if (one is None) != (other is None):
            yield f"{what}: {'none' if other is None else 'one'}"
        elif one is not None and (one.shape, one.dtype, one.layout) != (other.shape, other.dtype, other.layout):
            yield f"{what}: {other.dtype}{list(other.shape)}, not {one.dtype}{list(one.shape)}"
        elif one is not None and (is_set or what == "generator"):
            try:
                torch.testing.assert_close(other, one, equal_nan=True, check_stride=False)
            except AssertionError as error:
                yield f"{what}: {' '.join(str(error).split())[:160]}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dtypes", nargs="*", default=["float32"])
    parser.add_argument("--ops", default="*")
    parser.add_argument("--samples", type=int, default=2)
    parser.add_argument("--all", action="store_true", help="print fallbacks, too")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    for dtype in given.dtypes:
        counts: collections.Counter[str] = collections.Counter()
        for op in operators(given.ops):
            for outcome in outcomes(op, getattr(torch, dtype), given.samples):
                counts[outcome.kind] += 1
                if outcome.kind in (WRONG, CRASH) or (given.all and outcome.kind == EAGER):
                    print(f"{dtype} {outcome.kind}: {outcome.op}: {outcome.seen[:300]}", flush=True)
        print(dtype, sum(counts.values()), "samples:", dict(counts), flush=True)


if __name__ == "__main__":
    main()
