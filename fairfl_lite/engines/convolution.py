"""The fast path for RankFF's network on 28 x 28 images, in single precision: one numba kernel for a whole epoch of SGD.

Forward, lanes are sixteen images, which fill every vector whatever the number of channels; convolution, pooling and ReLU are
one loop, whose sums stay in registers. Backward, lanes are channels or pixels of one image: pooling passes the slope of one
pixel in four, another one in every image, and the three others cost nothing this way.

Threads take whole replicas, so their number changes nothing in the result. What else there is, Adam for instance, goes to
plain torch.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numba import njit, prange

from fairfl_lite.clients.training import ClientTraining
from fairfl_lite.data.shards import Pixels
from fairfl_lite.engines import order as row_order
from fairfl_lite.engines import plain, simd
from fairfl_lite.engines.base import Of, Work
from fairfl_lite.engines.compiled import keep_compiled, lots
from fairfl_lite.engines.order import Shuffle, passes
from fairfl_lite.engines.plain import Plain, Read, gathered, mean_loss, pushed
from fairfl_lite.engines.simd import LANES, add, alive, fma, load, mul, pair, pick, relu, splat, store, total, transpose
from fairfl_lite.models import CNN, Model

keep_compiled(__file__, simd.__file__, row_order.__file__)

FAST = {"reassoc", "contract", "arcp", "nsz"}
SIDE, POOLED, CLASSES = 28, 12, 10
TILE, UNITS = 5, 10  # channels of a convolution, and units of a dense layer, whose sums are in registers together
_IMAGE = SIDE * SIDE + LANES  # a patch in the last corner reads beyond the last pixel
_FIRST = POOLED * POOLED * LANES  # what the first layer gives for one image: [pixel, channel], channels filled up to LANES
_ZERO = np.float32(0)


@njit
def _aligned(size):
    """Zeros that begin at a whole vector, so that none is read from two cache lines."""
    room = np.zeros(size + LANES, np.float32)
    skip = (-(room.ctypes.data // 4)) % LANES
    return room[skip : skip + size]


@njit
def _rounded(a, b, h):
    """Channels and hidden units, each filled up to whole tiles."""
    return (a + TILE - 1) // TILE * TILE, (b + TILE - 1) // TILE * TILE, (h + UNITS - 1) // UNITS * UNITS


@njit
def _weights(a, b, h):
    """Room for the parameters, in the order in which the loops read them:
    first [tile, 25, TILE], second forward [tile, 25, channel, TILE] and backward [channel, 25, LANES],
    third [unit, pixel], last [class, unit], then the four biases."""
    A, B, H = _rounded(a, b, h)
    return (_aligned(A * 25), _aligned(B * 25 * a), _aligned(B * 25 * LANES), _aligned(H * 16 * B), _aligned(CLASSES * H),
            _aligned(A), _aligned(B), _aligned(H), _aligned(CLASSES))  # fmt: skip


@njit
def _lay_out(theta, a, b, h, weights):
    """Parameters from the order of the model to that of the loops."""
    first, forward, backward, third, last, c1, c2, c3, c4 = weights
    _, B, H = _rounded(a, b, h)
    at = 0
    for c in range(a):
        for t in range(25):
            first[(c // TILE * 25 + t) * TILE + c % TILE] = theta[at]
            at += 1
    c1[:a] = theta[at : at + a]
    at += a
    for d in range(b):
        for c in range(a):
            for t in range(25):
                forward[((d // TILE * 25 + t) * a + c) * TILE + d % TILE] = theta[at]
                backward[(d * 25 + t) * LANES + c] = theta[at]
                at += 1
    c2[:b] = theta[at : at + b]
    at += b
    for u in range(h):
        third[u * 16 * B : u * 16 * B + 16 * b] = theta[at : at + 16 * b]
        at += 16 * b
    c3[:h] = theta[at : at + h]
    at += h
    for k in range(CLASSES):
        last[k * H : k * H + h] = theta[at : at + h]
        at += h
    c4[:] = theta[at:]


@njit
def _slopes(a, b, h):
    """Room for the gradient as the loops add it up: first [channel, 3, LANES], two rows of five taps to a vector,
    second [channel, 25, LANES], third [unit, pixel], last [class, unit], then the four biases."""
    _, B, H = _rounded(a, b, h)
    return (_aligned(LANES * 3 * LANES), _aligned(B * 25 * LANES), _aligned(H * 16 * B), _aligned(CLASSES * H),
            _aligned(LANES), _aligned(B), _aligned(H), _aligned(CLASSES))  # fmt: skip


@njit
def _clear(slopes):
    first, second, third, last, c1, c2, c3, c4 = slopes
    first[:] = _ZERO
    second[:] = _ZERO
    third[:] = _ZERO
    last[:] = _ZERO
    c1[:] = _ZERO
    c2[:] = _ZERO
    c3[:] = _ZERO
    c4[:] = _ZERO


@njit
def _collect(slopes, a, b, h, gradient):
    """The gradient in the order of the model."""
    first, second, third, last, c1, c2, c3, c4 = slopes
    _, B, H = _rounded(a, b, h)
    at = 0
    for c in range(a):
        for ky in range(5):
            for kx in range(5):
                gradient[at] = first[(c * 3 + ky // 2) * LANES + ky % 2 * 8 + kx]
                at += 1
    gradient[at : at + a] = c1[:a]
    at += a
    for d in range(b):
        for c in range(a):
            for t in range(25):
                gradient[at] = second[(d * 25 + t) * LANES + c]
                at += 1
    gradient[at : at + b] = c2[:b]
    at += b
    for u in range(h):
        gradient[at : at + 16 * b] = third[u * 16 * B : u * 16 * B + 16 * b]
        at += 16 * b
    gradient[at : at + h] = c3[:h]
    at += h
    for k in range(CLASSES):
        gradient[at : at + h] = last[k * H : k * H + h]
        at += h
    gradient[at:] = c4


@njit
def _room(a, b, h):
    """What sixteen images leave behind on their way. With lanes for images: pixels [pixel], first [pixel, channel, 2: what
    came through and where it was], second [channel x pixel] twice likewise, hidden [unit], logits [class]."""
    _, B, H = _rounded(a, b, h)
    return (_aligned(LANES * _IMAGE), _aligned(SIDE * SIDE * LANES), _aligned(_FIRST * LANES), _aligned(_FIRST * LANES),
            _aligned(16 * B * LANES), _aligned(16 * B * LANES), _aligned(H * LANES), _aligned(CLASSES * LANES))  # fmt: skip


@njit
def _backroom(a, b, h):
    """Room for the way back: slopes by what came through the second layer and by hidden units, lanes for images; the same and
    what came through both layers with where it was by image; slopes by what the first layer gave one image; a list."""
    _, B, H = _rounded(a, b, h)
    return (_aligned(16 * B * LANES), _aligned(H * LANES), _aligned(16 * B * LANES), _aligned(16 * B * LANES),
            _aligned(16 * B * LANES), _aligned(_FIRST * LANES), _aligned(_FIRST * LANES), _aligned(_FIRST), _aligned(LANES),
            np.zeros(LANES, np.int64))  # fmt: skip


@njit
def _read(X, rows, begin, count, shift, scale, images, pixels):
    """Up to sixteen images as numbers, by image and by pixel; lanes to spare are empty."""
    for lane in range(LANES):
        at = lane * _IMAGE
        if lane < count:
            row = rows[begin + lane]
            for i in range(SIDE * SIDE):
                images[at + i] = (np.float32(X[row, i]) / np.float32(255) - shift) / scale
        else:
            images[at : at + SIDE * SIDE] = _ZERO
    for i in range(0, SIDE * SIDE, LANES):
        transpose(images, i, _IMAGE, pixels, i * LANES, LANES)


@njit(inline="always")
def _pooled(p, q, r, s, at, right, down, through, where, to):
    """The first of the largest of four neighbours, as torch takes it, its place in the image, and ReLU."""
    best, place = p, splat(np.float32(at))
    place = pick(q, best, splat(np.float32(at + right)), place)
    best = pick(q, best, q, best)
    place = pick(r, best, splat(np.float32(at + down)), place)
    best = pick(r, best, r, best)
    place = pick(s, best, splat(np.float32(at + down + right)), place)
    best = pick(s, best, s, best)
    store(through, to, relu(best))
    store(where, to, place)


@njit(fastmath=FAST)
def _convolve(x, channels, width, pixel, weight, bias, side, tiles, step, far, unit, through, where):
    """Convolution, pooling and ReLU of sixteen images x [pixel, channel, lane], `width` pixels wide and `pixel` elements apart.

    side : of what comes through. Channel d of pixel i goes to (i * step + d * far). unit : what one pixel to the right
    counts for in `where`."""
    row = width * pixel
    for y in range(side):
        for z in range(side):
            for tile in range(tiles):
                d = tile * TILE
                p0, p1, p2 = splat(bias[d]), splat(bias[d + 1]), splat(bias[d + 2])
                p3, p4 = splat(bias[d + 3]), splat(bias[d + 4])
                q0, q1, q2, q3, q4 = p0, p1, p2, p3, p4
                r0, r1, r2, r3, r4 = p0, p1, p2, p3, p4
                s0, s1, s2, s3, s4 = p0, p1, p2, p3, p4
                v = tile * 25 * channels * TILE
                for ky in range(5):
                    for kx in range(5):
                        o = (2 * y + ky) * row + (2 * z + kx) * pixel
                        for _ in range(channels):
                            p, q = load(x, o), load(x, o + pixel)
                            r, s = load(x, o + row), load(x, o + row + pixel)
                            w = splat(weight[v])
                            p0, q0, r0, s0 = fma(p, w, p0), fma(q, w, q0), fma(r, w, r0), fma(s, w, s0)
                            w = splat(weight[v + 1])
                            p1, q1, r1, s1 = fma(p, w, p1), fma(q, w, q1), fma(r, w, r1), fma(s, w, s1)
                            w = splat(weight[v + 2])
                            p2, q2, r2, s2 = fma(p, w, p2), fma(q, w, q2), fma(r, w, r2), fma(s, w, s2)
                            w = splat(weight[v + 3])
                            p3, q3, r3, s3 = fma(p, w, p3), fma(q, w, q3), fma(r, w, r3), fma(s, w, s3)
                            w = splat(weight[v + 4])
                            p4, q4, r4, s4 = fma(p, w, p4), fma(q, w, q4), fma(r, w, r4), fma(s, w, s4)
                            o += LANES
                            v += TILE
                at, down = (2 * y * width + 2 * z) * unit, width * unit
                to = ((y * side + z) * step + d * far) * LANES
                far_on = far * LANES
                _pooled(p0, q0, r0, s0, at, unit, down, through, where, to)
                _pooled(p1, q1, r1, s1, at, unit, down, through, where, to + far_on)
                _pooled(p2, q2, r2, s2, at, unit, down, through, where, to + 2 * far_on)
                _pooled(p3, q3, r3, s3, at, unit, down, through, where, to + 3 * far_on)
                _pooled(p4, q4, r4, s4, at, unit, down, through, where, to + 4 * far_on)


@njit(fastmath=FAST)
def _dense(x, inputs, weight, by_unit, by_input, bias, units, out):
    """out[u] = bias[u] + sum_i weight[u * by_unit + i * by_input] x[i], lanes for images; no bias where there is none."""
    for u in range(0, units, UNITS):
        s0 = splat(bias[u] if bias.size else _ZERO)
        s1 = splat(bias[u + 1] if bias.size else _ZERO)
        s2 = splat(bias[u + 2] if bias.size else _ZERO)
        s3 = splat(bias[u + 3] if bias.size else _ZERO)
        s4 = splat(bias[u + 4] if bias.size else _ZERO)
        s5 = splat(bias[u + 5] if bias.size else _ZERO)
        s6 = splat(bias[u + 6] if bias.size else _ZERO)
        s7 = splat(bias[u + 7] if bias.size else _ZERO)
        s8 = splat(bias[u + 8] if bias.size else _ZERO)
        s9 = splat(bias[u + 9] if bias.size else _ZERO)
        for i in range(inputs):
            e, v = load(x, i * LANES), u * by_unit + i * by_input
            s0, s1 = fma(e, weight[v], s0), fma(e, weight[v + by_unit], s1)
            s2, s3 = fma(e, weight[v + 2 * by_unit], s2), fma(e, weight[v + 3 * by_unit], s3)
            s4, s5 = fma(e, weight[v + 4 * by_unit], s4), fma(e, weight[v + 5 * by_unit], s5)
            s6, s7 = fma(e, weight[v + 6 * by_unit], s6), fma(e, weight[v + 7 * by_unit], s7)
            s8, s9 = fma(e, weight[v + 8 * by_unit], s8), fma(e, weight[v + 9 * by_unit], s9)
        o = u * LANES
        store(out, o, s0)
        store(out, o + LANES, s1)
        store(out, o + 2 * LANES, s2)
        store(out, o + 3 * LANES, s3)
        store(out, o + 4 * LANES, s4)
        store(out, o + 5 * LANES, s5)
        store(out, o + 6 * LANES, s6)
        store(out, o + 7 * LANES, s7)
        store(out, o + 8 * LANES, s8)
        store(out, o + 9 * LANES, s9)


@njit(fastmath=FAST)
def _forward(a, b, h, weights, room):
    """The logits of the images that were read."""
    first, second, _, third, last, c1, c2, c3, c4 = weights
    _, pixels, one, where1, two, where2, hidden, logits = room
    A, B, H = _rounded(a, b, h)
    _convolve(pixels, 1, SIDE, LANES, first, c1, POOLED, A // TILE, LANES, 1, 1, one, where1)
    _convolve(one, a, POOLED, LANES * LANES, second, c2, 4, B // TILE, 1, 16, LANES, two, where2)
    _dense(two, 16 * B, third, 16 * B, 1, c3, H, hidden)
    for u in range(H):
        store(hidden, u * LANES, relu(load(hidden, u * LANES)))
    _dense(hidden, H, last, H, 1, c4, CLASSES, logits)


@njit
def _push(logits, y, rows, weight, begin, count):
    """The slope of sum_i weight_i logloss_i by the logits, in their place; lanes to spare have none."""
    for lane in range(LANES):
        if lane >= count:
            for k in range(CLASSES):
                logits[k * LANES + lane] = _ZERO
            continue
        top = logits[lane]
        for k in range(1, CLASSES):
            top = max(top, logits[k * LANES + lane])
        whole = _ZERO
        for k in range(CLASSES):
            e = np.exp(logits[k * LANES + lane] - top)
            logits[k * LANES + lane] = e
            whole += e
        unit = (weight[begin + lane] if weight.size else np.float32(1)) / whole
        for k in range(CLASSES):
            logits[k * LANES + lane] *= unit
        logits[y[rows[begin + lane]] * LANES + lane] -= unit * whole


@njit(fastmath=FAST)
def _backward(a, b, h, weights, room, back, slopes, count):
    """Add the gradient of sum_k slope_k logit_k over the images that were read; the slopes are where the logits were."""
    _, _, second, third, last, _, _, _, _ = weights
    images, _, one, where1, two, where2, hidden, push = room
    by_two, by_hidden, two_of, by_two_of, where2_of, one_of, where1_of, by_one, live, places = back
    g1, g2, g3, g4, h1, h2, h3, h4 = slopes
    _, B, H = _rounded(a, b, h)
    for k in range(CLASSES):
        s = load(push, k * LANES)
        h4[k] += total(s)
        for u in range(h):
            g4[k * H + u] += total(mul(s, load(hidden, u * LANES)))
    _dense(push, CLASSES, last, 1, H, last[:0], H, by_hidden)
    for u in range(h):
        s = alive(load(hidden, u * LANES), load(by_hidden, u * LANES))
        store(by_hidden, u * LANES, s)
        h3[u] += total(s)
    for d in range(B):
        transpose(two, d * LANES * LANES, LANES, two_of, d * LANES, 16 * B)
    for u in range(h):
        for d in range(0, B, TILE):
            o = u * 16 * B + d * LANES
            s0, s1, s2 = load(g3, o), load(g3, o + LANES), load(g3, o + 2 * LANES)
            s3, s4 = load(g3, o + 3 * LANES), load(g3, o + 4 * LANES)
            for image in range(LANES):
                e, v = splat(by_hidden[u * LANES + image]), image * 16 * B + d * LANES
                s0, s1, s2 = fma(load(two_of, v), e, s0), fma(load(two_of, v + 16), e, s1), fma(load(two_of, v + 32), e, s2)
                s3, s4 = fma(load(two_of, v + 48), e, s3), fma(load(two_of, v + 64), e, s4)
            store(g3, o, s0)
            store(g3, o + LANES, s1)
            store(g3, o + 2 * LANES, s2)
            store(g3, o + 3 * LANES, s3)
            store(g3, o + 4 * LANES, s4)
    _dense(by_hidden, H, third, 1, 16 * B, third[:0], 16 * B, by_two)
    for d in range(b):
        s = splat(_ZERO)
        for i in range(d * LANES * 16, (d + 1) * LANES * 16, LANES):
            e = alive(load(two, i), load(by_two, i))
            store(by_two, i, e)
            s = add(s, e)
        h2[d] += total(s)
        transpose(by_two, d * LANES * LANES, LANES, by_two_of, d * LANES, 16 * B)
        transpose(where2, d * LANES * LANES, LANES, where2_of, d * LANES, 16 * B)
    for i in range(POOLED * POOLED):
        transpose(one, i * LANES * LANES, LANES, one_of, i * LANES, _FIRST)
        transpose(where1, i * LANES * LANES, LANES, where1_of, i * LANES, _FIRST)
    for image in range(count):
        _second_back(b, 16 * B, second, image, by_two_of, where2_of, one_of, by_one, live, places, g2)
        _first_back(a, image, images, one_of, where1_of, by_one, g1, h1)


@njit(fastmath=FAST)
def _second_back(b, stride, weight, image, by_two, where, one, by_one, live, places, gradient):
    """One image's way back through the second convolution, for the pixels that pooling and ReLU let through: slopes by what
    the first layer gave, and by the weights."""
    for i in range(0, _FIRST, LANES):
        store(by_one, i, splat(_ZERO))
    for d in range(b):
        many = 0
        for i in range(LANES):
            slope = by_two[image * stride + d * LANES + i]
            live[many] = slope
            places[many] = np.int64(where[image * stride + d * LANES + i])
            many += slope != 0
        if many == 0:
            continue
        for ky in range(5):
            v = (d * 25 + ky * 5) * LANES
            w0, w1, w2 = load(weight, v), load(weight, v + LANES), load(weight, v + 2 * LANES)
            w3, w4 = load(weight, v + 3 * LANES), load(weight, v + 4 * LANES)
            s0, s1, s2 = load(gradient, v), load(gradient, v + LANES), load(gradient, v + 2 * LANES)
            s3, s4 = load(gradient, v + 3 * LANES), load(gradient, v + 4 * LANES)
            for j in range(many):
                o, g = places[j] + ky * POOLED * LANES, splat(live[j])
                e = image * _FIRST + o
                store(by_one, o, fma(w0, g, load(by_one, o)))
                store(by_one, o + LANES, fma(w1, g, load(by_one, o + LANES)))
                store(by_one, o + 2 * LANES, fma(w2, g, load(by_one, o + 2 * LANES)))
                store(by_one, o + 3 * LANES, fma(w3, g, load(by_one, o + 3 * LANES)))
                store(by_one, o + 4 * LANES, fma(w4, g, load(by_one, o + 4 * LANES)))
                s0, s1, s2 = fma(load(one, e), g, s0), fma(load(one, e + 16), g, s1), fma(load(one, e + 32), g, s2)
                s3, s4 = fma(load(one, e + 48), g, s3), fma(load(one, e + 64), g, s4)
            store(gradient, v, s0)
            store(gradient, v + LANES, s1)
            store(gradient, v + 2 * LANES, s2)
            store(gradient, v + 3 * LANES, s3)
            store(gradient, v + 4 * LANES, s4)


@njit(fastmath=FAST)
def _first_back(a, image, images, one, where, by_one, gradient, bias):
    """One image's slopes by the weights of the first convolution, two channels at a time."""
    base, s = image * _FIRST, load(bias, 0)
    for i in range(0, _FIRST, LANES):
        e = alive(load(one, base + i), load(by_one, i))
        store(by_one, i, e)
        s = add(s, e)
    store(bias, 0, s)
    for c in range(0, a, 2):
        v = c * 3 * LANES
        p0, p1, p2 = load(gradient, v), load(gradient, v + LANES), load(gradient, v + 2 * LANES)
        q0, q1, q2 = load(gradient, v + 3 * LANES), load(gradient, v + 4 * LANES), load(gradient, v + 5 * LANES)
        for i in range(c, _FIRST, LANES):
            g, o = splat(by_one[i]), image * _IMAGE + np.int64(where[base + i])
            p0 = fma(pair(images, o, o + SIDE), g, p0)
            p1 = fma(pair(images, o + 2 * SIDE, o + 3 * SIDE), g, p1)
            p2 = fma(pair(images, o + 4 * SIDE, o + 4 * SIDE), g, p2)
            g, o = splat(by_one[i + 1]), image * _IMAGE + np.int64(where[base + i + 1])
            q0 = fma(pair(images, o, o + SIDE), g, q0)
            q1 = fma(pair(images, o + 2 * SIDE, o + 3 * SIDE), g, q1)
            q2 = fma(pair(images, o + 4 * SIDE, o + 4 * SIDE), g, q2)
        store(gradient, v, p0)
        store(gradient, v + LANES, p1)
        store(gradient, v + 2 * LANES, p2)
        store(gradient, v + 3 * LANES, q0)
        store(gradient, v + 4 * LANES, q1)
        store(gradient, v + 5 * LANES, q2)


