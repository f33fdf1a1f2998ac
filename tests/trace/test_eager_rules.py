"""Eager's errors in writing, by rule: its type, raised before anything is written; and what looks alike but is allowed
does what eager does. The number in front of a name is that of the rule; 14 and 15 only allow."""

from __future__ import annotations

import pytest
import torch

import fusekit as fk
from fusekit.errors import FusekitError
from fusekit.testing import check
from fusekit.trace import oracle


def square() -> torch.Tensor:
    return torch.arange(36.0).reshape(6, 6)


def spread() -> torch.Tensor:
    return torch.ones(1, 6).expand(6, 6)


def whole(dtype: torch.dtype = torch.int64) -> torch.Tensor:
    return torch.arange(1, 8).to(dtype)


def leaf() -> torch.Tensor:
    return torch.ones(5, requires_grad=True)


def inference() -> torch.Tensor:
    with torch.inference_mode():
        return torch.ones(5)


RAISES = {
    # 12: a write to elements that share a byte
    "12 add_": (lambda a: a.add_(1), spread),
    "12 cos_": (lambda a: a.cos_(), spread),
    "12 copy_": (lambda a: a.copy_(torch.zeros(6, 6)), spread),
    "12 of a tensor": (lambda a: a.mul_(a[0]), spread),
    "12 setitem": (lambda a: a.__setitem__(slice(1, 3), torch.zeros(2, 6)), spread),
    "12 through a view": (lambda a: a.t()[2:].add_(1), spread),
    "12 out=": (lambda a: torch.add(torch.ones(6, 6), 1, out=a), spread),
    # 13: a dense operand that overlaps the destination in part
    "13 shifted": (lambda a: a[1:].add_(a[:-1]), square),
    "13 transposed": (lambda a: a.add_(a.t()), square),
    "13 its row": (lambda a: a.add_(a[0]), square),
    "13 its element": (lambda a: a.mul_(a[0, 0]), square),
    "13 in other sizes": (lambda a: a[0].add_(a.view(1, -1)[:, :6]), square),
    "13 copy_": (lambda a: a[1:].copy_(a[:-1]), square),
    "13 index_copy_": (lambda a: a.index_copy_(0, torch.tensor([0, 1]), a[2:4]), square),
    "13 out=": (lambda a: torch.mul(a[:-1], 2, out=a[1:]), square),
    "13 foreach": (lambda a: torch._foreach_add_([a[1:]], [a[:-1]]), square),
    # 16: a result that does not fit the destination's category
    "16 div_": (lambda a: a.div_(2), whole),
    "16 add_ float": (lambda a: a.add_(0.5), whole),
    "16 mul_ tensor": (lambda a: a.mul_(torch.tensor(0.5)), whole),
    "16 exp_": (lambda a: a.exp_(), whole),
    "16 clamp_": (lambda a: a.clamp_(0.5), whole),
    "16 pow_": (lambda a: a.pow_(2.0), whole),
    "16 bool add_": (lambda a: a.add_(1), lambda: whole(torch.bool)),
    "16 bool sub": (lambda a: a - a, lambda: whole(torch.bool)),
    "16 complex": (lambda a: a.add_(1j), square),
    "16 out=": (lambda a: torch.exp(torch.ones(7), out=a), whole),
    # 17: a result or a mask that is larger than the destination
    "17 operand": (lambda a: a[0].add_(a * 1), square),
    "17 mask": (lambda a: a[0].masked_fill_(a > 1, 0), square),
    "17 copy_": (lambda a: a[0].copy_(torch.ones(2, 6)), square),
    # 18: autograd
    "18 leaf": (lambda a: a.add_(1), leaf),
    "18 view of a leaf": (lambda a: a[1:].add_(1), leaf),
    "18 foreach on a leaf": (lambda a: torch._foreach_add_([a], 1), leaf),
    # 19: shapes and dtypes
    "19 view": (lambda a: a.t().view(36), square),
    "19 as_strided": (lambda a: a.as_strided((7, 7), (6, 1)), square),
    "19 amax": (lambda a: a[:0].amax(0), square),
    "19 argmax": (lambda a: a[:, :0].argmax(1), square),
    "19 max": (lambda a: a[:0].max(), square),
    "19 mean": (lambda a: a.mean(), whole),
    "19 softmax": (lambda a: a.softmax(0), whole),
    "19 bitwise": (lambda a: a ^ a, square),
    "19 shift": (lambda a: a << 1, square),
    "19 cat": (lambda a: torch.cat([a, a[:, :3]], 0), square),
    "19 matmul": (lambda a: a @ a[:5], square),
    "19 dimension": (lambda a: a.sum(2), square),
    "19 index": (lambda a: a[6], square),
}


