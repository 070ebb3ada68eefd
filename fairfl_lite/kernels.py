"""The fused fast path for tabular models: one numba call trains or scores every client of every run.

A replica is one client of one run. Its rows are `index[start:stop]` into one shared X, so nothing is padded and
nothing is copied but a strip of LANES rows at a time. Threads take whole replicas, and a replica's random order comes
from its own 64-bit key, so the number of threads changes nothing in the result.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import numba
import numpy as np
from numba import get_num_threads, njit, prange

from fairfl_lite import simd
from fairfl_lite.data.sources import cache_folder
from fairfl_lite.simd import LANES, fma, load, mul, sigmoid, splat, store, sub, tanh, total

# Numba keeps compiled code by the age of this file alone, and would miss a change in simd.py.
_made_of = b"".join(Path(file).read_bytes() for file in (__file__, simd.__file__))
numba.config.CACHE_DIR = str(cache_folder() / "numba" / hashlib.sha256(_made_of).hexdigest()[:16])  # type: ignore[attr-defined]

FAST = {"reassoc", "contract", "arcp", "nsz"}
_ONE, _ZERO, _EPS = np.float32(1), np.float32(0), np.float32(1e-8)
_BETA1, _BETA2 = np.float32(0.9), np.float32(0.999)
_REST1, _REST2 = np.float32(1 - 0.9), np.float32(1 - 0.999)  # in double first: 1 - float32(0.999) is off by 5e-5
_GOLDEN, _MIX1, _MIX2 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_S27, _S30, _S31, _S32 = np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(32)


@njit(inline="always")
def _mix(z):
    """Splitmix64's finaliser."""
    z = (z ^ (z >> _S30)) * _MIX1
    z = (z ^ (z >> _S27)) * _MIX2
    return z ^ (z >> _S31)


@njit
def shuffle(rows, key):
    """Fisher-Yates in place, drawing from splitmix64 started at `key`; returns the generator's next state."""
    for i in range(rows.size - 1, 0, -1):
        key += _GOLDEN
        j = np.int64(((_mix(key) >> _S32) * np.uint64(i + 1)) >> _S32)
        rows[i], rows[j] = rows[j], rows[i]
    return key


@njit(inline="always")
def _scratch(d, hidden):
    """Buffers of one thread: the strip of rows both ways round, padded to whole vectors, and what the layers give."""
    width = (d + LANES - 1) // LANES * LANES
    lanes, rows = np.zeros((d, LANES), np.float32), np.zeros((LANES, width), np.float32)
    layer = np.empty((max(hidden, 1), LANES), np.float32)
    sign, share, tail = np.zeros(LANES, np.float32), np.empty(LANES, np.float32), np.empty(LANES, np.float32)
    return lanes, rows, layer, sign, share, tail


@njit(fastmath=FAST)
def _gather(X, y, weight, index, order, first, count, shift, scale, lanes, rows, sign, share):
    """Standardise `count` rows into the strip, as [feature, lane] and as [lane, feature]; spare lanes weigh 0."""
    for lane in range(count):
        position = order[first + lane]
        row = index[position]
        for j in range(shift.size):
            rows[lane, j] = (X[row, j] - shift[j]) * scale[j]
        for j in range(shift.size):
            lanes[j, lane] = rows[lane, j]
        sign[lane] = np.float32(1 - 2 * y[row])
        share[lane] = weight[position] if weight.size else _ONE
    for lane in range(count, LANES):
        share[lane] = _ZERO


@njit(fastmath=FAST)
def _outer(rows, slope, at, tail, d, gradient, to):
    """gradient[to : to + d] += sum over lanes of slope * row."""
    width = rows.shape[1]
    for block in range(0, width, LANES):
        sums = splat(_ZERO)
        for lane in range(LANES):
            sums = fma(load(rows, lane * width + block), slope[at, lane], sums)
        store(tail, 0, sums)
        for j in range(min(LANES, d - block)):
            gradient[to + block + j] += tail[j]


@njit(inline="always")
def residual(z, sign, share):
    """share * (sigmoid(z) - y) without the cancellation of that difference; sign = 1 - 2y."""
    return mul(mul(sign, sigmoid(mul(sign, z))), share)


