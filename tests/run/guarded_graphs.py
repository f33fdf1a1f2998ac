"""Graphs changed at random, run on arguments that end where memory ends: a script, since what it looks for is a crash.

``python -m tests.run.guarded_graphs SEED COUNT`` prints one line a graph: seed, what became of it, and why. Each
argument lies between two pages that nobody may touch, now at their one end, now at the other; what is left of its pages
holds a pattern that has to stay.
"""

from __future__ import annotations

import ctypes
import mmap
import random
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

import fusekit as fk
from fusekit.errors import FusekitError
from fusekit.ir import Graph, PassResult
from fusekit.programs import PROGRAMS, Program
from fusekit.run.interpret import interpret

Fn = Callable[..., object]
Made = tuple[torch.Tensor, ...]
PATTERN = 0xA5


def looked_up(weight: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    return weight[at].softmax(-1) * 2 + torch.nn.functional.embedding(at % 3, weight)


def loss(scores: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.cross_entropy(scores, target)


def turned(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    a.copy_(a.flip(0) + 1)
    b[1:4].add_(a[::2, 0].sum())
    return torch.cat([a[:, :2], a[:, 3:]], 1) @ a[:4]


def parts(a: torch.Tensor, b: torch.Tensor) -> object:
    a[1:3, 2:].mul_(b[2:6])
    torch.sigmoid_(a[::2])
    return a.T.contiguous(), a.unfold(0, 3, 2).amax(-1), torch.nn.functional.pad(b, (1, 2)), torch.arange(5) * 2


OWN: tuple[tuple[Fn, Callable[[], Made]], ...] = (
    (looked_up, lambda: (torch.randn(6, 5), torch.arange(7) % 6)),
    (loss, lambda: (torch.randn(6, 5), torch.arange(6) % 5)),
    (turned, lambda: (torch.randn(6, 5), torch.randn(6))),
    (parts, lambda: (torch.randn(7, 6), torch.randn(6))),
)


def _of(program: Program) -> tuple[Fn, Callable[[], Made]]:
    return program.fn, lambda: program.make((6, 5), torch.float32)  # type: ignore[return-value]


CASES = (*OWN, *(_of(p) for p in PROGRAMS if all(isinstance(a, torch.Tensor) for a in p.make((6, 5), torch.float32))))


# ---- memory with an end ---------------------------------------------------------------------------------------------


@dataclass
class Fenced:
    """``size`` bytes from ``start`` on, in the pages ``first`` to ``last``, on both sides of which is no access."""

    start: int
    size: int
    first: int
    last: int

    def whole(self) -> bool:
        """Does the pattern around the bytes stand?"""
        around = ctypes.string_at(self.first, self.start - self.first)
        around += ctypes.string_at(self.start + self.size, self.last - self.start - self.size)
        return around == bytes([PATTERN]) * len(around)


def fenced(size: int, at_end: bool) -> Fenced:
    """Memory that is never given back: the process ends soon."""
    libc, page = ctypes.CDLL(None, use_errno=True), mmap.PAGESIZE
    libc.mmap.restype, libc.mmap.argtypes = (
        ctypes.c_void_p,
        [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long],
    )
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    room = -(-max(size, 1) // page) * page
    base = libc.mmap(None, room + 2 * page, 0, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    first, last = base + page, base + page + room
    assert libc.mprotect(first, room, mmap.PROT_READ | mmap.PROT_WRITE) == 0
    ctypes.memset(first, PATTERN, room)
    return Fenced(last - size if at_end else first, size, first, last)


def on_fences(tensors: Sequence[torch.Tensor], rng: random.Random) -> tuple[list[torch.Tensor], list[Fenced]]:
    """The same tensors, their storages between fences; what shared a storage does so still."""
    homes: dict[int, tuple[torch.Tensor, Fenced]] = {}
    out: list[torch.Tensor] = []
    for tensor in tensors:
        storage = tensor.untyped_storage()
        if storage._cdata not in homes:
            fence = fenced(storage.nbytes(), rng.random() < 0.7)
            ctypes.memmove(fence.start, storage.data_ptr(), storage.nbytes())
            buffer = (ctypes.c_char * fence.size).from_address(fence.start)
            homes[storage._cdata] = torch.frombuffer(buffer, dtype=torch.uint8), fence
        raw = homes[storage._cdata][0].view(tensor.dtype)
        out.append(raw.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset()))
    return out, [fence for _, fence in homes.values()]


# ---- graphs that are not what they were -----------------------------------------------------------------------------

_SIZES = ("0", "1", "2", "3", "5", "7", "1000", "1000000000", "4611686018427387900")
_PLACES = (
    re.compile(r"(?<=[\[(:,+ =-])\d+(?=[\],)*+ :}]|$)"),  # numbers
    re.compile(r"[%@^$][\w.]+"),
    re.compile(r"\b(?:f32|f64|i64|i32|u8|bool|bf16|f16)\b"),
    re.compile(r"\b(?:input|alias|new|argument|fresh|pointwise|extern)\b"),
    re.compile(r"\baten\.\w+\.\w+|\bfk\.\w+"),
)


def bent(text: str, rng: random.Random) -> str:
    """The text with one or two facts changed: a number, a name, a type, an op, or a whole line."""
    for _ in range(rng.choice((1, 1, 2))):
        lines = text.split("\n")
        kind = rng.random()
        at = rng.randrange(1, len(lines) - 1)
        if kind < 0.15:
            del lines[at]
        elif kind < 0.22:
            other = rng.randrange(1, len(lines) - 1)
            lines[at], lines[other] = lines[other], lines[at]
        else:
            pattern = rng.choices(_PLACES, (6, 4, 2, 1, 1))[0]
            found = [m for m in pattern.finditer(text) if m.start() > 8]
            if not found:
                continue
            one = rng.choice(found)
            same = [m[0] for m in found if m[0][0] == one[0][0]]
            new = rng.choice(_SIZES) if one[0].isdigit() and rng.random() < 0.7 else rng.choice(same)
            if one[0].isdigit() and rng.random() < 0.4:
                new = str(max(int(one[0]) + rng.choice((-1, 1)), 0))
            text = text[: one.start()] + new + text[one.end() :]
            continue
        text = "\n".join(lines)
    return text


def legal_and_other(graph: Graph, rng: random.Random) -> Graph | None:
    text = re.sub(r"  # .*", "", fk.ir.print_graph(graph))  # type: ignore[attr-defined]
    for _ in range(60):
        try:
            found = fk.parse(bent(text, rng))
        except FusekitError:
            continue
        if found != graph:
            return found
    return None


def trial(seed: int) -> tuple[str, str]:
    """(what became of a changed graph, why): "refused" or "equal" are right."""
    rng = random.Random(seed)
    torch.manual_seed(seed)
    fn, make = rng.choice(CASES)
    x = fk.explore(fn, *make())
    at = rng.randrange(1, len(x.steps) + 1)
    other = legal_and_other(x.steps[at - 1].graph, rng)
    if other is None:
        return "same", "no other graph found"

    def change(graph: Graph) -> PassResult:
        draft = other.draft("change")
        return draft.finish()

    tensors, fences = on_fences(make(), rng)
    clones, _ = on_fences(tensors, rng)
    passes = [*fk.PIPELINE[: at - 1], change, *fk.PIPELINE[at - 1 :]]
    try:
        y = fk.explore(fn, *tensors, options=fk.Options(passes=passes))
        outs = y.run(*tensors)
    except FusekitError as error:
        return ("refused" if all(f.whole() for f in fences) else "WRITTEN"), str(error)
    except (RuntimeError, IndexError, MemoryError) as error:
        return ("eager" if all(f.whole() for f in fences) else "WRITTEN"), f"{type(error).__name__}: {error}"
    if not all(f.whole() for f in fences):
        return "WRITTEN", y.text("change")
    return compared(y, outs, tensors, clones)


def compared(
    y: fk.Exploration, outs: object, tensors: Sequence[torch.Tensor], clones: Sequence[torch.Tensor]
) -> tuple[str, str]:
    """Is what the kernels did what the interpreter does, on the very graph that was brought?"""
    try:
        numbers = [n.example for n in y.graph.numbers()]
        wanted = interpret(y["change"].graph, y._like_explored(list(clones)), numbers, program=y.steps[0].graph)
    except (FusekitError, RuntimeError, IndexError, ValueError, TypeError, AssertionError, KeyError) as error:
        return "unclear", f"the interpreter: {type(error).__name__}: {error}"
    flat = torch.utils._pytree.tree_leaves(outs)
    pairs = [*zip(flat, wanted, strict=True), *zip(tensors, clones, strict=True)]
    for mine, theirs in pairs:
        if isinstance(mine, torch.Tensor) and isinstance(theirs, torch.Tensor):
            alike = mine.shape == theirs.shape and mine.dtype == theirs.dtype
            if not alike or not torch.allclose(mine.double(), theirs.double(), 1e-4, 1e-5, equal_nan=True):
                return "DIFFERS", y.text("change")
    return "equal", ""


def main() -> None:
    seed, count = int(sys.argv[1]), int(sys.argv[2])
    for k in range(seed, seed + count):
        print(f"{k} begins", flush=True)
        try:
            what, why = trial(k)
        except Exception as error:
            where = error.__traceback__
            while where is not None and where.tb_next is not None:
                where = where.tb_next
            line = f"{where.tb_frame.f_code.co_filename}:{where.tb_lineno}" if where is not None else ""
            what, why = "RAW", f"{type(error).__name__}: {error} {line}"
        print(f"{k} {what} {why!r}", flush=True)


if __name__ == "__main__":
    main()
