"""Work of a fuzz whose process dies at one seed."""

import os
from collections import Counter
from collections.abc import Sequence

from fusekit.testing.fuzz import Result
from fusekit.testing.fuzz_seed import Job

SEED = 7


def work(seeds: Sequence[int], job: Job) -> Result:
    if SEED in seeds:
        os._exit(3)
    return list(seeds), Counter(programs=len(seeds)), []
