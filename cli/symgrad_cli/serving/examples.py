"""Questions that people ask, as examples to click on."""

from __future__ import annotations

EXAMPLES: tuple[dict[str, str], ...] = (
    {"title": "What does out.backward(v) compute?", "expression": "x@a", "seed": "[[1,2,3,4],[5,6,7,8]]"},
    {"title": "One row of J: a one-hot seed", "expression": "x**2", "let": "x=[1,2,3]", "seed": "onehot(1)"},
    {"title": "Why is my softmax gradient zero?", "expression": "softmax(x)", "let": "x=[1,2,3]"},
    {
        "title": "Cross entropy: softmax minus one-hot", "expression": "cross_entropy(x, y)", "let": "y=[0,2]",
        "shape": "x=2,3",
    },
    {"title": "A bias is broadcast: its gradient adds up", "expression": "x@w + b", "shape": "x=2,3; w=3,4; b=4"},
    {"title": "A tensor that is used twice", "expression": "x*x + x", "let": "x=[1,2,3]"},
    {"title": "relu at 0", "expression": "relu(x)", "let": "x=[-1,0,2]"},
    {"title": "sqrt at 0", "expression": "sqrt(x)", "let": "x=[0,4]"},
    {"title": "Layer norm", "expression": "layer_norm(x, (3,))", "let": "x=randn(2,3)", "seed": "randn(2,3,seed=1)"},
    {"title": "Two layers", "expression": "h = tanh(x@w); h@u", "let": "x=randn(2,3); w=randn(3,3); u=randn(3,2)"},
    {"title": "An equation of one's own", "expression": "out[i] = sum_j x[i+j]*w[j]", "shape": "x=6; w=3"},
)  # fmt: skip
