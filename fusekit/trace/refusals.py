"""What a recording refuses by name, and how to mend it."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch._ops import OpOverload

from fusekit.errors import UnsupportedError
from fusekit.ir import Origin
from fusekit.torch_types import FROM_TORCH
from fusekit.trace.private import C, TensorClass, is_functional
from fusekit.trace.schema import base_name

USE_COMPILE = 'use torch.compile(fn, backend="fusekit")'
OR_NO_GRAD = f"{USE_COMPILE}, or call under torch.no_grad()"
OFF_DATA = "keep control flow, shapes and Python numbers off tensor data, or use masks and torch.where"

Tensor = TensorClass

_STORAGE = (
    "untyped_storage() or storage(), which copy.copy(), pickling and torch.save() ask for,",
    "use view_as(x) for a copy.copy(), and pickle what the call returns",
)

# torch functions that no recording can repeat: (what, how to mend)
FORBIDDEN = {
    Tensor.data.__set__: (".data = severs aliasing", "copy_ into the tensor under torch.no_grad()"),
    Tensor.numpy: ("numpy() reads tensor data", OFF_DATA),
    Tensor.tolist: ("tolist() reads tensor data", OFF_DATA),
    Tensor.__array__: ("NumPy reads tensor data", "use the torch function of the same name"),
    Tensor.data_ptr: ("data_ptr() reads an address", "ask fk.overlap instead"),
    Tensor.is_set_to: ("is_set_to() compares addresses", "ask fk.overlap instead"),
    Tensor.__dlpack__: ("DLPack shares memory with another library", None),
    Tensor.register_hook: ("tensor hooks run Python at gradient time", USE_COMPILE),
    Tensor.backward: ("backward()", USE_COMPILE),
    Tensor.__repr__: ("printing or formatting a tensor reads its data", OFF_DATA),
    Tensor.__format__: ("printing or formatting a tensor reads its data", OFF_DATA),
    Tensor.__deepcopy__: ("copy.deepcopy() of a tensor", "use clone()"),
    Tensor.__reduce_ex__: ("copy.copy() or pickling of a tensor", "use view_as(x), or clone()"),
    Tensor.untyped_storage: _STORAGE,
    Tensor.storage: _STORAGE,
    Tensor._typed_storage: _STORAGE,
    Tensor.apply_: ("apply_() runs Python for each element", "use torch functions"),
    Tensor.map_: ("map_() runs Python for each element", "use torch functions"),
    Tensor.map2_: ("map2_() runs Python for each element", "use torch functions"),
    Tensor.share_memory_: ("share_memory_() moves a tensor's storage", None),
}

# those that change autograd state: refused only on tensors of the caller
AUTOGRAD_STATE = {
    Tensor.requires_grad_: "requires_grad_()",
    Tensor.requires_grad.__set__: "requires_grad =",
    Tensor.grad.__set__: ".grad =",
    Tensor.retain_grad: "retain_grad()",
}

# those that share memory with another library where they are given its arrays
SHARING = (torch.from_numpy, torch.as_tensor, torch.asarray, torch.frombuffer)
USE_TENSOR = "make the tensor outside the function, or copy with torch.tensor()"

STORAGE_CHANGING = ("aten::set_",)
# fakes answer these with ordinary tensors
_QUANTIZING = (
    "quantize_per_", "_empty_affine_quantized", "_empty_per_channel_affine_quantized", "_make_per_tensor_quantized",
    "_make_per_channel_quantized",
)  # fmt: skip
_PLAIN = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)


def refuse_op(func: OpOverload, where: Callable[[], Origin | str | None]) -> None:
    """Raise for an op that no recording takes: it changes what a storage is, or makes a quantized tensor."""
    space, name = func._schema.name.split("::")
    if func._schema.name in STORAGE_CHANGING:
        what = f"{base_name(func)}() changes what a tensor's storage is"
        raise UnsupportedError(what, where(), "make a new tensor instead")
    if space == "quantized" or name.startswith(_QUANTIZING):
        raise UnsupportedError(f"a quantized tensor, of {name}()", where(), "keep quantization outside of the function")


def refuse_tensor(t: torch.Tensor, where: Origin | str | None) -> None:
    """Raise for a tensor that no recording takes: subclasses, sparse, quantized, nested, lazy bits, functorch, meta."""
    kind = type(t)
    if C._functorch.is_functorch_wrapped_tensor(t):
        raise UnsupportedError("a tensor inside a torch.func transform", where, "apply the transform outside")
    if is_functional(t):
        raise UnsupportedError("a functional tensor of torch.func", where, "pass a plain tensor")
    if t.is_nested:
        raise UnsupportedError("a nested tensor", where, "pad it to a dense tensor")
    if t.layout != torch.strided:
        raise UnsupportedError(f"a {t.layout} tensor", where, "call to_dense() first")
    if t.is_quantized:
        raise UnsupportedError("a quantized tensor", where, "call dequantize() first")
    if kind not in _PLAIN and not kind.__module__.startswith("torch.nn.parameter"):
        raise UnsupportedError(f"a tensor subclass, {kind.__name__}", where, "pass a plain tensor")
    if t.is_conj() or t.is_neg():
        fix = "call resolve_conj() or resolve_neg() first"
        raise UnsupportedError("a tensor with a lazy conj or neg bit", where, fix)
    if t._is_zerotensor():
        raise UnsupportedError("a zero tensor without memory, as autograd gives them,", where, "pass its clone()")
    if t.device.type == "meta":
        raise UnsupportedError("a meta tensor has no memory", where, "pass a tensor with data")
    if t.dtype not in FROM_TORCH:
        raise UnsupportedError(f"a tensor of {t.dtype}", where)
    reach = t.storage_offset() + sum((n - 1) * step for n, step in zip(t.shape, t.stride(), strict=True)) + 1
    if t.numel() and reach * t.element_size() > (room := t.untyped_storage().nbytes()):
        what = f"a tensor that reaches {reach * t.element_size()} bytes into a storage of {room}, which was resized,"
        raise UnsupportedError(what, where, "resize the storage back, or make another tensor")
