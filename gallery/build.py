"""Writes the gallery: one page and one picture a step for each program of ``fusekit.programs``.

    python gallery/build.py            writes the files
    python gallery/build.py --check    only says whether they are current

The pictures come from the graph of each step, the numbers from the summary, the kernels from the lowering.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import torch
from tqdm import tqdm

import fusekit as fk
from fusekit.exploration import Exploration
from fusekit.programs import PROGRAMS, PROGRAMS_REAL, Program

HERE = Path(__file__).parent
SIZE, DTYPE = (1024, 1031), torch.float32
WORDS = {
    "trace": "as recorded: in-place ops and views are still there",
    "alias-groups": "which tensors share memory, and which order that forces",
    "functionalize": "writes became values",
    "output-aliases": "outputs that are only views are left to be made after the launches",
    "tidy": "what can be said with fewer ops is",
    "sink-reshapes": "views moved behind what is computed",
    "forward": "which trivial ops each consumer computes for itself",
    "segment": "what runs together",
    "schedule": "the loops of each kernel, as iteration domains and transforms",
}
EVERY_STEP = ("trace", "alias-groups", "functionalize", "segment", "schedule")
LAST_STEPS = ("segment", "schedule")
WHERE_CHANGED = ("output-aliases", "tidy", "sink-reshapes", "forward")  # drawn, with marks, where they did anything
MOST = 12  # rows of the race record of one kernel, and pairs of the merge log with nothing to save


def build(folder: Path) -> None:
    """All pages and pictures into ``folder``."""
    rows = []
    for program in tqdm((*PROGRAMS, *PROGRAMS_REAL), desc="gallery", disable=not sys.stderr.isatty(), leave=False):
        with torch.no_grad():
            x = fk.explore(program.fn, *program.make(SIZE, DTYPE))
        rows.append(row(program, x))
        (folder / f"{program.name}.md").write_text(page(program, x, draw(program, x, folder)))
    (folder / "README.md").write_text(index(rows))


def draw(program: Program, x: Exploration, folder: Path) -> list[tuple[str, str]]:
    """(caption, file name) of each picture written: every step of the first programs, the last two of the others, and
    of all what the passes between changed."""
    pictures = []
    wanted = EVERY_STEP if program in PROGRAMS else LAST_STEPS
    for number, step in enumerate(x.steps):
        if step.name not in wanted and not (step.name in WHERE_CHANGED and x.diff(number - 1, number)):
            continue
        name = f"{program.name}.{number}_{step.name}.svg"
        view, since = "domains" if step.name == "schedule" else None, number - 1 if step.name in WHERE_CHANGED else None
        x.diagram(step.name, view=view, since=since).save(folder / name)
        pictures.append((f"{step.name}: {WORDS[step.name]}", name))
    if program not in PROGRAMS:
        return pictures
    name = f"{program.name}.memory.svg"
    x.diagram("alias-groups", view="memory").save(folder / name)
    return [*pictures, ("memory: one lane a block, reads and writes in program order", name)]


def row(program: Program, x: Exploration) -> str:
    s = x.summary()
    ratio = s.bytes_moved / s.bytes_least if s.bytes_least else 1.0
    counts = f"{s.kernels} | {s.copies} | {s.extern_calls} | {s.alias_segments} | {ratio:.2f}"
    return f"| [{program.name}]({program.name}.md) | {program.title} | {counts} |"


def index(rows: list[str]) -> str:
    head = f"""# Gallery

