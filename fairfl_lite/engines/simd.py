"""Sixteen float32 lanes as one value inside numba code.

For the fused kernels alone: loads and stores go by an offset that nobody checks, so whoever calls them must own the array and
know that sixteen elements are there. Everything else in the project is numpy or torch.

LLVM turns <16 x float> into whatever the machine has (one, two or four registers), so one source is fast with and without
wide vectors. Without this, loops over a minibatch of ten rows are unrolled into scalars.
"""

from __future__ import annotations

import math

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

LANES = 16
_F32, _I32 = ir.FloatType(), ir.IntType(32)
_VECTOR, _INTS = ir.VectorType(_F32, LANES), ir.VectorType(_I32, LANES)
_FAST = ("reassoc", "contract", "nsz", "arcp")


class Vec(types.Type):
    def __init__(self):
        super().__init__(name="float32x16")


vec = Vec()


@register_model(Vec)
class _VecModel(models.PrimitiveModel):
    def __init__(self, manager, fe_type):
        super().__init__(manager, fe_type, _VECTOR)


def _constant(value):
    return ir.Constant(_VECTOR, [ir.Constant(_F32, value)] * LANES)


def _splat(builder, scalar):
    first = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), scalar, ir.Constant(_I32, 0))
    return builder.shuffle_vector(first, ir.Constant(_VECTOR, ir.Undefined), ir.Constant(_INTS, None))


def _call(builder, name, *args):
    kind = ir.FunctionType(_VECTOR, [_VECTOR] * len(args))
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, f"llvm.{name}.v16f32"), args)


def _address(context, builder, signature, array, offset):
    data = context.make_array(signature.args[0])(context, builder, value=array).data
    return builder.bitcast(builder.gep(data, [offset]), _VECTOR.as_pointer())


@intrinsic
def load(typingctx, array, offset):
    """The sixteen elements of a contiguous float32 array from `offset` on, counted over the whole array."""

    def build(context, builder, signature, args):
        return builder.load(_address(context, builder, signature, *args), align=4)

    return vec(array, types.intp), build


@intrinsic
def store(typingctx, array, offset, value):
    """Write sixteen elements of a contiguous float32 array from `offset` on."""

    def build(context, builder, signature, args):
        builder.store(args[2], _address(context, builder, signature, *args[:2]), align=4)
        return context.get_dummy_value()

    return types.void(array, types.intp, vec), build


@intrinsic
def splat(typingctx, scalar):
    """The scalar in every lane."""

    def build(context, builder, signature, args):
        return _splat(builder, args[0])

    return vec(types.float32), build


@intrinsic
def fma(typingctx, x, y, total):
    """total + x * y, where y is a vector or a scalar."""

    def build(context, builder, signature, args):
        factor = args[1] if signature.args[1] == vec else _splat(builder, args[1])
        return builder.fadd(args[2], builder.fmul(args[0], factor, flags=_FAST), flags=_FAST)

    return vec(vec, vec if y == vec else types.float32, vec), build


@intrinsic
def mul(typingctx, x, y):
    """x * y."""

    def build(context, builder, signature, args):
        return builder.fmul(*args, flags=_FAST)

    return vec(vec, vec), build


@intrinsic
def add(typingctx, x, y):
    """x + y."""

    def build(context, builder, signature, args):
        return builder.fadd(*args, flags=_FAST)

    return vec(vec, vec), build


@intrinsic
def sub(typingctx, x, y):
    """x - y."""

    def build(context, builder, signature, args):
        return builder.fsub(*args, flags=_FAST)

    return vec(vec, vec), build


@intrinsic
def total(typingctx, x):
    """Sum of the lanes."""

    def build(context, builder, signature, args):
        kind = ir.FunctionType(_F32, [_F32, _VECTOR])
        reduce = cgutils.get_or_insert_function(builder.module, kind, "llvm.vector.reduce.fadd.v16f32")
        return builder.call(reduce, [ir.Constant(_F32, 0.0), args[0]], fastmath=_FAST)

    return types.float32(vec), build


@intrinsic
def positive(typingctx, x, mask):
    """How many lanes are above 0, among those whose bit is set in `mask`."""

    def build(context, builder, signature, args):
        bits = builder.bitcast(builder.fcmp_ordered(">", args[0], _constant(0.0)), ir.IntType(LANES))
        chosen = builder.and_(builder.zext(bits, ir.IntType(64)), args[1])
        return builder.ctpop(chosen)

    return types.int64(vec, types.int64), build


def _exp(builder, x):
    """exp(x) = 2^n 2^f with |f| <= 1/2, the second factor by its series to the sixth power: relative error about 2e-7."""
    t = builder.fmul(x, _constant(math.log2(math.e)), flags=_FAST)
    t = _call(builder, "minnum", _call(builder, "maxnum", t, _constant(-125.0)), _constant(125.0))
    n = _call(builder, "floor", builder.fadd(t, _constant(0.5)))
    f = builder.fsub(t, n)
    series = _constant(math.log(2) ** 6 / math.factorial(6))
    for k in range(5, -1, -1):
        series = builder.fadd(builder.fmul(series, f, flags=_FAST), _constant(math.log(2) ** k / math.factorial(k)), flags=_FAST)
    exponent = builder.add(builder.fptosi(n, _INTS), ir.Constant(_INTS, [ir.Constant(_I32, 127)] * LANES))
    power = builder.bitcast(builder.shl(exponent, ir.Constant(_INTS, [ir.Constant(_I32, 23)] * LANES)), _VECTOR)
    return builder.fmul(series, power, flags=_FAST)


@intrinsic
def sigmoid(typingctx, x):
    """1 / (1 + exp(-x))."""

    def build(context, builder, signature, args):
        one = _constant(1.0)
        return builder.fdiv(one, builder.fadd(one, _exp(builder, builder.fneg(args[0])), flags=_FAST))

    return vec(vec), build


def _reciprocal(builder, x):
    """1 / x for positive normal x: a guess from the bits, within 13 %, then three Newton steps r (2 - x r). Vector division
    takes longer than all of that."""
    magic = ir.Constant(_INTS, [ir.Constant(_I32, 0x7EF311C7)] * LANES)
    r = builder.bitcast(builder.sub(magic, builder.bitcast(x, _INTS)), _VECTOR)
    for _ in range(3):
        error = builder.fsub(_constant(1.0), builder.fmul(x, r, flags=_FAST), flags=_FAST)
        r = builder.fadd(r, builder.fmul(r, error, flags=_FAST), flags=_FAST)
    return r


@intrinsic
def tanh(typingctx, x):
    """1 - 2 / (1 + exp(2 x)), absolute error about 2e-7."""

    def build(context, builder, signature, args):
        one, two = _constant(1.0), _constant(2.0)
        bottom = builder.fadd(one, _exp(builder, builder.fmul(args[0], two)), flags=_FAST)
        return builder.fsub(one, builder.fmul(two, _reciprocal(builder, bottom), flags=_FAST))

    return vec(vec), build