@njit(fastmath=FAST)
def _epoch(X, y, rows, weight, a, b, h, shift, scale, theta, speed, anchor, lr, batch, decay, momentum, prox, cosine, epoch,
           epochs, weights, slopes, room, back, gradient):  # fmt: skip
    """One pass of one replica over its `rows`, in their order."""
    n = rows.size
    size = n if batch == 0 else min(batch, n)
    each = (n + size - 1) // size
    for step in range(each):
        low, high = step * size, min((step + 1) * size, n)
        _lay_out(theta, a, b, h, weights)
        _clear(slopes)
        for begin in range(low, high, LANES):
            count = min(LANES, high - begin)
            _read(X, rows, begin, count, shift, scale, room[0], room[1])
            _forward(a, b, h, weights, room)
            _push(room[7], y, rows, weight, begin, count)
            _backward(a, b, h, weights, room, back, slopes, count)
        _collect(slopes, a, b, h, gradient)
        inverse, rate = np.float32(1 / (high - low)), np.float32(lr)
        if cosine:
            rate = np.float32(lr * 0.5 * (1 + np.cos(np.pi * (epoch * each + step) / (epochs * each))))
        for p in range(theta.size):
            gradient[p] = gradient[p] * inverse + decay * theta[p]
        if prox > 0:
            for p in range(theta.size):
                gradient[p] += prox * (theta[p] - anchor[p])
        if momentum > 0:
            for p in range(theta.size):
                speed[p] = momentum * speed[p] + gradient[p]
                theta[p] -= rate * speed[p]
        else:
            for p in range(theta.size):
                theta[p] -= rate * gradient[p]


