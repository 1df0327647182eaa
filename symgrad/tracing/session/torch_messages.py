"""Torch's error messages about a backward, each with advice: the only place that reads torch's English.

Comes in: an exception. Goes out: the `Refusal`, or None. The messages are those of the tested torch versions; a test
makes torch raise each of them.
"""

from __future__ import annotations

import re
from enum import Enum


class Refusal(Enum):
    """A part of torch's message that identifies it, and the advice that does not depend on the script."""

    COMPLEX_OUTPUT = (
        "only for real scalar",
        "a loss is a real number: y.real.sum().backward(), or y.backward(v) with weights of your own",
    )
    NO_SEED = (
        "implicitly created only for scalar",
        "only a single number has an obvious weight: y.sum().backward(), or y.backward(v) with a v of y's shape",
    )
    OTHER_SHAPE = (
        "Mismatch in shape",
        "v weighs the outputs: it has the shape of the tensor that backward is called on, not that of the inputs",
    )
    NO_TENSOR = "grad_output", "v has the shape and dtype of the tensor that backward is called on"
    SECOND_TIME = (
        "second time",
        (
            "the first backward freed the saved tensors that vᵀJ needs: add the losses and call backward once, or "
            "retain_graph=True in every call but the last, or h = h.detach() between steps"
        ),
    )
    OVERWRITTEN = (
        "inplace operation",
        (
            "a saved tensor that vᵀJ needs was overwritten: write y = y + 1 in place of y += 1, and call "
            "optimizer.step() only after every backward"
        ),
    )
    NO_PATH = (
        "does not require grad",
        (
            "no input of the output has requires_grad=True, or the path was cut: by .detach(), torch.no_grad(), "
            ".item(), NumPy, argmax, or torch.tensor(…) of a result"
        ),
    )
    UNUSED = (
        "not have been used in the graph",
        "there is no path from that input to the output: allow_unused=True gives None, materialize_grads=True zeros",
    )
    MISCOUNTED = (
        "incorrect number of gradients",
        "a backward returns one gradient for each input of its forward, in their order, None for inputs without one",
    )
    OTHER_GRADIENT = (
        "returned an invalid gradient",
        "a backward returns for each input of its forward a gradient of that input's shape",
    )
    SHARED_MEMORY = (
        "refers to a single memory location",
        "the tensor was expanded, so many entries share one number in memory: .clone() before writing to it",
    )
    LEAF_WRITTEN = (
        "leaf Variable that requires grad is being used in an in-place",
        "an in-place change would turn the leaf into a non-leaf: update it under torch.no_grad(), as optimizers do",
    )

    TO_NUMPY = (
        "numpy() on Tensor that requires grad",
        "NumPy keeps no history: x.detach().numpy() returns the numbers, and no gradient flows back from them",
    )
    NOT_A_LEAF = (
        "attribute of a Tensor that is not a leaf",
        (
            "the gradient of a computed tensor is not kept: x.retain_grad() before backward keeps it, "
            "torch.autograd.grad(out, x) gives it"
        ),
    )
    MISMATCH = (
        "Jacobian mismatch",
        (
            "J by difference quotients and J by this backward are not the same: with inputs in double, the backward "
            "is wrong, or a kink is near; symgrad check names the entry and the mistake"
        ),
    )

    def __init__(self, words: str, answer: str) -> None:
        self.words, self.answer = words, answer


def find_refusal(error: Exception) -> Refusal | None:
    """Return the refusal of an exception's message, or None."""
    message = str(error)
    return next((refusal for refusal in Refusal if refusal.words in message), None)


MADE_BY = re.compile(r"is output \d+ of (\w+?)(?:Backward\d*)?,")
"""Matches torch's name of the operation whose result was overwritten."""


def describe_overwrite(error: Exception) -> list[str]:
    """Explain an overwritten value from torch's message alone."""
    found = MADE_BY.search(str(error))
    what = "A saved tensor that the backward needs" if found is None else f"What {found[1].lower()} gave"
    return [
        f"{what} was overwritten after the forward pass.",
        "  out of place:            write the result into a new tensor",
        "  every backward first:    then the step of the optimizer, which changes the weights",
    ]
