"""The callable that ``fk.jit`` gives: keys, plans, the generic plan, last_run, refusals."""

from __future__ import annotations

import copy
import pickle
import threading

import pytest
import torch

import fusekit as fk
from fusekit.errors import FusekitError, UnsupportedError


def scale_and_add(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    b.mul_(2)
    return a + b


def slices(i: int, j: int, n: int = 4) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.arange(64.0)
    return x[i : i + n], x[j : j + n]


def test_apart_in_one_storage_at_any_distance() -> None:
    compiled = fk.jit(scale_and_add)
    for i, j in ((0, 8), (0, 4), (4, 40), (40, 0)):
        assert torch.equal(compiled(*slices(i, j)), scale_and_add(*slices(i, j)))
    assert compiled.cache_info().plans == 1


def test_many_overlaps_end_in_a_generic_plan() -> None:
    compiled = fk.jit(scale_and_add)
    for distance in range(-15, 16):
        mine, theirs = slices(20, 20 + distance, 16), slices(20, 20 + distance, 16)
        assert torch.equal(compiled(*mine), scale_and_add(*theirs))
        assert torch.equal(mine[1], theirs[1])
    info = compiled.cache_info()
    assert info.generic_plans == 1 and info.plans <= 10


def test_last_run_counts_the_last_call() -> None:
    compiled = fk.jit(lambda x: torch.cumsum(x * 2, -1) + 1)
    assert compiled.last_run is None
    compiled(torch.ones(3, 4))
    assert (compiled.last_run.kernels, compiled.last_run.extern_calls) == (2, 1)
    assert fk.last_run() == compiled.last_run
    with pytest.raises(RuntimeError):
        compiled(torch.ones(3, 4, dtype=torch.int64).view(3, 5))
    with pytest.raises(TypeError):
        compiled()
    assert compiled.last_run is None and fk.last_run() is None


def test_captured_tensors_are_read_again() -> None:
    weight = {"w": torch.ones(3)}
    compiled = fk.jit(lambda x: x * weight["w"])
    x = torch.arange(3.0)
    assert torch.equal(compiled(x), x)
    weight["w"] = torch.full((3,), 2.0)
    assert torch.equal(compiled(x), x * 2)
    weight["w"].add_(1)
    assert torch.equal(compiled(x), x * 3)
    weight["w"] = x
    assert torch.equal(compiled(x), x * x)


def test_python_values_are_guarded() -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.twice = False

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2 if self.twice else x + 1

    model = Model()
    compiled = fk.jit(model)
    x = torch.ones(2)
    assert torch.equal(compiled(x), x + 1)
    model.twice = True
    assert torch.equal(compiled(x), x * 2)


def test_nested_arguments_and_results() -> None:
    def f(pair: dict[str, list[torch.Tensor]], *, k: float) -> dict[str, object]:
        return {"sum": pair["ab"][0] + pair["ab"][1] * k, "k": k, "same": pair["ab"][0]}

    a, b = torch.ones(2), torch.ones(2)
    out = fk.jit(f)({"ab": [a, b]}, k=3.0)
    assert torch.equal(out["sum"], a + b * 3) and out["k"] == 3.0 and out["same"] is a


def test_a_branch_on_a_number_is_noticed() -> None:
    compiled = fk.jit(lambda x, n: x * n if n > 2 else x + n)
    x = torch.arange(4.0)
    for n in (1, 3, 2, 7, 1, 4):
        assert torch.equal(compiled(x, n), x * n if n > 2 else x + n)
    assert compiled.cache_info().plans <= 4


def test_numbers_keep_their_type() -> None:
    compiled = fk.jit(lambda x, n: x + n)
    x = torch.arange(4)
    for n in (1, 1.0, True, 2, 2.5):
        want = x + n
        got = compiled(x, n)
        assert got.dtype == want.dtype and torch.equal(got, want)


def test_data_dependent_control_flow_names_the_line() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.sum() > 0 else x

    with pytest.raises(UnsupportedError, match=r"test_jit\.py:\d+"):
        fk.jit(f)(torch.ones(2))


def test_a_result_with_gradient_names_the_backend() -> None:
    w = torch.ones(2, requires_grad=True)
    with pytest.raises(UnsupportedError, match=r'torch\.compile\(fn, backend="fusekit"\)'):
        fk.jit(lambda x: x * w)(torch.ones(2))
    with torch.no_grad():
        assert torch.equal(fk.jit(lambda x: x * w)(torch.ones(2)), torch.ones(2))


def test_strict_refuses_library_calls() -> None:
    with pytest.raises(UnsupportedError, match="cumsum"):
        fk.jit(lambda x: x.cumsum(0), strict=True)(torch.ones(3))
    assert fk.jit(lambda x: x + 1, strict=True)(torch.ones(3)).sum() == 6


def test_as_a_decorator() -> None:
    @fk.jit
    def f(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    @fk.jit(strict=True)
    def g(x: torch.Tensor) -> torch.Tensor:
        return x + 2

    assert f(torch.zeros(1)).item() == 1 and g(torch.zeros(1)).item() == 2
    assert f.__name__ == "f"


def test_unknown_options_say_what_is_there() -> None:
    with pytest.raises(UnsupportedError, match="auto"):
        fk.Options(backend="tpu")


def test_two_threads_call_one_callable() -> None:
    compiled, wrong = fk.jit(scale_and_add), []

    def work(seed: int) -> None:
        for k in range(20):
            n = 8 + (seed + k) % 5
            a, b = torch.full((n,), float(seed)), torch.full((n,), float(k))
            if not torch.equal(compiled(a, b), torch.full((n,), float(seed) + 2 * k)):
                wrong.append((seed, k))

    threads = [threading.Thread(target=work, args=(s,)) for s in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_a_cut_forces_a_boundary_and_changes_nothing_else() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return fk.cut(x.exp()).sin() + 1

    x = fk.explore(f, torch.rand(4))
    assert x.check().ok
    assert x.summary().kernels == 2
    assert any("fk.cut" in str(e) for e in x.why("$0", "$1"))
    t = torch.ones(2)
    assert fk.cut(t) is t and fk.jit(lambda a: fk.cut(a))(t) is t


# ---- methods, copies


class Scaled:
    def __init__(self, k: float):
        self.k, self.w = k, torch.full((3,), k)

    @fk.jit
    def apply(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.k + self.w

    @classmethod
    @fk.jit
    def of_class(cls, x: torch.Tensor) -> torch.Tensor:
        return x + len(cls.__name__)

    @staticmethod
    @fk.jit
    def plain(x: torch.Tensor) -> torch.Tensor:
        return x - 1


def test_a_method_of_two_instances() -> None:
    one, two, x = Scaled(2.0), Scaled(3.0), torch.ones(3)
    for _ in range(3):
        assert one.apply(x).tolist() == [4, 4, 4] and two.apply(x).tolist() == [6, 6, 6]
    one.k = 5.0
    assert one.apply(x).tolist() == [7, 7, 7] and two.apply(x=x).tolist() == [6, 6, 6]
    one.w = torch.zeros(3)
    two.w = torch.zeros(1)
    assert one.apply(x).tolist() == [5, 5, 5] and two.apply(x).tolist() == [3, 3, 3]
    assert Scaled.apply(one, x).tolist() == [5, 5, 5]
    assert one.apply.last_run is not None and Scaled.apply.cache_info().plans


def test_class_and_static_methods() -> None:
    x = torch.ones(3)
    for home in (Scaled, Scaled(1.0)):
        assert home.of_class(x).tolist() == [7, 7, 7] and home.plain(x).tolist() == [0, 0, 0]
    for kind in (classmethod, staticmethod):
        with pytest.raises(FusekitError, match=f"write @{kind.__name__} above @fk.jit"):
            fk.jit(kind(lambda x: x))
    with pytest.raises(FusekitError, match="cannot be called"):
        fk.jit(3)


def test_a_module_as_an_attribute_is_no_method() -> None:
    class Holder:
        layer = fk.jit(torch.nn.ReLU())

    assert Holder().layer(torch.tensor([-1.0, 2.0])).tolist() == [0, 2]


@fk.jit
def decorated(x: torch.Tensor) -> torch.Tensor:
    return x + 1


def test_copies_begin_without_plans() -> None:
    x = torch.ones(3)
    decorated(x)
    for function in (decorated, Scaled.apply):
        assert pickle.loads(pickle.dumps(function)) is function
    other = copy.deepcopy(decorated)
    assert other is not decorated and other.cache_info().plans == 0 and torch.equal(other(x), decorated(x))
    named = fk.jit(scale_and_add, strict=True)
    again = pickle.loads(pickle.dumps(named))
    assert again._options == named._options and again.cache_info().plans == 0
    assert torch.equal(again(x, x.clone()), x * 3)


class Holding(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3), requires_grad=False)
        self.fast = fk.jit(self.slow)

    def slow(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fast(x)


def test_a_module_that_holds_one_is_copied_whole() -> None:
    module, x = Holding(), torch.ones(3)
    module(x)
    for other in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        other.weight.fill_(5)
        assert other(x).tolist() == [5, 5, 5] and module(x).tolist() == [1, 1, 1]
