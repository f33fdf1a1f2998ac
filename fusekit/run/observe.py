"""What one call did: its result or its error, and the state of every tensor that it could have changed."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch.utils._pytree import keystr

from fusekit.run.clones import clones
from fusekit.run.closeness import whole
from fusekit.trace.kinds import named_parts
from fusekit.trace.nested import keyed_leaves

_set_versions = torch._C._autograd._unsafe_set_version_counter  # pyright: ignore[reportAttributeAccessIssue]
Named = tuple[tuple[str, torch.Tensor], ...]


@dataclass(frozen=True)
class Outcome:
    """``leaves``: (path, value) of the flat result; ``tensors``: arguments and captures after the call, by path;
    ``bumped``: whose version counter moved; ``before``: the bytes of their storages before the call."""

    leaves: tuple[tuple[str, object], ...]
    structure: str
    error: Exception | None
    tensors: Named
    bumped: tuple[bool, ...]
    before: tuple[torch.Tensor, ...] = field(repr=False, default=())

    @property
    def outputs(self) -> Named:
        return tuple((path, leaf) for path, leaf in self.leaves if isinstance(leaf, torch.Tensor))


def paths(tree: object, root: str) -> list[tuple[str, object]]:
    """(path, leaf) of nested containers: ``out[0]``, ``a['x'][1]``."""
    return [(root + keystr(path), leaf) for path, leaf in keyed_leaves(tree)[0]]


def opened(result: object, root: str) -> tuple[list[tuple[str, object]], str]:
    """(path, leaf) of everything in a result, objects of any kind opened, and how they hold one another in words."""
    leaves: list[tuple[str, object]] = []
    seen: dict[int, str] = {}
    words: list[str] = []
    todo: list[tuple[str, object]] = [(root, result)]
    while todo:
        path, value = todo.pop()
        try:
            found, spec = keyed_leaves(value)
        except RecursionError:  # it contains itself
            words.append(f"{path}: a cycle")
            continue
        words += [f"{path}: {_outline(spec)}"] if path != root else [_outline(spec)]
        inside: list[tuple[str, object]] = []
        for place, leaf in ((path + keystr(at), leaf) for at, leaf in found):
            parts = named_parts(leaf)
            if parts is None:
                leaves.append((place, leaf))
            elif id(leaf) in seen:
                words.append(f"{place} is {seen[id(leaf)]}")
            else:
                seen[id(leaf)] = place
                words.append(f"{place}: {type(leaf).__qualname__}")
                inside += [(place + name, part) for name, part in parts]
        todo += reversed(inside)
    return leaves, "; ".join(words)


def observe(
    fn: Callable[..., object],
    args: Sequence[object],
    kwargs: Mapping[str, object] | None = None,
    captures: Iterable[tuple[str, torch.Tensor]] = (),
) -> Outcome:
    """Call ``fn`` and keep what it did. The arguments are used up: pass clones.

    Captured tensors get their bytes and version counters back afterwards; the outcome holds clones of what they were.
    """
    kwargs = dict(kwargs or {})
    leaves = (*paths(tuple(args), "args"), *paths(kwargs, "kwargs"))
    named = [(path, leaf) for path, leaf in leaves if isinstance(leaf, torch.Tensor)]
    captured = tuple(captures)
    tensors = [tensor for _, tensor in (*named, *captured)]
    before = tuple(_bytes(tensor).clone() for tensor in tensors)
    versions = [_version(tensor) for tensor in tensors]
    result, error = _call(fn, args, kwargs)
    bumped = tuple(_version(tensor) != old for tensor, old in zip(tensors, versions, strict=True))
    leaves, structure = opened(result, "out") if error is None else ([], "")
    if captured:
        tensors, leaves = _keep(tensors, leaves)
        _restore(captured, before[len(named) :], versions[len(named) :])
    names = [name for name, _ in (*named, *captured)]
    return Outcome(tuple(leaves), structure, error, tuple(zip(names, tensors, strict=True)), bumped, before)


def _outline(spec: object) -> str:
    """``TreeSpec(tuple, None, [*, TreeSpec(list, None, [*])])`` as ``tuple[*, list[*]]``."""
    text, shorter = "", " ".join(str(spec).split())
    while text != shorter:
        text = shorter
        shorter = re.sub(r"TreeSpec\((\w+), (?:None|(\[[^()]*?\])), (\[[^()]*\])\)", r"\1\2\3", text)
    return text


def _call(
    fn: Callable[..., object], args: Sequence[object], kwargs: dict[str, object]
) -> tuple[object, Exception | None]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return fn(*args, **kwargs), None
    except Exception as error:  # whatever is raised is what is compared
        return None, error


def _version(tensor: torch.Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    return whole(tensor.untyped_storage(), torch.uint8)


def _keep(
    tensors: list[torch.Tensor], leaves: list[tuple[str, object]]
) -> tuple[list[torch.Tensor], list[tuple[str, object]]]:
    """Clones of all tensors of an outcome that keep who is who and who shares with whom."""
    everything = [*tensors, *(leaf for _, leaf in leaves if isinstance(leaf, torch.Tensor))]
    copies = {id(tensor): copy for tensor, copy in zip(everything, clones(everything), strict=True)}
    return [copies[id(tensor)] for tensor in tensors], [(path, copies.get(id(leaf), leaf)) for path, leaf in leaves]


def _restore(captured: Named, before: Sequence[torch.Tensor], versions: Sequence[int]) -> None:
    for (_, tensor), old, version in zip(captured, before, versions, strict=True):
        _bytes(tensor).copy_(old)
        if not tensor.is_inference():
            _set_versions((tensor,), (version,))
