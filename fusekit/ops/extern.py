"""What is special about ops outside the pointwise table: each is a library call unless a set below names it."""

from dataclasses import dataclass

from fusekit.ops.table import functional

__all__ = ["HIDDEN_WRITES", "RAISING", "HiddenWrite", "bumps_versions", "hidden_writes", "raises_on_data"]


def _packets(*names: str) -> frozenset[str]:
    return frozenset(f"aten.{name}" for name in names)


@dataclass(frozen=True, slots=True)
class HiddenWrite:
    """Argument positions that an op writes though its schema does not say so, where ``argument`` says so.

    ``argument`` None: always. A position that holds None is not written.
    """

    positions: tuple[int, ...]
    argument: int | None = None


HIDDEN_WRITES: dict[str, HiddenWrite] = {
    # input, weight, bias, running_mean, running_var, training, momentum, eps
    "aten.native_batch_norm": HiddenWrite((3, 4), 5),
    "aten.cudnn_batch_norm": HiddenWrite((3, 4), 5),
    "aten.miopen_batch_norm": HiddenWrite((3, 4), 5),
    "aten.batch_norm": HiddenWrite((3, 4), 5),
    "aten._batch_norm_impl_index": HiddenWrite((3, 4), 5),
    # input, running_mean, running_var, momentum
    "aten.batch_norm_update_stats": HiddenWrite((1, 2)),
    # input, mean, invstd, running_mean, running_var, momentum, eps, count(s)
    "aten.batch_norm_gather_stats": HiddenWrite((3, 4)),
    "aten.batch_norm_gather_stats_with_counts": HiddenWrite((3, 4)),
    # input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, cudnn_enabled
    "aten.instance_norm": HiddenWrite((3, 4), 5),
}
"""Packets that write arguments behind their schema's back: batch norms in training update their running statistics."""

_SILENT = _packets("_native_batch_norm_legit", "_batch_norm_with_update")

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


def raises_on_data(target: str) -> bool:
    """May the op raise because of values? Pointwise ops that do are refused by ``plan`` and run as library calls."""
    return _packet(functional(target) or target) in RAISING


def bumps_versions(target: str) -> bool:
    """Does eager bump the versions of what the op writes? No batch norm does, whatever its schema says."""
    packet = _packet(target)
    return packet not in _SILENT and (packet not in HIDDEN_WRITES or target.endswith("out"))


def hidden_writes(target: str, args: tuple[object, ...]) -> tuple[int, ...]:
    """Argument positions that this call writes without its schema saying so."""
    rule = HIDDEN_WRITES.get(_packet(target))
    if rule is None:
        return ()
    if rule.argument is not None and (len(args) <= rule.argument or not args[rule.argument]):
        return ()
    return tuple(k for k in rule.positions if k < len(args) and args[k] is not None)
