"""A kernel's very source, thread by thread in Python: barriers, shuffles and tickets do what they do on a device."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from itertools import product

import numpy as np

from fusekit.run.cuda import helpers, standins
from fusekit.run.cuda.source import execute

TOGETHER = (
    "sync_threads", "sync_grid", "shuffle", "warp_", "block_sum", "block_prod", "block_max", "block_min", "last_block",
)  # fmt: skip
"""What only all threads of a warp or of a block can do."""


def simulate(
    source: str,
    name: str,
    grid: Sequence[int],
    block: Sequence[int],
    arguments: Sequence[int | float],
    order: Callable[[list], Iterable] = list,
) -> None:
    """Runs a grid block after block, with one Python thread a thread. ``order`` permutes the blocks. Blocks that wait
    for one another run at once.

    Raises what the first thread raised; a barrier that some threads never reach is a BrokenBarrierError.
    """
    kernel = execute(source, name, helpers.plain())
    alone = not any(word in source for word in TOGETHER)
    grid_x, grid_y, grid_z = (*grid, 1, 1)[:3]
    block_x, block_y, block_z = (*block, 1, 1)[:3]
    places = [(x, y, z) for z, y, x in product(range(grid_z), range(grid_y), range(grid_x))]
    at_once = "sync_grid(" in source
    whole = threading.Barrier(len(places) * block_x * block_y * block_z) if at_once else None
    teams = [
        standins.Team((block_x, block_y, block_z), place, (grid_x, grid_y, grid_z), whole=whole)
        for place in order(places)
    ]
    for group in [teams] if at_once else [[team] for team in teams]:
        if alone:
            _run_alone(kernel, group[0], arguments)
        else:
            _run_blocks(kernel, group, arguments)


def _run_alone(kernel: Callable[..., None], team: standins.Team, arguments: Sequence[int | float]) -> None:
    """Threads that never wait for one another, one after the other: much faster than Python's threads."""
    with np.errstate(all="ignore"):
        for number in range(team.count):
            standins.enter(team, number)
            kernel(*arguments)


def _run_blocks(kernel: Callable[..., None], teams: list[standins.Team], arguments: Sequence[int | float]) -> None:
    failures: list[BaseException] = []

    def work(team: standins.Team, number: int) -> None:
        standins.enter(team, number)
        try:
            with np.errstate(all="ignore"):
                kernel(*arguments)
        except BaseException as error:
            failures.append(error)
            for each in teams:
                each.abort()

    threads = [
        threading.Thread(target=work, args=(team, number), daemon=True)
        for team in teams
        for number in range(team.count)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        broken = threading.BrokenBarrierError
        raise next((error for error in failures if not isinstance(error, broken)), failures[0])