@njit(parallel=True, cache=True, nogil=True)
def _train(X, y, rows, weight, start, stop, a, b, h, shift, scale, theta, speed, anchor, lr, batch, decay, momentum, prox,
           cosine, epoch, epochs, lots):  # fmt: skip
    """One epoch of every replica: replica r goes through rows[start[r]:stop[r]], whose weights are in the same places."""
    for lot in prange(lots.shape[0]):
        weights, slopes, room, back = _weights(a, b, h), _slopes(a, b, h), _room(a, b, h), _backroom(a, b, h)
        gradient = np.empty(theta.shape[1], np.float32)
        for place in range(lots.shape[1]):
            r = lots[lot, place]
            if r >= 0 and stop[r] > start[r]:
                _epoch(X, y, rows[start[r] : stop[r]], weight[start[r] : stop[r]] if weight.size else weight, a, b, h,
                       shift, scale, theta[r], speed[r if momentum > 0 else 0], anchor[r if prox > 0 else 0], lr[r], batch,
                       decay, momentum, prox, cosine, epoch, epochs, weights, slopes, room, back, gradient)  # fmt: skip


@njit(parallel=True, cache=True, nogil=True)
def _logits(X, rows, start, stop, a, b, h, shift, scale, theta, model, first, out, lots):
    """Logits of the rows of replica r, from out[first[r]] on."""
    for lot in prange(lots.shape[0]):
        weights, room = _weights(a, b, h), _room(a, b, h)
        for place in range(lots.shape[1]):
            r = lots[lot, place]
            if r >= 0:
                _lay_out(theta[model[r]], a, b, h, weights)
                for begin in range(start[r], stop[r], LANES):
                    count = min(LANES, stop[r] - begin)
                    _read(X, rows, begin, count, shift, scale, room[0], room[1])
                    _forward(a, b, h, weights, room)
                    for lane in range(count):
                        for k in range(CLASSES):
                            out[first[r] + begin - start[r] + lane, k] = room[7][k * LANES + lane]


