"""Sparse tensors on device ``jax`` are what they are on PyTorch's CPU, which does what there is to do with them."""

from __future__ import annotations

import copy
import io
import warnings

import pytest
import torch
import torch.utils._pytree as tree

import lazynb
from lazynb.frontends.torch.dispatch.tensor_layout import NotDense

F = torch.nn.functional
COMPRESSED = {
    torch.sparse_csr: ("crow_indices", "col_indices"),
    torch.sparse_bsr: ("crow_indices", "col_indices"),
    torch.sparse_csc: ("ccol_indices", "row_indices"),
    torch.sparse_bsc: ("ccol_indices", "row_indices"),
}


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def saved(x):
    file = io.BytesIO()
    torch.save(x, file)
    file.seek(0)
    return torch.load(file)


def twice(x):
    """Values of which two are at one place."""
    return torch.sparse_coo_tensor(torch.tensor([[0, 1, 0]], device=x.device), x[:3, 1], (4,))


def facts(s):
    return s.layout, s.is_sparse, s.is_sparse_csr, s._nnz(), s.sparse_dim(), s.dense_dim(), s.shape, s.dtype


def with_(s, *codes):
    """``s`` and what functions of it return."""
    return [code(s) for code in codes], s


def clipped(x):
    p = torch.nn.Parameter(x.clone())
    p.grad = x.to_sparse()
    return torch.nn.utils.clip_grad_norm_([p], 0.5), p.grad


