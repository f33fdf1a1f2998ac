"""What is special about ops outside the pointwise table: each is a library call unless a set below names it."""

from dataclasses import dataclass

from fusekit.ops.conversion import COPIES
from fusekit.ops.table import functional

__all__ = [
    "COPIES",
    "EMPTIES",
    "FILLS",
    "FILLS_IN_PLACE",
    "HIDDEN_WRITES",
    "RAISING",
    "RANDOM",
    "VIEWS",
    "HiddenWrite",
    "hidden_writes",
    "is_random",
    "raises_on_data",
]


def _packets(*names: str) -> frozenset[str]:
    return frozenset(f"aten.{name}" for name in names)


@dataclass(frozen=True, slots=True)
class HiddenWrite:
    """Argument positions that an op writes though its schema does not say so, when ``argument`` is ``value``.

    ``argument`` None: always. A named position that holds None is not written.
    """

    positions: tuple[int, ...]
    argument: int | None = None
    value: object = True


HIDDEN_WRITES: dict[str, HiddenWrite] = {
    # input, weight, bias, running_mean, running_var, training, momentum, eps
    "aten.native_batch_norm.default": HiddenWrite((3, 4), 5),
    "aten.cudnn_batch_norm.default": HiddenWrite((3, 4), 5),
    "aten.miopen_batch_norm.default": HiddenWrite((3, 4), 5),
    "aten.batch_norm.default": HiddenWrite((3, 4), 5),
    "aten._batch_norm_impl_index.default": HiddenWrite((3, 4), 5),
    # input, running_mean, running_var, momentum
    "aten.batch_norm_update_stats.default": HiddenWrite((1, 2)),
    # input, mean, invstd, running_mean, running_var, momentum, eps, count(s)
    "aten.batch_norm_gather_stats.default": HiddenWrite((3, 4)),
    "aten.batch_norm_gather_stats_with_counts.default": HiddenWrite((3, 4)),
    # input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, cudnn_enabled
    "aten.instance_norm.default": HiddenWrite((3, 4), 5),
}
"""Ops that write arguments behind their schema's back: batch norms in training update their running statistics."""

_SILENT = _packets("_native_batch_norm_legit", "_batch_norm_with_update")

FILLS: frozenset[str] = _packets(
    "full.default",
    "zeros.default",
    "ones.default",
    "full_like.default",
    "zeros_like.default",
    "ones_like.default",
    "new_full.default",
    "new_zeros.default",
    "new_ones.default",
    "scalar_tensor.default",
)
"""Fresh tensors of one value."""

FILLS_IN_PLACE = frozenset({"aten.fill_.Scalar", "aten.zero_.default"})

EMPTIES: frozenset[str] = _packets(
    "empty.memory_format",
    "empty_like.default",
    "new_empty.default",
    "empty_strided.default",
    "new_empty_strided.default",
    "empty_permuted.default",
)
"""Fresh tensors whose contents nobody may rely on."""

VIEWS: frozenset[str] = _packets(
    "alias.default",
    "as_strided.default",
    "data.default",
    "detach.default",
    "diagonal.default",
    "expand.default",
    "lift_fresh.default",
    "movedim.int",
    "permute.default",
    "select.int",
    "slice.Tensor",
    "split.Tensor",
    "split_with_sizes.default",
    "squeeze.default",
    "squeeze.dim",
    "squeeze.dims",
    "t.default",
    "transpose.int",
    "unbind.int",
    "unfold.default",
    "unsqueeze.default",
    "view.default",
    "view.dtype",
    "view_as.default",
    "view_as_complex.default",
    "view_as_real.default",
    "_reshape_alias.default",
    "_unsafe_view.default",
    "real.default",
    "imag.default",
)
"""Results that share memory with operand 0. ``_unsafe_view`` says it does not, and does."""

RANDOM: frozenset[str] = _packets(
    "bernoulli",
    "bernoulli_",
    "rand",
    "rand_like",
    "randn",
    "randn_like",
    "randint",
    "randint_like",
    "randperm",
    "normal",
    "normal_",
    "uniform_",
    "random_",
    "exponential_",
    "geometric_",
    "cauchy_",
    "log_normal_",
    "multinomial",
    "poisson",
    "binomial",
    "native_dropout",
    "dropout",
    "dropout_",
    "rrelu",
    "rrelu_",
    "rrelu_with_noise",
    "rrelu_with_noise_",
    "_standard_gamma",
    "_sample_dirichlet",
    "alpha_dropout",
    "alpha_dropout_",
    "feature_dropout",
    "feature_dropout_",
    "_fused_dropout",
)
"""Packets (without overload) that draw from a generator: run by torch, in program order."""

RAISING: frozenset[str] = _packets(
    "floor_divide",
    "remainder",
    "fmod",
    "div",
    "pow",
    "index",
    "index_put",
    "index_put_",
    "_index_put_impl_",
    "index_select",
    "index_add",
    "index_add_",
    "index_copy",
    "index_copy_",
    "index_fill",
    "index_fill_",
    "gather",
    "scatter",
    "scatter_",
    "scatter_add",
    "scatter_add_",
    "scatter_reduce",
    "scatter_reduce_",
    "index_reduce",
    "index_reduce_",
    "embedding_bag",
    "_embedding_bag",
    "take",
    "take_along_dim",
    "embedding",
    "nll_loss_forward",
    "nll_loss2d_forward",
    "one_hot",
    "bincount",
    "cholesky",
    "linalg_cholesky_ex",
    "linalg_inv_ex",
    "linalg_solve",
    "multinomial",
    "bernoulli",
    "bernoulli_",
    "_linalg_check_errors",
    "put",
    "put_",
    "masked_scatter",
    "masked_scatter_",
    "_assert_async",
    "_assert_scalar",
    "binary_cross_entropy",
    "repeat_interleave",
)
"""Packets that may raise on data (a bad index, an integer division by zero), so their place in the order is seen."""


def _packet(target: str) -> str:
    return ".".join(target.split(".")[:2])


def is_random(target: str) -> bool:
    """Does the op draw from a random generator?"""
    return _packet(target) in RANDOM


def raises_on_data(target: str) -> bool:
    """May the op raise because of values? Pointwise ops that do are refused by ``plan`` and run as library calls."""
    return _packet(functional(target) or target) in RAISING


def bumps_versions(target: str) -> bool:
    """Does eager bump the versions of what the op writes? No batch norm does, whatever its schema says."""
    return target not in HIDDEN_WRITES and _packet(target) not in _SILENT


def hidden_writes(target: str, args: tuple[object, ...]) -> tuple[int, ...]:
    """Argument positions that this call writes without its schema saying so."""
    rule = HIDDEN_WRITES.get(target)
    if rule is None:
        return ()
    if rule.argument is not None and (len(args) <= rule.argument or args[rule.argument] != rule.value):
        return ()
    return tuple(k for k in rule.positions if k < len(args) and args[k] is not None)
