"""Core ops: text and types say the same, and the one rule of operands is what each op means."""

import itertools
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from fusekit.dtypes import F32, I64
from fusekit.errors import TextSyntaxError
from fusekit.index import Form, Var, loop_vars
from fusekit.ir import Graph, Guard, Number, Op, Operand, Tensor, core, empty_graph, parse
from fusekit.ir.core_text import read_op
from fusekit.run.interpret import Run

ROW, COLUMN = loop_vars((3, 4))
OPS: tuple[core.Ours, ...] = (
    core.Input(),
    core.Return((Operand(0), 3, None), ((0, Operand(1)),)),
    core.Load(),
    core.Store(),
    core.Store(2, "the program ends"),
    core.CheckIndex(7, 1, "gather"),
    core.CheckIndex(7, 1, "index", "RuntimeError", wraps=True, ignore=-100),
    core.Window((COLUMN, ROW)),
    core.Overlay((ROW - 1, COLUMN), (Guard(ROW - 1, 2),)),
    core.Fill(False),
    core.Fill(Number(0, 2.5)),
    core.Iota(3, -1),
    core.Cast(),
    core.Bits(),
    core.Reduce("argmax", (0, 1)),
    core.Take(1),
    core.Gather(0),
)


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.target)
def test_an_op_is_what_its_text_says(op: core.Ours) -> None:
    assert read_op(op.target, op.args, op.kwargs) == op


def test_every_op_is_among_these() -> None:
    assert {type(op) for op in OPS} == set(core.OURS)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("fk.widow(%a.in)", "there is no op fk.widow"),
        ("fk.window(%a.in)", "index"),
        ("fk.window(index=[{i0}])", "takes 1 tensor"),
        ("fk.window(%a.in, index=[{i0}], where=[])", "has no where"),
        ("fk.window(%a.in, index=3)", "no index forms"),
        ("fk.reduce(%a.in, kind='mean', dims=[0])", "no reduction 'mean'"),
        ("fk.reduce(%a.in, kind='sum', dims=['x'])", "no whole number"),
        ("fk.overlay(%a.in, %a.in, index=[{i0}], where=[1])", "no guards"),
        ("fk.fill(value='x')", "no number"),
    ],
)
def test_other_text_is_refused_at_its_line(text: str, says: str) -> None:
    with pytest.raises(TextSyntaxError, match=says) as error:
        parse(f"graph f {{\n  %a.in : f32 [3]\n  %v : f32 [3]\n  ^v %v = {text}\n}}")
    assert str(error.value.where).startswith("line 4")


# ---- the rule -------------------------------------------------------------------------------------------------------

SHAPES = (
    (core.Window((COLUMN % 2, ROW)), (3, 4), [(2, 3)]),
    (core.Overlay((ROW - 1, COLUMN), (Guard(ROW - 1, 2), Guard(COLUMN, 3))), (3, 4), [(3, 4), (2, 3)]),
    (core.Reduce("sum", (0, 2)), (3,), [(2, 3, 4)]),
    (core.Take(1), (2, 2, 3, 4), [(2, 5, 4), (2, 3)]),
    (core.Gather(1), (2, 3), [(2, 5), (2, 3)]),
    (core.Call("aten.add.Tensor", (Operand(0), Operand(1))), (2, 3), [(2, 1), (3,)]),
)


@pytest.mark.parametrize(("op", "shape", "operands"), SHAPES, ids=lambda x: getattr(x, "target", ""))
def test_the_rule_is_what_the_interpreter_computes(
    op: core.What, shape: tuple[int, ...], operands: list[tuple[int, ...]]
) -> None:
    torch.manual_seed(0)
    tensors = [torch.randint(0, 5, of).float() for of in operands]
    if isinstance(op, core.Lookup):
        tensors[1] = torch.randint(0, 5, operands[1])
    found = torch.empty(shape)
    for at in itertools.product(*map(range, shape)):
        found[at] = sum(_terms(op, at, shape, tensors))
    assert torch.equal(found, _interpreted(op, shape, tensors))


