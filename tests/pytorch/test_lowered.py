"""Operations that are a part of the graph, with their gradients: no value of theirs is asked for."""

from __future__ import annotations

import itertools

import pytest
import torch

import lazynb

F = torch.nn.functional


def resized(mode, size, **options):
    return lambda x: F.interpolate(x, size=size, mode=mode, **options)


def sampled(mode, padding, align):
    """``grid_sample`` at places inside and outside of the image, moved by the image itself."""

    def sample(x):
        grid = (
            torch.linspace(-1.6, 1.6, 24, device=x.device).reshape(1, 4, 3, 2) + x[:, 0, :4, :3, None] * 0.1
        )
        return F.grid_sample(x, grid, mode=mode, padding_mode=padding, align_corners=align)

    return sample


def bag(mode, **options):
    def of_words(x):
        words = torch.tensor([0, 3, 3, 1, 4, 0], device=x.device)
        offsets = torch.tensor([0, 2, 2, 5], device=x.device)
        return F.embedding_bag(words, x[0, 0], offsets, mode=mode, **options)

    return of_words


def scattered(reduce, include_self):
    def of_places(x):
        places = torch.tensor([[0, 1, 1, 4], [2, 2, 2, 0]], device=x.device)
        return x[0, 0].scatter_reduce(0, places, x[0, 1, :2, :4] * 2, reduce, include_self=include_self)

    return of_places


def by_index(reduce):
    def of_rows(x):
        rows = torch.tensor([1, 1, 3], device=x.device)
        return x[0, 0].index_reduce(0, rows, x[0, 1, :3] * 2, reduce, include_self=False)

    return of_rows


def square(x):
    return x[0, 0, :5, :5] + 3 * torch.eye(5, device=x.device)


# Each takes an image of 1 x 2 x 5 x 6.
IMAGES = {
    "nearest": resized("nearest", (8, 3)),
    "nearest-exact": resized("nearest-exact", (8, 3)),
    "bilinear": resized("bilinear", (3, 11)),
    "bilinear aligned": resized("bilinear", (7, 1), align_corners=True),
    "bilinear antialiased": resized("bilinear", (2, 9), antialias=True),
    "bicubic": resized("bicubic", (9, 4)),
    "bicubic aligned": resized("bicubic", (9, 4), align_corners=True),
    "bicubic antialiased": resized("bicubic", (2, 3), antialias=True),
    "by a factor": lambda x: F.interpolate(x, scale_factor=(1.7, 0.6), mode="bilinear"),
    "area": resized("area", (2, 4)),
    "linear": lambda x: F.interpolate(x[0], size=9, mode="linear"),
    "trilinear": lambda x: F.interpolate(x[None], size=(3, 4, 9), mode="trilinear"),
    "max_pool2d": lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True),
    "max_pool3d": lambda x: F.max_pool3d(x, (1, 2, 3), (1, 2, 1), dilation=(1, 2, 1)),
    "adaptive_max_pool1d": lambda x: F.adaptive_max_pool1d(x[0], 4),
    "adaptive_max_pool2d": lambda x: F.adaptive_max_pool2d(x, (3, 4)),
    "adaptive_max_pool3d": lambda x: F.adaptive_max_pool3d(x, (2, 3, 4)),
    "fractional_max_pool2d": lambda x: F.fractional_max_pool2d(
        x, 2, (3, 4), _random_samples=torch.tensor([[[0.3, 0.8], [0.9, 0.1]]], device=x.device)
    ),
    "avg_pool2d": lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False),
    "avg_pool1d": lambda x: F.avg_pool1d(x[0], 3, 2, 1, ceil_mode=True),
    "avg_pool3d": lambda x: F.avg_pool3d(x, 2, padding=1, divisor_override=3),
    "cdist of no batch": lambda x: torch.cdist(x[:, 0], x.expand(2, 2, 5, 6)[:, 1], p=1.5),
    "padded": lambda x: F.pad(x, (2, 1, -1, 3), mode="replicate"),
    "bag sum": bag("sum", padding_idx=3),
    "bag mean": bag("mean"),
    "bag max": bag("max"),
    "bag weighted": lambda x: bag("sum", per_sample_weights=x[0, 1, 0, :6])(x),
    "embedding by frequency": lambda x: F.embedding(
        torch.tensor([0, 3, 3], device=x.device), x[0, 0], scale_grad_by_freq=True
    ),
    "renormalised": lambda x: F.embedding(
        torch.tensor([0, 3], device=x.device), x[0, 0].clone(), max_norm=0.5
    ),
    "shrink": lambda x: F.hardshrink(x) + F.softshrink(x),
    "cdist": lambda x: torch.cdist(x[0, 0], x[0, 1], p=3) + torch.cdist(x[0, 0], x[0, 1], p=1),
    "pdist": lambda x: F.pdist(x[0, 0], p=1.5),
    "masked_scatter": lambda x: x[0, 0].masked_scatter(x[0, 0] > 0, x[0, 1] * 2),
    "multi_margin_loss": lambda x: F.multi_margin_loss(x[0, 0], torch.arange(5, device=x.device), p=2),
    "multilabel_margin_loss": lambda x: F.multilabel_margin_loss(
        x[0, 0], torch.tensor([[1, 3, -1, 0, 0, 0]] * 5, device=x.device)
    ),
    "det": lambda x: torch.linalg.det(square(x)) + torch.linalg.det(square(x).mT),
    "slogdet": lambda x: torch.linalg.slogdet(square(x).mT)[1] * torch.logdet(square(x)),
    "lu": lambda x: torch.linalg.lu(square(x))[1] + torch.lu_unpack(*torch.linalg.lu_factor(square(x)))[2],
    "pinv": lambda x: torch.linalg.pinv(x[0, 0], rtol=0.1),
    "polygamma": lambda x: torch.polygamma(2, x.abs() + 0.3) + torch.polygamma(1, x),
    "scatter_reduce mean": scattered("mean", False),
    "scatter_reduce amax": scattered("amax", True),
    "index_reduce prod": by_index("prod"),
    "index_reduce amin": by_index("amin"),
}
IMAGES |= {
    f"grid_sample {mode} {padding} {align}": sampled(mode, padding, align)
    for mode, padding, align in itertools.product(
        ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection"), (False, True)
    )
}