MADE = {
    "coo": lambda x, y: x.to_sparse(),
    "hybrid": lambda x, y: x.to_sparse(1),
    "csr": lambda x, y: x.to_sparse_csr(),
    "csc": lambda x, y: x.to_sparse_csc(),
    "bsr": lambda x, y: x.to_sparse_bsr((2, 3)),
    "bsc": lambda x, y: x.to_sparse_bsc((2, 3)),
    "of places": lambda x, y: twice(x),
    "of lists": lambda x, y: torch.sparse_coo_tensor([[0, 1]], [1.0, 2.0], device=x.device),
    "rows of lists": lambda x, y: torch.sparse_csr_tensor([0, 1, 2], [0, 1], [1.0, 2.0], device=x.device),
    "zeros": lambda x, y: torch.zeros(2, 2, layout=torch.sparse_coo, device=x.device),
    "zeros in rows": lambda x, y: torch.zeros(2, 2, layout=torch.sparse_csr, device=x.device),
    "empty": lambda x, y: torch.sparse_coo_tensor((2, 3), device=x.device),
    "like": lambda x, y: (torch.zeros_like(x.to_sparse()), torch.empty_like(x.to_sparse())),
    "from diagonals": lambda x, y: torch.sparse.spdiags(x, torch.tensor([0, 1, 2, -1]).to(x.device), (3, 3)),
}
SEEN = {
    "facts": lambda x, y: [facts(s) for s in (x.to_sparse(), x.to_sparse_csr(), x.to_sparse_bsr((2, 3)))],
    "parts": lambda x, y: (x.to_sparse().indices(), x.to_sparse().values()),
    "parts of rows": lambda x, y: (
        x.to_sparse_csr().crow_indices(),
        x.to_sparse_csr().col_indices(),
        x.to_sparse_csr().values(),
    ),
    "parts that are not sorted": lambda x, y: (twice(x)._indices(), twice(x)._values(), twice(x).coalesce()),
    "dense": lambda x, y: (x.to_sparse().to_dense(), x.to_sparse_csr().to_dense()),
    "other layouts": lambda x, y: (x.to_sparse().to_sparse_csr(), x.to_sparse_csr().to_sparse()),
    "other dtypes": lambda x, y: (x.to_sparse().double(), x.to_sparse_csr().to(torch.float16)),
    "on the CPU": lambda x, y: (x.to_sparse().cpu(), x.to_sparse_csr().to("cpu", torch.float64)),
    "saved": lambda x, y: (saved(x.to_sparse()), saved(x.to_sparse_csr())),
    "copied": lambda x, y: (copy.copy(x.to_sparse()), copy.deepcopy(x.to_sparse())),
    "slices": lambda x, y: (x.to_sparse()[1], x.to_sparse_csr()[1], x.to_sparse().t(), [*x.to_sparse()]),
    "stride": lambda x, y: (x.to_sparse().stride(), x.to_sparse(1).is_contiguous()),
    "a number": lambda x, y: torch.sparse.sum(x.to_sparse()).item(),
}
COMPUTED = {
    "products": lambda x, y: (torch.sparse.mm(x.to_sparse(), y), x.to_sparse() @ y, x.to_sparse() @ y[:, 0]),
    "products of rows": lambda x, y: (torch.sparse.mm(x.to_sparse_csr(), y), x.to_sparse_csr() @ y),
    "sparse product": lambda x, y: torch.sparse.mm(x.to_sparse(), x.t().to_sparse()),
    "reduced products": lambda x, y: torch.sparse.mm(x.to_sparse_csr(), y, "amax"),
    "sampled products": lambda x, y: torch.sparse.sampled_addmm(x.to_sparse_csr(), x, y[:, :3]),
    "layer": lambda x, y: (F.linear(y.t(), x.to_sparse()), F.linear(y.t(), x.to_sparse_csr())),
    "sums": lambda x, y: (x.to_sparse() + x.to_sparse(), x + x.to_sparse(), x.to_sparse_csr() * 2),
    "joined": lambda x, y: torch.cat([x.to_sparse(), x.to_sparse()]),
    "masked": lambda x, y: x.sparse_mask((x > 1).to_sparse()),
    "softmax": lambda x, y: torch.sparse.softmax(x.to_sparse(), 1),
    "functions": lambda x, y: (x.to_sparse().sqrt(), -x.to_sparse(), abs(x.to_sparse_csr())),
}
WRITTEN = {
    "multiplied": lambda x, y: with_(x.to_sparse(), lambda s: s.mul_(2), lambda s: s._values()),
    "rows multiplied": lambda x, y: with_(x.to_sparse_csr(), lambda s: s.mul_(2), lambda s: s.values()),
    "added": lambda x, y: with_(x.to_sparse(), lambda s: s.add_(s)),
    "zeroed": lambda x, y: with_(x.to_sparse(), lambda s: s.zero_()),
    "copied to": lambda x, y: with_(x.to_sparse(), lambda s: s.copy_((x + 1).to_sparse())),
    "through the values": lambda x, y: with_(x.to_sparse(), lambda s: s.values().mul_(5)),
    "seen in the values": lambda x, y: with_(x.to_sparse().values(), lambda v: v),
    "through the same": lambda x, y: with_(x.to_sparse(), lambda s: s.detach().mul_(3)),
    "not through a copy": lambda x, y: with_(x.to_sparse(), lambda s: s.clone().mul_(3)),
    "resized": lambda x, y: with_(x.to_sparse(), lambda s: s.sparse_resize_((5, 4), 2, 0)),
    "transposed": lambda x, y: with_(x.to_sparse(), lambda s: s.t_(), lambda s: s.shape),
    "to a dense one": lambda x, y: (x.add_(x.to_sparse(), alpha=-0.5), x),
    "to out": lambda x, y: torch.mm(x.to_sparse(), y, out=torch.zeros(4, 4, device=x.device)),
    "to an out that grows": lambda x, y: torch.mm(x.to_sparse(), y, out=torch.zeros(0, device=x.device)),
    "to a sparse out": lambda x, y: torch.add(x.to_sparse(), x.to_sparse(), out=x.to_sparse()),
}
REFUSED = {
    "clipped": lambda x, y: clipped(x),
    "a place out of range": lambda x, y: torch.sparse_coo_tensor(
        [[0, 5]], [1.0, 2.0], (3,), device=x.device, check_invariants=True
    ),
    "more values than places": lambda x, y: torch.sparse_coo_tensor([[0, 1]], [1.0], (3,), device=x.device),
    "parts of another layout": lambda x, y: x.to_sparse_csr().indices(),
    "rows of another layout": lambda x, y: x.to_sparse().crow_indices(),
    "places that are not sorted": lambda x, y: twice(x).indices(),
    "shapes": lambda x, y: x.to_sparse() @ x,
    "view": lambda x, y: x.to_sparse().view(12),
    "exponential": lambda x, y: x.to_sparse().exp(),
    "a dense one from a sparse one": lambda x, y: x.copy_(x.to_sparse()),
    "numpy": lambda x, y: x.to_sparse().numpy(),
    "list": lambda x, y: x.to_sparse().tolist(),
    "truth": lambda x, y: bool(x.to_sparse()),
    "stride of rows": lambda x, y: x.to_sparse_csr().stride(),
    "contiguous rows": lambda x, y: x.to_sparse_csr().is_contiguous(),
    "memory": lambda x, y: x.to_sparse().untyped_storage(),
}
CODES = {**MADE, **SEEN, **COMPUTED, **WRITTEN, **REFUSED}


def given(there):
    x = torch.tensor([[0, 2.0, 0], [1, 0, 3], [0, 0, 0], [4, 0, 0]], device=there)
    return x * 1, torch.arange(12.0, device=there).reshape(3, 4) * 1


def plain(result):
    return [_of_one(leaf) for leaf in tree.tree_leaves(result)]


