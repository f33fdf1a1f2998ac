"""Activations and their derivatives: ATen's formulas (``activations.py``), halves in float32.

They are exact where no transcendental function takes part; ``ulps`` is relative to eager on values away from a
cancellation, and to 1 near one (``gelu`` of large negative values).
"""

from fusekit.dtypes import F16, F64, DType
from fusekit.ops.entry import Call, Entry, Refused, Rule, refuse_unless
from fusekit.ops.text import opmath, rounded


def _of(function: str, *numbers: str) -> Rule:
    """``function(self, *numbers)``."""

    def rule(call: Call) -> tuple[DType, str]:
        dtype = refuse_unless(call.promoted("self"), "float")
        texts = [call.value("self", dtype), *(call.value(name, opmath(dtype)) for name in numbers)]
        return dtype, rounded(f"{function}({', '.join(texts)})", dtype)

    return rule


def _derivative(function: str, *numbers: str, second: str = "self") -> Rule:
    """``function(grad_output, second, *numbers)``."""

    def rule(call: Call) -> tuple[DType, str]:
        dtype = refuse_unless(call.promoted("grad_output", second), "float")
        texts = [call.value("grad_output", dtype), call.value(second, dtype)]
        texts += [call.value(name, opmath(dtype)) for name in numbers]
        return dtype, rounded(f"{function}({', '.join(texts)})", dtype)

    return rule


def _approximation(call: Call) -> str:
    name = call.static("approximate")
    if name not in ("none", "tanh"):
        raise Refused(f"gelu approximated by {name}")
    return str(name)


def _gelu(call: Call) -> tuple[DType, str]:
    exact = "gelu" if call.promoted("self") in (F16, F64) else "gelu_f32"
    return _of({"none": exact, "tanh": "gelu_tanh"}[_approximation(call)])(call)


def _gelu_backward(call: Call) -> tuple[DType, str]:
    return _derivative({"none": "gelu_backward", "tanh": "gelu_tanh_backward"}[_approximation(call)])(call)


def _elu_numbers(call: Call) -> None:
    """alpha * scale is rounded once, as ATen's ``negcoef``."""
    alpha, scale = call.static("alpha"), call.static("scale")
    call.bound["scaled_alpha"] = alpha if scale == 1 else alpha * scale  # type: ignore[operator]


def _elu(call: Call) -> tuple[DType, str]:
    _elu_numbers(call)
    return _of("elu", "scaled_alpha", "scale", "input_scale")(call)


def _celu(call: Call) -> tuple[DType, str]:
    alpha = call.static("alpha")
    call.bound |= {"scaled_alpha": alpha, "scale": 1, "input_scale": 1 / alpha}  # type: ignore[operator]
    return _of("elu", "scaled_alpha", "scale", "input_scale")(call)


def _prelu(call: Call) -> tuple[DType, str]:
    dtype = refuse_unless(call.promoted("self", "weight"), "float")
    return dtype, rounded(f"leaky_relu({call.value('self', dtype)}, {call.value('weight', dtype)})", dtype)


def _elu_backward(call: Call) -> tuple[DType, str]:
    _elu_numbers(call)
    name = "elu_backward_of_result" if call.static("is_result") else "elu_backward"
    return _derivative(name, "scaled_alpha", "scale", "input_scale", second="self_or_result")(call)


def _log_sigmoid_backward(call: Call) -> tuple[DType, str]:
    """``buffer`` is exp(-|x|), from the forward op."""
    dtype = refuse_unless(call.promoted("grad_output", "self", "buffer"), "float")
    texts = ", ".join(call.value(name, dtype) for name in ("grad_output", "self", "buffer"))
    return dtype, rounded(f"log_sigmoid_backward({texts})", dtype)


def _sigmoid_backward(call: Call) -> tuple[DType, str]:
    if call.promoted("grad_output", "output").name == "f16":
        raise Refused("eager rounds each step of sigmoid_backward of float16")
    return _derivative("sigmoid_backward", second="output")(call)


_ELU = "alpha=1, scale=1, input_scale=1"

ENTRIES = {
    "silu.default": Entry("self", _of("silu"), ulps=4),
    "mish.default": Entry("self", _of("mish"), ulps=6),
    "gelu.default": Entry("self, *, approximate='none'", _gelu, ulps=8, absolute=1e-6),
    "leaky_relu.default": Entry("self, negative_slope=0.01", _of("leaky_relu", "negative_slope")),
    "elu.default": Entry(f"self, {_ELU}", _elu, ulps=4),
    "celu.default": Entry("self, alpha=1.0", _celu, ulps=4),
    "_prelu_kernel.default": Entry("self, weight", _prelu),
    "softplus.default": Entry("self, beta=1, threshold=20", _of("softplus", "beta", "threshold"), ulps=4),
    "hardswish.default": Entry("self", _of("hardswish")),
    "hardsigmoid.default": Entry("self", _of("hardsigmoid")),
    "hardshrink.default": Entry("self, lambd=0.5", _of("hardshrink", "lambd")),
    "softshrink.default": Entry("self, lambd=0.5", _of("softshrink", "lambd")),
    "log_sigmoid_backward.default": Entry("grad_output, self, buffer", _log_sigmoid_backward, ulps=2),
    "tanh_backward.default": Entry("grad_output, output", _derivative("tanh_backward", second="output"), ulps=1),
    "sigmoid_backward.default": Entry("grad_output, output", _sigmoid_backward),
    "silu_backward.default": Entry("grad_output, self", _derivative("silu_backward"), ulps=8),
    "gelu_backward.default": Entry("grad_output, self, *, approximate='none'", _gelu_backward, ulps=128, absolute=2e-5),
    "mish_backward.default": Entry("grad_output, self", _derivative("mish_backward"), ulps=32),
    "hardsigmoid_backward.default": Entry("grad_output, self", _derivative("hardsigmoid_backward")),
    "hardswish_backward.default": Entry("grad_output, self", _derivative("hardswish_backward"), ulps=2),
    "hardtanh_backward.default": Entry(
        "grad_output, self, min_val, max_val", _derivative("hardtanh_backward", "min_val", "max_val")
    ),
    "leaky_relu_backward.default": Entry(
        "grad_output, self, negative_slope, self_is_result", _derivative("leaky_relu_backward", "negative_slope")
    ),
    "threshold_backward.default": Entry("grad_output, self, threshold", _derivative("relu_grad", "threshold")),
    "elu_backward.default": Entry(
        "grad_output, alpha, scale, input_scale, is_result, self_or_result", _elu_backward, ulps=4
    ),
    "softplus_backward.default": Entry(
        "grad_output, self, beta, threshold", _derivative("softplus_backward", "beta", "threshold"), ulps=6
    ),
}
