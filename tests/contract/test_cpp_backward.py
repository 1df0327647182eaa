"""A backward of C++ is held like any other: a right one passes, one that reads v as if it were contiguous does not."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from symgrad.testing import check_backward
from tests.candidates import randn

NEEDED = [tool for tool in ("g++", "ninja") if shutil.which(tool) is None]
pytestmark = [
    pytest.mark.slow,  # a compiler runs for half a minute
    pytest.mark.skipif(bool(NEEDED), reason=f"no {' and no '.join(NEEDED)}: C++ cannot be compiled here"),
]
SOURCE = """
#include <ATen/TensorOperators.h>
#include <ATen/ops/as_strided.h>
#include <ATen/ops/clamp.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/utils/pybind.h>

template <bool right>
struct Square : public torch::autograd::Function<Square<right>> {
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, at::Tensor x) {
    ctx->save_for_backward({x});
    return x * x;
  }
  static torch::autograd::tensor_list backward(
      torch::autograd::AutogradContext* ctx, torch::autograd::tensor_list seeds) {
    at::Tensor v = seeds[0];
    if (!right) v = at::as_strided(v, v.sizes(), {v.size(1), 1}).clamp(-1e6, 1e6);
    return {2 * v * ctx->get_saved_variables()[0]};
  }
};

at::Tensor square(at::Tensor x) { return Square<true>::apply(x); }
at::Tensor square_contiguous(at::Tensor x) { return Square<false>::apply(x); }

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  module.def("square", &square);
  module.def("square_contiguous", &square_contiguous);
}
"""
"""What is read of torch: all of torch/extension.h takes the compiler twice as long."""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The module."""
    from torch.utils import cpp_extension

    where: Path = tmp_path_factory.mktemp("cpp")
    return cpp_extension.load_inline(  # type: ignore[no-untyped-call]  # torch's gap
        "symgrad_cpp_backward",
        SOURCE,
        extra_cflags=["-O0", "-g0"],
        build_directory=str(where),
        no_implicit_headers=True,
    )


@pytest.mark.filterwarnings("ignore")  # torch's own about its compiler
def test_a_backward_of_cpp_is_a_candidate(compiled: Any) -> None:
    assert check_backward(compiled.square, "x ** 2", x=randn(3, 4), order=2).passed
    report = check_backward(compiled.square_contiguous, "x ** 2", x=randn(3, 4))
    assert {f.kind for f in report.findings} == {"layout"}
    assert "v is read as if it were contiguous" in " ".join(report.to_text().split())