@pytest.mark.parametrize("name", RAISES)
def test_eagers_type_before_anything_is_written(name):
    fn, make = RAISES[name]

    def program(a, before):
        before.add_(1)
        out = fn(a)
        before.add_(1)
        return out

    with pytest.raises(Exception) as want:
        program(make(), torch.zeros(3))
    a, before = make(), torch.zeros(3)
    held, compiled = a.detach().clone(), fk.jit(program)
    for _ in range(2):
        with pytest.raises(type(want.value)) as got:
            compiled(a, before)
        assert type(got.value) is type(want.value)
        assert not isinstance(got.value, FusekitError)
        assert torch.equal(before, torch.zeros(3)) and torch.equal(a.detach(), held) and a._version == make()._version


ALLOWED = {
    "12 fill_": (lambda a: (a.fill_(3), a + 1)[1], spread),
    "12 zero_": (lambda a: (a.zero_(), a + 1)[1], spread),
    "12 masked_fill_": (lambda a: (a.masked_fill_(torch.eye(6) > 0, 5), a + 1)[1], spread),
    "12 setitem of a number": (lambda a: (a.__setitem__(2, 7), a + 1)[1], spread),
    "12 size 1": (lambda a: a.expand(1, 6).add_(1), lambda: torch.ones(1, 6)),
    "13 the same map": (lambda a: a.add_(a), square),
    "13 apart": (lambda a: a[:3].add_(a[3:]), square),
    "13 interleaved": (lambda a: a[:, ::2].mul_(a[:, 1::2]), square),
    "14 columns shifted": (lambda a: a[:, 1:].copy_(a[:, :-1]), square),
    "14 a column of itself": (lambda a: a[:, :5].mul_(a[:, 0:1]), square),
    "15 reinterpreted": (lambda a: a.copy_(a.view(torch.int32)), square),
    "16 half and double": (lambda a: a.add_(torch.ones(7, dtype=torch.float64)), lambda: whole(torch.float16)),
    "16 copy_ truncates": (lambda a: a.copy_(torch.linspace(-2, 2, 7)), whole),
    "16 fill_ truncates": (lambda a: a.fill_(2.7), whole),
    "16 int of a bool": (lambda a: a.add_(a > 2), whole),
    "17 a smaller operand": (lambda a: a.add_(torch.ones(6, 1)), square),
    "18 no_grad": (lambda a: a.add_(1), leaf),
    "18 inference": (lambda a: a.add_(1), inference),
    "19 sum of nothing": (lambda a: (a[:0].sum(0), a[:0].prod(), a[:, :0].any(1), (a[:0] > 0).all(0)), square),
    "19 a norm over nothing": (lambda a: torch.linalg.norm(a[:, :0], float("inf")), square),
    "19 int division": (lambda a: a // 2, whole),
}


@pytest.mark.parametrize("name", ALLOWED)
def test_what_eager_allows(name):
    fn, make = ALLOWED[name]
    with torch.inference_mode() if "inference" in name else torch.no_grad():
        check(fn, make(), every_step=False)


def test_integer_division_by_zero_is_the_ops_own_error():
    """Data decides it: raised at its op, after the writes in front of it."""

    def fn(a, before):
        before.add_(1)
        return a // (a - a)

    for call in (fn, fk.jit(fn)):
        before = torch.zeros(3)
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            call(whole(), before)
        assert torch.equal(before, torch.ones(3))


def test_row_numbers_that_a_question_gives_to_lapack_are_in_the_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eager trusts them: asked with zeros it wrote in front of the matrix."""
    given: list[torch.Tensor] = []
    mapped = oracle.mapped

    def keeping(values, change):
        made = mapped(values, change)
        given.extend(t for t in made if isinstance(t, torch.Tensor) and t.dtype == torch.int32)
        return made

    monkeypatch.setattr(oracle, "mapped", keeping)
    factors, rows = torch.linalg.ldl_factor(torch.eye(4) + 1)
    func, out = torch.ops.aten.linalg_ldl_solve.out, torch.empty(4, 2)
    answer = oracle.ask_eager(
        func, (factors, rows, torch.ones(4, 2)), {"out": out}, lambda t: t.untyped_storage().nbytes()
    )
    assert answer is oracle.Verdict.FINE
    assert len(given) == 2 and all((rows >= 1).all() for rows in given)