def has_no_break():
    return not [one.detail for one in lazynb.breaks() if one.kind in ("unrecordable", "static")]


@pytest.mark.parametrize("name", IMAGES)
def test_value_and_gradient_are_in_the_graph(name):
    torch.manual_seed(2)
    x = torch.randn(1, 2, 5, 6)
    weight = None

    def both(given):
        given = given.requires_grad_()
        result = IMAGES[name](given * 1)
        weights = weight.to(given.device)
        return result, torch.autograd.grad(result, given, weights)[0]

    weight = torch.randn(IMAGES[name](x).shape)
    wanted = both(x.clone())
    with lazynb.lazy():
        got = both((x.to("jax") * 1).detach())
        assert has_no_break(), [one.detail for one in lazynb.breaks()]
    for a, b in zip(got, wanted, strict=True):
        torch.testing.assert_close(a.detach().cpu(), b.detach(), rtol=2e-3, atol=1e-4)


WHOLE = torch.tensor([[3, -5, 3, 7], [2**40, -(2**40), 0, 1]])
NOTHING = float("nan")

# Each takes numbers, and has no gradient that is compared.
NUMBERS = {
    "inverse of real transforms": (
        lambda x: torch.fft.irfft2(torch.fft.rfft2(x), (3, 5), norm="ortho") + torch.fft.hfftn(x, (3, 5)),
        torch.tensor([[1.0, 2.0, 4.0], [0.5, -1.0, 7.0], [2.0, 2.0, 3.0]]),
    ),
    "max_pool of 64 bits": (lambda x: F.max_pool2d(x[None, None], 2, 1), WHOLE),
    "avg_pool of whole numbers": (lambda x: F.avg_pool2d(x[None, None], 2, 1), -WHOLE % 7 - 3),
    "power of one whole number": (lambda x: x[0] ** x[0, 0] + x[0, 0] ** x[0, 2], WHOLE),
    "amin of 64 bits": (
        lambda x: x.scatter_reduce(1, (x > 0).long(), x, "amin", include_self=False),
        WHOLE,
    ),
    "max_pool without numbers": (
        lambda x: F.max_pool2d(x[None, None], 2, 1, return_indices=True)[1],
        torch.tensor([[1.0, NOTHING, 2.0], [NOTHING, 0.0, -1.0], [3.0, 3.0, 3.0]]),
    ),
    "polygamma at poles": (lambda x: torch.polygamma(0, x), torch.tensor([0.0, -0.0, -1.0, -8.3])),
    "polygamma 2 at poles": (lambda x: torch.polygamma(2, x), torch.tensor([0.0, -3.0, -8.3, 0.5])),
    "polygamma in place": (lambda x: (x * 1).polygamma_(1), torch.tensor([0.3, 2.0])),
    "zeta": (lambda x: torch.special.zeta(3.0, x), torch.tensor([-2.0, -20.5, 0.5])),
    "histogram": (lambda x: torch.histogram(x, 4)[0], torch.tensor([0.0, 1.0, 2.0, 4.0, 4.0])),
    "histogram of small floats": (
        lambda x: torch.histc(x, 7, 0, 3),
        torch.tensor([0.0, 0.43, 0.857, 1.286, 1.7141, 2.1429, 2.571, 3.0], dtype=torch.bfloat16),
    ),
    "histogram of one": (lambda x: torch.histogram(x, 4)[1], torch.tensor([2.0, 2.0])),
    "histogram of edges": (
        lambda x: torch.histogram(x, torch.tensor([0.0, 1.0, 4.0], device=x.device), density=True)[0],
        torch.tensor([0.0, 0.5, 4.0, 5.0]),
    ),
    "histogramdd": (
        lambda x: torch.histogramdd(x.reshape(3, 2), [2, 3])[0],
        torch.tensor([0.0, 1.0, 2.0, 4.0, 4.0, -1.0]),
    ),
    "searchsorted": (
        lambda x: torch.searchsorted(x, x + 1, right=True, sorter=x.argsort()),
        torch.tensor([[3.0, 1.0, 2.0], [0.0, 9.0, 4.0]]),
    ),
    "chebyshev": (
        lambda x: torch.special.chebyshev_polynomial_v(x, torch.tensor([0, 1, 3, 9], device=x.device)),
        torch.tensor([0.3, -1.0, 2.0, 0.9]),
    ),
    "hermite and laguerre": (
        lambda x: torch.special.hermite_polynomial_h(x, 4) + torch.special.laguerre_polynomial_l(x, 3),
        torch.tensor([0.3, -1.0, 2.0]),
    ),
    "legendre": (lambda x: torch.special.legendre_polynomial_p(x, 5), torch.tensor([0.3, -1.0, 2.0])),
    "nonzero_static": (
        lambda x: torch.nonzero_static(x, size=4, fill_value=7),
        torch.tensor([[1, 0, 3], [0, 2, 0]]),
    ),
    "nanmedian": (lambda x: x.nanmedian(1)[0], torch.tensor([[1.0, NOTHING, 3.0], [NOTHING] * 3])),
    "geqrf": (
        lambda x: torch.ormqr(*torch.geqrf(x), x, transpose=True),
        torch.tensor([[2.0, 1.0], [0.5, 3.0]]),
    ),
    "batch norm": (
        lambda x: torch.ops.aten._batch_norm_with_update(x, None, None, x[0] * 0, x[0] * 0 + 1, 0.1, 1e-5)[0],
        torch.tensor([[2.0, 1.0], [0.5, 3.0]]),
    ),
    "repeat_interleave": (
        lambda x: torch.repeat_interleave(x, x % 3, output_size=6),
        torch.tensor([1, 2, 4, 5]),
    ),
    "nan_to_num of both parts": (
        lambda x: torch.stack([x.nan_to_num(), x.nan_to_num(1, 2, 3)]),
        torch.tensor([complex(NOTHING, 1), complex(torch.inf, -torch.inf), 2 + 3j]),
    ),
    "logaddexp": (
        lambda x: torch.logaddexp(x, x.flip(0)) + x.logcumsumexp(0),
        torch.tensor([1 + 3j, 0.5 - 3j, -2 + 3j]),
    ),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_values_are_in_the_graph(name):
    function, x = NUMBERS[name]
    with lazynb.lazy():
        got = function(x.to("jax") * 1)
        assert has_no_break(), [one.detail for one in lazynb.breaks()]
    torch.testing.assert_close(got.cpu(), function(x), rtol=1e-4, atol=1e-5, equal_nan=True)


FLOATING = (
    "bessel_j0 bessel_j1 bessel_y0 bessel_y1 erfc erfcx erfinv ndtri i1 xlogy expm1 digamma zeta".split()
)


@pytest.mark.parametrize("numbers", [[True, False], torch.tensor([2, 0, 3], dtype=torch.uint8), [2, 0, 3]])
@pytest.mark.parametrize("name", FLOATING)
def test_whole_numbers_become_floats_before_a_function_of_floats(name, numbers):
    x, function = torch.as_tensor(numbers), getattr(torch.special, name)
    given = [x] * (2 if name in ("xlogy", "zeta") else 1)
    with lazynb.lazy():
        got = function(*[one.to("jax") + torch.zeros_like(one, device="jax") for one in given])
        assert has_no_break(), [one.detail for one in lazynb.breaks()]
    torch.testing.assert_close(got.cpu(), function(*given), rtol=1e-4, atol=1e-5, equal_nan=True)


def test_allclose_is_a_bool_break():
    with lazynb.lazy():
        x = torch.ones(3, device="jax") * 1
        assert torch.allclose(x, x + 1e-9) and not torch.allclose(x, x + 1)
        assert {one.kind for one in lazynb.breaks()} == {"bool"}


def test_slopes_that_were_drawn_are_those_of_the_gradient():
    with lazynb.lazy():
        x = (-torch.ones(50, device="jax")).requires_grad_()
        result = F.rrelu(x, 0.2, 0.4, training=True)
        (gradient,) = torch.autograd.grad(result.sum(), x)
        assert has_no_break()
    assert torch.equal(-gradient, result.detach()) and gradient.unique().numel() > 10
    assert float(gradient.min()) >= 0.2 and float(gradient.max()) <= 0.4


def test_whole_numbers_like_others_are_drawn_within_bounds():
    with lazynb.lazy():
        x = torch.randint_like(torch.zeros(200, device="jax") * 1, 2, 5)
        assert has_no_break()
    assert sorted(set(x.tolist())) == [2, 3, 4] and x.dtype == torch.float32


def test_whole_numbers_of_any_dtype_are_drawn_up_to_the_largest():
    drawn = torch.randint(3, 6, (200,), dtype=torch.bfloat16, device="jax")
    assert sorted(set(drawn.tolist())) == [3, 4, 5]
    for dtype, most in ((torch.bfloat16, 256), (torch.int8, 127), (torch.uint8, 255), (torch.bool, 1)):
        drawn = torch.zeros(5000, dtype=dtype, device="jax").random_()
        assert float(drawn.min()) == 0 and float(drawn.max()) == most


@torch.library.custom_op("lazynb_tests::twice", mutates_args=())
def twice(x: torch.Tensor, more: int) -> torch.Tensor:
    return x * 2 + more


@torch.library.custom_op("lazynb_tests::fill7", mutates_args={"x"})
def fill7(x: torch.Tensor) -> None:
    x.fill_(7)


def test_operations_of_the_users_own_are_recorded():
    with lazynb.lazy():
        x = torch.ones(3, device="jax") * 1
        y, z = twice(x, 3), x + 0
        fill7(z)
        assert not lazynb.breaks()
    assert y.tolist() == [5, 5, 5] and z.tolist() == [7, 7, 7]


def test_results_computed_on_the_cpu_keep_their_strides():
    x = torch.eye(4)
    wanted = x.nonzero()
    with lazynb.lazy():
        got = (x.to("jax") * 1).nonzero()
    assert torch.equal(got.cpu(), wanted) and got.stride() == wanted.stride()
