// A student's line, read and evaluated without running it: names, numbers, + - * / ** @, comparisons, indices, and the
// functions of the tables below. A tensor is {shape, values}; a tuple an array of such; True, False and None themselves.
"use strict";
const symgradLine = (() => {
  class Unread extends Error {}
  const MOST = 200000, DEEPEST = 60;  // entries of one tensor, and ten times as many in all; levels of brackets
  const CONSTANTS = {__proto__: null, pi: Math.PI, e: Math.E, inf: Infinity};
  let work = 0;
  const fail = text => { throw new Unread(text); };
  const count = shape => shape.reduce((a, b) => a * b, 1);
  const told = shape => shape.join("×") || "a number";
  const scalar = a => ({shape: [], values: [a]});
  function make(shape, entry) {
    const size = count(shape);
    if (size > MOST || (work += size) > 10 * MOST) fail("this is more than the page works with");
    const values = new Array(size), at = new Array(shape.length).fill(0);
    for (let n = 0; n < size; n++) {
      values[n] = entry(at, n);
      for (let k = shape.length - 1; k >= 0 && ++at[k] === shape[k]; k--) at[k] = 0;
    }
    return {shape: [...shape], values};
  }
  function strides(shape) {
    const found = new Array(shape.length);
    for (let k = shape.length - 1, step = 1; k >= 0; k--) { found[k] = step; step *= shape[k]; }
    return found;
  }
  const dot = (at, steps) => { let place = 0; for (let k = 0; k < steps.length; k++) place += at[k] * steps[k]; return place; };

  // Words -------------------------------------------------------------------------------------------------------
  const WORD = /\s*(?:((?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?j?)|([\p{L}_][\p{L}\p{N}_]*)|("[\w\s,.>-]*"|'[\w\s,.>-]*'|\*\*|==|!=|<=|>=|\.\.\.|[-+*\/@().,:;<>=\[\]])|(\S))/uy;
  function words(text) {
    const found = [];
    WORD.lastIndex = 0;
    for (let match; (match = WORD.exec(text)); ) {
      if (match[4]) fail(`"${match[4]}" is not read here`);
      if (match[2] && match[2].includes("__")) fail("names with two underscores are not read");
      found.push(match[1] ? {kind: "number", value: Number(match[1].replace("j", "")), text: match[1]} : {kind: match[2] ? "name" : "sign", text: match[2] || match[3]});
    }
    return found;
  }

  // The tree: ["number", a], ["imaginary", a], ["name", n], ["call", f, self or null, args, named], ["op", sign, left, right], ["minus", a],
  // ["index", a, parts], ["tuple", parts], ["of", a, attribute], ["slice", from, to, step], ["word", None …].
  function parse(text) {
    const all = words(text);
    let place = 0, depth = 0;
    const next = () => all[place], is = sign => next() && next().kind === "sign" && next().text === sign;
    const take = sign => { if (is(sign)) { place++; return true; } return false; };
    const need = sign => { if (!take(sign)) fail(next() ? `"${sign}" is expected where "${next().text}" stands` : `the line ends where "${sign}" is expected`); };
    const many = (lower, signs) => () => {
      let left = lower();
      for (let sign; (sign = signs.find(is)); ) { place++; left = ["op", sign, left, lower()]; }
      return left;
    };
    function deeper(read) { if (++depth > DEEPEST) fail("this is nested too deeply"); const found = read(); depth--; return found; }
    function unary() {
      if (take("-")) return deeper(() => ["minus", unary()]);
      if (take("+")) return deeper(unary);
      const base = postfix();
      return take("**") ? ["op", "**", base, deeper(unary)] : base;
    }
    const sum = many(many(unary, ["*", "/", "@"]), ["+", "-"]);
    function comparison() {
      const left = sum(), sign = ["<=", ">=", "==", "!=", "<", ">"].find(is);
      if (!sign) return left;
      place++;
      const found = ["op", sign, left, sum()];
      if (["<=", ">=", "==", "!=", "<", ">"].some(is)) fail("one comparison at a time");
      return found;
    }
    const whole = () => deeper(comparison);
    function list(end) {
      const found = [];
      while (!is(end)) { found.push(whole()); if (!take(",")) break; }
      need(end);
      return found;
    }
    function call(name, self) {
      const args = [], named = {__proto__: null};
      while (!is(")")) {
        const key = next(), after = all[place + 1];
        if (key && key.kind === "name" && after && after.text === "=") { place += 2; named[key.text] = whole(); }
        else if (Object.keys(named).length) fail("what has no name comes first");
        else args.push(whole());
        if (!take(",")) break;
      }
      need(")");
      return ["call", name, self, args, named];
    }
    function slice() {
      if (take("...")) return ["word", "..."];
      const parts = [null, null, null];
      let n = 0, colon = false;
      for (;;) {
        if (!is(":") && !is(",") && !is("]")) parts[n] = whole();
        if (!take(":")) break;
        colon = true;
        if (++n > 2) fail("a slice has three parts at most");
      }
      return colon ? ["slice", ...parts] : parts[0] || fail("an index is missing");
    }
    function postfix() {
      let found = atom();
      for (;;) {
        if (take(".")) {
          const name = next();
          if (!name || name.kind !== "name") fail("a name is expected after the point");
          place++;
          found = take("(") ? call(name.text, found) : ["of", found, name.text];
        } else if (take("[")) {
          const parts = [];
          while (!is("]")) { parts.push(slice()); if (!take(",")) break; }
          need("]");
          found = ["index", found, parts];
        } else return found;
      }
    }
    function atom() {
      const word = next();
      if (!word) fail("the line ends too early");
      place++;
      if (word.kind === "number") return [word.text.endsWith("j") ? "imaginary" : "number", word.value];
      if (/^["']/.test(word.text)) return ["text", word.text.slice(1, -1)];
      if (word.kind === "name") {
        if (["True", "False", "None"].includes(word.text)) return ["word", word.text];
        let name = word.text;
        if (["torch", "F", "nn", "functional", "math", "linalg"].includes(name) && is(".")) {  // torch.exp(…), F.softmax(…), math.pi
          while (is(".") && all[place + 1] && all[place + 1].kind === "name") { name = all[place + 1].text; place += 2; }
          if (!is("(") && name in CONSTANTS) return ["number", CONSTANTS[name]];
          need("(");
          return call(name, null);
        }
        return take("(") ? call(name, null) : ["name", name];
      }
      if (word.text === "(") {
        const first = whole();
        if (take(")")) return first;
        need(",");
        return ["tuple", [first, ...list(")")]];
      }
      if (word.text === "[") return ["tuple", list("]")];
      return fail(`"${word.text}" is not expected here`);
    }
    const statements = [];
    do {
      let name = null;
      if (next() && next().kind === "name" && all[place + 1] && all[place + 1].text === "=") { name = next().text; place += 2; }
      statements.push([name, whole()]);
    } while (take(";"));
    if (next()) fail(`"${next().text}" is not expected here`);
    if (statements.at(-1)[0] !== null) fail("the line ends with a name that is given and not used");
    return statements;
  }

  // Values ------------------------------------------------------------------------------------------------------
  const tensor = a => a && a.values ? a : typeof a === "boolean" ? scalar(Number(a)) : fail(a && a.real ? "real numbers are expected, and these are complex" : "a tensor is expected");
  const whole = a => { const t = tensor(a); if (t.shape.length || !Number.isInteger(t.values[0])) fail("a whole number is expected"); return t.values[0]; };
  const dims = (args, rank) => args.flatMap(a => Array.isArray(a) ? a.map(whole) : [whole(a)]).map(d => axis(d, rank));
  const sizes = args => args.flatMap(a => Array.isArray(a) ? a.map(whole) : [whole(a)]);
  function axis(d, rank) {
    if (!Number.isInteger(d) || d < -rank || d >= Math.max(rank, 1)) fail(`there is no axis ${d} in a tensor of ${rank} ${rank === 1 ? "axis" : "axes"}`);
    return d < 0 ? d + rank : d;
  }
  function together(...shapes) {
    const rank = Math.max(...shapes.map(s => s.length)), found = [];
    for (let k = 1; k <= rank; k++) {
      const own = [...new Set(shapes.map(s => s.length >= k ? s[s.length - k] : 1).filter(n => n !== 1))];
      if (own.length > 1) fail(`${shapes.map(told).join(" and ")} do not fit together`);
      found.unshift(own.length ? own[0] : 1);
    }
    return found;
  }
  function spread(a, shape) {  // steps through a, repeated to shape
    const steps = strides(a.shape), lead = shape.length - a.shape.length;
    return shape.map((_, k) => k < lead || a.shape[k - lead] === 1 ? 0 : steps[k - lead]);
  }
  function each(f, ...given) {
    const all = given.map(tensor), shape = together(...all.map(a => a.shape)), steps = all.map(a => spread(a, shape));
    return make(shape, at => f(...all.map((a, n) => a.values[dot(at, steps[n])])));
  }
  function expand(a, shape) {
    const lead = shape.length - a.shape.length;
    if (lead < 0) fail(`${told(a.shape)} does not become ${told(shape)}`);
    const wanted = shape.map((n, k) => n === -1 && k >= lead ? a.shape[k - lead] : n);
    if (a.shape.some((n, k) => n !== 1 && n !== wanted[k + lead]) || wanted.some(n => n < 0)) fail(`${told(a.shape)} does not become ${told(wanted)}`);
    const steps = spread(a, wanted);
    return make(wanted, at => a.values[dot(at, steps)]);
  }
  function permute(a, order) {
    if (order.length !== a.shape.length || new Set(order).size !== order.length) fail(`the axes of ${told(a.shape)} are not put into that order`);
    const steps = strides(a.shape);
    return make(order.map(k => a.shape[k]), at => { let place = 0; order.forEach((k, n) => { place += at[n] * steps[k]; }); return a.values[place]; });
  }
  function turn(a, first, second) {
    const order = a.shape.map((_, k) => k);
    [order[first], order[second]] = [order[second], order[first]];
    return permute(a, order);
  }
  function reshape(a, shape) {
    const free = shape.indexOf(-1), rest = count(shape.filter(n => n !== -1));
    const found = shape.map((n, k) => k === free ? a.values.length / rest : n);
    if (found.some(n => n < 0 || !Number.isInteger(n)) || count(found) !== a.values.length) fail(`${told(a.shape)} does not become ${told(shape)}`);
    return {shape: found, values: a.values};
  }
  function matmul(left, right) {
    let a = tensor(left), b = tensor(right);
    if (!a.shape.length || !b.shape.length) fail("@ takes no single numbers");
    const flatLeft = a.shape.length === 1, flatRight = b.shape.length === 1;
    if (flatLeft) a = reshape(a, [1, ...a.shape]);
    if (flatRight) b = reshape(b, [...b.shape, 1]);
    const [m, k] = a.shape.slice(-2), [k2, n] = b.shape.slice(-2);
    if (k !== k2) fail(`${told(tensor(left).shape)} @ ${told(tensor(right).shape)}: ${k} and ${k2} do not fit together`);
    const batch = together(a.shape.slice(0, -2), b.shape.slice(0, -2)), shape = [...batch, m, n];
    if ((work += count(shape) * k) > 10 * MOST) fail("this is more than the page works with");
    const own = spread(a, [...batch, m, k]), other = spread(b, [...batch, k, n]), rank = batch.length;
    const found = make(shape, at => {
      let total = 0;
      const first = at.slice(), second = at.slice();
      for (let j = 0; j < k; j++) { first[rank + 1] = j; second[rank] = j; total += a.values[dot(first, own)] * b.values[dot(second, other)]; }
      return total;
    });
    return reshape(found, shape.filter((_, d) => !(flatLeft && d === rank) && !(flatRight && d === rank + 1)));
  }
  function reduce(a, over, keep, f) {  // f takes the list of what meets
    const axes = over === null ? a.shape.map((_, k) => k) : over;
    if (new Set(axes).size !== axes.length) fail("an axis is named twice");
    const kept = a.shape.map((n, k) => axes.includes(k) ? 1 : n), steps = strides(kept), met = new Array(count(kept)).fill(null).map(() => []);
    make(a.shape, (at, n) => { met[dot(at.map((p, k) => axes.includes(k) ? 0 : p), steps)].push(a.values[n]); return 0; });
    return {shape: keep ? kept : kept.filter((_, k) => !axes.includes(k)), values: met.map(f)};
  }
  function pick(a, parts) {
    const rank = parts.filter(p => p !== null && p !== "...").length;
    if (rank > a.shape.length) fail(`${told(a.shape)} has fewer axes than the index`);
    if (parts.filter(p => p === "...").length > 1) fail("... stands once");
    const filler = new Array(a.shape.length - rank).fill([null, null, null]);
    const full = parts.includes("...") ? parts.flatMap(p => p === "..." ? filler : [p]) : [...parts, ...filler];
    const steps = strides(a.shape), shape = [], walk = [];
    let start = 0, k = 0;
    for (const part of full) {
      if (part === null) { shape.push(1); walk.push(0); continue; }
      const size = a.shape[k];
      if (Number.isInteger(part)) {
        if (part < -size || part >= size) fail(`there is no place ${part} in an axis of ${size}`);
        start += (part < 0 ? part + size : part) * steps[k];
      } else {
        const [from, to, by] = part, step = by === null ? 1 : by;
        if (step < 1) fail("a step is at least 1");
        const bound = n => Math.min(size, Math.max(0, n < 0 ? n + size : n)), first = from === null ? 0 : bound(from), end = to === null ? size : bound(to);
        shape.push(Math.max(0, Math.ceil((end - first) / step)));
        walk.push(step * steps[k]);
        start += first * steps[k];
      }
      k++;
    }
    return make(shape, at => a.values[start + dot(at, walk)]);
  }

  function evaluate(statements, known) {
    const names = new Map(known), tools = {Unread, fail, count, told, scalar, make, strides, dot, tensor, whole, dims, sizes, axis, together, each, expand, permute, turn, reshape, matmul, reduce};
    const functions = symgradFunctions(tools), complex = symgradComplex(tools, functions);
    const signs = {"+": (a, b) => a + b, "-": (a, b) => a - b, "*": (a, b) => a * b, "/": (a, b) => a / b, "**": Math.pow,
      "<": (a, b) => Number(a < b), "<=": (a, b) => Number(a <= b), ">": (a, b) => Number(a > b), ">=": (a, b) => Number(a >= b),
      "==": (a, b) => Number(a === b), "!=": (a, b) => Number(a !== b)};
    const both = (sign, a, b) => complex.is(a) || complex.is(b) ? complex.signs[sign](a, b) : sign === "@" ? matmul(a, b) : each(signs[sign], a, b);
    function attribute(a, word) {
      const rank = (complex.is(a) ? a : tensor(a)).shape.length, turned = (b, p, q) => complex.halves(b, half => turn(half, p, q));
      if (word === "shape") return a.shape.map(scalar);
      if (word === "ndim") return scalar(rank);
      if (word === "T") return rank > 2 ? fail("x.T is for matrices; of more axes x.mT turns the last two") : rank < 2 ? a : turned(a, 0, 1);
      if (word === "H") return rank === 2 ? turned(complex.conj(a), 0, 1) : fail("x.H is for matrices; of more axes x.mH turns the last two");
      if (word === "mT" || word === "mH") return rank < 2 ? fail("x.mT is for two axes or more") : turned(word === "mT" ? a : complex.conj(a), rank - 2, rank - 1);
      return word === "real" || word === "imag" ? complex.functions.get(word)([a], {}) : fail(`.${word} is not read here`);
    }
    const go = tree => {
      const [kind, first, second, third, fourth] = tree;
      switch (kind) {
        case "number": return scalar(first);
        case "imaginary": return complex.pair(scalar(0), scalar(first));
        case "text": return {text: first};
        case "word": return {True: true, False: false, None: null}[first];
        case "name": return names.has(first) ? names.get(first) : fail(`there is no "${first}" here; names: ${[...names.keys()].join(", ")}`);
        case "tuple": return first.map(go);
        case "minus": { const a = go(first); return complex.is(a) ? complex.minus(a) : each(x => -x, a); }
        case "op": return both(first, go(second), go(third));
        case "of": return attribute(go(first), second);
        case "index": {
          const a = go(first), at = part => part === null ? null : whole(go(part));
          if (Array.isArray(a)) { const n = second.length === 1 ? whole(go(second[0])) : NaN; return a.at(n) || fail("there is no such size"); }
          const parts = second.map(p => p[0] === "slice" ? p.slice(1).map(at) : p[0] === "word" ? (p[1] === "None" ? null : p[1] === "..." ? "..." : fail("an index is a number, a slice, None or ...")) : whole(go(p)));
          return complex.halves(a, half => pick(tensor(half), parts));
        }
        case "call": {
          const args = [...(second ? [go(second)] : []), ...third.map(go)], named = Object.fromEntries(Object.entries(fourth).map(([n, p]) => [n, go(p)]));
          const among = [...args, ...Object.values(named)].flat().some(complex.is), f = among || !functions.has(first) ? complex.functions.get(first) : functions.get(first);
          return f ? f(args, named) : fail(`this page does not read ${first}(…)${among ? " of complex numbers" : ""}: symgrad exercise does more`);
        }
        default: return fail("an index stands where a value is expected");
      }
    };
    let found = null;
    work = 0;
    for (const [name, tree] of statements) { found = go(tree); if (name !== null) names.set(name, found); }
    return tensor(complex.is(found) ? complex.functions.get("view_as_real")([found], {}) : found);
  }
  return {parse, evaluate, Unread};
})();
