"""``torch.autocast("jax")``: the operations that run in lower precision or in float32, as on CUDA."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

aten = torch.ops.aten

_LOWER_PRECISION = (
    aten.conv1d.default,
    aten.conv2d.default,
    aten.conv3d.default,
    aten.convolution.default,
    aten.conv_transpose1d.default,
    aten.conv_transpose2d.input,
    aten.conv_transpose3d.input,
    aten.linear.default,
    aten.matmul.default,
    aten.mm.default,
    aten.bmm.default,
    aten.mv.default,
    aten.addmm.default,
    aten.addmv.default,
    aten.addbmm.default,
    aten.baddbmm.default,
    aten.prelu.default,
    aten.scaled_dot_product_attention.default,
)
_FLOAT32 = (
    aten.softmax.int,
    aten.log_softmax.int,
    aten.layer_norm.default,
    aten.group_norm.default,
    aten.mse_loss.default,
    aten.l1_loss.default,
    aten.smooth_l1_loss.default,
    aten.nll_loss.default,
    aten.nll_loss2d.default,
    aten.cross_entropy_loss.default,
    aten.binary_cross_entropy_with_logits.default,
    aten.kl_div.default,
    aten.exp.default,
    aten.log.default,
    aten.log1p.default,
    aten.expm1.default,
    aten.pow.Tensor_Scalar,
    aten.pow.Tensor_Tensor,
    aten.rsqrt.default,
    aten.reciprocal.default,
    aten.sum.default,
    aten.sum.dim_IntList,
    aten.prod.default,
    aten.cumsum.default,
    aten.norm.Scalar,
    aten.softplus.default,
    aten.gelu.default,
)
_KEY = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastPrivateUse1)  # type: ignore[attr-defined,unused-ignore]
_lower: Any = None


def _cast(x: Any, dtype: torch.dtype) -> Any:
    """``x`` with its floating-point tensors on device ``jax`` cast to ``dtype``, except float64."""
    if isinstance(x, torch.Tensor):
        wanted = x.is_floating_point() and x.dtype != torch.float64 and x.device.type == "jax"
        return x.to(dtype) if wanted else x
    if isinstance(x, (list, tuple)):
        return type(x)([_cast(item, dtype) for item in x])
    return x


def _kernel(func: Any, dtype: Callable[[], torch.dtype]) -> Callable[..., Any]:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(_KEY):
            wanted = dtype()
            named = {name: _cast(value, wanted) for name, value in kwargs.items()}
            return func(*_cast(args, wanted), **named)

    return kernel


def _autocast_dtype() -> torch.dtype:
    return torch.get_autocast_dtype("jax")


def install(library: Any) -> None:
    """Registers the autocast kernels for device ``jax``.

    Arguments:
      library: takes the kernels of ``aten``.
    """
    global _lower
    _lower = torch.library.Library("_", "IMPL", "AutocastPrivateUse1")
    _lower.fallback(torch.library.fallthrough_kernel)
    for func in _LOWER_PRECISION:
        library.impl(func, _kernel(func, _autocast_dtype), "AutocastPrivateUse1")
    for func in _FLOAT32:
        library.impl(func, _kernel(func, lambda: torch.float32), "AutocastPrivateUse1")


def uninstall() -> None:
    """Undoes :func:`install`, except for the kernels in the caller's library."""
    global _lower
    _lower._destroy()
    _lower = None