def _terms(op: core.What, at: tuple[int, ...], shape: tuple[int, ...], tensors: list[torch.Tensor]) -> Iterator[float]:
    """What the rule reads for one element: one number for each operand that is wanted, or for each that is folded."""
    sizes = tuple(tensors[0].shape)
    index = tuple(map(Form.of, at))
    reads = core.reads(op, index, shape, [tuple(t.shape) for t in tensors], lambda d: Form.of(Var(f"f{d}", sizes[d])))
    folded = op.dims if isinstance(op, core.Reduce) else ()
    for steps in itertools.product(*(range(sizes[d]) for d in folded)):
        values = {f"f{d}": step for d, step in zip(folded, steps, strict=True)}
        if isinstance(op, core.Lookup):
            values[f"f{op.dim}"] = int(_element(tensors[1], reads[1].index, {}))
        for read in reads[:1] if isinstance(op, core.Lookup) else reads:
            if _all_hold(read.where, values) and not (read.unless and _all_hold(read.unless, values)):
                yield float(_element(tensors[read.operand], read.index, values))


def _all_hold(guards: tuple[Guard, ...], values: dict[str, int]) -> bool:
    return all(0 <= guard.form.evaluate(values) < guard.extent for guard in guards)


def _element(tensor: torch.Tensor, index: core.Index, values: dict[str, int]) -> float:
    return tensor[tuple(form.evaluate(values) for form in index)].item()


def _interpreted(op: core.What, shape: tuple[int, ...], tensors: list[torch.Tensor]) -> torch.Tensor:
    graph = _graph(op, shape, tensors)
    run = Run(graph, [], (), ())
    values = {f"%{k}": tensor for k, tensor in enumerate(tensors)}
    run.values.update(values)  # type: ignore[arg-type]
    run.step(graph.ops()[-1])
    return run.values[graph.tensors()[-1]]


def _graph(op: core.What, shape: tuple[int, ...], tensors: list[torch.Tensor]) -> Graph:
    draft = empty_graph("f").draft("test")
    made = []
    for k, tensor in enumerate(tensors):
        payload = Tensor(I64 if tensor.dtype == torch.int64 else F32, tuple(tensor.shape))
        made.append(draft.add_tensor(payload, id=f"%{k}"))
        draft.add_op(Op(core.Fill(0)), (), (made[-1],))
    draft.add_op(Op(op), made, (draft.add_tensor(Tensor(F32, shape), id="%out"),))
    return draft.finish().graph


def test_what_a_value_reads_stands_at_its_operands() -> None:
    base, value = core.reads(
        core.Overlay((ROW,), (Guard(COLUMN, 2),)), (COLUMN, ROW), (3, 4), [(3, 4), (3,)], lambda d: Form()
    )
    assert base == core.Read(0, (COLUMN, ROW), unless=(Guard(ROW, 2),))
    assert value == core.Read(1, (COLUMN,), where=(Guard(ROW, 2),))


@pytest.mark.slow
def test_a_type_checker_finds_a_forgotten_op(tmp_path: Path, root: Path) -> None:
    """The rule without a case for look-ups is refused, and with it is not."""
    if shutil.which("pyright", path=str(Path(sys.executable).parent)) is None:
        pytest.skip("pyright is not installed")
    text = (root / "fusekit" / "ir" / "core.py").read_text()
    case = text[text.index("        case Gather(dim):") : text.index("        case Call() | Cast()")]
    for name, body in (("whole.py", text), ("short.py", text.replace(case, ""))):
        (tmp_path / name).write_text(body)
    command = [str(Path(sys.executable).parent / "pyright"), "--pythonpath", sys.executable, str(tmp_path)]
    said = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False).stdout
    assert "short.py" in said and "assert_never" not in said.partition("short.py")[0] and '"Gather"' in said
    assert "whole.py" not in said
