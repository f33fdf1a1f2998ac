"""Names of the special lists exist, and hidden writes point at the arguments they mean."""

import pytest
import torch

from fusekit.ops import extern

PACKETS = sorted(extern.RANDOM | extern.RAISING)
OVERLOADS = sorted(extern.FILLS | extern.FILLS_IN_PLACE | extern.EMPTIES | extern.VIEWS | extern.COPIES)


def test_names_exist():
    for packet in PACKETS:
        assert hasattr(torch.ops.aten, packet.removeprefix("aten.")), packet
    for target in (*OVERLOADS, *extern.HIDDEN_WRITES):
        _, name, overload = target.split(".")
        assert overload in getattr(torch.ops.aten, name).overloads(), target


@pytest.mark.parametrize("target", extern.HIDDEN_WRITES)
def test_hidden_writes_name_running_statistics(target):
    rule = extern.HIDDEN_WRITES[target]
    _, name, overload = target.split(".")
    arguments = getattr(getattr(torch.ops.aten, name), overload)._schema.arguments
    names = {arguments[k].name for k in rule.positions}
    assert names <= {"running_mean", "running_var"}
    assert all(arguments[k].alias_info is None or not arguments[k].alias_info.is_write for k in rule.positions)
    if rule.argument is not None:
        assert arguments[rule.argument].name in ("training", "use_input_stats")


def test_batch_norm_writes_in_training_only():
    target, tensors = "aten.native_batch_norm.default", (0, 1, 2, 3, 4)
    assert extern.hidden_writes(target, (*tensors, True, 0.1, 1e-5)) == (3, 4)
    assert extern.hidden_writes(target, (*tensors, False, 0.1, 1e-5)) == ()
    assert extern.hidden_writes(target, (0, 1, 2, None, None, True, 0.1, 1e-5)) == ()
    x, mean, var = torch.randn(8, 3), torch.zeros(3), torch.ones(3)
    torch.ops.aten.native_batch_norm(x, None, None, mean, var, True, 0.1, 1e-5)
    assert mean.abs().sum() > 0


def test_random_ops_advance_the_generator():
    assert extern.is_random("aten.bernoulli_.float") and extern.is_random("aten.rand_like.default")
    assert not extern.is_random("aten.empty_like.default")


def test_ops_that_raise():
    assert extern.raises_on_data("aten.index.Tensor") and extern.raises_on_data("aten.remainder_.Tensor")
    assert not extern.raises_on_data("aten.add.Tensor")
