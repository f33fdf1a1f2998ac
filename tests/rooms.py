"""The rooms of the package in their order, and what a module of them imports."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# Each level imports only levels above it. Rooms of one level do not import one another.
LEVELS = (
    ("escape",),
    ("ids", "errors", "dtypes", "progress", "pytest_plugin"),
    ("kinds",),
    ("index",),
    ("why",),
    ("ir",),
    ("memory",),
    ("ops",),
    ("domains",),
    ("schedule",),
    ("passes",),
    ("torch_types",),
    ("trace",),
    ("lower",),
    ("run",),
    ("draw",),
    ("notebook",),
    ("pipeline",),
    ("what_if",),
    ("exploration",),
    ("jit",),
    ("dynamo_backend",),
    ("testing", "programs"),
    ("demo", "doctor"),
    ("cli",),
    ("__main__",),
)
RANK = {room: rank for rank, level in enumerate(LEVELS) for room in level}

TORCH_FREE = (
    *("escape", "ids", "errors", "dtypes", "kinds", "index", "why", "ir", "memory", "ops", "domains", "schedule"),
    *("passes", "lower", "draw", "notebook"),
)
FRONT_DOORS = ("exploration", "jit", "dynamo_backend", "testing", "programs", "demo", "doctor", "cli", "__main__")
# Rooms that only some may enter.
GUESTS = {"torch_types": {"trace", "run", *FRONT_DOORS}}
# Rooms are also kept apart where the order alone would let them meet.
APART = {
    ("draw", "trace"),
    ("draw", "run"),
    ("notebook", "trace"),
    ("notebook", "run"),
    ("lower", "trace"),
}


@dataclass(frozen=True)
class Import:
    """``line`` of a file imports the module ``name``; a name of a package's own door counts as that package."""

    name: str
    line: int

    @property
    def room(self) -> str | None:
        """The room of fusekit that is entered; "" is the front door, None is somebody else's module."""
        first, *rest = self.name.split(".")
        return (rest[0] if rest else "") if first == "fusekit" else None


def files_of(root: Path) -> Iterator[tuple[str, Path]]:
    """Every module of the package with its room; the package's own ``__init__`` is not one."""
    package = root / "fusekit"
    for path in sorted(package.rglob("*.py")):
        if path != package / "__init__.py":
            yield path.relative_to(package).parts[0].removesuffix(".py"), path


def modules_of(root: Path, room: str) -> list[str]:
    """Dotted names of the modules of ``room``, whether it is a folder or one file."""
    paths = [path.relative_to(root).with_suffix("") for name, path in files_of(root) if name == room]
    return [".".join(path.parts).removesuffix(".__init__") for path in paths]


def imports_of(text: str, rooms: frozenset[str] = frozenset(RANK)) -> Iterator[Import]:
    """Every import of a module's text, wherever it stands: in a function or for types only counts too."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (Import(alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                yield Import("relative", node.lineno)
            elif node.module == "fusekit":  # ``from fusekit import ir`` enters the room, ``import jit`` may be either
                names = (alias.name for alias in node.names)
                yield from (Import(f"fusekit.{name}" if name in rooms else "fusekit", node.lineno) for name in names)
            else:
                yield Import(node.module or "", node.lineno)


def wrong_arrow(room: str, target: Import) -> str | None:
    """Why a module of ``room`` may not import ``target``; None if it may."""
    if target.name == "relative":
        return "imports are absolute"
    if room not in RANK:
        return f"there is no room {room!r}: name it in tests/rooms.py"
    top = target.name.split(".")[0]
    if top in ("torch", "torchvision") and room in TORCH_FREE:
        return f"{room} knows no torch"
    entered = target.room
    if entered is None or entered == room:
        return None
    if entered == "":
        return None if room in FRONT_DOORS else "a room never comes in by the front door"
    if entered not in RANK:
        return f"there is no room {entered!r}: name it in tests/rooms.py"
    if RANK[entered] >= RANK[room]:
        return f"{entered} comes after {room}"
    if (room, entered) in APART:
        return f"{room} only reads what it is handed"
    if room not in GUESTS.get(entered, {room}):
        return f"{entered} is for {', '.join(sorted(GUESTS[entered]))}"
    return None