def _of_one(x):
    if not isinstance(x, torch.Tensor):
        return x
    here = x.detach().cpu()
    assert here.layout == x.layout
    about = x.layout, x.dtype, x.shape
    if x.layout is torch.strided:
        return *about, here.tolist()
    if x.layout is torch.sparse_coo:
        places, values, is_coalesced = here._indices(), here._values(), x.is_coalesced()
        return *about, is_coalesced, places.tolist(), values.tolist(), x._indices().stride()
    places = [getattr(here, name)().tolist() for name in COMPRESSED[x.layout]]
    return *about, places, here.values().tolist()


def outcome(code, there):
    try:
        return plain(code(*given(there)))
    except Exception as error:
        return type(error), str(error).partition("\n")[0]


@pytest.mark.parametrize("name", CODES)
def test_sparse_operations_give_values_and_errors_of_the_cpu(name, device):
    wanted = outcome(CODES[name], "cpu")
    assert isinstance(wanted[0], type) == (name in REFUSED)
    assert outcome(CODES[name], device) == wanted
    with lazynb.lazy():
        assert outcome(CODES[name], device) == wanted


def gradients(code, there):
    x, y = (one.detach().requires_grad_() for one in given(there))
    result = code(x, y)
    total = torch.sparse.sum(result) if result.layout is not torch.strided else result.sum()
    return torch.autograd.grad(total * total, [x, y], allow_unused=True)


def of_leaf(code, kind, there):
    """The gradients of a sparse tensor and a dense one."""
    x, y = given(there)
    s, y = getattr(x, kind)().requires_grad_(), y.detach().requires_grad_()
    result = code(s, y)
    (result if result.layout is torch.strided else result.to_dense()).pow(2).sum().backward()
    return s.grad.to_dense(), s.grad.layout, y.grad


DIFFERENTIATED = {
    "to_sparse": lambda x, y: x.to_sparse() * 2,
    "and back": lambda x, y: x.to_sparse().to_dense() * x,
    "rows and back": lambda x, y: x.to_sparse_csr().to_dense() * x,
    "mm": lambda x, y: torch.sparse.mm(x.to_sparse(), y),
    "mm of rows": lambda x, y: torch.sparse.mm(x.to_sparse_csr(), y),
    "values": lambda x, y: x.to_sparse().values(),
    "put together": lambda x, y: twice(x).to_dense(),
    "masked": lambda x, y: x.sparse_mask((x > 1).detach().to_sparse()).to_dense(),
    "sum": lambda x, y: torch.sparse.sum(x.to_sparse(), 0),
}
LEAVES = {
    "mm": (lambda s, y: torch.sparse.mm(s, y), "to_sparse"),
    "twice": (lambda s, y: torch.sparse.mm(s, y) + s @ (y * 2), "to_sparse"),
    "mm of rows": (lambda s, y: torch.sparse.mm(s, y), "to_sparse_csr"),
    "mean": (lambda s, y: torch.sparse.mm(s, y, "mean"), "to_sparse_csr"),
    "largest": (lambda s, y: torch.sparse.mm(s, y, "amax"), "to_sparse_csr"),
    "sampled": (
        lambda s, y: torch.sparse.sampled_addmm(s, s.new_ones(4, 3, layout=torch.strided), y[:, :3]),
        "to_sparse_csr",
    ),
}


@pytest.mark.parametrize("name", DIFFERENTIATED)
def test_gradients_through_sparse_tensors_equal_the_cpu(name, device):
    wanted = plain(gradients(DIFFERENTIATED[name], "cpu"))
    with lazynb.lazy():
        assert plain(gradients(DIFFERENTIATED[name], device)) == wanted


@pytest.mark.parametrize("name", LEAVES)
def test_gradients_of_sparse_tensors_are_sparse(name, device):
    """What the CPU computes beside a result for gradients (the places of ``amax``) is computed here, too."""
    wanted = plain(of_leaf(*LEAVES[name], "cpu"))
    with lazynb.lazy():
        assert plain(of_leaf(*LEAVES[name], device)) == wanted


SOURCES = {
    "embedding": lambda at, y: F.embedding(at, y, sparse=True).sum(),
    "embeddings": lambda at, y: (
        F.embedding(at, y, sparse=True).sum() + F.embedding(at + 1, y, sparse=True).sum()
    ),
    "embedding and dense": lambda at, y: F.embedding(at, y, sparse=True).sum() + y.pow(2).sum(),
    "bag": lambda at, y: F.embedding_bag(at, y, sparse=True, mode="sum").sum(),
    "gather": lambda at, y: torch.gather(y, 0, at, sparse_grad=True).sum(),
}