{len(rows)} programs, f32 {SIZE[0]}×{SIZE[1]}, on the CPU, made by `make gallery`: every step of the first fourteen,
segments and domains of the others, and what the passes between changed. The first nine come from a public
thread about in-place ops on aliased tensors (Lightning-AI/lightning-thunder#2766). Reasons are on hover in the pictures
and in the text of each page.

| program | what it is | kernels | copies | library calls | alias segments | bytes moved / least |
| --- | --- | --- | --- | --- | --- | --- |
"""
    return head + "\n".join(rows) + "\n"


def page(program: Program, x: Exploration, pictures: list[tuple[str, str]]) -> str:
    title = program.title[0].upper() + program.title[1:]
    parts = [f"# {program.name}\n\n{title}. {x.summary()!r}.\n\n[All programs](README.md)\n"]
    parts += [f"## {caption}\n\n![{caption}]({name})\n" for caption, name in pictures]
    told = (("Merges", merges(x)), ("Boundaries", boundaries(x)), ("Schedule", chains(x)), ("Race record", races(x)))
    parts += [f"## {name}\n\n{text}\n" for name, text in told if text]
    parts += [f"## Kernel `{k.name}`\n\n```python\n{k.source.strip()}\n```\n" for k in x.kernels]
    said = [f"- {e}" for step in x.steps for e in step.explanations]
    parts.append("## Why\n\n" + "\n".join(said) + "\n")
    return "\n".join(parts)


def merges(x: Exploration) -> str:
    """The merge log as a table; empty where no pair was tried. Of pairs with nothing to save many are only counted."""
    log = x.merges()
    dull = [row for row in log if row.verdict == "refused" and not row.saved and not row.asked]
    left_out = dull if len(dull) > MOST else []
    shown = [row.cells for row in log if row not in left_out]
    lines = [log.HEAD, ("---",) * len(log.HEAD), *([cell.replace("|", "\\|") for cell in row] for row in shown)]
    table = "\n".join(f"| {' | '.join(row)} |" for row in lines) if shown else ""
    return table + (f"\n\nAnd {len(left_out)} pairs with nothing to save." if left_out else "")


def boundaries(x: Exploration) -> str:
    """What crosses from kernel to kernel, and why the two are not one."""
    lines, launch = [], x.graph.segments().index
    for first, then, tensor, boundary in sorted(x.graph.boundaries(), key=lambda one: (launch(one[0]), launch(one[1]))):
        because = "; ".join(str(e.reason) for e in x.why(first, then))
        lines.append(f"- `{first}` to `{then}`, {boundary.nbytes:,} bytes as `{tensor}`: {because}")
    return "\n".join(lines)


def races(x: Exploration) -> str:
    """Of each kernel: which load meets which store, what protects it, and what else was looked at."""
    lines = []
    for segment in x.segments:
        said = [e for e in x.why(segment.id) if e.by == "lower"]
        lines += [f"- `{segment.id}` {'' if e.verdict == 'did' else 'not taken: '}{e.reason}" for e in said[:MOST]]
        lines += [f"- `{segment.id}` and {len(said) - MOST} more"] if len(said) > MOST else []
    return "\n".join(lines)


def chains(x: Exploration) -> str:
    """The printed schedule of each segment."""
    graph = x.graph
    rows = [(s, graph.segment(s)) for s in graph.segments()]
    return "\n".join(f"- `{s}` {segment.taken_by}: `{segment.schedule or 'none'}`" for s, segment in rows)


def stale(folder: Path) -> list[str]:
    """Files of ``folder`` that differ from what is made now, are missing, or are no longer made."""
    with tempfile.TemporaryDirectory() as made:
        build(Path(made))
        new = {p.name: p.read_text() for p in Path(made).iterdir()}
    old = {p.name: p.read_text() for p in folder.iterdir() if p.suffix in (".md", ".svg")}
    return sorted(name for name in {*new, *old} if new.get(name) != old.get(name))


def main() -> int:
    if "--check" in sys.argv[1:]:
        differing = stale(HERE)
        print("current" if not differing else "not current, run `make gallery`: " + ", ".join(differing))
        return 1 if differing else 0
    for old in (*HERE.glob("*.svg"), *HERE.glob("*.md")):
        old.unlink()
    build(HERE)
    print(f"{len(PROGRAMS) + len(PROGRAMS_REAL)} programs in {HERE.name}/")
    return 0


if __name__ == "__main__":
    sys.exit(main())
