"""One call of a function with its gradients, as plain values that two runs can be compared by."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

Make = Callable[[], tuple[Any, ...]]


def randn(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))


def leaf(*shape: int) -> torch.Tensor:
    return randn(*shape).requires_grad_()


def tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    return [t for item in value for t in tensors(item)] if isinstance(value, (tuple, list)) else []


def leaves_of(args: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The leaves that the arguments are, or were made from."""
    found = {id(t): t for t in args if t.is_leaf and t.requires_grad}
    nodes = [t.grad_fn for t in args]
    while nodes:
        node = nodes.pop()
        if node is not None:
            if hasattr(node, "variable"):
                found[id(node.variable)] = node.variable
            nodes += [following for following, _ in node.next_functions]
    return list(found.values())


def shares(t: torch.Tensor, others: Sequence[torch.Tensor]) -> list[int]:
    address = t.untyped_storage().data_ptr()
    return [k for k, other in enumerate(others) if t.numel() and other.untyped_storage().data_ptr() == address]


def observed(fn: Callable[..., Any], make: Make) -> dict[str, Any]:
    """What can be seen of a call and of its backward."""
    args = make()
    given = tensors(args)
    leaves, versions = leaves_of(given), [t._version for t in given]
    torch.manual_seed(3)
    results = tensors(fn(*args))
    seen = {
        "drawn in forward": drawn(),
        "written": [t._version > before for t, before in zip(given, versions, strict=True)],
        "shares with arguments": [shares(t, given) for t in results],
        "shares with results": [shares(t, results) for t in results],
        "is argument": [[t is other for other in given] for t in results],
        "requires grad": [t.requires_grad for t in (*results, *given)],
        "strides": [t.stride() for t in results],
        "values": [t.detach().clone() for t in (*results, *given)],
    }
    losses = [(t * weights(t)).sum() for t in results if t.requires_grad]
    losses += [t.square().sum() for t in given if t.requires_grad and not t.is_leaf]
    if losses:
        torch.stack([loss.float() for loss in losses]).sum().backward()
    return seen | {"gradients": [t.grad for t in leaves], "drawn in all": drawn()}


def drawn() -> bytes:
    """The state of the generator: how many numbers were drawn."""
    return torch.get_rng_state().numpy().tobytes()


def weights(t: torch.Tensor) -> torch.Tensor:
    """Another weight for each element, so that a gradient in the wrong place is seen."""
    return torch.linspace(0.5, 1.5, max(t.numel(), 1))[: t.numel()].reshape(t.shape).to(t.dtype)


def differences(want: dict[str, Any], got: dict[str, Any]) -> Iterator[str]:
    for what, one in want.items():
        other = got[what]
        if what in ("values", "gradients"):
            for k, (a, b) in enumerate(zip(one, other, strict=True)):
                if (a is None) != (b is None) or (a is not None and not alike(a, b)):
                    yield f"{what}[{k}]: want {a}, got {b}"
        elif one != other:
            yield f"{what}: want {one}, got {other}"


def alike(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and torch.allclose(a, b, rtol=1e-4, atol=1e-5)