@pytest.mark.parametrize("name", SOURCES)
def test_sparse_gradients_accumulate_as_on_the_cpu(name, device):
    def grown(there):
        y = given(there)[0].detach().requires_grad_()
        for _ in range(2):  # the second is added to the first, whose values lie as ``expand`` leaves them
            SOURCES[name](torch.tensor([[0, 1, 0]], device=there), y).backward()
        return y.grad

    wanted = plain(grown("cpu"))
    with lazynb.lazy():
        assert plain(grown(device)) == wanted


OPTIMIZERS = {
    "SGD": lambda weights: torch.optim.SGD(weights, lr=0.1),
    "momentum": lambda weights: torch.optim.SGD(weights, lr=0.1, momentum=0.9),
    "SparseAdam": lambda weights: torch.optim.SparseAdam(weights, lr=0.1),
    "Adagrad": lambda weights: torch.optim.Adagrad(weights, lr=0.1),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_take_sparse_gradients(name, device):
    def trained(there):
        torch.manual_seed(0)
        words = torch.nn.Embedding(10, 3, sparse=True).to(there)
        optimizer = OPTIMIZERS[name](words.parameters())
        for at in range(3):
            optimizer.zero_grad()
            words(torch.tensor([1, 2, 1, at], device=there)).pow(2).sum().backward()
            assert words.weight.grad.layout is torch.sparse_coo
            optimizer.step()
        return words.weight.detach().cpu()

    with lazynb.lazy():
        torch.testing.assert_close(trained(device), trained("cpu"))


def test_an_optimizer_without_sparse_support_raises(device):
    words = torch.nn.Embedding(4, 2, sparse=True).to(device)
    words(torch.tensor([1], device=device)).sum().backward()
    with pytest.raises(RuntimeError, match="Adam does not support sparse gradients"):
        torch.optim.Adam(words.parameters()).step()


def test_constructing_and_inspecting_sparse_tensors_is_no_break(device):
    with lazynb.lazy():
        x, _ = given(device)
        words = torch.nn.Embedding(4, 2, sparse=True).to(device)
        (words(torch.tensor([1, 2], device=device)) * x[0, 1]).sum().backward()
        s = twice(x)
        assert s.device.type == "jax" and s._nnz() == 3 and not s.is_coalesced()
        assert (
            "pending" in repr(s) and repr(s.detach().clone()) and words.weight.grad._values().shape == (2, 2)
        )
        assert not lazynb.breaks()
        lazynb.sync(s)
        before = len(lazynb.breaks())
        assert "nnz=3" in repr(s) and len(lazynb.breaks()) == before


def test_reading_a_sparse_scalar_is_a_bool_break(device):
    with lazynb.lazy():
        x, _ = given(device)
        assert bool(torch.sparse_coo_tensor(x.new_zeros(0, 1, dtype=torch.int64), x[0, 1:2], ()))
        assert [one.kind for one in lazynb.breaks()] == ["bool"]


def test_a_sparse_operation_is_a_break_with_its_name(device):
    with lazynb.lazy():
        x, y = given(device)
        twice(x).to_dense()
        assert {(one.kind, one.detail) for one in lazynb.breaks()} == {("unrecordable", "aten._to_dense")}


@pytest.mark.parametrize("code", [lambda x: x.to_sparse(), lambda x: x.to_sparse_csr().requires_grad_()])
def test_sparse_tensors_are_printed_as_by_pytorch(code, device):
    x, _ = given("cpu")
    there = code(x.to(device))
    wanted = repr(code(x)).replace("size=(4", "device='jax:0', size=(4")
    assert repr(there) == str(there) == f"{there}" == wanted


def test_sparse_buffers_move_with_their_module(device):
    module = torch.nn.Module()
    for name, code in MADE.items():
        if name in ("coo", "csr", "bsr"):
            module.register_buffer(name, code(*given("cpu")))
    wanted = [plain(buffer) for buffer in module.buffers()]
    module.to(device)
    assert [(b.device.type, plain(b)) for b in module.buffers()] == [("jax", one) for one in wanted]
    assert [plain(buffer) for buffer in module.cpu().buffers()] == wanted


def test_mixing_sparse_tensors_of_two_devices_raises(device):
    x, _ = given("cpu")
    for code in (lambda: x.to_sparse().to(device) + x, lambda: x.to(device) + x.to_sparse()):
        with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
            code()


def test_unsupported_conversions_raise_one_error(device):
    x, _ = given("cpu")
    for code in (
        lambda: x.to(device).to_sparse().jax(),
        lambda: x.to(device).copy_(x.to_sparse()),
        lambda: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8).to(device),
    ):
        with pytest.raises(NotDense, match="an array of JAX's is dense, and this tensor is"):
            code()
