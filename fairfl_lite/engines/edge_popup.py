"""Edge-popup (E2FL, Algorithm 5) as one compiled kernel for a client: which edges of a frozen random network to keep.

A parameter is the score of an edge with the sign of its weight (see supernets). Nothing of the network's size is made but the
scores and their momentum: weights come from scores in registers, and the gradient of a dense layer is never written down, for it
meets the scores where they are moved. Behind a pooling only one position in four has a gradient, so the convolution's
gradients are sums over those. The threshold of a layer is looked for near the last one and is exact: the scores close to
it are collected while they are moved, and where the wanted one is not among them all scores are searched.

The same loops train the weights of these networks, for methods without masks: a parameter is then the weight itself, every edge
is kept, and `masked` is None, which is known when the kernel is compiled.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numba
import numpy as np
import torch
from numba import njit

from fairfl_lite.clients.training import ClientTraining
from fairfl_lite.engines import simd
from fairfl_lite.engines.base import Of, Work
from fairfl_lite.engines.compiled import keep_compiled
from fairfl_lite.engines.order import passes
from fairfl_lite.engines.plain import Plain, row_losses
from fairfl_lite.engines.simd import (
    LANES,
    above,
    add,
    fma,
    load,
    mul,
    ones,
    signed_above,
    splat,
    spread,
    store,
    total,
    turned,
    where_larger,
)
from fairfl_lite.models import LeNet, Model, Network, Perceptron
from fairfl_lite.supernets import Supernet

keep_compiled(__file__, simd.__file__)

FAST = {"reassoc", "contract", "arcp", "nsz"}
ROWS = 8  # rows of a minibatch that go through a dense layer together
LOOK = 128 * ROWS  # rows that are looked at together, so that a test set is not held as numbers at once
NEAR = 1 << 16  # scores near the threshold that are collected at most
_ZERO, _ONE = np.float32(0), np.float32(1)

inner, fast_inner = njit(forceinline=True), njit(forceinline=True, fastmath=FAST)
"""For functions that kernels call. They become part of the kernel: if they stayed functions, the process that compiles would call
copies that were compiled by themselves, whose sums may be in another order than in the code that is kept."""


@inner
def _floats(n):
    """n zeros that begin where a cache line does."""
    whole = np.zeros(n + LANES, np.float32)
    skip = (64 - whole.ctypes.data % 64) % 64 // 4
    return whole[skip : skip + n]


@inner
def _smallest(p, rank):
    """The size of the element with `rank` others below it by size, rank from 0: by eleven, eleven and nine bits of the number."""
    bits = p.view(np.int32)
    known, below = np.int32(0), np.int64(0)
    count = np.empty(2048, np.int64)
    for shift, wide in ((20, 11), (9, 11), (0, 9)):
        count[:] = 0
        for i in range(bits.size):
            b = bits[i] & 0x7FFFFFFF
            if b >> (shift + wide) == known >> (shift + wide):
                count[(b >> shift) & ((1 << wide) - 1)] += 1
        place = 0
        while below + count[place] <= rank:
            below += count[place]
            place += 1
        known |= np.int32(place << shift)
    found = np.empty(1, np.int32)
    found[0] = known
    return found.view(np.float32)[0]


@inner
def _settled(p, place, tau, keep):
    """tau, after seeing to it that exactly `keep` scores are above it: of equal ones at the threshold those with the highest
    edge ids are moved up by one unit in the last place."""
    more = np.int64(0)
    for i in range(0, p.size, LANES):
        more += ones(above(load(p, i), tau))
    missing = keep - more
    if missing > 0:
        size = np.abs(p)
        tied = np.flatnonzero((size == tau) & (place >= 0))
        chosen = tied[np.argsort(place[tied])[tied.size - missing :]]
        bits = p.view(np.int32)
        for i in chosen:
            bits[i] += 1
    return tau


@inner
def _threshold(p, place, keep, pads):
    """The largest score that is left out, where `keep` are kept; -1 where all are."""
    left = p.size - pads - keep
    if left == 0:
        return np.float32(-1)
    return _settled(p, place, _smallest(p, left - 1 + pads), keep)


@njit(inline="always")
def _weight(p, tau, constant, masked):
    """The weights of edges with these parameters, 0 where they are not kept."""
    if masked is None:
        return p
    return signed_above(p, tau, constant)


@njit(inline="always")
def _moved(p, u, at, g, constant, momentum, decay, rate, masked):
    """One step for the parameters from `at` on, g the gradient by their weights, and what they are then. A score that would pass
    0 comes back from it; a weight goes on."""
    old = load(p, at)
    v = fma(load(u, at), momentum, fma(old, decay, mul(g, splat(constant))))
    new = fma(v, -rate, old)
    if masked is not None:
        v, new = turned(v, new, old), turned(new, new, old)
    store(u, at, v)
    store(p, at, new)
    return new


@fast_inner
def _move(p, u, g, constant, momentum, decay, rate, masked):
    """One step for all parameters of a small layer."""
    for i in range(0, p.size, LANES):
        _moved(p, u, i, load(g, i), constant, momentum, decay, rate, masked)


@fast_inner
def _dense(p, tau, constant, masked, x, inputs, outputs, rows, y, sums):
    """y [row, output] = x [row, input] times the kept weights; p [input / 16, output, 16], rows a multiple of ROWS."""
    blocks = inputs // LANES
    for first in range(0, rows, ROWS):
        sums[: outputs * ROWS * LANES] = _ZERO
        for begin in range(0, blocks, 8):
            end = min(blocks, begin + 8)
            for o in range(outputs):
                at = o * ROWS * LANES
                a0, a1, a2, a3 = load(sums, at), load(sums, at + 16), load(sums, at + 32), load(sums, at + 48)
                a4, a5, a6, a7 = load(sums, at + 64), load(sums, at + 80), load(sums, at + 96), load(sums, at + 112)
                for block in range(begin, end):
                    w = _weight(load(p, (block * outputs + o) * LANES), tau, constant, masked)
                    i = first * inputs + block * LANES
                    a0 = fma(load(x, i), w, a0)
                    a1 = fma(load(x, i + inputs), w, a1)
                    a2 = fma(load(x, i + 2 * inputs), w, a2)
                    a3 = fma(load(x, i + 3 * inputs), w, a3)
                    a4 = fma(load(x, i + 4 * inputs), w, a4)
                    a5 = fma(load(x, i + 5 * inputs), w, a5)
                    a6 = fma(load(x, i + 6 * inputs), w, a6)
                    a7 = fma(load(x, i + 7 * inputs), w, a7)
                store(sums, at, a0)
                store(sums, at + 16, a1)
                store(sums, at + 32, a2)
                store(sums, at + 48, a3)
                store(sums, at + 64, a4)
                store(sums, at + 80, a5)
                store(sums, at + 96, a6)
                store(sums, at + 112, a7)
        for o in range(outputs):
            for b in range(ROWS):
                y[first + b, o] = total(load(sums, (o * ROWS + b) * LANES))


@fast_inner
def _dense_back(p, u, tau, constant, masked, x, dx, dy, inputs, outputs, rows, momentum, decay, rate, low, high, near, part):
    """The gradient dx by x from dy [rows / 8, output, 8], and one step for all parameters.

    Gives how many scores are above `high` afterwards, and how many from `low` to `high` are in `near`: -1 if there was no room.
    """
    more, found = np.int64(0), np.int64(0)
    for block in range(inputs // LANES):
        for first in range(0, rows, ROWS):
            last = first + ROWS == rows
            i = first * inputs + block * LANES
            x0, x1, x2, x3 = load(x, i), load(x, i + inputs), load(x, i + 2 * inputs), load(x, i + 3 * inputs)
            x4, x5 = load(x, i + 4 * inputs), load(x, i + 5 * inputs)
            x6, x7 = load(x, i + 6 * inputs), load(x, i + 7 * inputs)
            d0 = d1 = d2 = d3 = d4 = d5 = d6 = d7 = splat(_ZERO)
            for o in range(outputs):
                at = (block * outputs + o) * LANES
                w = _weight(load(p, at), tau, constant, masked)
                g = load(part, o * LANES) if first else splat(_ZERO)
                e = (first * outputs) + o * ROWS
                s0, s1, s2, s3 = spread(dy, e), spread(dy, e + 1), spread(dy, e + 2), spread(dy, e + 3)
                s4, s5, s6, s7 = spread(dy, e + 4), spread(dy, e + 5), spread(dy, e + 6), spread(dy, e + 7)
                d0, d1, d2, d3 = fma(s0, w, d0), fma(s1, w, d1), fma(s2, w, d2), fma(s3, w, d3)
                d4, d5, d6, d7 = fma(s4, w, d4), fma(s5, w, d5), fma(s6, w, d6), fma(s7, w, d7)
                g = fma(s0, x0, fma(s1, x1, g))
                h = fma(s2, x2, mul(s3, x3))
                g = fma(s4, x4, fma(s5, x5, g))
                h = fma(s6, x6, fma(s7, x7, h))
                g = add(g, h)
                if last:
                    new = _moved(p, u, at, g, constant, momentum, decay, rate, masked)
                    if masked is None:
                        continue
                    over = above(new, high)
                    more += ones(over)
                    inside = above(new, low) & ~over
                    if inside:
                        if found + LANES > near.size:
                            found = -1 - near.size
                        if found >= 0:
                            for lane in range(LANES):
                                if (inside >> lane) & 1:
                                    near[found] = abs(p[at + lane])
                                    found += 1
                else:
                    store(part, o * LANES, g)
            store(dx, i, d0)
            store(dx, i + inputs, d1)
            store(dx, i + 2 * inputs, d2)
            store(dx, i + 3 * inputs, d3)
            store(dx, i + 4 * inputs, d4)
            store(dx, i + 5 * inputs, d5)
            store(dx, i + 6 * inputs, d6)
            store(dx, i + 7 * inputs, d7)
    return more, max(found, -1)


@fast_inner
def _first(w, x, rows, side, channels, out):
    """out [row, channel / 16, side + 2, side + 2, 16] = relu of the first convolution of x [row, side + 2, side + 2], both with a
    border of 0; w [channel / 16, 9, 16]."""
    edge = side + 2
    for b in range(rows):
        for block in range(channels // LANES):
            at = block * 9 * LANES
            w0, w1, w2 = load(w, at), load(w, at + 16), load(w, at + 32)
            w3, w4, w5 = load(w, at + 48), load(w, at + 64), load(w, at + 80)
            w6, w7, w8 = load(w, at + 96), load(w, at + 112), load(w, at + 128)
            for r in range(side):
                i = (b * edge + r) * edge
                o = (((b * (channels // LANES) + block) * edge + r + 1) * edge + 1) * LANES
                for c in range(side):
                    j = i + c
                    s = fma(spread(x, j), w0, fma(spread(x, j + 1), w1, mul(spread(x, j + 2), w2)))
                    j += edge
                    t = fma(spread(x, j), w3, fma(spread(x, j + 1), w4, mul(spread(x, j + 2), w5)))
                    j += edge
                    s = fma(spread(x, j), w6, fma(spread(x, j + 1), w7, fma(spread(x, j + 2), w8, s)))
                    s = add(s, t)
                    store(out, o + c * LANES, where_larger(s, splat(_ZERO), s, splat(_ZERO)))


@njit(inline="always")
def _pooled(a, b, c, d, out, which, at):
    """The largest of four, at least 0, and which it was."""
    best, at_best = a, splat(_ZERO)
    at_best, best = where_larger(b, best, splat(_ONE), at_best), where_larger(b, best, b, best)
    at_best, best = where_larger(c, best, splat(np.float32(2)), at_best), where_larger(c, best, c, best)
    at_best, best = where_larger(d, best, splat(np.float32(3)), at_best), where_larger(d, best, d, best)
    store(out, at, where_larger(best, splat(_ZERO), best, splat(_ZERO)))
    store(which, at, at_best)


@fast_inner
def _second(w, x, a, rows, side, channels, wide, out, which):
    """out [row, (side / 2)^2, wide] = pooled relu of the second convolution of a, and which of four positions it came from.

    w [wide / 32, channel / 16, 9, 16, 32]. Two windows and 32 channels are at work at a time, in 16 registers. Where all eight
    pixels that a tap sees are black, and so are their neighbours, it adds nothing and is left out.
    """
    edge, half, blocks = side + 2, side // 2, channels // LANES
    down = edge * LANES
    ink, seen = np.zeros((edge + 4, edge + 4), np.uint8), np.zeros((edge, edge), np.uint8)
    for b in range(rows):
        ink[:] = 0
        for r in range(1, edge - 1):
            for c in range(1, edge - 1):
                if x[(b * edge + r) * edge + c] != 0:
                    ink[r - 1 : r + 2, c - 1 : c + 2] = 1
        for r in range(edge - 1):
            for c in range(edge - 3):
                seen[r, c] = ink[r : r + 2, c : c + 4].any()
        for r in range(half):
            for c in range(0, half, 2):
                for ov in range(wide // 32):
                    a0 = a1 = a2 = a3 = a4 = a5 = a6 = a7 = splat(_ZERO)
                    b0 = b1 = b2 = b3 = b4 = b5 = b6 = b7 = splat(_ZERO)
                    for block in range(blocks):
                        for tap in range(9):
                            if not seen[2 * r + tap // 3, 2 * c + tap % 3]:
                                continue
                            at = ((ov * blocks + block) * 9 + tap) * LANES * 32
                            i = ((b * blocks + block) * edge + 2 * r + tap // 3) * down + (2 * c + tap % 3) * LANES
                            for lane in range(LANES):
                                w0, w1 = load(w, at), load(w, at + 16)
                                at += 32
                                x0, x1 = spread(a, i + lane), spread(a, i + 16 + lane)
                                x2, x3 = spread(a, i + 32 + lane), spread(a, i + 48 + lane)
                                x4, x5 = spread(a, i + down + lane), spread(a, i + down + 16 + lane)
                                x6, x7 = spread(a, i + down + 32 + lane), spread(a, i + down + 48 + lane)
                                a0, a1, a2, a3 = fma(x0, w0, a0), fma(x1, w0, a1), fma(x2, w0, a2), fma(x3, w0, a3)
                                a4, a5, a6, a7 = fma(x4, w0, a4), fma(x5, w0, a5), fma(x6, w0, a6), fma(x7, w0, a7)
                                b0, b1, b2, b3 = fma(x0, w1, b0), fma(x1, w1, b1), fma(x2, w1, b2), fma(x3, w1, b3)
                                b4, b5, b6, b7 = fma(x4, w1, b4), fma(x5, w1, b5), fma(x6, w1, b6), fma(x7, w1, b7)
                    o = ((b * half + r) * half + c) * wide + ov * 32
                    _pooled(a0, a1, a4, a5, out, which, o)
                    _pooled(b0, b1, b4, b5, out, which, o + 16)
                    _pooled(a2, a3, a6, a7, out, which, o + wide)
                    _pooled(b2, b3, b6, b7, out, which, o + wide + 16)


@njit(inline="always")
def _nine(weights, values, offsets, count, source, down, target, to, below):
    """Add to nine vectors, three by three, at target[to], rows `below` apart, the sum of values times nine vectors of the
    source at offsets, rows `down` apart."""
    t0, t1, t2 = load(target, to), load(target, to + 16), load(target, to + 32)
    t3, t4, t5 = load(target, to + below), load(target, to + below + 16), load(target, to + below + 32)
    t6, t7, t8 = load(target, to + 2 * below), load(target, to + 2 * below + 16), load(target, to + 2 * below + 32)
    for n in range(count):
        v = spread(values, weights + n)
        i = np.intp(offsets[weights + n])
        t0, t1, t2 = fma(load(source, i), v, t0), fma(load(source, i + 16), v, t1), fma(load(source, i + 32), v, t2)
        i += down
        t3, t4, t5 = fma(load(source, i), v, t3), fma(load(source, i + 16), v, t4), fma(load(source, i + 32), v, t5)
        i += down
        t6, t7, t8 = fma(load(source, i), v, t6), fma(load(source, i + 16), v, t7), fma(load(source, i + 32), v, t8)
    store(target, to, t0)
    store(target, to + 16, t1)
    store(target, to + 32, t2)
    store(target, to + below, t3)
    store(target, to + below + 16, t4)
    store(target, to + below + 32, t5)
    store(target, to + 2 * below, t6)
    store(target, to + 2 * below + 16, t7)
    store(target, to + 2 * below + 32, t8)


@fast_inner
def _conv_back(w, x, a, h, dh, which, rows, side, channels, wide, g1, g2, d, lists):
    """Gradients g1, g2 by the weights of both convolutions, from dh, that by what the pooling gave, h.

    w [channel / 16, wide, 9, 16], g2 alike, g1 [channel / 16, 9, 16]. For each output channel the positions with a gradient are
    listed (value, offset into a), and for each window and position the channels (near, to).
    """
    value, offset, count, near, to, many = lists
    edge, half, blocks = side + 2, side // 2, channels // LANES
    down, plane, most = edge * LANES, edge * edge * LANES, half * half
    g1[:] = _ZERO
    g2[:] = _ZERO
    for b in range(rows):
        d[:] = _ZERO
        count[:] = 0
        for r in range(half):
            for c in range(half):
                many[:] = 0
                at = ((b * half + r) * half + c) * wide
                patch = 2 * r * down + 2 * c * LANES
                for o in range(wide):
                    g = dh[at + o] if h[at + o] > 0 else _ZERO
                    j = np.int64(which[at + o])
                    n, m = count[o], many[j]
                    value[o * most + n] = g
                    offset[o * most + n] = patch + (j >> 1) * down + (j & 1) * LANES
                    near[j * wide + m] = g
                    to[j * wide + m] = o * 9 * LANES
                    some = np.int64(g != 0)
                    count[o] = n + some
                    many[j] = m + some
                for block in range(blocks):
                    source = w[block * wide * 9 * LANES : (block + 1) * wide * 9 * LANES]
                    for spot in range(4):
                        if many[spot]:
                            goal = block * plane + patch + (spot >> 1) * down + (spot & 1) * LANES
                            _nine(spot * wide, near, to, many[spot], source, 3 * LANES, d, goal, down)
            if r % 4 == 3 or r == half - 1:  # by strips of rows, whose part of `a` stays in the nearest cache
                for block in range(blocks):
                    own = a[(b * blocks + block) * plane : (b * blocks + block + 1) * plane]
                    for o in range(wide):
                        _nine(o * most, value, offset, count[o], own, down, g2, (block * wide + o) * 9 * LANES, 3 * LANES)
                count[:] = 0
        for block in range(blocks):
            own = a[(b * blocks + block) * plane : (b * blocks + block + 1) * plane]
            at = block * 9 * LANES
            t0, t1, t2 = load(g1, at), load(g1, at + 16), load(g1, at + 32)
            t3, t4, t5 = load(g1, at + 48), load(g1, at + 64), load(g1, at + 80)
            t6, t7, t8 = load(g1, at + 96), load(g1, at + 112), load(g1, at + 128)
            for r in range(side):
                for c in range(side):
                    i = ((r + 1) * edge + c + 1) * LANES
                    v = where_larger(load(own, i), splat(_ZERO), load(d, block * plane + i), splat(_ZERO))
                    j = (b * edge + r) * edge + c
                    t0, t1, t2 = fma(v, spread(x, j), t0), fma(v, spread(x, j + 1), t1), fma(v, spread(x, j + 2), t2)
                    j += edge
                    t3, t4, t5 = fma(v, spread(x, j), t3), fma(v, spread(x, j + 1), t4), fma(v, spread(x, j + 2), t5)
                    j += edge
                    t6, t7, t8 = fma(v, spread(x, j), t6), fma(v, spread(x, j + 1), t7), fma(v, spread(x, j + 2), t8)
            store(g1, at, t0)
            store(g1, at + 16, t1)
            store(g1, at + 32, t2)
            store(g1, at + 48, t3)
            store(g1, at + 64, t4)
            store(g1, at + 80, t5)
            store(g1, at + 96, t6)
            store(g1, at + 112, t7)
            store(g1, at + 128, t8)


@inner
def _effective(p, tau, constant, masked, w):
    for i in range(0, p.size, LANES):
        store(w, i, _weight(load(p, i), tau, constant, masked))


@inner
def _regrouped(w, channels, wide, out):
    """[channel / 16, wide, 9, 16] as [wide / 32, channel / 16, 9, 16, 32]."""
    blocks = channels // LANES
    for block in range(blocks):
        for o in range(wide):
            for tap in range(9):
                for lane in range(LANES):
                    to = ((((o // 32) * blocks + block) * 9 + tap) * LANES + lane) * 32 + o % 32
                    out[to] = w[((block * wide + o) * 9 + tap) * LANES + lane]


@inner
def _thresholds(p, place, starts, keeps, pads, tau):
    for layer in range(tau.size):
        part = slice(starts[layer], starts[layer + 1])
        tau[layer] = _threshold(p[part], place[part], keeps[layer], pads[layer])


@inner
def _forward(p, tau, constants, masked, starts, inputs, outputs, shape, x, count, rows, tops, h, y, sums, a, w1, w2, w3, which):
    """What each dense layer is given, h from tops[layer] on, and what the last one gives, y."""
    side, channels, wide = shape
    convs = 2 if side else 0
    if side:
        _effective(p[starts[0] : starts[1]], tau[0], constants[0], masked, w1)
        _effective(p[starts[1] : starts[2]], tau[1], constants[1], masked, w2)
        _regrouped(w2, channels, wide, w3)
        _first(w1, x, count, side, channels, a)
        _second(w3, x, a, count, side, channels, wide, h, which)
    else:
        h[: count * inputs[0]] = x[: count * inputs[0]]
    h[count * inputs[convs] : rows * inputs[convs]] = _ZERO
    for layer in range(convs, tau.size):
        own = p[starts[layer] : starts[layer + 1]]
        _dense(own, tau[layer], constants[layer], masked, h[tops[layer] :], inputs[layer], outputs[layer], rows, y, sums)
        if layer + 1 < tau.size:
            for b in range(rows):
                for o in range(outputs[layer]):
                    h[tops[layer + 1] + b * inputs[layer + 1] + o] = max(y[b, o], _ZERO)


@inner
def _buffers(shape, most, starts, inputs, outputs):
    """What one training, or one look, needs beside parameters: rows in flight are at most `most`, a multiple of ROWS."""
    side, channels, wide = shape
    convs = 2 if side else 0
    tops = np.zeros(inputs.size + 1, np.int64)
    for layer in range(convs, inputs.size):
        tops[layer + 1] = tops[layer] + most * inputs[layer]
    h = _floats(tops[-1])
    y = np.zeros((most, outputs[convs:].max()), np.float32)
    sums = _floats(outputs[convs:].max() * ROWS * LANES)
    a = _floats(most * channels * (side + 2) ** 2 if side else 0)
    which = _floats(most * wide * (side // 2) ** 2)
    return tops, h, y, sums, a, _floats(channels * 9), _floats(channels * wide * 9), _floats(channels * wide * 9), which


@njit(nogil=True, cache=True)
def _fit(p, place, shape, starts, inputs, outputs, keeps, pads, constants, masked, x, labels, weight, orders, batch, rates,
         momentum, decay):  # fmt: skip
    """SGD in place on parameters p from the rows x [row, ...] in the given orders [epoch, row], rates [step]; the loss of a row
    counts `weight` times."""
    side, channels, wide = shape
    convs, layers = (2 if side else 0), keeps.size
    n, width = labels.size, x.shape[1]
    most = -(-min(batch, n) // ROWS) * ROWS
    tops, h, y, sums, a, w1, w2, w3, which = _buffers(shape, most, starts, inputs, outputs)
    u, dx, part = _floats(p.size), _floats(tops[-1]), _floats(outputs[convs:].max() * LANES)
    dy, xs = _floats(most * outputs[convs:].max()), _floats(most * width)
    g1, g2 = _floats(channels * 9), _floats(channels * wide * 9)
    d = _floats(channels * (side + 2) ** 2 if side else 0)
    value, offset = np.empty(wide * (side // 2) ** 2 + 1, np.float32), np.empty(wide * (side // 2) ** 2 + 1, np.int32)
    to = np.empty(4 * wide + 1, np.int32)
    close, counts, many = np.empty(4 * wide + 1, np.float32), np.empty(wide, np.int64), np.empty(4, np.int64)
    near = np.empty(NEAR, np.float32)
    tau, reach = np.empty(layers, np.float32), np.zeros(layers, np.float32)
    _thresholds(p, place, starts, keeps, pads, tau)
    for layer in range(convs, layers):
        reach[layer] = np.float32(0.01) * tau[layer]
    misses = step = 0
    for epoch in range(orders.shape[0]):
        for first in range(0, n, batch):
            count = min(batch, n - first)
            rows = -(-count // ROWS) * ROWS
            for b in range(count):
                xs[b * width : (b + 1) * width] = x[orders[epoch, first + b]]
            _forward(p, tau, constants, masked, starts, inputs, outputs, shape, xs, count, rows, tops, h, y, sums, a, w1, w2, w3,
                     which)  # fmt: skip
            last, rate = outputs[layers - 1], np.float32(rates[step])
            dy[: rows * last] = _ZERO
            for b in range(count):
                top = y[b, :last].max()
                z = np.exp(y[b, :last] - top)
                z /= z.sum() * count
                row = orders[epoch, first + b]
                z[labels[row]] -= _ONE / count
                for o in range(last):
                    dy[(b // ROWS) * ROWS * last + o * ROWS + b % ROWS] = z[o] * weight[row]
            for layer in range(layers - 1, convs - 1, -1):
                own, mark = slice(starts[layer], starts[layer + 1]), tau[layer]
                low, high = mark - reach[layer], mark + reach[layer]
                if own.stop - own.start < 4 * NEAR or mark < 0:  # a small layer is searched as a whole
                    low = high = np.float32(np.inf)
                more, found = _dense_back(
                    p[own], u[own], mark, constants[layer], masked, h[tops[layer] :], dx[tops[layer] :], dy, inputs[layer],
                    outputs[layer], rows, momentum, decay, rate, low, high, near, part,
                )  # fmt: skip
                if 0 <= keeps[layer] - more < found:
                    tau[layer] = _smallest(near[:found], found - 1 - (keeps[layer] - more))
                    tau[layer] = _settled(p[own], place[own], tau[layer], keeps[layer])
                    moved = abs(tau[layer] - mark)
                    reach[layer] *= np.float32(0.7 if moved < reach[layer] / 6 else 1.5 if moved > reach[layer] / 2 else 1)
                else:
                    tau[layer] = _threshold(p[own], place[own], keeps[layer], pads[layer])
                    if low < np.inf:
                        misses += 1
                        reach[layer] *= np.float32(4 if found >= 0 else 0.25)
                if layer > convs:
                    before = outputs[layer - 1]
                    for b in range(rows):
                        for o in range(before):
                            i = tops[layer] + b * inputs[layer] + o
                            dy[(b // ROWS) * ROWS * before + o * ROWS + b % ROWS] = dx[i] if h[i] > 0 else _ZERO
            if side:
                lists = (value, offset, counts, close, to, many)
                _conv_back(w2, xs, a, h, dx, which, count, side, channels, wide, g1, g2, d, lists)
                _move(p[starts[0] : starts[1]], u[starts[0] : starts[1]], g1, constants[0], momentum, decay, rate, masked)
                _move(p[starts[1] : starts[2]], u[starts[1] : starts[2]], g2, constants[1], momentum, decay, rate, masked)
                _thresholds(p, place, starts[:3], keeps, pads, tau[:2])
            step += 1
    return misses


@njit(nogil=True, cache=True)
def _look(p, place, shape, starts, inputs, outputs, keeps, pads, constants, masked, x, out):
    """Logits out [row, class] of the rows x."""
    most, width = 4 * ROWS, x.shape[1]
    tops, h, y, sums, a, w1, w2, w3, which = _buffers(shape, most, starts, inputs, outputs)
    tau, xs = np.empty(keeps.size, np.float32), _floats(most * width)
    _thresholds(p, place, starts, keeps, pads, tau)
    for first in range(0, len(x), most):
        count = min(most, len(x) - first)
        rows = -(-count // ROWS) * ROWS
        for b in range(count):
            xs[b * width : (b + 1) * width] = x[first + b]
        _forward(p, tau, constants, masked, starts, inputs, outputs, shape, xs, count, rows, tops, h, y, sums, a, w1, w2, w3,
                 which)  # fmt: skip
        out[first : first + count] = y[:count, : out.shape[1]]


@njit(nogil=True, cache=True)
def _take(params, place, p):
    for i in range(p.size):
        p[i] = params[place[i]] if place[i] >= 0 else _ZERO


@njit(nogil=True, cache=True)
def _give(p, place, params):
    for i in range(p.size):
        if place[i] >= 0:
            params[place[i]] = p[i]


class Layout(NamedTuple):
    """How the kernel holds the edges: place[i] is the edge at i, -1 where vectors are filled up with zeros. masked : None where
    parameters are weights."""

    place: np.ndarray
    shape: tuple[int, int, int]
    starts: np.ndarray
    inputs: np.ndarray
    outputs: np.ndarray
    keeps: np.ndarray
    pads: np.ndarray
    constants: np.ndarray
    masked: bool | None

    @classmethod
    def of(cls, model: Supernet | Network) -> Layout:
        if not isinstance(model, Supernet):
            whole = cls.of(Supernet(model, 1))
            return whole._replace(constants=np.ones_like(whole.constants), masked=None)
        network = model.network
        places, inputs, outputs = [], [], []
        held: np.ndarray
        shape = (28, 32, 64) if isinstance(network, LeNet) else (0, 0, 0)
        for number, kernel in enumerate(network.shapes):
            ids = np.arange(np.prod(kernel), dtype=np.int32)
            if len(kernel) == 4:
                o, c = kernel[:2]
                if c == 1:
                    held = ids.reshape(o // LANES, LANES, 9).transpose(0, 2, 1)
                else:
                    held = ids.reshape(o, c // LANES, LANES, 9).transpose(1, 0, 3, 2)
                wide = 0
            else:
                o, i = kernel
                wide = -(-i // LANES) * LANES
                held = np.full((o, wide), -1, np.int32)
                held[:, :i] = ids.reshape(o, i)
                if shape[0] and number == 2:  # what the pooling gives is ordered by position, then channel
                    held = held.reshape(o, shape[2], -1).transpose(0, 2, 1).reshape(o, i)
                held = held.reshape(o, -1, LANES).transpose(1, 0, 2)
            places.append(held.ravel())
            inputs.append(wide)
            outputs.append(o)
        starts = np.cumsum([0, *(place.size for place in places)])
        offset = np.repeat([layer.start for layer in model.layers], np.diff(starts))
        flat = np.concatenate(places)
        return cls(
            place=np.where(flat >= 0, flat + offset, -1).astype(np.int32),
            shape=shape,
            starts=starts,
            inputs=np.array(inputs),
            outputs=np.array(outputs),
            keeps=np.array([model.keep(layer.stop - layer.start) for layer in model.layers]),
            pads=np.array([int((place < 0).sum()) for place in places]),
            constants=np.array(model.constants, np.float32),
            masked=True,
        )


@dataclass(frozen=True)
class EdgePopup:
    """The engine of supernets, and of their networks as such. Clients are trained side by side, one to a thread; what they learn
    does not depend on it.

    It serves LeNet and fully connected networks in single precision under SGD; for what it does not, it asks `Plain`. A row whose
    probability of its label is 1 in single precision should have no gradient. Here it has one of at most 1e-8 by that logit, what
    1 / n loses by rounding, in a batch of n rows; none where n is a power of two.
    """

    model: Supernet | Network

    @staticmethod
    def serves(model: Model) -> bool:
        network = model.network if isinstance(model, Supernet) else model
        return isinstance(network, LeNet | Perceptron) and not network.double

    @cached_property
    def layout(self) -> Layout:
        return Layout.of(self.model)

    @cached_property
    def plain(self) -> Plain:
        return Plain(self.model)

    def train(self, work: Work, theta: np.ndarray, local: ClientTraining, lr: np.ndarray, key: np.ndarray,
              toward: np.ndarray | None = None) -> np.ndarray:  # fmt: skip
        if local.optimizer != "sgd" or local.prox or toward is not None or theta.dtype != np.float32:
            return self.plain.train(work, theta, local, lr, key, toward)

        def one(i: int) -> None:
            if work.stop[i] == work.start[i] or not local.epochs:
                return
            x, y = self._rows(work, i)
            batch = local.batch_size or len(y)
            steps = local.epochs * -(-len(y) // batch)
            rates = lr[i] * np.array([local.slowed(step, steps) for step in range(steps)])
            orders = np.array([order.copy() for order in passes(len(y), local.epochs, local.batch_size, key[i])])
            p = self._held(theta[i])
            weight = work.weight[work.start[i] : work.stop[i]] if work.weight.size else np.ones(len(y))
            _fit(p, *self.layout, x, y, weight.astype(np.float32), orders, batch, rates, np.float32(local.momentum),
                 np.float32(local.weight_decay))  # fmt: skip
            _give(p, self.layout.place, theta[i])

        self._each(one, range(len(theta)))
        return theta

    def score(self, work: Work, theta: np.ndarray, model: np.ndarray, loss: bool = False) -> tuple[np.ndarray, np.ndarray]:
        classes = work.examples.classes
        counts = np.zeros((len(model), work.examples.groups, classes, classes), np.int64)
        losses = np.zeros(len(model) if loss else 0)
        for i, logits in self._logits(work, theta, model):
            rows = work.index[work.start[i] : work.stop[i]]
            y, a = (array[rows].astype(np.int64) for array in (work.examples.y, work.examples.a))
            np.add.at(counts[i], (a, y, logits.argmax(1)), 1)
            if loss:
                losses[i] = row_losses(torch.as_tensor(logits).double(), torch.as_tensor(y), "sum").item()
        return counts, losses

    def logits(self, work: Work, theta: np.ndarray, model: np.ndarray) -> np.ndarray:
        found = dict(self._logits(work, theta, model))
        if not found:
            return np.empty(0, np.float32)
        whole = np.concatenate([found[i] for i in sorted(found)])
        return whole[:, 1] - whole[:, 0] if self.model.classes == 2 else whole

    def counts(self, of: Of) -> bool:
        return False

    def pull(self, work: Work, theta: np.ndarray, model: np.ndarray, of: Of) -> tuple[np.ndarray, np.ndarray]:
        return self.plain.pull(work, theta, model, of)

    def _logits(self, work: Work, theta: np.ndarray, model: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        """The logits [row, class] of each replica with rows; those of one model together."""
        who = [i for i in np.argsort(model, kind="stable") if work.stop[i] > work.start[i]]
        lots = [who[first : first + 8] for first in range(0, len(who), 8)]

        def one(lot: list[int]) -> list[tuple[int, np.ndarray]]:
            found, held, p = [], -1, np.empty(0, np.float32)
            for i in lot:
                if model[i] != held:
                    held, p = model[i], self._held(theta[model[i]])
                out = np.empty((work.stop[i] - work.start[i], self.model.classes), np.float32)
                for first in range(0, len(out), LOOK):
                    x, _ = self._rows(work, i, first, LOOK)
                    _look(p, *self.layout, x, out[first : first + LOOK])
                found.append((int(i), out))
            return found

        for lot in self._each(one, lots):
            yield from lot

    def _each(self, one: Any, tasks: Any) -> list[Any]:
        """one(task) for every task, a thread to a task."""
        with ThreadPoolExecutor(numba.get_num_threads()) as pool:
            return list(pool.map(one, tasks))

    def _held(self, params: np.ndarray) -> np.ndarray:
        p = np.empty(len(self.layout.place), np.float32)
        _take(np.ascontiguousarray(params, np.float32), self.layout.place, p)
        return p

    def _rows(self, work: Work, i: int, first: int = 0, count: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """The rows of a replica, or `count` of them, as the kernel reads them, float32 [row, ...]: images with a border of 0,
        tables filled up."""
        rows = work.index[work.start[i] : work.stop[i]][first : None if count is None else first + count]
        x = np.asarray(work.inputs(work.examples.X[rows], int(work.run[i])), np.float32)
        if self.layout.shape[0]:
            x = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
        x = x.reshape(len(rows), -1)
        if not self.layout.shape[0]:
            x = np.pad(x, ((0, 0), (0, int(self.layout.inputs[0]) - x.shape[1])))
        return np.ascontiguousarray(x), work.examples.y[rows].astype(np.int64)
