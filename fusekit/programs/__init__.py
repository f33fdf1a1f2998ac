"""The programs of ``fusekit demo``, of the gallery and of the tests: small functions whose memory is worth a look.

``PROGRAMS`` are the thread's nine and five of every day; ``PROGRAMS_REAL`` are those of deep learning, a file a family.
"""

from fusekit.programs.attention import ATTENTION
from fusekit.programs.everyday import PROGRAMS
from fusekit.programs.mlp import MLP
from fusekit.programs.moves import MOVES
from fusekit.programs.norms import NORMS
from fusekit.programs.program import EMPTY, LARGE, ODD, SCALAR, SIZES, SMALL, Args, Program, Size
from fusekit.programs.rows import ROWS

PROGRAMS_REAL: tuple[Program, ...] = (*ROWS, *NORMS, *MLP, *ATTENTION, *MOVES)

__all__ = [
    "EMPTY",
    "LARGE",
    "ODD",
    "PROGRAMS",
    "PROGRAMS_REAL",
    "SCALAR",
    "SIZES",
    "SMALL",
    "Args",
    "Program",
    "Size",
]
