"""Every way in which a program writes memory does what eager does: values, bytes, versions, aliasing, errors."""

from __future__ import annotations

import re
import warnings

import pytest
import torch
import torch.nn.functional as F

import fusekit as fk
from fusekit.errors import UnsupportedError
from fusekit.testing import check
from fusekit.trace import record

SIZE = 37  # past a vector, with an odd tail


def line(n: int = SIZE, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.linspace(-2, 3, n).to(dtype)


def grid(rows: int = 5, columns: int = 7, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return line(rows * columns, dtype).reshape(rows, columns).clone()


def halves() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """A tensor, its front and its back, which meet in the middle."""
    base = line()
    return base, base[:20], base[15:]


def foreach(name: str, *rest):
    def run(*ts):
        found = getattr(torch, f"_foreach_{name}")(list(ts), *rest)
        return found if found is not None else [t * 1 for t in ts]

    return run


FOREACH = {
    "add_ number": (foreach("add_", 2), halves),
    "add_ numbers": (foreach("add_", [1.0, 2.0, 3.0]), halves),
    "mul_ tensor": (lambda s, *ts: torch._foreach_mul_(list(ts), s), lambda: (line()[3], *halves())),
    "neg_": (foreach("neg_"), halves),
    "sqrt": (foreach("sqrt"), halves),
    "zero_": (foreach("zero_"), lambda: (line(), grid().t())),
    "twice the same": (lambda a: torch._foreach_add_([a, a], 1), lambda: (line(),)),
    "add_ its own element": (lambda a, b: torch._foreach_mul_([a, b], [b, b]), lambda: (line(), torch.tensor(3.0))),
    "addcmul_": (lambda a, b: torch._foreach_addcmul_([a, b], [b, a], [a, a], 0.5), lambda: (line(), line().neg())),
    "addcdiv_": (lambda a, b: torch._foreach_addcdiv_([a], [b], [b.exp()], [2.0]), lambda: (line(), line().neg())),
    "lerp_": (lambda a, b: torch._foreach_lerp_([a, a[3:]], [b, b[3:]], 0.25), lambda: (line(), line().neg())),
    "copy_": (lambda a, b: torch._foreach_copy_([a[:9], a[9:18]], [b[9:18], b[:9]]), lambda: (line(), line().neg())),
    "clamp_min_": (lambda a: torch._foreach_clamp_min_([a[::2], a[1::2]], 0.5), lambda: (line(),)),
    "norm": (lambda a, b: torch._foreach_norm([a, b]), lambda: (line(), grid())),
    "max": (lambda a, b: torch._foreach_max([a, b]), lambda: (line(), grid())),
}


def fused(name: str, *rest, **named):
    """A fused optimizer op on one parameter, its gradient and its state."""

    def run(p, grad, first, second, step):
        getattr(torch, name)([p], [grad], [first], [second], *rest, [step], **named)
        return p * 1

    return run


ADAM = {"lr": 0.1, "beta1": 0.9, "beta2": 0.99, "weight_decay": 0.1, "eps": 1e-8, "amsgrad": False, "maximize": False}
SGD = {"weight_decay": 0.1, "momentum": 0.9, "lr": 0.1, "dampening": 0.0, "nesterov": True, "maximize": False}


def states() -> tuple[torch.Tensor, ...]:
    return line(), line().cos(), line().abs(), line().square(), torch.tensor(3.0)


FUSED = {
    "adamw": (fused("_fused_adamw_", [], **ADAM), states),
    "adam": (fused("_fused_adam_", [], **ADAM), states),
    "sgd": (
        lambda p, g, m: (torch._fused_sgd_([p], [g], [m], is_first_step=False, **SGD), p + m)[1],
        lambda: (line(), line().cos(), line()),
    ),
    "of two parameters in one storage": (
        lambda base, m: (torch._fused_sgd_([base[:9], base[9:18]], [m[9:18], m[:9]], [], is_first_step=True, **SGD | {
            "momentum": 0.0, "nesterov": False}), base * 2)[1],
        lambda: (line(), line().cos()),
    ),
}  # fmt: skip


def into(fn, *slices):
    """``fn`` with ``out=`` the first argument, or a part of it."""

    def run(out, *args):
        target = out[slices] if slices else out
        fn(*args, out=target)
        return out * 1, target

    return run


def one_of_both() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    a = line()
    return a, a, line().neg()


OUT = {
    "an operand": (into(torch.add), one_of_both),
    "broadcast": (into(torch.add), lambda: (grid(), grid()[:1].clone(), grid()[:, :1].clone())),
    "of another dtype": (into(torch.mul), lambda: (line(dtype=torch.float64), line(), line())),
    "of a narrower dtype": (into(torch.add), lambda: (line(dtype=torch.float16), line(), line(dtype=torch.float64))),
    "int into float": (into(torch.add), lambda: (line(), line(dtype=torch.int64), line(dtype=torch.int32))),
    "compare into int": (into(torch.lt), lambda: (line(dtype=torch.int32), line(), line().neg())),
    "a column": (into(torch.exp, slice(None), 2), lambda: (grid(), line(5))),
    "a transposed matrix": (lambda o, a: torch.tanh(a, out=o.t()), lambda: (grid(), grid(7, 5))),
    "a sum": (into(torch.sum), lambda: (torch.tensor(0.0), grid())),
    "a sum into a part of what is summed": (
        lambda a: (torch.sum(a, 0, out=a[3]), a * 1)[1], lambda: (grid(),)),
    "matmul": (into(torch.mm), lambda: (torch.zeros(5, 5), grid(), grid(7, 5))),
    "matmul into columns": (lambda o, a: torch.mm(a, a.t(), out=o[:, ::2]), lambda: (torch.zeros(5, 10), grid())),
    "cat": (lambda o, a, b: torch.cat([a, b], out=o), lambda: (torch.zeros(2 * SIZE), line(), line().neg())),
    "a pair": (lambda v, i, a: torch.max(a, 1, out=(v, i)), lambda: (torch.zeros(5), torch.zeros(5).long(), grid())),
    "where": (lambda o, a, b: torch.where(a > 0, a, b, out=o), lambda: (line(), line(), line().neg())),
    "kron": (into(torch.kron), lambda: (torch.zeros(10, 21), grid(2, 3), grid(5, 7))),
    "matrix rank": (into(torch.linalg.matrix_rank), lambda: (torch.tensor(0), grid(4, 4))),
    "not written by eager either": (
        lambda o, a: torch.fft.ihfft2(a, dim=0, out=o), lambda: (torch.zeros(3, 7, dtype=torch.complex64), grid())),
    "without an element": (into(torch.exp), lambda: (torch.empty(0), line())),
    "two without an element": (
        lambda v, i, a: (torch.sort(a, 1, out=(v, i)), v.add_(1))[0],
        lambda: (torch.empty(0), torch.empty(0, dtype=torch.int64), grid())),
    "two of one storage without an element": (
        lambda o, p, a: (torch.exp(a, out=o), torch.sin(a[:3], out=p), o + 0)[2],
        lambda: (lambda o: (o, o[:0], line()))(torch.empty(0))),
    "made inside, without an element": (
        lambda a: (lambda o: (torch.exp(a, out=o), o.mul_(2), o, o[0]))(torch.empty(0))[2:], lambda: (grid(),)),
    "a decomposition that resizes": (torch.linalg.slogdet, lambda: (grid(4, 4) + torch.eye(4),)),
    "one that takes its pivots": (lambda a: torch.linalg.inv(a, out=torch.empty(0)), lambda: (torch.eye(4) * 3,)),
}  # fmt: skip


def normed(fn, **options):
    def run(x, mean, var):
        return fn(x, mean, var, **options), mean * 1

    return run


def statistics(*shape: int):
    return lambda: (line(shape[0] * shape[1] * 4).reshape(*shape[:2], 4), torch.zeros(shape[1]), torch.ones(shape[1]))


def one_buffer() -> tuple[torch.Tensor, ...]:
    both = torch.ones(6)
    return line(2 * 3 * 4).reshape(2, 3, 4), both[:3], both[3:]


STATISTICS = {
    "batch norm": (normed(F.batch_norm, training=True), statistics(5, 3)),
    "in one buffer": (normed(F.batch_norm, training=True, momentum=0.3), one_buffer),
    "evaluated": (normed(F.batch_norm, training=False), statistics(5, 3)),
    "instance norm": (normed(F.instance_norm, use_input_stats=True), statistics(2, 3)),
    "read before and after": (
        lambda x, m, v: (m + 1, F.batch_norm(x, m, v, training=True), m.mul_(2), v * 1)[::3], statistics(5, 3)),
    "updated alone": (
        lambda x, m, v: (m + v, torch.batch_norm_update_stats(x, m, v, 0.1), m * 1, v.mul_(2))[::2], statistics(5, 3)),
    "updated alone, in one buffer": (
        lambda x, m, v: (m * 2, torch.batch_norm_update_stats(x, m, v, 0.1), m + v), one_buffer),
}  # fmt: skip


def waves() -> tuple[torch.Tensor]:
    return (torch.complex(line(12), line(12).cos()),)


REINTERPRETED = {
    "view_as_real": (lambda z: (torch.view_as_real(z).mul_(2), z * 1)[1], waves),
    "its parts": (lambda z: (torch.view_as_real(z)[:, 0].exp_(), torch.view_as_real(z)[3:, 1].zero_(), z)[2], waves),
    "real and imag": (lambda z: (z.real.add_(1), z.imag.neg_(), z + 0)[2], waves),
    "view_as_complex": (lambda a: (torch.view_as_complex(a).mul_(2j), a + 1)[1], lambda: (grid(6, 2),)),
    "f32 as int32": (lambda a: (a.view(torch.int32).bitwise_xor_(1 << 31), a + 0)[1], lambda: (line(),)),
    "f32 as bytes": (lambda a: (a.view(torch.uint8)[::4].fill_(0), a * 2)[1], lambda: (line(),)),
    "int64 as int32": (lambda a: (a.view(torch.int32)[1::2].zero_(), a + 1)[1], lambda: (line(dtype=torch.int64),)),
    "through two views": (
        lambda a: (a.view(-1).view(torch.int32).add_(1), a.t()[2].mul_(2), a * 1)[2], lambda: (grid(),)),
    "two storages over one memory": (
        lambda a, b: (a.mul_(2), b.add_(1), a + b)[2],
        lambda: (lambda n: (torch.from_numpy(n[:-1]), torch.from_numpy(n[1:])))(line(8).numpy())),
}  # fmt: skip

METADATA = {
    "transpose_": lambda a: a.transpose_(0, 1).mul_(2),
    "t_": lambda a: (a.t_(), a.add_(1), a[0] * 1)[2],
    "swapaxes_": lambda a: a.swapaxes_(1, 0),
    "swapdims_": lambda a: a.swapdims_(0, 1).exp(),
    "squeeze_": lambda a: a.unsqueeze_(1).squeeze_(),
    "squeeze_ of a dimension": lambda a: (a.unsqueeze_(-1), a.squeeze_(-1), a.mul_(3))[2],
    "unsqueeze_": lambda a: (a.unsqueeze_(0), a + 1)[1],
    "as_strided_": lambda a: (a.as_strided_((3, 2), (7, 2), 1), a.neg_(), a * 2)[2],
    "resize_ to less": lambda a: (a.resize_(3, 4), a.mul_(2), a.sum(0))[2],
    "resize_ to the same": lambda a: a.resize_(5, 7).mul_(2),
    "of a view": lambda a: (lambda v: (v.t_(), v.mul_(2), a + 1, v))(a[1:])[2:],
    "of what was made": lambda a: (lambda b: (b.t_(), b.resize_(50), b[35:].zero_(), b.add_(1), b[:40]))(a * 2)[4],
    "detach_": lambda a: a.detach_().mul_(2),
}

DATA = {
    "data": lambda a: (a.data.mul_(2), a * 1),
    "a view of data": lambda a: (a.data[1:].mul_(2), a * 1),
    "data of a view": lambda a: (a[1:].data.mul_(2), a * 1),
    "detach": lambda a: (a.detach().mul_(2), a * 1),
    "detach of data": lambda a: (a.data.detach().mul_(2), a * 1),
    "both": lambda a: (a.data.mul_(2), a.add_(1)),
    "read": lambda a: (a.data, a.data[1:], a.detach()),
}


def cases(**groups):
    return [pytest.param(*case, id=f"{group} {name}") for group, rows in groups.items() for name, case in rows.items()]


@pytest.mark.parametrize(
    ("fn", "make"),
    cases(
        foreach=FOREACH, fused=FUSED, out=OUT, statistics=STATISTICS, reinterpreted=REINTERPRETED,
        metadata={name: (fn, lambda: (grid(),)) for name, fn in METADATA.items()},
    ),
)  # fmt: skip
def test_a_way_of_writing(fn, make):
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(fn, *make(), every_step=False)


@pytest.mark.parametrize("name", METADATA)
def test_metadata_of_a_captured_tensor(name):
    held = grid()
    fn, compiled, want = METADATA[name], fk.jit(lambda: METADATA[name](held)), grid()
    for _ in range(1 if "squeeze" in name else 2):
        first, second = fn(want), compiled()
        for one, other in zip(*((r if isinstance(r, tuple) else (r,)) for r in (first, second)), strict=True):
            assert torch.allclose(one, other)
        assert (held.shape, held.stride(), held.storage_offset()) == (want.shape, want.stride(), want.storage_offset())
        if name == "of what was made":
            break


# ---- version counters


def versions(ts):
    return [t._version for t in ts]


def moved(fn, ts):
    """Whose version a call moves, and whose a write to each of its results."""
    before = versions(ts)
    results = fn(*ts)
    rows = [[now > was for now, was in zip(versions(ts), before, strict=True)]]
    for t in results if isinstance(results, tuple) else (results,):
        before = versions(ts)
        t.add_(1)
        rows.append([now > was for now, was in zip(versions(ts), before, strict=True)])
    return rows


@pytest.mark.parametrize("name", DATA)
def test_data_has_a_version_counter_of_its_own_and_detach_has_not(name):
    mine, theirs = line(), line()
    assert moved(fk.jit(DATA[name]), [mine]) == moved(DATA[name], [theirs])
    assert torch.equal(mine, theirs)


def _related() -> tuple[torch.Tensor, ...]:
    a = line()
    return a, a[1:], a.data[2:], a.detach()


@pytest.mark.parametrize("written", [(0,), (1,), (2,), (3,), (0, 2), (1, 3), (0, 1, 2, 3)], ids=str)
def test_arguments_that_share_memory_and_maybe_a_counter(written):
    def fn(*ts):
        for k in written:
            ts[k].mul_(2)
        return ts[0] * 1

    mine, theirs = _related(), _related()
    assert moved(fk.jit(fn), mine) == moved(fn, theirs)
    assert torch.equal(mine[0], theirs[0])


def test_an_optimizer_step_through_data():
    def step(p, g):
        p.data.mul_(0.9)
        p.data.add_(g, alpha=-0.1)
        return p.detach() + 0

    mine, theirs = (torch.nn.Parameter(line()) for _ in range(2))
    assert torch.allclose(fk.jit(step)(mine, line()), step(theirs, line()))
    assert torch.allclose(mine, theirs) and mine._version == theirs._version == 0


# ---- what cannot be done


REFUSED = {
    "a larger resize_": (lambda a: a.resize_(99), "larger than its storage"),
    "resize_as_": (lambda a: a.resize_as_(torch.zeros(99)), "larger than its storage"),
    "set_": (lambda a: a.set_(torch.zeros(3)), "set_"),
    "data =": (lambda a: setattr(a, "data", torch.zeros(3)), ".data ="),
    "a larger out=": (lambda a: torch.exp(torch.ones(99), out=a), "larger than its storage"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_name_the_line_and_write_nothing(name):
    fn, text = REFUSED[name]
    a = line()
    with torch.no_grad(), pytest.raises(UnsupportedError, match=re.escape(text)) as error:
        record(fn, (a,))
    assert str(error.value.where) == f"{__file__}:{fn.__code__.co_firstlineno}"
    assert torch.equal(a, line()) and a.shape == (SIZE,)


def test_a_resized_out_warns_at_the_users_line():
    def fn(o, a):
        return torch.exp(a, out=o)

    with pytest.warns(UserWarning, match="was resized") as seen:
        fk.jit(fn)(torch.zeros(2, 3), line(4))
    assert {one.filename for one in seen} == {__file__}


# ---- lazy conjugates that stay inside a torch function


@pytest.mark.parametrize("fn", [torch.fft.ihfft, torch.fft.hfft, torch.fft.ifft, torch.fft.hfft2])
def test_conjugates_inside(fn):
    check(lambda a: fn(a) * 2, grid(), every_step=False)
    check(lambda z: fn(z), torch.complex(grid(), grid())) if fn is not torch.fft.ihfft else None


@pytest.mark.parametrize("ask", [torch.Tensor.resolve_conj, torch.view_as_real, torch.Tensor.is_conj, torch.imag])
def test_nobody_sees_that_a_conjugate_was_computed(ask):
    with pytest.raises(UnsupportedError, match="conj"):
        record(lambda a: ask(torch.fft.ihfft(a)), (line(),))
