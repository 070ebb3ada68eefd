"""The vector type behind the fused kernels: each operation against numpy, and nobody else uses it."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numba import njit
from small import ROOT

from fairfl_lite.engines import simd
from fairfl_lite.engines.simd import (
    LANES,
    above,
    add,
    fma,
    load,
    mul,
    ones,
    positive,
    sigmoid,
    signed_above,
    splat,
    spread,
    store,
    sub,
    tanh,
    total,
    turned,
    where_larger,
)

numbers = arrays(np.float32, LANES, elements=st.floats(-30, 30, width=32))


def lanewise(operation):
    @njit
    def call(x, y, out):
        store(out, 0, operation(load(x, 0), load(y, 0)))

    return call


@njit
def _one(x, y):
    return fma(x, y, x)


@njit
def _sigmoid(x, y):
    return sigmoid(x)


@njit
def _tanh(x, y):
    return tanh(x)


@njit
def _scaled(x, y):
    return fma(x, np.float32(1.5), splat(np.float32(2)))


CASES = {
    "add": (add, np.add, 0),
    "sub": (sub, np.subtract, 0),
    "mul": (mul, np.multiply, 0),
    "fma": (_one, lambda x, y: x * y + x, 1e-6),
    "fma with a scalar": (_scaled, lambda x, y: 1.5 * x + 2, 1e-6),
    "sigmoid": (_sigmoid, lambda x, y: 1 / (1 + np.exp(-x.astype(float))), 4e-7),
    "tanh": (_tanh, lambda x, y: np.tanh(x.astype(float)), 5e-7),
}
CALLS = {
    name: lanewise(njit(lambda x, y, op=op: op(x, y)) if op in (add, sub, mul) else op) for name, (op, _, _) in CASES.items()
}


@pytest.mark.parametrize("name", CASES)
@given(x=numbers, y=numbers)
def test_each_operation_is_numpys_on_every_lane(name, x, y):
    out = np.empty(LANES, np.float32)
    CALLS[name](x, y, out)
    _, exact, tolerance = CASES[name]
    np.testing.assert_allclose(out, exact(x, y), rtol=tolerance or 1e-7, atol=tolerance * max(1.0, float(np.abs(x * y).max())))


@njit
def _total(x):
    return total(load(x, 0))


@njit
def _positive(x, mask):
    return positive(load(x, 0), mask)


@given(x=numbers, mask=st.integers(0, 2**LANES - 1))
def test_sums_and_counts_over_lanes(x, mask):
    assert _total(x) == pytest.approx(float(x.astype(float).sum()), abs=1e-5 * max(1.0, float(np.abs(x).sum())))
    assert _positive(x, mask) == sum(x[lane] > 0 for lane in range(LANES) if mask >> lane & 1)


def test_not_a_number_is_not_positive_and_reaches_its_own_lane_only():
    x, out = np.zeros(LANES, np.float32), np.empty(LANES, np.float32)
    x[3] = np.nan
    assert _positive(x, 2**LANES - 1) == 0
    CALLS["mul"](x, np.ones(LANES, np.float32), out)
    assert np.isnan(out[3]) and (np.delete(out, 3) == 0).all()


@njit
def _sign_work(x, y, limit, value, out):
    store(out, 0, signed_above(load(x, 0), limit, value))
    store(out, 16, turned(load(x, 0), load(x, 0), load(y, 0)))
    store(out, 32, where_larger(load(x, 0), load(y, 0), splat(np.float32(1)), load(y, 0)))
    store(out, 48, spread(x, 5))
    return above(load(x, 0), limit)


@njit
def _ones(bits):
    return ones(bits)


@given(x=numbers, y=numbers, limit=st.floats(-1, 20, width=32), value=st.floats(0, 2, width=32))
def test_signs_and_comparisons(x, y, limit, value):
    out = np.empty(64, np.float32)
    bits = _sign_work(x, y, np.float32(limit), np.float32(value), out)
    over = np.abs(x) > np.float32(limit)
    assert (out[:16] == np.where(over, np.copysign(np.float32(value), x), 0)).all()
    assert (np.signbit(out[:16])[over] == np.signbit(x)[over]).all()  # -0.0 has a sign
    assert (out[16:32] == np.copysign(x, np.where(np.signbit(x) == np.signbit(y), x, -x))).all()
    assert (out[32:48] == np.where(x > y, 1, y)).all() and (out[48:] == x[5]).all()
    assert bits == sum(1 << lane for lane in range(LANES) if over[lane]) and _ones(bits) == over.sum()


def test_only_the_fused_kernels_use_it():
    users = [path for path in (ROOT / "fairfl_lite").rglob("*.py") if re.search(r"\bsimd\b", path.read_text())]
    kernels = {"convolution.py", "edge_popup.py", "fused.py"}
    assert {path.name for path in users} <= {*kernels, "simd.py", "__init__.py"} and simd.LANES == 16
