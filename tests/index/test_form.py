"""Index forms against plain evaluation at every value of their variables."""

import itertools
import pickle
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fusekit.errors import TextSyntaxError
from fusekit.index import Div, Form, Mod, Var, loop_vars, number_var, parse_form, print_form, substitute

VARS = (Var("i0", 3), Var("i1", 4), Var("i10", 1), number_var(0, 5))
NAMED = {v.name: v for v in VARS}
POINTS = [dict(zip(NAMED, point, strict=True)) for point in itertools.product(*(range(v.extent) for v in VARS))]

coefficients = st.integers(-9, 9)
divisors = st.integers(1, 13)


def grown(forms):
    """Forms from forms, by every operation; strategies draw (form, function of a point)."""

    def add(a, b):
        return a[0] + b[0], lambda p: a[1](p) + b[1](p)

    def sub(a, b):
        return a[0] - b[0], lambda p: a[1](p) - b[1](p)

    def mul(a, k):
        return a[0] * k, lambda p: a[1](p) * k

    def div(a, k):
        return a[0] // k, lambda p: a[1](p) // k

    def mod(a, k):
        return a[0] % k, lambda p: a[1](p) % k

    def join(a, k):  # what rule 5 folds
        return a[0] % k + a[0] // k * k, a[1]

    return st.one_of(
        st.builds(add, forms, forms),
        st.builds(sub, forms, forms),
        st.builds(mul, forms, coefficients),
        st.builds(div, forms, divisors),
        st.builds(mod, forms, divisors),
        st.builds(join, forms, divisors),
    )


leaves = st.one_of(
    st.builds(lambda v: (Form.of(v), lambda p: p[v.name]), st.sampled_from(VARS)),
    st.builds(lambda c: (Form.of(c), lambda p: c), coefficients),
)
pairs = st.recursive(leaves, grown, max_leaves=10)
forms = pairs.map(lambda pair: pair[0])


@settings(max_examples=400, deadline=None)
@given(pairs)
def test_simplification_keeps_every_value_and_bounds_hold(pair):
    form, value = pair
    low, high = form.bounds
    for point in POINTS:
        assert form.evaluate(point) == value(point)
        assert low <= value(point) <= high


@pytest.mark.parametrize("seed", range(3))
def test_long_chains_of_divisions_keep_every_value(seed):
    rng = random.Random(seed)
    for _ in range(40):
        pool = [(Form.of(v), [point[v.name] for point in POINTS]) for v in VARS]
        for _ in range(12):
            (a, x), (b, y) = rng.choice(pool), rng.choice(pool)
            k, c = rng.choice([2, 3, 4, 5, 6, 8, 12]), rng.choice([-1, 1, 2, 3, 4, 8])
            out, values = rng.choice(
                [
                    (a + b * c, [p + q * c for p, q in zip(x, y, strict=True)]),
                    (a // k, [p // k for p in x]),
                    (a % k, [p % k for p in x]),
                    (a * c + k, [p * c + k for p in x]),
                    (a % k + (a // k) * k, x),
                ]
            )
            if len(print_form(out)) < 200:
                assert [out.evaluate(point) for point in POINTS] == values
                assert parse_form(print_form(out), NAMED) == out
                pool.append((out, values))


@settings(max_examples=200, deadline=None)
@given(forms)
def test_text_parses_back_to_the_very_same_form(form):
    assert parse_form(print_form(form), NAMED) == form


@settings(max_examples=200, deadline=None)
@given(forms, forms, st.sampled_from(VARS))
def test_substitution_is_composition(form, replacement, var):
    low, high = replacement.bounds
    if low < 0 or high >= var.extent:
        replacement = replacement % var.extent
    out = substitute(form, {var: replacement})
    for point in POINTS:
        assert out.evaluate(point) == form.evaluate({**point, var.name: replacement.evaluate(point)})


@settings(max_examples=150, deadline=None)
@given(forms, divisors)
def test_questions_about_a_form(form, k):
    if form.is_divisible(k):
        assert all(form.evaluate(p) % k == 0 for p in POINTS)
        assert form.exact_quotient(k) * k == form
    else:
        with pytest.raises(ValueError):
            form.exact_quotient(k)
    assert form.is_constant == (not form.free)
    for var in VARS:
        step = form.coefficient(var)
        if step is not None and var.extent > 1:
            here = dict.fromkeys(NAMED, 0)
            assert form.evaluate({**here, var.name: 1}) - form.evaluate(here) == step


i0, i1 = Form.of(VARS[0]), Form.of(VARS[1])
wide = Form.of(Var("i0", 100))


@pytest.mark.parametrize(
    ("rule", "got", "wanted"),
    [
        ("divisible terms leave a division", (wide * 8 + 20) // 4, wide * 2 + 5),
        ("and a remainder", (wide * 8 + 22) % 4, Form.of(2)),
        ("what fits vanishes", (wide * 4 + i1) // 4, wide),
        ("or stays", (wide * 4 + i1) % 4, i1),
        ("low part", (wide * 2 + i0 % 2) // 6, wide // 3),
        ("low part of a remainder", (wide * 4 + i1) % 8, wide % 2 * 4 + i1),
        ("nested divisions flatten", wide // 3 // 5, wide // 15),
        ("one quotient for the whole range", (i0 * 3 + 7) // 7, Form.of(1) + (i0 * 3) // 7),
        ("fold", wide // 7 * 7 + wide % 7, wide),
        ("fold the other way", wide * 2 - wide % 7 * 2, wide // 7 * 14),
    ],
)
def test_each_rule(rule, got, wanted):
    assert got == wanted, rule


def test_equal_forms_hash_alike_also_after_a_pickle():
    form = (wide * 3 + i1) // 7 % 5
    again = pickle.loads(pickle.dumps(form))
    assert again == form and hash(again) == hash(form) == hash((wide * 3 + i1) // 7 % 5)


def test_loop_vars_skip_single_elements():
    assert loop_vars((3, 1, 4)) == (Form.of(Var("i0", 3)), Form.of(0), Form.of(Var("i2", 4)))


def test_text_is_what_a_person_writes():
    form = i0 * -1 + (wide + 1) // 7 * 4 + Form.of(Mod(wide, 3)) - 2
    assert print_form(Form.of(0)) == "0"
    assert print_form(i0 * -2 + 5) == "-2*i0 + 5"
    shorter = {"i0": Var("i0", 3)}
    assert parse_form(print_form(form), shorter) != form, "a form names variables, text leaves their extents outside"
    assert print_form(Form.of(Div(i0 + 1, 2)) - 1) == "((i0 + 1)//2) - 1"


@pytest.mark.parametrize("text", ["", "i0 +", "i0 * i1", "i9", "i0 / 2", "f(i0)", "i0 // 0", "1.5"])
def test_other_text_is_refused(text):
    with pytest.raises(TextSyntaxError):
        parse_form(text, NAMED)
