"""A check as a script that stands alone: the same bytes, the same sharing, the same function."""

from __future__ import annotations

import ast
import base64
import inspect
import textwrap
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch

from fusekit.escape import arguments, comment, is_name, literal
from fusekit.run.closeness import whole

_FEW = 256  # elements that are still written out one by one
_LITERALS = (bool, int, float, complex, bytes, type(None), type(...), torch.dtype, torch.layout, torch.memory_format)


def repro(fn: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object] | None = None) -> str:
    """Python text that builds the arguments, holds the function's source where there is one, and checks it."""
    writer = _Writer()
    words = [writer.value(arg) for arg in args]
    words += arguments({name: writer.value(arg) for name, arg in (kwargs or {}).items()})
    name, source = _source(fn)
    head = ["import torch", "", "import fusekit as fk", ""]
    if writer.has_bytes:
        head[:1] = ["import base64", "import zlib", "", "import torch"]
    call = f"print(fk.testing.check({', '.join([name, *words])}))"
    return "\n".join([*head, "", source.rstrip(), "", "", *writer.lines, call]) + "\n"


def _source(fn: Callable[..., object]) -> tuple[str, str]:
    text = getattr(fn, "__fusekit_source__", None)
    if text is None:
        try:
            text = textwrap.dedent(inspect.getsource(fn))
        except (OSError, TypeError):
            text = ""
    name, module = (str(getattr(fn, word, "")) for word in ("__name__", "__module__"))
    defined = _defined(text)
    if defined:
        return name if name in defined else defined[-1], text
    if is_name(name) and module != "__main__" and all(map(is_name, module.split("."))):
        return name, f"from {module} import {name}"
    return "fn", f"# put the function here: {comment(repr(fn))}\nfn = ..."


def _defined(text: str) -> list[str]:
    """The functions that a source defines, whatever they call themselves by now."""
    try:
        return [node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    except (SyntaxError, ValueError):
        return []


@dataclass
class _Writer:
    """Lines that make tensors: each storage once, each tensor object once."""

    lines: list[str] = field(default_factory=list)
    storages: dict[int, str] = field(default_factory=dict)
    tensors: dict[int, str] = field(default_factory=dict)
    has_bytes: bool = False

    def value(self, value: object) -> str:
        if isinstance(value, torch.Tensor):
            return self.tensor(value)
        if isinstance(value, tuple):
            return f"({', '.join(map(self.value, value))}{',' if len(value) == 1 else ''})"
        if isinstance(value, list):
            return f"[{', '.join(map(self.value, value))}]"
        if isinstance(value, dict):
            return "{" + ", ".join(f"{self.value(key)}: {self.value(item)}" for key, item in value.items()) + "}"
        if isinstance(value, float) and not abs(value) < float("inf"):
            return f"float('{value}')"
        if isinstance(value, str):
            return literal(value)
        return repr(value) if type(value) in _LITERALS else self.other(value)

    def other(self, value: object) -> str:
        """A name for what no literal says: whoever runs the script puts it there."""
        name = f"object{sum(line.startswith('object') for line in self.lines)}"
        self.lines.append(f"{name} = ...  # put here: {comment(repr(value))}")
        return name

    def tensor(self, tensor: torch.Tensor) -> str:
        if id(tensor) in self.tensors:
            return self.tensors[id(tensor)]
        name = self.tensors[id(tensor)] = f"x{len(self.tensors)}"
        shape, strides = tuple(tensor.shape), tensor.stride()
        base = self.storage(tensor)
        text = f"{base}.view({tensor.dtype}).as_strided({shape}, {strides}, {tensor.storage_offset()})"
        if tensor.requires_grad:
            text += ".detach().requires_grad_()"
        self.lines.append(f"{name} = {text}")
        return name

    def storage(self, tensor: torch.Tensor) -> str:
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self.storages:
            return self.storages[key]
        name = self.storages[key] = f"memory{len(self.storages)}"
        flat = whole(storage, tensor.dtype).detach().cpu()
        listed = flat.numel() <= _FEW and flat.numel() * flat.element_size() == storage.nbytes()
        if listed and not flat.is_complex():
            values = ", ".join(self.value(x) for x in flat.tolist())
            text = f"torch.tensor([{values}], dtype={tensor.dtype})"
        else:
            self.has_bytes = True
            packed = base64.b85encode(zlib.compress(bytes(whole(storage, torch.uint8).cpu().tolist()))).decode()
            text = f"torch.frombuffer(bytearray(zlib.decompress(base64.b85decode({packed!r}))), dtype=torch.uint8)"
        device = "" if tensor.device.type == "cpu" else f".to({str(tensor.device)!r})"
        self.lines.append(f"{name} = {text}{device}")
        return name
