"""Small functions whose memory is worth a look.

The first nine come from a public thread about in-place ops on aliased tensors
(Lightning-AI/lightning-thunder#2766); the others are what deep-learning code does every day.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

from fusekit.programs.program import Args, Program, Size, one, randn

# ---- the thread's nine: the second argument is an element of the first --------------------------------------------


def _element(size: Size, dtype: torch.dtype) -> Args:
    a = randn(*size, dtype=dtype)
    return (a, a[0, 0]) if a.numel() else (a, torch.zeros((), dtype=dtype))


def _unrelated(size: Size, dtype: torch.dtype) -> Args:
    return randn(*size, dtype=dtype), randn(*size, dtype=dtype, seed=1)


def thread_f(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a.exp_() * b.tanh_()


def thread_g(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    b = a.view(a.shape)
    return a.exp_() * b.tanh_()


def thread_h(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    b = a[0, 0]
    return a.exp_() * b.tanh_()


def thread_sin_after(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    t = a.exp_()
    b.tanh_()
    return t.sin()


def thread_sin_after_inner_view(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    b = a[0, 0]
    c = a.exp_()
    b.tanh_()
    return c.sin()


def thread_view_then_both_read(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    b = a.view(a.shape)
    c = a.exp_()
    b.tanh_()
    return c.sin() * 2 * b


def thread_two_views(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    b = a.view(a.shape)
    c = a.view(a.shape)
    b.tanh_()
    return c.sin() * 2 * b


def thread_unrelated(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a.exp_() * b.tanh_()


def thread_add_at_end(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    result = a.exp_() * b.tanh_()
    a.add_(1)
    return result, a


# ---- every day's programs -----------------------------------------------------------------------------------------


def bias_gelu(x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return F.gelu(x + bias, approximate="tanh")


def softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, -1)


class GroupNormSiLU(torch.nn.Module):
    """A group norm and the activation that follows it in most image models."""

    def __init__(self, channels: int, dtype: torch.dtype):
        super().__init__()
        self.norm = torch.nn.GroupNorm(channels, channels, dtype=dtype)
        self.requires_grad_(False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.silu(self.norm(x))


def group_norm_silu(module: GroupNormSiLU, x: torch.Tensor) -> torch.Tensor:
    return module(x)


def adamw(p: torch.Tensor, grad: torch.Tensor, m: torch.Tensor, v: torch.Tensor, step: int) -> None:
    """One AdamW step, in place, with a Python step count."""
    lr, beta1, beta2, eps, decay = 1e-3, 0.9, 0.999, 1e-8, 1e-2
    p.mul_(1 - lr * decay)
    m.lerp_(grad, 1 - beta1)
    v.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
    denominator = (v.sqrt() / (1 - beta2**step) ** 0.5).add_(eps)
    p.addcdiv_(m, denominator, value=-lr / (1 - beta1**step))


def kv_cache_write(cache: torch.Tensor, new: torch.Tensor, position: int) -> torch.Tensor:
    """A token's keys go into their row of the cache; what attention reads next is the whole of it."""
    cache[:, position : position + 1].copy_(new)
    return cache * 0.125


def _bias(size: Size, dtype: torch.dtype) -> Args:
    return randn(*size, dtype=dtype), randn(size[1], dtype=dtype, seed=1)


def _image(size: Size, dtype: torch.dtype) -> Args:
    rows, columns = size
    return GroupNormSiLU(4, dtype), randn(2, 4, rows, columns, dtype=dtype)


def _state(size: Size, dtype: torch.dtype) -> Args:
    p, grad, m = (randn(*size, dtype=dtype, seed=k) for k in range(3))
    return p, grad, m, randn(*size, dtype=dtype, seed=3).square(), 3


def _cache(size: Size, dtype: torch.dtype) -> Args:
    rows, columns = size
    return randn(2, rows, columns, dtype=dtype), randn(2, 1, columns, dtype=dtype, seed=1), rows // 2


PROGRAMS: tuple[Program, ...] = (
    Program("thread_f", "b is an element of a; both are written, then multiplied", thread_f, _element),
    Program("thread_g", "a view of the same shape, made inside", thread_g, _element),
    Program("thread_h", "one element, taken inside", thread_h, _element),
    Program("thread_sin_after", "the element is rewritten before the read", thread_sin_after, _element),
    Program(
        "thread_sin_after_inner_view", "the same through a view made inside", thread_sin_after_inner_view, _element
    ),
    Program(
        "thread_view_then_both_read", "tensor and view are both read afterwards", thread_view_then_both_read, _element
    ),
    Program("thread_two_views", "two views of one tensor", thread_two_views, _element),
    Program("thread_unrelated", "nothing aliases", thread_unrelated, _unrelated),
    Program("thread_add_at_end", "the tensor is written again and returned", thread_add_at_end, _element),
    Program("bias_gelu", "bias and GELU of a transformer's MLP", bias_gelu, _bias),
    Program("softmax", "a softmax over rows", softmax, one),
    Program("group_norm_silu", "nn.GroupNorm and SiLU", group_norm_silu, _image),
    Program("adamw", "one AdamW step in place", adamw, _state),
    Program("kv_cache_write", "a row of a KV cache is written, the cache is read", kv_cache_write, _cache),
)
