"""The fused fast path for tabular models: one numba call trains or scores every client of every run.

A replica is one client of one run. Its rows are `index[start:stop]` into one shared X, so nothing is padded and
nothing is copied but a strip of LANES rows at a time. Threads take whole replicas, and a replica's random order comes
from its own 64-bit key, so the number of threads changes nothing in the result.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numba import get_num_threads, njit, prange

from fairfl_lite.clients.training import ClientTraining
from fairfl_lite.data.shards import Standard
from fairfl_lite.engines import order as row_order
from fairfl_lite.engines import simd
from fairfl_lite.engines.base import BySums, Of, Work
from fairfl_lite.engines.compiled import keep_compiled, lots
from fairfl_lite.engines.order import shuffle
from fairfl_lite.engines.plain import gathered, mean_loss, pushed
from fairfl_lite.engines.simd import (
    LANES,
    add,
    fma,
    load,
    load_part,
    mul,
    ones,
    positive,
    sigmoid,
    splat,
    spread,
    store,
    sub,
    tanh,
    total,
    transpose,
)
from fairfl_lite.models import Dense

keep_compiled(__file__, simd.__file__, row_order.__file__)

STRIP, TILE = 20, 5  # rows in flight, and rows that share a register tile, when models are trained side by side
FAST = {"reassoc", "contract", "arcp", "nsz"}
_ONE, _ZERO, _EPS = np.float32(1), np.float32(0), np.float32(1e-8)
_BETA1, _BETA2 = np.float32(0.9), np.float32(0.999)
_REST1, _REST2 = np.float32(1 - 0.9), np.float32(1 - 0.999)  # in double first: 1 - float32(0.999) is off by 5e-5


@njit(inline="always")
def _scratch(d, hidden):
    """Buffers of one thread: the strip of rows both ways round, padded to whole vectors, and what the layers give."""
    width = (d + LANES - 1) // LANES * LANES
    lanes, rows = np.zeros((width, LANES), np.float32), np.zeros((LANES, width), np.float32)
    layer = np.empty((max(hidden, 1), LANES), np.float32)
    sign, share, tail = np.zeros(LANES, np.float32), np.empty(LANES, np.float32), np.empty(LANES, np.float32)
    return lanes, rows, layer, sign, share, tail


@njit(fastmath=FAST)
def _gather(X, y, weight, index, order, first, count, shift, scale, lanes, rows, sign, share):
    """Standardise `count` rows into the strip, as [feature, lane] and as [lane, feature]; spare lanes are empty and weigh 0,
    so that nothing of the rows before is left in them."""
    for lane in range(count):
        position = order[first + lane]
        row = index[position]
        for j in range(shift.size):
            rows[lane, j] = (X[row, j] - shift[j]) * scale[j]
        sign[lane] = np.float32(1 - 2 * y[row])
        share[lane] = weight[position] if weight.size else _ONE
    for lane in range(count, LANES):
        share[lane] = _ZERO
        for j in range(shift.size):
            rows[lane, j] = _ZERO
    for block in range(0, rows.shape[1], LANES):
        transpose(rows, block, rows.shape[1], lanes, block * LANES, LANES)


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
def _backward(theta, hidden, d, lanes, rows, layer, sign, share, tail, gradient, given=False):
    """Add the strip's gradient of sum_i share_i * logloss_i to `gradient`; if `given`, that of sum_i share_i * logit_i."""
    if hidden == 0:
        z = splat(theta[d])
        for j in range(d):
            z = fma(load(lanes, j * LANES), theta[j], z)
        r = load(share, 0) if given else residual(z, load(sign, 0), load(share, 0))
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
    r = load(share, 0) if given else residual(z, load(sign, 0), load(share, 0))
    gradient[v + hidden] += total(r)
    for u in range(hidden):
        h = load(layer, u * LANES)
        gradient[v + u] += total(mul(h, r))
        slope = mul(mul(sub(splat(_ONE), mul(h, h)), r), splat(theta[v + u]))
        gradient[c + u] += total(slope)
        store(layer, u * LANES, slope)
        _outer(rows, layer, u, tail, d, gradient, u * d)


