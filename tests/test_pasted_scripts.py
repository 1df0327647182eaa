"""What is said first of a pasted script that raises, or has no backward."""

import pytest

import symgrad

RAISES = "import torch\nx = torch.ones(2, 3, requires_grad=True)\n\ny = x * 2\ny.backward()"


@pytest.mark.parametrize("console", [False, True])
def test_a_pasted_script_that_raises_begins_with_that(console: bool) -> None:
    typed = "\n".join(f">>> {line}".rstrip() for line in RAISES.splitlines()) if console else RAISES
    lines = [line.strip() for line in symgrad.explain(typed).to_text().splitlines()]
    assert lines[1:3] == [
        "torch raises an error at line 5, y.backward():",
        "RuntimeError: grad can be implicitly created only for scalar outputs",
    ]
    assert "y.sum().backward(), which weighs them all by 1" in " ".join(lines[3:6])
    assert "torch raises" not in symgrad.explain(RAISES.replace("y.backward()", "y.sum().backward()")).to_text()
    assert "torch raises" not in symgrad.explain(RAISES.replace("backward()", "backward(torch.ones(2, 3))")).to_text()
    assert "torch raises" not in symgrad.explain("x * 2").to_text()


def test_a_pasted_script_that_writes_over_what_backward_needs_begins_with_that() -> None:
    typed = "import torch\nx = torch.ones(3, requires_grad=True)\nh = x.exp()\nh += 1\nh.sum().backward()"
    lines = [line.strip() for line in symgrad.explain(typed).to_text().splitlines()]
    first = lines.index("torch raises an error at line 5, h.sum().backward():")
    assert first == 2  # below the text and the shapes
    assert lines[first + 1].startswith("RuntimeError: one of the variables needed for gradient computation")
    assert "symgrad errors" in " ".join(lines[first + 2 : first + 5])


def test_a_pasted_script_without_a_backward_says_so() -> None:
    text = " ".join(symgrad.explain("x = torch.ones(3, requires_grad=True)\ny = x * 2\nprint(y)").to_text().split())
    assert "This script has no backward(): running it computes no gradient." in text
    assert "has no backward()" not in symgrad.explain("h = x * 2\nh.sum()").to_text()