@njit(fastmath=FAST)
def _backward(theta, hidden, d, lanes, rows, layer, sign, share, tail, gradient):
    """Add the strip's gradient of sum_i share_i * logloss_i to `gradient`."""
    if hidden == 0:
        z = splat(theta[d])
        for j in range(d):
            z = fma(load(lanes, j * LANES), theta[j], z)
        r = residual(z, load(sign, 0), load(share, 0))
        gradient[d] += total(r)
        store(layer, 0, r)
        _outer(rows, layer, 0, tail, d, gradient, 0)
        return
    c, v = d * hidden, d * hidden + hidden
    z = splat(theta[v + hidden])
    for u in range(hidden):
        h = splat(theta[c + u])
        for j in range(d):
            h = fma(load(lanes, j * LANES), theta[u * d + j], h)
        h = tanh(h)
        store(layer, u * LANES, h)
        z = fma(h, theta[v + u], z)
    r = residual(z, load(sign, 0), load(share, 0))
    gradient[v + hidden] += total(r)
    for u in range(hidden):
        h = load(layer, u * LANES)
        gradient[v + u] += total(mul(h, r))
        slope = mul(mul(sub(splat(_ONE), mul(h, h)), r), splat(theta[v + u]))
        gradient[c + u] += total(slope)
        store(layer, u * LANES, slope)
        _outer(rows, layer, u, tail, d, gradient, u * d)


@njit(fastmath=FAST)
def _local(X, y, weight, index, start, stop, theta, shift, scale, hidden, adam, lr, decay, epochs, batch, key):
    """Train one replica in place: `epochs` passes in a fresh random order, minibatches of `batch` rows (0: all)."""
    n, d = stop - start, shift.size
    if n == 0:
        return
    size = n if batch == 0 else min(batch, n)
    order = np.arange(start, stop)
    lanes, rows, layer, sign, share, tail = _scratch(d, hidden)
    gradient, m, v = np.empty_like(theta), np.zeros_like(theta), np.zeros_like(theta)
    power1, power2 = 1.0, 1.0
    for _ in range(epochs):
        if size < n:
            key = shuffle(order, key)
        for first in range(0, n, size):
            last = min(first + size, n)
            gradient[:] = _ZERO
            for begin in range(first, last, LANES):
                count = min(LANES, last - begin)
                _gather(X, y, weight, index, order, begin, count, shift, scale, lanes, rows, sign, share)
                _backward(theta, hidden, d, lanes, rows, layer, sign, share, tail, gradient)
            inverse = np.float32(1.0 / (last - first))
            if adam:
                power1 *= 0.9
                power2 *= 0.999
                step, root = np.float32(lr / (1 - power1)), np.float32(1 / np.sqrt(1 - power2))
                for p in range(theta.size):
                    g = gradient[p] * inverse + decay * theta[p]
                    m[p] = _BETA1 * m[p] + _REST1 * g
                    v[p] = _BETA2 * v[p] + _REST2 * g * g
                    theta[p] -= step * m[p] / (np.sqrt(v[p]) * root + _EPS)
            else:
                for p in range(theta.size):
                    theta[p] -= lr * (gradient[p] * inverse + decay * theta[p])


@njit(parallel=True, cache=True, fastmath=FAST)
def _train(
    X, y, weight, index, start, stop, theta, run, shift, scale, hidden, adam, lr, decay, epochs, batch, key, lots
):
    for lot in prange(lots.shape[0]):
        for place in range(lots.shape[1]):
            r = lots[lot, place]
            if r >= 0:
                _local(X, y, weight, index, start[r], stop[r], theta[r], shift[run[r]], scale[run[r]],
                       hidden, adam, lr[run[r]], decay, epochs, batch, key[r])  # fmt: skip


@njit(parallel=True, cache=True, fastmath=FAST)
def _gradients(X, y, weight, index, start, stop, theta, model, run, shift, scale, hidden, out, lots):
    d = shift.shape[1]
    for lot in prange(lots.shape[0]):
        lanes, rows, layer, sign, share, tail = _scratch(d, hidden)
        for place in range(lots.shape[1]):
            r = lots[lot, place]
            if r >= 0:
                order = np.arange(start[r], stop[r])
                for begin in range(0, order.size, LANES):
                    _gather(X, y, weight, index, order, begin, min(LANES, order.size - begin), shift[run[r]], scale[run[r]],
                            lanes, rows, sign, share)  # fmt: skip
                    _backward(theta[model[r]], hidden, d, lanes, rows, layer, sign, share, tail, out[r])