@njit(parallel=True, cache=True, nogil=True)
def _pullback(X, y, rows, start, stop, a, b, h, shift, scale, theta, model, slope, first, seen, out, lots):
    """out[r] = sum over the rows of replica r and over classes of slope * gradient of the logit. Without slopes, those of the
    log loss, and `seen` has the logits."""
    none = np.empty(0, np.float32)
    for lot in prange(lots.shape[0]):
        weights, slopes, room, back = _weights(a, b, h), _slopes(a, b, h), _room(a, b, h), _backroom(a, b, h)
        for place in range(lots.shape[1]):
            r = lots[lot, place]
            if r >= 0:
                _lay_out(theta[model[r]], a, b, h, weights)
                _clear(slopes)
                for begin in range(start[r], stop[r], LANES):
                    count, at = min(LANES, stop[r] - begin), first[r] + begin - start[r]
                    _read(X, rows, begin, count, shift, scale, room[0], room[1])
                    _forward(a, b, h, weights, room)
                    if slope.size:
                        room[7][:] = _ZERO
                        for lane in range(count):
                            for k in range(CLASSES):
                                room[7][k * LANES + lane] = slope[at + lane, k]
                    else:
                        for lane in range(count):
                            for k in range(CLASSES):
                                seen[at + lane, k] = room[7][k * LANES + lane]
                        _push(room[7], y, rows, none, begin, count)
                    _backward(a, b, h, weights, room, back, slopes, count)
                _collect(slopes, a, b, h, out[r])


