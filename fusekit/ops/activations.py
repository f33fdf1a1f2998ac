"""Activation functions and their derivatives, in the order of operations of ATen's CPU kernels (``Activation.cpp``)."""

import numpy as np

from fusekit.ops.scalar import erf, exp, fma, sigmoid, tanh


def silu(x):
    return x / (type(x)(1) + exp(-x))


def gelu(x):
    half, one = type(x)(0.5), type(x)(1)
    return x * half * (one + erf(x * type(x)(0.7071067811865476)))


def gelu_f32(x):
    """Eager's float32 kernel halves last, and answers NaN for an infinite input."""
    value = x * (type(x)(1) + erf(x * type(x)(0.7071067811865476))) * type(x)(0.5)
    return value if x < type(x)(np.inf) else type(x)(np.nan)


def gelu_tanh(x):
    half, one = type(x)(0.5), type(x)(1)
    inner = type(x)(0.7978845608028654) * fma(type(x)(0.044715), x * x * x, x)
    return half * x * (one + tanh(inner))


def leaky_relu(x, slope):
    return x if x > type(x)(0) else x * slope


def elu(x, scaled_alpha, scale, input_scale):
    return np.expm1(x * input_scale) * scaled_alpha if x < type(x)(0) else x * scale


def softplus(x, beta, threshold):
    scaled = x * beta
    return x if scaled > threshold else np.log1p(exp(scaled)) / beta


def mish(x):
    return x * tanh(np.log1p(exp(x)))


def hard_gate(x):
    """min(max(x + 3, 0), 6): hardsigmoid is a sixth of it."""
    zero, six = type(x)(0), type(x)(6)
    lifted = x + type(x)(3)
    lifted = zero if lifted < zero else lifted
    return six if lifted > six else lifted


def hardsigmoid(x):
    return hard_gate(x) / type(x)(6)


def hardswish(x):
    return x * hard_gate(x) / type(x)(6)


def hardshrink(x, limit):
    return type(x)(0) if (x >= -limit) and (x <= limit) else x


def softshrink(x, limit):
    return x - limit if x > limit else (x + limit if x < -limit else (x if x != x else type(x)(0)))


# ---- derivatives: the gradient of the result first -------------------------------------------------------------------


def tanh_backward(grad, result):
    return grad * fma(-result, result, type(grad)(1))


def sigmoid_backward(grad, result):
    return grad * (type(grad)(1) - result) * result


def log_sigmoid_backward(grad, x, buffer):
    share = buffer / (type(x)(1) + buffer)
    return (type(x)(1) - share if x < type(x)(0) else type(x)(0) + share) * grad


def silu_backward(grad, x):
    one = type(x)(1)
    gate = sigmoid(x)
    return grad * gate * fma(x, one - gate, one)


def gelu_backward(grad, x):
    half, one = type(x)(0.5), type(x)(1)
    below = half * (one + erf(x * type(x)(0.7071067811865476)))
    density = type(x)(0.3989422804014327) * exp(x * x * type(x)(-0.5))
    return grad * fma(x, density, below)


def gelu_tanh_backward(grad, x):
    half, one = type(x)(0.5), type(x)(1)
    beta, kappa = type(x)(0.7978845608028654), type(x)(0.044715)
    square = x * x
    bent = tanh(beta * fma(kappa, square * x, x))
    left, right = half * x, one + bent
    slope = left * fma(-bent, bent, one) * (beta * fma(type(x)(3) * kappa, square, one))
    return grad * fma(half, right, slope)


def hardsigmoid_backward(grad, x):
    """ATen's sixth is a float32 in float64 too."""
    inside = (x > type(x)(-3)) and (x < type(x)(3))
    return grad * type(x)(np.float32(1) / np.float32(6)) if inside else type(x)(0)


def hardswish_backward(grad, x):
    low, high = x <= type(x)(-3), x >= type(x)(3)
    middle = grad * (x / type(x)(3) + type(x)(0.5))
    return type(x)(0) if low else (grad if high else middle)


def hardtanh_backward(grad, x, low, high):
    return grad if (x > low) and (x < high) else type(x)(0)


def leaky_relu_backward(grad, x, slope):
    return grad if x > type(x)(0) else grad * slope


def elu_backward(grad, x, scaled_alpha, scale, input_scale):
    """Of the input; ``elu_backward_of_result`` takes the result."""
    return grad * scale if x > type(x)(0) else grad * input_scale * scaled_alpha * exp(x * input_scale)


def elu_backward_of_result(grad, result, scaled_alpha, scale, input_scale):
    return grad * scale if result > type(result)(0) else grad * input_scale * (result + scaled_alpha)


def softplus_backward(grad, x, beta, threshold):
    growth = exp(x * beta)
    return grad if x * beta > threshold else grad * growth / (growth + type(x)(1))


def mish_backward(grad, x):
    gate = sigmoid(x)
    bent = tanh(np.log1p(exp(x)))
    return grad * (bent + x * gate * (type(x)(1) - bent * bent))


def relu_grad(grad, x, threshold):
    """threshold_backward."""
    return type(grad)(0) if x <= threshold else grad
