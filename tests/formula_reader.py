"""A reader of formulas as they are printed, which knows nothing of the printer."""

import math
import re
from collections.abc import Callable, Mapping
from itertools import product
from typing import Any

import numpy as np
from scipy import special

from symgrad.functions import STABLE

TOKEN = re.compile(
    r"\s*([ΣΠ]_\{[^}]*\}|δ_\w\w|δ_\{\w+,\w+\}|10⁻[⁰¹²³⁴⁵⁶⁷⁸⁹]+|\d+\.?\d*(?:e[+-]?\d+)?|[^\W\d][^\W⁰¹²³⁴⁵⁶⁷⁸⁹]*"
    r"|[⁰¹²³⁴⁵⁶⁷⁸⁹]+|[·/^()\[\],|⌊⌋√+−=≠<>≤≥])"
)
DIGITS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
RELATIONS: Mapping[str, Callable[[float, float], bool]] = {
    "=": lambda a, b: a == b,
    "≠": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    ">": lambda a, b: a > b,
    "≤": lambda a, b: a <= b,
    "≥": lambda a, b: a >= b,
}
FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    **{name: getattr(np, name) for name in ("exp", "log", "sin", "cos", "tan", "sinh", "cosh", "tanh", "sign")},
    **{name: getattr(np, f"arc{name[1:]}") for name in ("asin", "acos", "atan", "asinh", "acosh", "atanh")},
    **{function.__name__: function.evaluate for function in STABLE},
    "σ": special.expit,
    "max": np.maximum,
    "erf": special.erf,
    "erfc": special.erfc,
    "Γ": special.gamma,
    "logΓ": special.gammaln,
    "atan2": np.arctan2,
    "polygamma": special.polygamma,
    "besseli": special.iv,
    "erfinv": special.erfinv,
}
Place = dict[str, int]
Meaning = Callable[[Place], float]


class Reader:
    """A formula as it is printed, as a function of its letters: terms, products, Σ to the end of its product."""

    def __init__(self, text: str, arrays: Mapping[str, np.ndarray], sizes: Mapping[str, int]) -> None:
        self.tokens = TOKEN.findall(text)
        assert "".join(self.tokens) == re.sub(r"\s", "", text), text
        self.arrays, self.sizes = arrays, sizes
        self.at = 0
        self.meaning = self.terms()
        assert self.at == len(self.tokens), (text, self.tokens[self.at :])

    def value(self, place: Place) -> float:
        return float(self.meaning(place))

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self, wanted: str = "") -> str:
        token = self.peek()
        assert not wanted or token == wanted, (wanted, token)
        self.at += 1
        return token

    def terms(self) -> Meaning:
        negative = self.peek() == "−" and bool(self.take())
        first = self.term()
        result: Meaning = (lambda p: -first(p)) if negative else first
        while self.peek() in ("+", "−"):
            sign = 1 if self.take() == "+" else -1
            result = (lambda a, b, s: lambda p: a(p) + s * b(p))(result, self.term(), sign)
        return result

    def term(self) -> Meaning:
        masks: list[Meaning] = []  # a condition that does not hold makes its term 0, whatever it is divided by
        result = self.masked(masks)
        while self.peek() in ("·", "/", "mod"):
            sign = self.take()
            other = self.masked(masks)
            if sign == "·":
                result = (lambda a, b: lambda p: a(p) * b(p))(result, other)
            elif sign == "/":
                result = (lambda a, b: lambda p: np.divide(a(p), b(p)))(result, other)
            else:
                result = (lambda a, b: lambda p: a(p) % b(p))(result, other)
        return (lambda p: result(p) if all(mask(p) for mask in masks) else 0.0) if masks else result

    def masked(self, masks: list[Meaning]) -> Meaning:
        condition, factor = self.peek() == "[", self.factor()
        masks += [factor] if condition else []
        return factor

    def factor(self) -> Meaning:
        if self.peek()[:2] in ("Σ_", "Π_"):
            return self.big(self.take())
        base = self.base()
        if self.peek() == "^":
            self.take()
            exponent = self.base()
            return lambda p: np.power(float(base(p)), float(exponent(p)))
        if re.fullmatch("[⁰¹²³⁴⁵⁶⁷⁸⁹]+", self.peek()):
            power = int(self.take().translate(DIGITS))
            return lambda p: base(p) ** power
        return base

    def big(self, token: str) -> Meaning:
        runs = [run.split(":") for run in token[3:-1].split(",")]
        letters, ranges = [letter for letter, _ in runs], [range(int(size)) for _, size in runs]
        body = self.term()
        gather = sum if token[0] == "Σ" else math.prod

        def value(place: Place) -> float:
            return gather(body({**place, **dict(zip(letters, at, strict=True))}) for at in product(*ranges))

        return value

    def base(self) -> Meaning:
        token = self.take()
        if token == "(":
            inner = self.terms()
            self.take(")")
            return inner
        if token == "[":
            left = self.terms()
            relation = RELATIONS[self.take()]
            right = self.terms()
            self.take("]")
            return lambda p: float(relation(left(p), right(p)))
        if token in ("|", "⌊"):
            inner = self.terms()
            self.take({"|": "|", "⌊": "⌋"}[token])
            return (lambda p: abs(inner(p))) if token == "|" else (lambda p: math.floor(inner(p)))
        if token == "√":
            inner = self.base()
            return lambda p: np.sqrt(inner(p))
        if token.startswith("δ_"):
            first, second = token[3:-1].split(",") if token[2] == "{" else token[2:]
            return lambda p: float(p[first] == p[second])
        if token.startswith("10⁻"):
            return lambda p: 10.0 ** int(token[2:].translate(DIGITS))
        if token[0].isdigit():
            return lambda p: float(token)
        return self.named(token)

    def named(self, token: str) -> Meaning:
        if token in FUNCTIONS and self.peek() == "(":
            arguments = self.several("(", ")")
            return lambda p: FUNCTIONS[token](*(a(p) for a in arguments))
        if token in self.arrays and (self.peek() == "[" or token not in self.sizes):
            indices = self.several("[", "]") if self.peek() == "[" else []
            return lambda p: self.entry(token, [i(p) for i in indices])
        if token[0] in self.arrays and token[1:].isdecimal():
            return lambda p: self.entry(token[0], [int(d) for d in token[1:]])
        if token in self.sizes:
            return lambda p: self.sizes[token]
        if token in ("e", "π"):
            return lambda p: {"e": math.e, "π": math.pi}[token]
        return lambda p: p[token]

    def several(self, opening: str, closing: str) -> list[Meaning]:
        self.take(opening)
        found = [self.terms()]
        while self.peek() == ",":
            self.take()
            found.append(self.terms())
        self.take(closing)
        return found

    def entry(self, name: str, at: list[float]) -> float:
        array = self.arrays[name]
        places = tuple(int(i) for i in at)
        inside = all(0 <= i < n for i, n in zip(places, array.shape, strict=True))
        return float(array[places]) if inside else 0.0
