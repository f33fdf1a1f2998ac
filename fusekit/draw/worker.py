"""The other side of ``engine.Worker``: reads DOT, writes SVG, until its input ends. Run as a script, by path.

A frame is a number of bytes (eight, big-endian) and that many bytes. An answer begins with ``+`` (SVG) or ``-`` (why
not). Graphviz can crash or never end, hence a process of its own; it imports nothing of fusekit, so it starts quickly.
"""

import json
import os
import sys
from typing import BinaryIO


def serve() -> None:
    """Answer frames from standard input; whatever Graphviz prints goes to standard error."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    questions = sys.stdin.buffer
    try:
        import pygraphviz
    except Exception as error:
        _send(answers, f"-it cannot be imported ({type(error).__name__}: {error})".encode(errors="replace"))
        return

    _send(answers, b"+" + str(pygraphviz.__version__).encode())
    while len(head := questions.read(8)) == 8:
        text = questions.read(int.from_bytes(head, "big")).decode()
        try:
            svg = pygraphviz.AGraph(string=text).draw(format="svg", prog="dot")
            assert svg is not None  # only a drawing into a file gives none
            _send(answers, b"+" + svg)
        except Exception as error:
            _send(answers, b"-" + str(error).encode(errors="replace"))


def _send(stream: BinaryIO, answer: bytes) -> None:
    stream.write(len(answer).to_bytes(8, "big") + answer)
    stream.flush()


if __name__ == "__main__":
    sys.path[:] = json.loads(sys.argv[1])
    serve()