@njit(fastmath=FAST)
def _local(X, y, weight, index, start, stop, theta, shift, scale, hidden, adam, lr, decay, epochs, batch, key,
           momentum, prox, cosine, toward):  # fmt: skip
    """Train one replica in place: `epochs` passes in a fresh random order, minibatches of `batch` rows (0: all)."""
    n, d = stop - start, shift.size
    if n == 0:
        return
    size = n if batch == 0 else min(batch, n)
    order = np.arange(start, stop)
    lanes, rows, layer, sign, share, tail = _scratch(d, hidden)
    gradient, m, v = np.empty_like(theta), np.zeros_like(theta), np.zeros_like(theta)
    power1, power2 = 1.0, 1.0
    steps, taken, rate = epochs * ((n + size - 1) // size), 0, lr
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
            if cosine:
                rate = np.float32(lr * 0.5 * (1 + np.cos(np.pi * taken / steps)))
                taken += 1
            if prox > 0:
                for p in range(theta.size):
                    gradient[p] += np.float32(last - first) * prox * (theta[p] - toward[p])
            if adam:
                power1 *= 0.9
                power2 *= 0.999
                step, root = np.float32(rate / (1 - power1)), np.float32(1 / np.sqrt(1 - power2))
                for p in range(theta.size):
                    g = gradient[p] * inverse + decay * theta[p]
                    m[p] = _BETA1 * m[p] + _REST1 * g
                    v[p] = _BETA2 * v[p] + _REST2 * g * g
                    theta[p] -= step * m[p] / (np.sqrt(v[p]) * root + _EPS)
            elif momentum > 0:
                for p in range(theta.size):
                    m[p] = momentum * m[p] + gradient[p] * inverse + decay * theta[p]
                    theta[p] -= rate * m[p]
            else:
                for p in range(theta.size):
                    theta[p] -= rate * (gradient[p] * inverse + decay * theta[p])


@njit(parallel=True, cache=True, fastmath=FAST)
def _train(X, y, weight, index, start, stop, theta, run, shift, scale, hidden, adam, lr, decay, epochs, batch, key,
           momentum, prox, cosine, toward, lots):  # fmt: skip
    for lot in prange(lots.shape[0]):
        for place in range(lots.shape[1]):
            r = lots[lot, place]
            if r >= 0:
                _local(X, y, weight, index, start[r], stop[r], theta[r], shift[run[r]], scale[run[r]],
                       hidden, adam, lr[r], decay, epochs, batch, key[r], momentum, prox, cosine,
                       toward[r if prox > 0 else 0])  # fmt: skip


@njit(inline="always")
def _take(X, y, weight, index, position, lane, shift, scale, x, sign, share, row):
    """Standardise one row into one lane of the strip, or into all of them (lane < 0)."""
    source, d = index[position], shift.size
    unit = weight[position] if weight.size else _ONE
    if lane < 0:
        for j in range(d):
            store(x, (row * d + j) * LANES, splat((X[source, j] - shift[j]) * scale[j]))
        store(sign, row * LANES, splat(np.float32(1 - 2 * y[source])))
        store(share, row * LANES, splat(unit))
    else:
        for j in range(d):
            x[row, j, lane] = (X[source, j] - shift[j]) * scale[j]
        sign[row, lane] = np.float32(1 - 2 * y[source])
        share[row, lane] = unit


@njit(fastmath=FAST)
def _side_by_side(theta, hidden, d, rows, x, sign, share, layer, gradient):
    """Add the strip's gradient to `gradient`: sixteen models at once, one in each lane, five rows at a time."""
    c, v = d * hidden, d * hidden + hidden
    for i in range(0, rows, TILE):
        z0 = load(theta, (v + hidden) * LANES)
        z1, z2, z3, z4 = z0, z0, z0, z0
        at = i * d * LANES
        for u in range(hidden):
            h0 = load(theta, (c + u) * LANES)
            h1, h2, h3, h4 = h0, h0, h0, h0
            for j in range(d):
                w, o = load(theta, (u * d + j) * LANES), at + j * LANES
                h0 = fma(load(x, o), w, h0)
                h1 = fma(load(x, o + d * LANES), w, h1)
                h2 = fma(load(x, o + 2 * d * LANES), w, h2)
                h3 = fma(load(x, o + 3 * d * LANES), w, h3)
                h4 = fma(load(x, o + 4 * d * LANES), w, h4)
            h0, h1, h2, h3, h4 = tanh(h0), tanh(h1), tanh(h2), tanh(h3), tanh(h4)
            o = u * TILE * LANES
            store(layer, o, h0)
            store(layer, o + LANES, h1)
            store(layer, o + 2 * LANES, h2)
            store(layer, o + 3 * LANES, h3)
            store(layer, o + 4 * LANES, h4)
            w = load(theta, (v + u) * LANES)
            z0, z1, z2, z3, z4 = fma(h0, w, z0), fma(h1, w, z1), fma(h2, w, z2), fma(h3, w, z3), fma(h4, w, z4)
        o = i * LANES
        r0 = residual(z0, load(sign, o), load(share, o))
        r1 = residual(z1, load(sign, o + LANES), load(share, o + LANES))
        r2 = residual(z2, load(sign, o + 2 * LANES), load(share, o + 2 * LANES))
        r3 = residual(z3, load(sign, o + 3 * LANES), load(share, o + 3 * LANES))
        r4 = residual(z4, load(sign, o + 4 * LANES), load(share, o + 4 * LANES))
        o = (v + hidden) * LANES
        store(gradient, o, add(load(gradient, o), add(add(add(r0, r1), add(r2, r3)), r4)))
        for u in range(hidden):
            o, one = u * TILE * LANES, splat(_ONE)
            h0, h1, h2 = load(layer, o), load(layer, o + LANES), load(layer, o + 2 * LANES)
            h3, h4 = load(layer, o + 3 * LANES), load(layer, o + 4 * LANES)
            o = (v + u) * LANES
            store(gradient, o, fma(h0, r0, fma(h1, r1, fma(h2, r2, fma(h3, r3, fma(h4, r4, load(gradient, o)))))))
            w = load(theta, o)
            s0, s1 = mul(mul(sub(one, mul(h0, h0)), r0), w), mul(mul(sub(one, mul(h1, h1)), r1), w)
            s2, s3 = mul(mul(sub(one, mul(h2, h2)), r2), w), mul(mul(sub(one, mul(h3, h3)), r3), w)
            s4 = mul(mul(sub(one, mul(h4, h4)), r4), w)
            o = (c + u) * LANES
            store(gradient, o, add(load(gradient, o), add(add(add(s0, s1), add(s2, s3)), s4)))
            for j in range(d):
                o, g = at + j * LANES, load(gradient, (u * d + j) * LANES)
                g = fma(load(x, o + d * LANES), s1, fma(load(x, o), s0, g))
                g = fma(load(x, o + 3 * d * LANES), s3, fma(load(x, o + 2 * d * LANES), s2, g))
                store(gradient, (u * d + j) * LANES, fma(load(x, o + 4 * d * LANES), s4, g))


@njit(fastmath=FAST)
def _with_memory(wide, gradient, speed, anchor, rate, inverse, decay, momentum, prox):
    """A step of sixteen models with momentum and a proximal term; a lane that has ended has the rate 0."""
    step, mean, shrink, pull, keep = load(rate, 0), load(inverse, 0), splat(decay), splat(prox), splat(momentum)
    for p in range(wide.shape[0]):
        w = load(wide, p * LANES)
        slope = fma(shrink, w, mul(load(gradient, p * LANES), mean))
        slope = fma(pull, sub(w, load(anchor, p * LANES)), slope)
        v = fma(keep, load(speed, p * LANES), slope)
        store(speed, p * LANES, v)
        store(wide, p * LANES, sub(w, mul(step, v)))


@njit(fastmath=FAST)
def _abreast(X, y, weight, index, start, stop, theta, run, shift, scale, hidden, lr, decay, epochs, batch, key,
             momentum, prox, cosine, toward, like, block):  # fmt: skip
    """Train up to sixteen replicas in place by SGD, each in its own lane with its own rows, order and end.

    Lanes never meet, so a replica's result does not depend on its company. Replicas that differ only in their parameters
    share rows and order, which are then read once for all of them; like[r] is equal where runs read rows alike.
    """
    d, members = shift.shape[1], block.size
    first = block[0]
    alike = True
    for lane in range(1, members):
        r = block[lane]
        alike &= (start[r] == start[first]) & (stop[r] == stop[first]) & (key[r] == key[first])
        alike &= like[run[r]] == like[run[first]]
    longest = np.int64(0)
    for lane in range(members):
        longest = max(longest, stop[block[lane]] - start[block[lane]])
    wide = np.zeros((theta.shape[1], LANES), np.float32)
    plain = momentum == 0 and prox == 0
    more = 0 if plain else theta.shape[1]
    speed, anchor = np.zeros((more, LANES), np.float32), np.zeros((more, LANES), np.float32)
    order = np.empty((1 if alike else members, longest), np.int64)
    size, seen, epoch = np.zeros(LANES, np.int64), np.zeros(LANES, np.int64), np.zeros(LANES, np.int64)
    count, state = np.zeros(LANES, np.int64), np.zeros(LANES, np.uint64)
    rate, inverse = np.zeros(LANES, np.float32), np.zeros(LANES, np.float32)
    taken, steps = 0, np.ones(LANES, np.int64)
    for lane in range(members):
        r = block[lane]
        wide[:, lane] = theta[r]
        if prox > 0:
            anchor[:, lane] = toward[r]
        n = stop[r] - start[r]
        size[lane] = n if batch == 0 else min(batch, n)
        state[lane] = key[r]
        if n == 0:
            epoch[lane] = epochs
        else:
            steps[lane] = epochs * ((n + size[lane] - 1) // size[lane])
        if lane < order.shape[0]:
            order[lane, :n] = np.arange(start[r], stop[r])
            if 0 < size[lane] < n and epochs > 0:
                state[lane] = shuffle(order[lane, :n], state[lane])
    x, layer = np.zeros((STRIP, d, LANES), np.float32), np.zeros((hidden, TILE, LANES), np.float32)
    sign, share = np.zeros((STRIP, LANES), np.float32), np.zeros((STRIP, LANES), np.float32)
    gradient = np.empty_like(wide)
    while True:
        most = 0
        for lane in range(members):
            r = block[lane]
            going = epoch[lane] < epochs
            count[lane] = min(size[lane], stop[r] - start[r] - seen[lane]) if going else 0
            rate[lane] = lr[r] if going else _ZERO
            inverse[lane] = np.float32(1.0 / count[lane]) if going else _ZERO
            most = max(most, count[lane])
        if most == 0:
            break
        if cosine:
            for lane in range(members):
                rate[lane] *= np.float32(0.5 * (1 + np.cos(np.pi * min(taken, steps[lane]) / steps[lane])))
            taken += 1
        gradient[:] = _ZERO
        for begin in range(0, most, STRIP):
            rows = min(STRIP, most - begin)
            padded = (rows + TILE - 1) // TILE * TILE
            share[:padded] = _ZERO
            if alike:
                for i in range(rows):
                    _take(X, y, weight, index, order[0, seen[0] + begin + i], -1, shift[run[first]], scale[run[first]],
                          x, sign, share, i)  # fmt: skip
            else:
                for lane in range(members):
                    r = run[block[lane]]
                    for i in range(min(rows, count[lane] - begin)):
                        _take(X, y, weight, index, order[lane, seen[lane] + begin + i], lane, shift[r], scale[r],
                              x, sign, share, i)  # fmt: skip
            _side_by_side(wide, hidden, d, padded, x, sign, share, layer, gradient)
        if plain:
            step, mean, shrink = load(rate, 0), load(inverse, 0), splat(decay)
            for p in range(wide.shape[0]):
                w = load(wide, p * LANES)
                store(wide, p * LANES, sub(w, mul(step, fma(shrink, w, mul(load(gradient, p * LANES), mean)))))
        else:
            _with_memory(wide, gradient, speed, anchor, rate, inverse, decay, momentum, prox)
        for lane in range(members):
            r, n = block[lane], stop[block[lane]] - start[block[lane]]
            seen[lane] += count[lane]
            if count[lane] > 0 and seen[lane] == n:
                seen[lane] = 0
                epoch[lane] += 1
                if lane < order.shape[0] and size[lane] < n and epoch[lane] < epochs:
                    state[lane] = shuffle(order[lane, :n], state[lane])
    for lane in range(members):
        theta[block[lane]] = wide[:, lane]


@njit(parallel=True, cache=True, fastmath=FAST)
def _train_abreast(X, y, weight, index, start, stop, theta, run, shift, scale, hidden, lr, decay, epochs, batch, key,
                   momentum, prox, cosine, toward, like, blocks, lots):  # fmt: skip
    for lot in prange(lots.shape[0]):
        for place in range(lots.shape[1]):
            if lots[lot, place] >= 0:
                block = blocks[lots[lot, place]]
                _abreast(X, y, weight, index, start, stop, theta, run, shift, scale, hidden, lr, decay, epochs, batch, key,
                         momentum, prox, cosine, toward, like, block[block >= 0])  # fmt: skip


@njit(parallel=True, cache=True, fastmath=FAST)
def _pullback(X, y, index, start, stop, theta, model, run, shift, scale, hidden, slope, first, out, lots):
    """out[r] += sum over the rows of replica r of slope * gradient of the row's logit; its slopes begin at first[r].

    Without slopes, those of the log loss.
    """
    given = slope.size > 0
    d = shift.shape[1]
    for lot in prange(lots.shape[0]):
        lanes, rows, layer, sign, share, tail = _scratch(d, hidden)
        for place in range(lots.shape[1]):
            r = lots[lot, place]
            if r >= 0:
                order = np.arange(start[r], stop[r])
                for begin in range(0, order.size, LANES):
                    count = min(LANES, order.size - begin)
                    _gather(X, y, slope[:0], index, order, begin, count, shift[run[r]], scale[run[r]],
                            lanes, rows, sign, share)  # fmt: skip
                    for lane in range(count if given else 0):
                        share[lane] = slope[first[r] + begin + lane]
                    _backward(theta[model[r]], hidden, d, lanes, rows, layer, sign, share, tail, out[r], given)


@njit(parallel=True, cache=True, fastmath=FAST)
def _cells(X, y, a, weight, index, start, stop, theta, model, run, shift, scale, sharpness, rows, losses, soft, by_loss, by_soft,
           lots):  # fmt: skip
    """For logistic regression, with p = sigmoid(sharpness * logit): of each replica the number of rows and the sum of p in each
    cell (group, label), the sum of log losses, and the gradients of these sums. A strip holds rows of one cell."""
    d = shift.shape[1]
    steep = splat(np.float32(sharpness))
    for lot in prange(lots.shape[0]):
        _, strip, _, sign, share, tail = _scratch(d, 0)
        z, slope, p = np.empty(LANES, np.float32), np.empty((2, LANES), np.float32), np.empty(LANES, np.float32)
        for place in range(lots.shape[1]):
            r = lots[lot, place]
            if r < 0:
                continue
            w, m, s = theta[model[r]], shift[run[r]], scale[run[r]]
            begin = start[r]
            while begin < stop[r]:
                cell, count = 2 * a[index[begin]] + y[index[begin]], 0
                while count < LANES and begin + count < stop[r]:
                    row = index[begin + count]
                    if 2 * a[row] + y[row] != cell:
                        break
                    for j in range(d):
                        strip[count, j] = (X[row, j] - m[j]) * s[j]
                    logit = w[d]
                    for j in range(d):
                        logit += strip[count, j] * w[j]
                    z[count], share[count] = logit, weight[begin + count] if weight.size else _ONE
                    count += 1
                label = np.float32(cell % 2)
                for lane in range(LANES):
                    sign[lane] = np.float32(1) - np.float32(2) * label
                    if lane >= count:
                        z[lane] = share[lane] = _ZERO
                at, many = load(z, 0), load(share, 0)
                store(slope, 0, residual(at, load(sign, 0), many))
                found = sigmoid(mul(steep, at))
                store(p, 0, mul(found, many))
                store(slope, LANES, mul(mul(steep, mul(found, sigmoid(mul(splat(-np.float32(sharpness)), at)))), many))
                for lane in range(count):
                    rows[r, cell] += share[lane]
                    soft[r, cell] += p[lane]
                    losses[r] += share[lane] * (max(z[lane], _ZERO) - z[lane] * label + np.log1p(np.exp(-abs(z[lane]))))
                by_loss[r, d] += total(load(slope, 0))
                by_soft[r, cell, d] += total(load(slope, LANES))
                _outer(strip, slope, 0, tail, d, by_loss[r], 0)
                _outer(strip, slope, 1, tail, d, by_soft[r, cell], 0)
                begin += count


@njit(parallel=True, cache=True, fastmath=FAST)
def _logits(X, index, start, stop, theta, model, run, shift, scale, hidden, first, out, lots):
    """Logits of the rows of replica r, from out[first[r]] on."""
    d, units = shift.shape[1], max(hidden, 1)
    for lot in prange(lots.shape[0]):
        lanes, logits = np.zeros((d, LANES), np.float32), np.empty(LANES, np.float32)
        fold = np.empty((units, d + 1), np.float32)
        for place in range(lots.shape[1]):
            r = lots[lot, place]
            if r < 0:
                continue
            _fold(theta[model[r]], shift[run[r]], scale[run[r]], hidden, d, fold)
            outer = theta[model[r], d * units + units :]
            for begin in range(start[r], stop[r], LANES):
                count = min(LANES, stop[r] - begin)
                for lane in range(count):
                    for j in range(d):
                        lanes[j, lane] = X[index[begin + lane], j]
                z = splat(outer[hidden] if hidden else _ZERO)
                for u in range(units):
                    h = splat(fold[u, d])
                    for j in range(d):
                        h = fma(load(lanes, j * LANES), fold[u, j], h)
                    z = fma(tanh(h), outer[u], z) if hidden else h
                store(logits, 0, z)
                for lane in range(count):
                    out[first[r] + begin - start[r] + lane] = logits[lane]


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
def _score(X, y, a, index, start, stop, theta, model, run, shift, scale, hidden, counts, losses, blocks, lots):
    """A block is up to sixteen replicas over the same rows, which are read once for all of them."""
    d, units = shift.shape[1], max(hidden, 1)
    for lot in prange(lots.shape[0]):
        lanes, strip, layer, _, _, logits = _scratch(d, hidden)
        width = strip.shape[1]
        fold = np.empty((LANES, units, d + 1), np.float32)
        kinds = counts.shape[1] // 2  # of rows: a group and a label
        lane_of = np.empty(kinds, np.int64)
        for place in range(lots.shape[1]):
            if lots[lot, place] < 0:
                continue
            block = blocks[lots[lot, place]]
            block = block[block >= 0]
            for i in range(block.size):
                _fold(theta[model[block[i]]], shift[run[block[i]]], scale[run[block[i]]], hidden, d, fold[i])
            for begin in range(start[block[0]], stop[block[0]], LANES):
                count = min(LANES, stop[block[0]] - begin)
                lane_of[:] = 0
                for lane in range(count):
                    row = index[begin + lane]
                    lane_of[a[row] * 2 + y[row]] |= np.int64(1) << lane
                    for first in range(0, width, LANES):
                        store(strip, lane * width + first, load_part(X, row * d + first, d - first))
                for first in range(0, width, LANES):
                    transpose(strip, first, width, lanes, first * LANES, LANES)
                for i in range(block.size):
                    r = block[i]
                    z = _logit(theta[model[r]], fold, i, hidden, d, lanes, layer)
                    for c in range(kinds):
                        found = positive(z, lane_of[c])
                        counts[r, 2 * c] += ones(lane_of[c]) - found
                        counts[r, 2 * c + 1] += found
                    if losses.size:
                        store(logits, 0, z)
                        for lane in range(count):
                            logit, label = logits[lane], y[index[begin + lane]]
                            losses[r] += max(logit, _ZERO) - logit * label + np.log1p(np.exp(-abs(np.float64(logit))))


@njit(fastmath=FAST)
def _logit(theta, fold, i, hidden, d, lanes, layer):
    """The logits of sixteen rows as they are, [feature, lane], by a model whose first layer is fold[i]: five units at once, as
    many as read a feature together."""
    units = max(hidden, 1)
    outer, whole, at = d * units + units, units // TILE * TILE, i * units * (d + 1)
    for u in range(0, whole, TILE):
        o0 = at + u * (d + 1)
        o1, o2, o3, o4 = o0 + d + 1, o0 + 2 * (d + 1), o0 + 3 * (d + 1), o0 + 4 * (d + 1)
        h0, h1, h2, h3, h4 = (
            spread(fold, o0 + d),
            spread(fold, o1 + d),
            spread(fold, o2 + d),
            spread(fold, o3 + d),
            spread(fold, o4 + d),
        )
        for j in range(d):
            x = load(lanes, j * LANES)
            h0 = fma(x, spread(fold, o0 + j), h0)
            h1 = fma(x, spread(fold, o1 + j), h1)
            h2 = fma(x, spread(fold, o2 + j), h2)
            h3 = fma(x, spread(fold, o3 + j), h3)
            h4 = fma(x, spread(fold, o4 + j), h4)
        store(layer, u * LANES, tanh(h0))
        store(layer, u * LANES + LANES, tanh(h1))
        store(layer, u * LANES + 2 * LANES, tanh(h2))
        store(layer, u * LANES + 3 * LANES, tanh(h3))
        store(layer, u * LANES + 4 * LANES, tanh(h4))
    for u in range(whole, units):
        h = splat(fold[i, u, d])
        for j in range(d):
            h = fma(load(lanes, j * LANES), fold[i, u, j], h)
        store(layer, u * LANES, tanh(h) if hidden else h)
    if not hidden:
        return load(layer, 0)
    z = splat(theta[outer + hidden])
    for u in range(units):
        z = fma(load(layer, u * LANES), theta[outer + u], z)
    return z


def packs(group, work, mix=False):
    """Deal replicas to blocks of at most LANES, of one group each: [block, place], -1 where a block has no more.

    With `mix`, what is left over when a group has filled whole blocks shares blocks with other groups' rest, longest first.
    """
    order = np.lexsort((group, -work))
    _, first, place, size = np.unique(group[order], return_index=True, return_inverse=True, return_counts=True)
    rank = np.arange(order.size) - first[place]
    whole = rank < size[place] // LANES * LANES
    if mix:
        full, rest = order[whole].reshape(-1, LANES), order[~whole]
        threads = get_num_threads()
        width = -(-rest.size // (-(-rest.size // (LANES * threads)) * threads)) if rest.size else LANES
        rest = np.pad(rest, (0, -rest.size % width), constant_values=-1).reshape(-1, width)
        return np.concatenate([full, np.pad(rest, ((0, 0), (0, LANES - width)), constant_values=-1)])
    starts = np.cumsum(-(-size // LANES)) - -(-size // LANES)
    table = np.full((int((-(-size // LANES)).sum()), LANES), -1, np.int64)
    table[starts[place] + rank // LANES, rank % LANES] = order
    return table


def twins(*parts):
    """Replicas that agree in every part do the same work: (place in `once` of each replica, the replicas to train)."""
    columns = [np.ascontiguousarray(part).reshape(len(part), -1).view(np.uint8) for part in parts]
    table = np.concatenate(columns, axis=1)
    _, once, twin = np.unique(table.view(f"V{table.shape[1]}").ravel(), return_index=True, return_inverse=True)
    return twin, once


@dataclass(frozen=True)
class Fused:
    """The engine for logistic regression and one hidden layer on tables with two labels and any number of groups.

    A network trained by SGD takes one lane of a vector, beside fifteen others; everything else has the lanes to itself,
    for sixteen rows.
    """

    model: Dense

    def train(self, work: Work, theta: np.ndarray, local: ClientTraining, lr: np.ndarray, key: np.ndarray,
              toward: np.ndarray | None = None) -> np.ndarray:  # fmt: skip
        if not len(theta):
            return theta
        rows, inputs, rate = work.rows, work.inputs, lr.astype(np.float32)
        assert isinstance(inputs, Standard)
        prox, momentum = np.float32(local.prox), np.float32(local.momentum)
        anchor = (theta.copy() if toward is None else np.ascontiguousarray(toward, np.float32)) if local.prox else theta[:1]
        data = (work.examples.X, work.examples.y, work.weight, work.index, work.start, work.stop, theta, work.run,
                inputs.shift, inputs.scale, self.model.hidden)  # fmt: skip
        how = (
            rate,
            np.float32(local.weight_decay),
            local.epochs,
            local.batch_size,
            key,
            momentum,
            prox,
            local.schedule == "cosine",
            anchor,
        )
        if local.optimizer == "adam" or not self.model.hidden:
            _train(*data, local.optimizer == "adam", *how, lots(rows))
            return theta
        like = inputs.alike
        same = (work.start, work.stop, key, like[work.run], rate, theta) + ((anchor,) if local.prox else ())
        twin, once = twins(*same)
        blocks = packs(key[once] ^ like[work.run[once]].astype(np.uint64), rows[once], mix=True)
        blocks = np.where(blocks < 0, -1, once[blocks])
        _train_abreast(*data, *how, like, blocks, lots(rows[blocks[:, 0]]))
        theta[:] = theta[once[twin]]
        return theta

    def score(self, work: Work, theta: np.ndarray, model: np.ndarray, loss: bool = False) -> tuple[np.ndarray, np.ndarray]:
        counts = np.zeros((len(model), 4 * work.examples.groups), np.int64)
        losses = np.zeros(len(model) if loss else 0, np.float64)
        if len(model):
            rows = work.rows
            blocks = packs(work.start * (work.index.size + 1) + rows, rows)
            _score(work.examples.X, work.examples.y, work.examples.a, work.index, work.start, work.stop, theta, model, work.run,
                   work.inputs.shift, work.inputs.scale, self.model.hidden, counts, losses, blocks,
                   lots(rows[blocks[:, 0]] * (blocks >= 0).sum(1)))  # fmt: skip
        return counts.reshape(-1, work.examples.groups, 2, 2), losses

    def logits(self, work: Work, theta: np.ndarray, model: np.ndarray) -> np.ndarray:
        out = np.empty(int(work.rows.sum()), np.float32)
        if len(model):
            _logits(work.examples.X, work.index, work.start, work.stop, theta, model, work.run, work.inputs.shift,
                    work.inputs.scale, self.model.hidden, work.ends - work.rows, out, lots(work.rows))  # fmt: skip
        return out

    def counts(self, of: Of) -> bool:
        return not self.model.hidden and isinstance(of, BySums)

    def pull(self, work: Work, theta: np.ndarray, model: np.ndarray, of: Of) -> tuple[np.ndarray, np.ndarray]:
        if not self.model.hidden and isinstance(of, BySums):
            return self._by_sums(work, np.ascontiguousarray(theta, np.float32), model, of)
        if of is mean_loss:  # what is asked most, by the kernels alone and in the arithmetic of `score`
            rows, losses = np.maximum(work.rows, 1)[:, None], self.score(work, theta, model, loss=True)[1][:, None]
            slopes = self._pullback(work, theta, model, np.empty(0, np.float32))
            return np.where(work.rows[:, None] > 0, losses / rows, np.nan), (slopes / rows)[:, None]
        logits, found = torch.as_tensor(self.logits(work, theta, model)), []
        y, a = torch.as_tensor(work.examples.y), torch.as_tensor(work.examples.a)
        for end, rows, start in zip(work.ends, work.rows, work.start, strict=True):
            mine = torch.as_tensor(work.index[start : start + rows])
            found.append(pushed(of, logits[end - rows : end], y[mine], a[mine].long()) if rows else None)
        many = next((len(one[0]) for one in found if one), 0)
        gathered([(one[0], np.zeros((len(one[0]), 1))) if one else None for one in found], 1, theta.dtype)  # equally many values
        sides = [torch.cat([one[1][j] for one in found if one]).numpy() for j in range(many)]
        pulls = [self._pullback(work, theta, model, slope) for slope in sides]
        return gathered([(one[0], np.stack([pull[i] for pull in pulls])) if one else None for i, one in enumerate(found)],
                        theta.shape[1], theta.dtype)  # fmt: skip

    def _by_sums(self, work: Work, theta: np.ndarray, model: np.ndarray, of: BySums) -> tuple[np.ndarray, np.ndarray]:
        """`pull` of what depends on sums by group and label, in one pass over the rows."""
        many, cells, size = len(model), 2 * work.examples.groups, theta.shape[1]
        rows, soft, losses = np.zeros((many, cells)), np.zeros((many, cells)), np.zeros(many)
        by_loss, by_soft = np.zeros((many, size), np.float32), np.zeros((many, cells, size), np.float32)
        if many:
            _cells(work.examples.X, work.examples.y, work.examples.a, work.weight, work.index, work.start, work.stop, theta,
                   model, work.run, work.inputs.shift, work.inputs.scale, of.sharpness, rows, losses, soft, by_loss, by_soft,
                   lots(work.rows))  # fmt: skip
        value, slope = of.by_sums(rows.reshape(many, -1, 2), soft.reshape(many, -1, 2))
        values, slopes = [value], [(slope.reshape(many, 1, cells) @ by_soft)[:, 0]]
        n = rows.sum(1)
        if of.with_loss:
            whole = np.maximum(n, 1)
            values, slopes = [losses / whole, value], [by_loss / whole[:, None], slopes[0]]
        return np.where(n[:, None] > 0, np.stack(values, 1), np.nan), np.stack(slopes, 1).astype(theta.dtype)

    def _pullback(self, work: Work, theta: np.ndarray, model: np.ndarray, slope: np.ndarray) -> np.ndarray:
        """Sum over each replica's rows of slope * gradient of the row's logit at theta[model]: [replica, P] float32."""
        out = np.zeros((len(model), theta.shape[1]), np.float32)
        if len(model):
            _pullback(work.examples.X, work.examples.y, work.index, work.start, work.stop, theta, model, work.run,
                      work.inputs.shift, work.inputs.scale, self.model.hidden, slope, work.ends - work.rows, out,
                      lots(work.rows))  # fmt: skip
        return out
