"""What the fuzz has found: a small program for each rule that was missing."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from fusekit.testing.runners import Runner
from fusekit.testing.trial import try_calls

pytestmark = pytest.mark.filterwarnings("ignore")
Tensors = list[torch.Tensor]


def _check(fn: Callable[..., object], *makes: Callable[[], Tensors], exact: bool = True) -> None:
    for runner in ("plain", "numba", "interpreter"):
        trial = try_calls(fn, makes, exact, Runner(runner))  # type: ignore[arg-type]
        assert trial.verdict == "right", f"{runner}: {trial.words}"


def _nans(dtype: torch.dtype) -> torch.Tensor:
    """NaNs of every kind among numbers: bits of integers."""
    bits = torch.tensor([-1, -7, 0x7F81, 0x7FC1, -4, 3, 0x3F80, 0x7C01, 0x7E07, -63, 5, 0x4000], dtype=torch.int16)
    return bits.view(dtype)


def test_a_later_write_waits_for_a_call_that_reads_there_and_writes_elsewhere() -> None:
    def fn(a, c):
        t = c * a
        torch.amax(a, -1, keepdim=True, out=c)
        a.abs_()
        return t

    def make() -> Tensors:
        memory = torch.tensor([-2, 6, -8, -8, 2], dtype=torch.int32)
        return [memory[2:3], memory[4:5]]

    _check(fn, make)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_nan_that_is_only_moved_keeps_its_bits(dtype: torch.dtype) -> None:
    def fn(a, m):
        a.masked_fill_(m, 1)
        a[3:6] = a[:3].clone()
        return a.flip(0).view(torch.int16), torch.cat([a, a[:1]]).view(torch.int16)

    _check(fn, lambda: [_nans(dtype), torch.arange(12) % 5 == 3])


def test_a_copy_of_an_expanded_tensor_to_itself_is_nothing() -> None:
    def fn(a, b):
        t = b.expand(2, 3)
        t.copy_(t)
        return t, a

    def make() -> Tensors:
        memory = torch.arange(2)
        return [torch.from_numpy(memory.numpy()[k:]).as_strided((), ()) for k in (1, 0)]

    _check(fn, make)


def test_a_scalar_is_flipped() -> None:
    _check(lambda a: a.copy_(a.flip(0)).flip(-1), lambda: [torch.tensor(3.0)])


def test_two_storages_over_one_memory_have_versions_of_their_own() -> None:
    """The written one's counter steps, also where the other has the same layout and comes first."""

    def fn(a, b):
        t = torch.square(a, out=b)
        t[()] = 1.5
        return t

    _check(fn, _twins(()))


def test_a_call_gets_the_very_storage_that_eager_gives_it() -> None:
    """cat refuses an output that it reads, if the two are one storage: of two over one memory it does not know."""

    def fn(a, b):
        b.neg_()
        torch.cat([a], 0, out=b)
        return b + 1

    _check(fn, _twins((3,)))


def _twins(shape: tuple[int, ...]) -> Callable[[], Tensors]:
    def make() -> Tensors:
        memory = np.arange(1.0, 5.0, dtype=np.float32)
        return [torch.from_numpy(memory[1:]).as_strided(shape, (1,) * len(shape)) for _ in range(2)]

    return make


def test_a_choice_by_a_loaded_position() -> None:
    """Which part of a stack a gather reads is known when its index is loaded, not before."""

    def fn(b, index):
        return torch.gather(torch.stack([b, b * 2], 0), 0, index)

    _check(fn, lambda: [torch.randn(5, 2), torch.arange(20).reshape(2, 5, 2) % 2])


def test_tests_stay_as_long_as_something_hangs_on_them() -> None:
    def fn(a, b, c):
        torch._foreach_add_([b], [c.clone()])
        c.sign_()
        t = c.argmax().expand(2, 3).mT.T.reshape(-1)
        return torch.maximum(t, t)

    def make() -> Tensors:
        memory = (torch.arange(13) % 5 - 2).half()
        return [memory[4:9], memory.as_strided((5,), (3,), 0), memory[7:12]]

    _check(fn, make)


def test_two_nots_of_a_scalar_that_a_view_gives_a_dimension() -> None:
    def fn(a):
        t = a.unsqueeze(0).narrow(0, 0, 1)
        a.logical_not_()
        return t.logical_not_(), a

    _check(fn, lambda: [torch.tensor(True)])


def test_objects_at_one_place_are_not_one_object() -> None:
    """cat refuses the very output among what it reads, even of no element; another tensor there it takes."""

    def fn(a):
        t = a.abs()
        torch.cat([t[1:]], 0, out=t)
        return t

    _check(fn, lambda: [torch.empty(0, 4, dtype=torch.int64)])

    def other(b):
        t = b.detach().fill_(2)
        torch.cat([b], 0, out=t)
        return t

    _check(other, lambda: [torch.arange(50, dtype=torch.int32).as_strided((5, 5), (2, 10), 1)])


def test_a_view_of_no_element_keeps_its_strides() -> None:
    def fn(a):
        return a.view(-1).abs_().view(torch.uint8)

    _check(fn, lambda: [torch.empty(0).as_strided((0,), (3,), 0)])


def test_where_fresh_memory_begins_is_not_promised() -> None:
    """diagonal_scatter copies the whole storage of its operand, offset and all; views of it lie as they do in eager."""

    def fn(a):
        t = torch.diagonal_scatter(a, a.diagonal() * 2)
        return t.narrow(1, 1, 2).view(torch.int64), t.narrow(1, 1, 2)

    _check(fn, lambda: [torch.arange(20, dtype=torch.float64).as_strided((4, 3), (3, 1), 5)])


def test_the_sign_of_a_zero_that_a_maximum_finds_is_not_promised() -> None:
    def fn(b):
        return torch.maximum(b.abs().neg(), b), torch.minimum(b, -b), b.clamp(min=0)

    _check(fn, lambda: [torch.tensor([0.0, -0.0, 1.0])])


def test_views_of_one_of_two_storages_stay_on_it() -> None:
    """A copy of an expanded tensor's part to another part of the same bytes is nothing, if both are on one storage."""

    def fn(a, b):
        t = b.expand(2, 3)
        t[..., 1:] = t[..., :-1]
        return a + 1

    _check(fn, _twins(()))


def test_a_plan_serves_arguments_that_start_elsewhere_in_their_storage() -> None:
    """What select_scatter makes starts where its memory does, whatever the offset of the argument that was recorded."""

    def fn(a):
        t = torch.select_scatter(a, a[0], 0, 0)
        return t.relu_(), t[1:], a

    memory = torch.arange(14.0) - 5
    _check(fn, lambda: [memory.clone().as_strided((3, 3), (3, 1), 2)], lambda: [memory.clone()[:9].view(3, 3)])
