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


def _splat_ints(builder, scalar):
    first = builder.insert_element(ir.Constant(_INTS, ir.Undefined), scalar, ir.Constant(_I32, 0))
    return builder.shuffle_vector(first, ir.Constant(_INTS, ir.Undefined), ir.Constant(_INTS, None))


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
def load_part(typingctx, array, offset, count):
    """The first `count` of those sixteen, and 0 in the other lanes, of which nothing is read."""

    def build(context, builder, signature, args):
        place, bits = _address(context, builder, signature, *args[:2]), ir.VectorType(ir.IntType(1), LANES)
        many = _splat_ints(builder, builder.trunc(args[2], _I32))
        lanes = ir.Constant(_INTS, [ir.Constant(_I32, lane) for lane in range(LANES)])
        kind = ir.FunctionType(_VECTOR, [_VECTOR.as_pointer(), _I32, bits, _VECTOR])
        masked = cgutils.get_or_insert_function(builder.module, kind, "llvm.masked.load.v16f32.p0v16f32")
        return builder.call(masked, [place, ir.Constant(_I32, 4), builder.icmp_signed("<", lanes, many), _constant(0.0)])

    return vec(array, types.intp, types.intp), build


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


@intrinsic
def pick(typingctx, x, best, then, otherwise):
    """`then` in the lanes where x is above `best` or no number, as torch's pooling goes on to x there, else `otherwise`."""

    def build(context, builder, signature, args):
        new = builder.or_(builder.fcmp_ordered(">", args[0], args[1]), builder.fcmp_unordered("uno", args[0], args[0]))
        return builder.select(new, args[2], args[3])

    return vec(vec, vec, vec, vec), build


@intrinsic
def relu(typingctx, x):
    """0 in the lanes below 0, x elsewhere, also where it is no number."""

    def build(context, builder, signature, args):
        return builder.select(builder.fcmp_ordered("<", args[0], _constant(0.0)), _constant(0.0), args[0])

    return vec(vec), build


@intrinsic
def alive(typingctx, x, y):
    """y in the lanes where x is above 0, else 0: the slope of `relu`, which gave x."""

    def build(context, builder, signature, args):
        return builder.select(builder.fcmp_ordered(">", args[0], _constant(0.0)), args[1], _constant(0.0))

    return vec(vec, vec), build


@intrinsic
def pair(typingctx, array, low, high):
    """Eight elements of a contiguous float32 array from `low` on, and eight from `high` on."""
    half = ir.VectorType(_F32, LANES // 2)

    def build(context, builder, signature, args):
        places = [_address(context, builder, signature, args[0], offset) for offset in args[1:]]
        halves = [builder.load(builder.bitcast(place, half.as_pointer()), align=4) for place in places]
        order = ir.Constant(_INTS, [ir.Constant(_I32, lane) for lane in range(LANES)])
        return builder.shuffle_vector(*halves, order)

    return vec(array, types.intp, types.intp), build


@intrinsic
def transpose(typingctx, source, first, stride, target, to, step):
    """Sixteen rows of sixteen elements of `source`, `stride` apart, become sixteen columns of `target`, its rows `step` apart.

    In four rounds; round s changes places of the lanes that differ in bit s between rows that differ in it."""

    def build(context, builder, signature, args):
        def row(array, kind, offset, far, i):
            at = builder.add(offset, builder.mul(far, ir.Constant(far.type, i)))
            data = context.make_array(kind)(context, builder, value=array).data
            return builder.bitcast(builder.gep(data, [at]), _VECTOR.as_pointer())

        rows = [builder.load(row(args[0], signature.args[0], args[1], args[2], i), align=4) for i in range(LANES)]
        for s in (1, 2, 4, 8):
            low = [lane if not lane & s else LANES + lane - s for lane in range(LANES)]
            high = [lane + s if not lane & s else LANES + lane for lane in range(LANES)]
            masks = [ir.Constant(_INTS, [ir.Constant(_I32, lane) for lane in mask]) for mask in (low, high)]
            for i in range(LANES):
                if not i & s:
                    both = rows[i], rows[i + s]
                    rows[i], rows[i + s] = (builder.shuffle_vector(*both, mask) for mask in masks)
        for i in range(LANES):
            builder.store(rows[i], row(args[3], signature.args[3], args[4], args[5], i), align=4)
        return context.get_dummy_value()

    return types.void(source, types.intp, types.intp, target, types.intp, types.intp), build


@intrinsic
def spread(typingctx, array, offset):
    """One element of a contiguous float32 array, by its offset, in every lane."""

    def build(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, value=args[0]).data
        return _splat(builder, builder.load(builder.gep(data, [args[1]])))

    return vec(array, types.intp), build


def _bits(builder, x):
    return builder.bitcast(x, _INTS)


def _ints(value):
    return ir.Constant(_INTS, [ir.Constant(_I32, value)] * LANES)


def _size(builder, x):
    return builder.bitcast(builder.and_(_bits(builder, x), _ints(0x7FFFFFFF)), _VECTOR)


@intrinsic
def signed_above(typingctx, x, limit, value):
    """`value` with the sign of x where |x| > limit, else 0; value is not negative."""

    def build(context, builder, signature, args):
        x, limit, value = args[0], *(_splat(builder, scalar) for scalar in args[1:])
        sign = builder.and_(_bits(builder, x), _ints(0x80000000))
        signed = builder.bitcast(builder.or_(_bits(builder, value), sign), _VECTOR)
        return builder.select(builder.fcmp_ordered(">", _size(builder, x), limit), signed, _constant(0.0))

    return vec(vec, types.float32, types.float32), build


@intrinsic
def turned(typingctx, value, x, y):
    """`value`, its sign turned where x and y differ in theirs (0 has one)."""

    def build(context, builder, signature, args):
        value, x, y = (_bits(builder, one) for one in args)
        return builder.bitcast(builder.xor(value, builder.and_(builder.xor(x, y), _ints(0x80000000))), _VECTOR)

    return vec(vec, vec, vec), build


@intrinsic
def above(typingctx, x, limit):
    """A bit for each lane with |x| > limit."""

    def build(context, builder, signature, args):
        found = builder.fcmp_ordered(">", _size(builder, args[0]), _splat(builder, args[1]))
        return builder.zext(builder.bitcast(found, ir.IntType(LANES)), ir.IntType(64))

    return types.int64(vec, types.float32), build


@intrinsic
def ones(typingctx, bits):
    """How many bits are set."""

    def build(context, builder, signature, args):
        return builder.ctpop(args[0])

    return types.int64(types.int64), build


@intrinsic
def where_larger(typingctx, x, y, first, second):
    """`first` where x > y, else `second`."""

    def build(context, builder, signature, args):
        x, y, first, second = args
        return builder.select(builder.fcmp_ordered(">", x, y), first, second)

    return vec(vec, vec, vec, vec), build