def serves(model: Model) -> bool:
    """Whether the kernels can compute this network."""
    return isinstance(model, CNN) and not model.double and model.channels[0] <= LANES // TILE * TILE


def _takes(model: Model, theta: np.ndarray, X: Any, read: Any) -> bool:
    """Whether they can read these images with these parameters."""
    images = tuple(X.shape[1:]) == (1, SIDE, SIDE) and X.dtype in (np.uint8, torch.uint8)
    return serves(model) and images and theta.dtype == np.float32 and isinstance(read, Pixels) and len(read.shift) == 1


def _settings(model: CNN, read: Any) -> tuple[Any, ...]:
    assert isinstance(read, Pixels)
    return *model.channels, model.hidden, np.float32(read.shift[0]), np.float32(read.scale[0])


def _flat(X: Any) -> np.ndarray:
    """Images [n, 1, 28, 28], numpy's or torch's, as rows of pixels."""
    return np.ascontiguousarray(X).reshape(len(X), -1)


def _steps(local: ClientTraining) -> tuple[Any, ...]:
    return (
        local.batch_size,
        np.float32(local.weight_decay),
        np.float32(local.momentum),
        np.float32(local.prox),
        local.schedule == "cosine",
    )


def _losses(logits: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Log loss of each row in double precision, from logits [rows, classes]."""
    z = logits.astype(np.float64)
    z -= z.max(1, keepdims=True)
    return np.log(np.exp(z).sum(1)) - z[np.arange(len(z)), y]


def fit(
    model: Model,
    theta: np.ndarray,
    seen: Iterable[tuple[Any, np.ndarray]],
    y: torch.Tensor,
    read: Read,
    local: ClientTraining,
    *,
    lr: float,
    weight: torch.Tensor | None = None,
    toward: np.ndarray | None = None,
) -> np.ndarray:
    """As plain.fit, by the kernels where they can."""
    first = next(seen := iter(seen), None)
    if first is None or not len(y):
        return theta.copy()
    X = first[0]
    seen = (one for part in ((first,), seen) for one in part)
    if local.optimizer != "sgd" or not _takes(model, theta, X, read):
        return plain.fit(model, theta, seen, y, read, local, lr=lr, weight=weight, toward=toward)
    assert isinstance(model, CNN)
    found = np.array(theta[None])
    anchor = np.array((theta if toward is None else toward)[None], np.float32)
    speed, start, stop = np.zeros_like(found), np.zeros(1, np.int64), np.array([len(y)])
    labels, lot, rate = np.asarray(y, np.int8), np.zeros((1, 1), np.int64), np.array([lr])
    for epoch, (X, order) in enumerate(seen):
        rows = np.ascontiguousarray(order, np.int64)
        share = np.empty(0, np.float32) if weight is None else np.asarray(weight, np.float32)[rows]
        _train(_flat(X), labels, rows, share, start, stop, *_settings(model, read), found, speed, anchor, rate, *_steps(local),
               epoch, local.epochs, lot)  # fmt: skip
    return found[0]


def losses_of(model: Model, theta: np.ndarray, X: Any, y: torch.Tensor, read: Read) -> np.ndarray:
    """As plain.losses_of, by the kernels where they can."""
    if not len(y) or not _takes(model, theta, X, read):
        return plain.losses_of(model, theta, X, y, read)
    assert isinstance(model, CNN)
    out, zero = np.empty((len(y), CLASSES), np.float32), np.zeros(1, np.int64)
    _logits(_flat(X), np.arange(len(y), dtype=np.int32), zero, np.array([len(y)]), *_settings(model, read), theta[None], zero,
            zero, out, np.zeros((1, 1), np.int64))  # fmt: skip
    return _losses(out, np.asarray(y)).astype(np.float32)


@dataclass(frozen=True)
class Convolution:
    """The engine for RankFF's network in single precision. shuffle : see order.passes."""

    model: CNN
    shuffle: Shuffle = "splitmix"

    def train(self, work: Work, theta: np.ndarray, local: ClientTraining, lr: np.ndarray, key: np.ndarray,
              toward: np.ndarray | None = None) -> np.ndarray:  # fmt: skip
        if local.optimizer != "sgd" or not self._takes(work, theta):
            return Plain(self.model, self.shuffle).train(work, theta, local, lr, key, toward)
        orders = [passes(int(n), local.epochs, local.batch_size, k, self.shuffle) for n, k in zip(work.rows, key, strict=True)]
        anchor = theta[:1] if not local.prox else theta.copy() if toward is None else np.ascontiguousarray(toward, np.float32)
        speed = np.zeros_like(theta if local.momentum else theta[:1])
        for epoch in range(local.epochs if len(theta) else 0):
            at = np.concatenate([start + next(order) for start, order in zip(work.start, orders, strict=True)])
            weight = work.weight[at].astype(np.float32) if work.weight.size else np.empty(0, np.float32)
            _train(*self._data(work)[:2], work.index[at].astype(np.int64), weight, work.ends - work.rows, work.ends,
                   *_settings(self.model, work.inputs), theta, speed, anchor, lr.astype(np.float64), *_steps(local), epoch,
                   local.epochs, lots(work.rows))  # fmt: skip
        return theta

    def score(self, work: Work, theta: np.ndarray, model: np.ndarray, loss: bool = False) -> tuple[np.ndarray, np.ndarray]:
        if not self._takes(work, theta):
            return Plain(self.model, self.shuffle).score(work, theta, model, loss)
        logits, classes, mine = self.logits(work, theta, model), work.examples.classes, self._mine(work)
        counts = np.zeros((len(model), work.examples.groups, classes, classes), np.int64)
        y, replica = work.examples.y[mine], np.repeat(np.arange(len(model)), work.rows)
        np.add.at(counts, (replica, work.examples.a[mine], y, logits.argmax(1)), 1)
        return counts, np.bincount(replica, _losses(logits, y), len(model)) if loss else np.zeros(0)

    def logits(self, work: Work, theta: np.ndarray, model: np.ndarray) -> np.ndarray:
        if not self._takes(work, theta):
            return Plain(self.model, self.shuffle).logits(work, theta, model)
        out = np.empty((int(work.rows.sum()), CLASSES), np.float32)
        if len(model):
            X, _, rows = self._data(work)
            _logits(X, rows, work.start, work.stop, *_settings(self.model, work.inputs), np.ascontiguousarray(theta), model,
                    work.ends - work.rows, out, lots(work.rows))  # fmt: skip
        return out

    def counts(self, of: Of) -> bool:
        return False

    def pull(self, work: Work, theta: np.ndarray, model: np.ndarray, of: Of) -> tuple[np.ndarray, np.ndarray]:
        if not self._takes(work, theta):
            return Plain(self.model, self.shuffle).pull(work, theta, model, of)
        rows, mine, firsts = work.rows, self._mine(work), work.ends - work.rows
        y, a = torch.as_tensor(work.examples.y[mine]), torch.as_tensor(work.examples.a[mine]).long()
        if of is mean_loss:  # what is asked most, with one way forward
            logits, slopes = self._pullback(work, theta, model, np.empty((0, CLASSES), np.float32))
            whole = np.bincount(np.repeat(np.arange(len(model)), rows), _losses(logits, y.numpy()), len(model))
            many = np.maximum(rows, 1)[:, None]
            return np.where(rows[:, None] > 0, whole[:, None] / many, np.nan), (slopes / many.astype(np.float32))[:, None]
        z = torch.as_tensor(self.logits(work, theta, model))
        spans = [slice(first, end) for first, end in zip(firsts, work.ends, strict=True)]
        found = [pushed(of, z[s], y[s], a[s]) if s.stop > s.start else None for s in spans]
        gathered([(one[0], np.zeros((len(one[0]), 1))) if one else None for one in found], 1, theta.dtype)  # equally many values
        values = next((len(one[0]) for one in found if one), 0)
        sides = [torch.cat([one[1][j] for one in found if one]).contiguous().numpy() for j in range(values)]
        pulls = [self._pullback(work, theta, model, slope)[1] for slope in sides]
        return gathered([(one[0], np.stack([pull[i] for pull in pulls])) if one else None for i, one in enumerate(found)],
                        theta.shape[1], theta.dtype)  # fmt: skip

    def _pullback(self, work: Work, theta: np.ndarray, model: np.ndarray, slope: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The logits, where no slopes are given, and the sum over rows of slope * gradient of the logit, [replica, P]."""
        seen = np.empty((0 if slope.size else int(work.rows.sum()), CLASSES), np.float32)
        out = np.zeros((len(model), theta.shape[1]), np.float32)
        if len(model):
            X, y, rows = self._data(work)
            _pullback(X, y, rows, work.start, work.stop, *_settings(self.model, work.inputs), np.ascontiguousarray(theta), model,
                      slope, work.ends - work.rows, seen, out, lots(work.rows))  # fmt: skip
        return seen, out

    def _takes(self, work: Work, theta: np.ndarray) -> bool:
        return _takes(self.model, theta, work.examples.X, work.inputs)

    def _data(self, work: Work) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return _flat(work.examples.X), work.examples.y, work.index

    def _mine(self, work: Work) -> np.ndarray:
        """The rows of all replicas, side by side."""
        pieces = [work.index[start:stop] for start, stop in zip(work.start, work.stop, strict=True)]
        return np.concatenate(pieces) if pieces else work.index[:0]
