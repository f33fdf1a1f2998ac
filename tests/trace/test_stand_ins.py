"""What a function may see, and be told, of the tensors that stand for its results; and that they answer like eager."""

import copy

import numpy as np
import pytest
import torch

from fusekit.errors import UnsupportedError
from fusekit.trace import record
from fusekit.trace.oracle import grown_strides, shrunk

N = 3


def layouts():
    return {
        "transposed": torch.randn(N, 2).t(),
        "dense": torch.randn(2, N),
        "gaps": torch.randn(N, 8)[:, ::4].t()[:2],
        "rows apart": torch.randn(4, N)[::2],
        "expanded": torch.randn(1, N).expand(2, N),
        "row": torch.randn(N),
    }


OPS = {
    ">": lambda a, b: a > b.contiguous(),
    "== of results": lambda a, b: a == (b + 0),
    "!=": lambda a, b: b.contiguous() != a,
    "<=": lambda a, b: a.contiguous() <= b,
    "+": lambda a, b: a + b.contiguous(),
    "//": lambda a, b: a // b,
    "floor": lambda a, b: torch.div(a, b, rounding_mode="floor"),
    "2 ** x": lambda a, b: 2.0**a,
    "where": lambda a, b: torch.where(a > 0, a, b),
    "lerp": lambda a, b: torch.lerp(a, b, 0.5),
    "softmax backward": lambda a, b: torch.ops.aten._softmax_backward_data(a, a.softmax(-1), a.dim() - 1, a.dtype),
    "hypot": torch.hypot,
}


@pytest.mark.parametrize("name", OPS)
def test_strides_are_eagers(name):
    for one, a in layouts().items():
        for other, b in layouts().items():
            want = OPS[name](a, b)
            got = record(OPS[name], (a, b)).out_fakes[0]
            assert (got.shape, got.stride()) == (want.shape, want.stride()), (one, other)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
def test_a_shrunk_tensor_has_the_order_of_the_large_one(order):
    t = torch.empty(5, 1, 7).permute(order)
    shape, strides = shrunk(t)
    assert max(shape) == 2 and grown_strides(t.shape, strides) == t.clone().stride()


def test_what_the_function_holds_is_a_plain_tensor():
    y = torch.ones(2)
    recording = record(lambda x: (type(x + 1) is torch.Tensor, (x + 1).dtype, (x + 1).shape[0]), (y,))
    assert [output.value for output in recording.outputs] == [True, torch.float32, 2]
    assert record(lambda x: (x + 1).add_(1) is x, (y,)).outputs[0].value is False

    def same(x):
        z = x + 1
        return z.add_(1) is z

    assert record(same, (y,)).outputs[0].value is True


def test_a_size_is_returned_as_a_size():
    recording = record(lambda x: [x.size(), x], (torch.ones(2, 3),))
    assert [type(output.value) for output in recording.outputs if output.operand is None] == [torch.Size]


def test_a_parameter_made_inside_is_the_result_it_was_made_of():
    with torch.no_grad():
        recording = record(lambda x: torch.nn.Parameter(x + 1) * 2, (torch.ones(2),))
    assert [call.target._schema.name for call in recording.calls] == ["aten::add", "aten::detach", "aten::mul"]


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * x

    @staticmethod
    def backward(ctx, g):
        return g


@torch.jit.script
def scripted(x):
    return x * 2


@torch.library.custom_op("fusekit_tests::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


ARRAY = np.ones(2, np.float32)
REFUSED = {
    "printing": lambda x: str(x + 1),
    "formatting": lambda x: f"{x}",
    "apply_": lambda x: x.apply_(lambda v: v),
    "map_": lambda x: x.map_(x, lambda v, w: v),
    "map2_": lambda x: x.map2_(x, x, lambda v, w, u: v),
    "deepcopy": lambda x: copy.deepcopy(x + 1),
    "copy.copy": lambda x: copy.copy(x),
    "from_numpy": lambda x: x + torch.from_numpy(ARRAY),
    "as_tensor": lambda x: x + torch.as_tensor(ARRAY),
    "TorchScript": lambda x: scripted(x + 1),
    "register_fake": lambda x: twice(x),
    "autograd.Function": lambda x: Square.apply(x + WEIGHT) * 1,
}
WEIGHT = torch.ones(2, requires_grad=True)


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_have_a_name_and_the_users_line(name):
    with pytest.raises(UnsupportedError, match=name) as caught:
        record(REFUSED[name], (torch.ones(2),))
    assert "test_stand_ins.py" in str(caught.value)


@pytest.mark.filterwarnings("ignore:where received a uint8")
def test_a_mask_of_bytes_is_a_mask():
    mask = torch.tensor([0, 2], dtype=torch.uint8)
    recording = record(lambda m, x: torch.where(m, x, -x), (mask, torch.ones(2)))
    assert "aten::where" in [call.target._schema.name for call in recording.calls]


@pytest.mark.skipif(torch.backends.cuda.is_built(), reason="torch has CUDA")
def test_without_cuda_the_error_is_eagers():
    for call in (lambda x: x.cuda(), lambda x: x.to("cuda")):
        with pytest.raises(AssertionError, match="CUDA"):
            record(call, (torch.ones(2),))


NUMBERS = (300, -129, 1.5, float("nan"), float("inf"), 2**31, 2**64, 1e40, True, 65505)
WITH_NUMBER = {
    "fill_": lambda x, v: x.fill_(v),
    "masked_fill": lambda x, v: x.masked_fill(x > 0, v),
    "masked_fill_": lambda x, v: x.masked_fill_(x > 0, v),
    "full_like": torch.full_like,
    "full": lambda x, v: torch.full((2,), v, dtype=x.dtype),
    "new_full": lambda x, v: x.new_full((2,), v),
    "where": lambda x, v: torch.where(x > 0, x, v),
    "index_fill": lambda x, v: x.index_fill(0, torch.arange(1), v),
    "-": lambda x, v: x - v,
    "reversed -": lambda x, v: v - x,
    "alpha": lambda x, v: torch.add(x, x, alpha=v),
    "alpha in place": lambda x, v: x.add_(x, alpha=v),
    "item": lambda x, v: x.__setitem__(0, v),
    "clamp_": lambda x, v: x.clamp_(max=v),
}


@pytest.mark.parametrize("name", WITH_NUMBER)
def test_errors_that_numbers_decide_are_eagers(name):
    fn = WITH_NUMBER[name]

    def raised(call):
        try:
            call()
        except Exception as error:
            return type(error), str(error)

    for dtype in (torch.bool, torch.uint8, torch.int32, torch.int64, torch.float16, torch.float32):
        for number in NUMBERS:
            x = torch.ones(2, dtype=dtype)
            ours = raised(lambda x=x, v=number: record(fn, (x, v)))
            assert bool(x.eq(1).all()), "nothing was written"
            assert ours == raised(lambda x=x, v=number: fn(x, v)), (dtype, number)
