"""What no recording can repeat: as in eager at each call, or refused at the user's line; never the first answer."""

import io
import logging
import os
import pickle
import secrets
import sys
import threading
import uuid
import warnings

import pytest
import torch

import fusekit as fk
from fusekit.errors import UnsupportedError
from fusekit.trace import record

LOGGER = logging.getLogger("fusekit.tests.unrepeatable")

REFUSED = {
    "builtins.print": lambda a: print("hello"),
    "builtins.input": lambda a: input(),
    "builtins.id": lambda a: id(a),
    "write": lambda a: sys.stdout.write("hello\n"),
    "_warnings.warn": lambda a: warnings.warn("careful", stacklevel=1),
    "logging.Logger.handle": lambda a: LOGGER.warning("careful"),
    "get_ident": lambda a: threading.get_ident(),
    "start_new_thread|start_joinable_thread": lambda a: threading.Thread(target=int).start(),
    "urandom": lambda a: uuid.uuid4(),
    "posix.urandom": lambda a: secrets.token_hex(2),
    "posix.getpid": lambda a: os.getpid(),
    "initial_seed": lambda a: torch.initial_seed(),
    "getrefcount": lambda a: sys.getrefcount(a),
    "untyped_storage": lambda a: pickle.dumps(a + 1),
    "torch.save": lambda a: torch.save(a, io.BytesIO()),
    "printing or formatting": lambda a: print(a + 1),
}


@pytest.mark.parametrize("what", REFUSED)
@pytest.mark.filterwarnings("ignore")
def test_it_is_refused_at_the_users_line(what, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("a\n" * 2))

    def f(a):
        REFUSED[what](a)
        return a + 1

    for _ in range(2):
        with pytest.raises(UnsupportedError, match=what) as caught:
            fk.jit(f)(torch.ones(2))
        assert f"{__file__}:{REFUSED[what].__code__.co_firstlineno}" in str(caught.value.where)


def test_a_logger_that_says_nothing_is_asked_at_each_call():
    def f(a):
        LOGGER.debug("a detail")
        return a + 1

    g, a = fk.jit(f), torch.ones(2)
    before = LOGGER.level
    try:
        LOGGER.setLevel(logging.WARNING)
        assert torch.equal(g(a), a + 1) and torch.equal(g(a), a + 1)
        LOGGER.setLevel(logging.DEBUG)
        with pytest.raises(UnsupportedError, match="handle"):
            g(a)
    finally:
        LOGGER.setLevel(before)


@pytest.mark.parametrize("replacement", [False, True])
def test_multinomial_draws_eagers_numbers_at_each_call(replacement):
    def f(a):
        return torch.multinomial(a.abs() + 1, 3, replacement), a * 2

    g, a = fk.jit(f), torch.arange(6.0)
    found = []
    for draw in (f, g):
        torch.manual_seed(5)
        found.append([draw(a + k)[0] for k in range(4)])
    assert all(map(torch.equal, *found)) and not all(torch.equal(found[1][0], one) for one in found[1])


def nested():
    xs = [torch.ones(2)]
    xs.append(xs)
    return xs


def resized():
    t = torch.ones(8)
    t.untyped_storage().resize_(4)
    return t


ARGUMENTS = {
    "contains itself": nested,
    "a functional tensor": lambda: vars(torch)["_to_functional_tensor"](torch.ones(2)),
    "a storage of 4, which was resized": resized,
}


@pytest.mark.parametrize("what", ARGUMENTS)
def test_arguments_that_no_recording_takes(what):
    argument = ARGUMENTS[what]()
    for call in (fk.jit(lambda x: 1), lambda x: record(lambda x: 1, (x,))):
        with pytest.raises(UnsupportedError, match=what):
            call(argument)
