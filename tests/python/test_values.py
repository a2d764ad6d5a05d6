"""What a number is beside an array, and what a real is as an integer: by NumPy's own answers."""
import operator
import platform

import numpy as np
import pytest

from oracle import INTEGERS, REALS, same_bits
from scanfold import _scanfold
from scanfold._dtypes import CODES

ADD, SUB, MUL, MAXIMUM, MINIMUM = 0, 1, 2, 4, 5
TESTS = {15: operator.eq, 16: operator.ne, 17: operator.lt, 18: operator.le, 19: operator.gt,
         20: operator.ge}
ARITHMETIC = {ADD: operator.add, SUB: operator.sub, MUL: operator.mul}
NUMBERS = [0, 1, 2, -1, 127, 128, -128, -129, 255, 256, 300, 2**31 - 1, 2**31, -2**31 - 1, 2**32,
           2**53 + 1, 2**63 - 1, 2**63, -2**63, 2**64 - 1]
numpys = pytest.mark.host_only("the answers are NumPy's")


def run(program, *inputs):
    expression = _scanfold.expression_create([*program, ("output", len(program) - 1)], 1)
    return _scanfold.expression_run(expression, list(inputs), 0)


def apply(function, x, number, swapped=False):
    a, b = (1, 0) if swapped else (0, 1)
    return run([("input",), ("constant", number), ("apply", function, a, b, -1)], x)


def ends(dtype):
    low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    return np.array([low, low + 1, 0, 1, 44, high - 1, high], dtype)


@numpys
@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_compare_by_value(dtype):
    x = ends(dtype)
    for number in NUMBERS:
        for function, by_numpy in TESTS.items():
            for swapped in (False, True):
                right = by_numpy(number, x) if swapped else by_numpy(x, number)
                ours = apply(function, x, number, swapped)
                assert np.array_equal(ours, right), (function, number, swapped)


@numpys
@pytest.mark.parametrize("dtype", INTEGERS)
def test_what_cannot_be_stored_is_refused(dtype):
    x, info = ends(dtype), np.iinfo(dtype)
    for number in NUMBERS:
        fits = info.min <= number <= info.max
        for function, by_numpy in ARITHMETIC.items():
            if fits:
                assert same_bits(apply(function, x, number), by_numpy(x, number))
                continue
            with pytest.raises(OverflowError):
                by_numpy(x, number)
            says = f"{number} is out of range for {dtype[0]}{info.bits}, which holds {info.min} to "
            with pytest.raises(ValueError, match=f"{says}{info.max}"):
                apply(function, x, number)
        like = [("input",), ("like", 0, number)]
        if fits:
            assert same_bits(run(like, x), np.full_like(x, number))
        else:
            with pytest.raises(OverflowError):
                np.full_like(x, number)
            with pytest.raises(ValueError, match="out of range"):
                run(like, x)


@numpys
@pytest.mark.parametrize("dtype", INTEGERS)
def test_bounds_are_by_value(dtype):
    x = ends(dtype)
    for low in (-2**63, -129, -5, 3, 300, 2**64 - 1):
        for high in (-2**63, -1, 7, 300, 2**40, 2**64 - 1):
            clamp = [("input",), ("constant", low), ("apply", MAXIMUM, 0, 1, -1),
                     ("constant", high), ("apply", MINIMUM, 2, 3, -1)]
            try:
                expected = np.clip(x, low, high)
            except OverflowError:
                with pytest.raises(ValueError, match="out of range"):
                    run(clamp, x)
                continue
            assert same_bits(run(clamp, x), expected), (low, high)


@numpys
@pytest.mark.parametrize("dtype", REALS)
def test_reals_have_the_number_rounded(dtype):
    large = [0, 2048, 65504] if dtype == "float16" else [16777216, 16777218, 2.0**53, 2.0**63]
    x = np.array([*large, np.inf, -np.inf, np.nan], dtype)
    with np.errstate(all="ignore"):
        for number in (2049, 65519, 65520, 16777217, 2**53 + 1, 2**63 - 1, 2**64 - 1, -2**63):
            for function, by_numpy in {**TESTS, **ARITHMETIC}.items():
                ours = apply(function, x, number)
                assert same_bits(ours, by_numpy(x, number)), (function, number)


@numpys
def test_bools_count_as_64_bits():
    x = np.array([False, True])
    for number in (-2**63, -1, 0, 1, 2, 2**63 - 1):
        for function, by_numpy in {**TESTS, **ARITHMETIC}.items():
            assert same_bits(apply(function, x, number), by_numpy(x, number))


# On other processors a number out of range becomes what the hardware makes of it, so NumPy has no
# fixed answer.
ON_X86 = platform.machine().lower() in ("x86_64", "amd64")
VALUES = [0.0, -0.0, 0.9, -0.9, 1.5, -1.5, 127.5, 128, -128.5, -129, 200.7, 255.9, 256, 300, -300.5,
          32768, -32769, 65536, 70000, -70000, 1e9, -1e9]
FAR = [2.0**31, -2.0**31, 3e9, -3e9, 5e9, 1e15, -1e15, 2.0**62, -2.0**63, 2.0**63, 1.5 * 2.0**63,
       2.0**64, 1e30, -1e30, np.inf, -np.inf, np.nan]


@numpys
@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("real", REALS)
def test_reals_as_integers(real, dtype):
    """As NumPy has them on x86. As uint32, past 32 bits, NumPy has one answer for a few and another
    for many; of float64 as uint8, past them, torch has another."""
    values = VALUES + FAR * ON_X86
    if dtype == "uint32":
        values = [v for v in values if -2.0**31 <= v < 2.0**32]
    if dtype == "uint8" and real == "float64":
        values = [v for v in values if not 2.0**31 <= abs(v) < 2.0**62 or v % 256 == 0]
    with np.errstate(all="ignore"):
        x = np.array(values * 30).astype(real)
        x = x[x >= 0] if dtype[0] == "u" and not ON_X86 else x
        for some in (x, *x[:len(values)].reshape(-1, 1)):
            ours = run([("input",), ("cast", 0, CODES[dtype])], some)
            assert same_bits(ours, some.astype(dtype)), (some[:50], some.astype(dtype)[:50])
