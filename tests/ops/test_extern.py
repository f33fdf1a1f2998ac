"""Names of the special lists exist, and hidden writes point at the arguments they mean."""

import pytest
import torch

from fusekit.ops import extern


def overloads(packet):
    found = getattr(torch.ops.aten, packet.removeprefix("aten."))
    return [getattr(found, name) for name in found.overloads()]


@pytest.mark.parametrize("packet", sorted(extern.RAISING))
def test_names_exist(packet):
    assert overloads(packet)


@pytest.mark.parametrize("packet", extern.HIDDEN_WRITES)
def test_hidden_writes_name_running_statistics(packet):
    rule = extern.HIDDEN_WRITES[packet]
    for overload in overloads(packet):
        arguments = overload._schema.arguments
        assert {arguments[k].name for k in rule.positions} <= {"running_mean", "running_var"}
        assert all(arguments[k].alias_info is None or not arguments[k].alias_info.is_write for k in rule.positions)
        if rule.argument is not None:
            assert arguments[rule.argument].name in ("training", "use_input_stats")


def test_every_op_that_takes_running_statistics_is_known():
    """What torch has: each either marks them as written, or stands in the table, or only reads them."""
    reads = ("cudnn_batch_norm_backward", "miopen_batch_norm_backward", "native_batch_norm_backward",
             "_native_batch_norm_legit_no_training", "batch_norm_backward", "_batch_norm_impl_index_backward",
             "_batch_norm_no_update", "_native_batch_norm_legit_functional", "_batch_norm_with_update_functional",
             "quantized_batch_norm")  # fmt: skip
    for schema in torch._C._jit_get_all_schemas():
        space, name = schema.name.split("::")
        taken = [a for a in schema.arguments if a.name in ("running_mean", "running_var")]
        if space != "aten" or not taken or name in reads:
            continue
        is_marked = all(a.alias_info is not None and a.alias_info.is_write for a in taken)
        assert is_marked or f"aten.{name}" in extern.HIDDEN_WRITES, schema


def test_batch_norm_writes_in_training_only():
    target, tensors = "aten.native_batch_norm.default", (0, 1, 2, 3, 4)
    assert extern.hidden_writes(target, (*tensors, True, 0.1, 1e-5)) == (3, 4)
    assert extern.hidden_writes(target, (*tensors, False, 0.1, 1e-5)) == ()
    assert extern.hidden_writes(target, (0, 1, 2, None, None, True, 0.1, 1e-5)) == ()
    x, mean, var = torch.randn(8, 3), torch.zeros(3), torch.ones(3)
    torch.ops.aten.native_batch_norm(x, None, None, mean, var, True, 0.1, 1e-5)
    assert mean.abs().sum() > 0


def test_ops_that_raise():
    assert extern.raises_on_data("aten.index.Tensor") and extern.raises_on_data("aten.remainder_.Tensor")
    assert not extern.raises_on_data("aten.add.Tensor")