@njit(fastmath=FAST)
def _fold(theta, shift, scale, hidden, d, fold):
    """First layer on rows as they are: ((x - shift) * scale) W + c = x (scale W) + (c - (shift * scale) W)."""
    for u in range(max(hidden, 1)):
        constant = theta[d * max(hidden, 1) + u]
        for j in range(d):
            fold[u, j] = theta[u * d + j] * scale[j]
            constant -= shift[j] * fold[u, j]
        fold[u, d] = constant


@njit(parallel=True, cache=True, fastmath=FAST)
def _score(X, y, a, index, start, stop, theta, model, run, shift, scale, hidden, counts, losses, lots):
    d, units = shift.shape[1], max(hidden, 1)
    for lot in prange(lots.shape[0]):
        lanes, logits = np.zeros((d, LANES), np.float32), np.empty(LANES, np.float32)
        fold = np.empty((units, d + 1), np.float32)
        for place in range(lots.shape[1]):
            r = lots[lot, place]
            if r < 0:
                continue
            outer = theta[model[r], d * units + units :]
            _fold(theta[model[r]], shift[run[r]], scale[run[r]], hidden, d, fold)
            for begin in range(start[r], stop[r], LANES):
                count = min(LANES, stop[r] - begin)
                for lane in range(count):
                    row = index[begin + lane]
                    for j in range(d):
                        lanes[j, lane] = X[row, j]
                z = splat(outer[hidden] if hidden else _ZERO)
                for u in range(units):
                    h = splat(fold[u, d])
                    for j in range(d):
                        h = fma(load(lanes, j * LANES), fold[u, j], h)
                    z = fma(tanh(h), outer[u], z) if hidden else h
                store(logits, 0, z)
                for lane in range(count):
                    row, logit = index[begin + lane], logits[lane]
                    counts[r, a[row] * 4 + y[row] * 2 + (1 if logit > _ZERO else 0)] += 1
                    if losses.size:
                        losses[r] += max(logit, _ZERO) - logit * y[row] + np.log1p(np.exp(-abs(np.float64(logit))))


def lots(work: np.ndarray) -> np.ndarray:
    """Deal replicas to threads, longest first to the least loaded: [thread, place], -1 where a thread has no more."""
    threads = max(1, min(get_num_threads(), work.size))
    load, hands = np.zeros(threads), [[] for _ in range(threads)]
    for r in np.argsort(-work, kind="stable"):
        lightest = int(load.argmin())
        load[lightest] += work[r] + 1
        hands[lightest].append(int(r))
    table = np.full((threads, max(map(len, hands))), -1, np.int64)
    for row, hand in zip(table, hands, strict=True):
        row[: len(hand)] = hand
    return table


def train(X, y, weight, index, start, stop, theta, run, shift, scale, *, hidden, adam, lr, decay, epochs, batch, key):
    """Local training of every replica, in place on theta [replica, P]. `lr` is per run, `key` per replica."""
    if start.size:
        _train(X, y, weight, index, start, stop, theta, run, shift, scale, hidden, adam,
               lr.astype(np.float32), np.float32(decay), epochs, batch, key, lots(stop - start))  # fmt: skip


def gradients(X, y, weight, index, start, stop, theta, model, run, shift, scale, *, hidden):
    """Sum over each replica's rows of weight * gradient of the log loss at theta[model]: [replica, P] float32."""
    out = np.zeros((start.size, theta.shape[1]), np.float32)
    if start.size:
        _gradients(X, y, weight, index, start, stop, theta, model, run, shift, scale, hidden, out, lots(stop - start))
    return out


def score(X, y, a, index, start, stop, theta, model, run, shift, scale, *, hidden, loss=False):
    """Confusion counts [replica, a, y, yhat] of theta[model] on each replica's rows, and its summed log loss if asked."""
    counts = np.zeros((start.size, 8), np.int64)
    losses = np.zeros(start.size if loss else 0, np.float64)
    if start.size:
        _score(X, y, a, index, start, stop, theta, model, run, shift, scale, hidden, counts, losses, lots(stop - start))
    return counts.reshape(-1, 2, 2, 2), losses
