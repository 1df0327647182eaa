// Index equations in numbers: what symgrad/render/html/formula_trees.py wrote down, evaluated entry by entry.
// A tensor is {shape, values}; an equation {name, axes, shape, tree}. A condition that does not hold ends its product.
"use strict";
const symgradTree = (() => {
  const erf = x => {  // Maclaurin's series, and beyond 3 the continued fraction of erfc (Abramowitz & Stegun 7.1.5, 7.1.14)
    const a = Math.abs(x);
    if (!(a < 3)) {
      let tail = 0;
      for (let n = 60; n > 0; n--) tail = n / 2 / (a + tail);
      const rest = a > 6 ? 0 : Math.exp(-a * a) / ((a + tail) * Math.sqrt(Math.PI));
      return Number.isNaN(x) ? NaN : Math.sign(x) * (1 - rest);
    }
    let term = x, total = x;
    for (let n = 1; n < 100; n++) { term *= -x * x / n; total += term / (2 * n + 1); }
    return 2 / Math.sqrt(Math.PI) * total;
  };
  // Inside one equation a power of e is m·e^s where it is far from 1, so that exp(x)/Σ exp(x) is right at any x.
  const FAR = 100;
  const wide = (m, s) => m === 0 || !Number.isFinite(m) ? m : {m, s};
  function narrow(a) {
    if (typeof a === "number") return a;
    const power = Math.exp(a.s);
    return power > 0 && power < Infinity ? a.m * power : Math.sign(a.m) * Math.exp(a.s + Math.log(Math.abs(a.m)));
  }
  const finite = a => typeof a === "number" && a !== 0 && Number.isFinite(a) ? {m: a, s: 0} : a;
  function exp(x) { x = narrow(x); return Math.abs(x) > FAR && Number.isFinite(x) ? {m: 1, s: x} : Math.exp(x); }
  function log(a) { return typeof a === "number" ? Math.log(a) : Math.log(a.m) + a.s; }
  function add(a, b) {
    if (typeof a === "number" && typeof b === "number") return a + b;
    [a, b] = [finite(a), finite(b)];
    if (typeof a === "number") return a === 0 ? b : a;  // beside what is not finite, nothing counts
    if (typeof b === "number") return b === 0 ? a : b;
    const s = Math.max(a.s, b.s);
    return wide(a.m * Math.exp(a.s - s) + b.m * Math.exp(b.s - s), s);
  }
  function times(a, b) {
    if (typeof a === "number" && typeof b === "number") return a * b;
    [a, b] = [finite(a), finite(b)];
    if (typeof a === "number") return a * Math.sign(b.m);
    if (typeof b === "number") return b * Math.sign(a.m);
    return wide(a.m * b.m, a.s + b.s);
  }
  const plain = {
    sin: Math.sin, cos: Math.cos, tan: Math.tan, sinh: Math.sinh, cosh: Math.cosh,
    tanh: Math.tanh, asin: Math.asin, acos: Math.acos, atan: Math.atan, asinh: Math.asinh, acosh: Math.acosh,
    atanh: Math.atanh, atan2: Math.atan2, sign: Math.sign, floor: Math.floor, max: Math.max, erf,
    mod: (a, b) => ((a % b) + b) % b,
    high: x => Number.isNaN(x) ? Infinity : x, low: x => Number.isNaN(x) ? -Infinity : x,
    sigmoid: x => x < 0 ? Math.exp(x) / (1 + Math.exp(x)) : 1 / (1 + Math.exp(-x)),
    softplus: x => Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x))),
  };
  const functions = {exp, log, abs: a => typeof a === "number" ? Math.abs(a) : {m: Math.abs(a.m), s: a.s}};
  for (const [name, f] of Object.entries(plain)) functions[name] = (...all) => f(...all.map(narrow));
  const relations = {
    "=": (a, b) => a === b, "!=": (a, b) => a !== b, "<": (a, b) => a < b, "<=": (a, b) => a <= b,
    ">": (a, b) => a > b, ">=": (a, b) => a >= b,
  };
  function power(a, b) {
    b = narrow(b);
    if (typeof a !== "number") return wide(Math.pow(a.m, b), b === 0 ? 0 : a.s * b);
    return b === -1 ? 1 / a : b === 0.5 ? Math.sqrt(a) : Math.pow(a, b);
  }

  function entry(tensor, at) {  // 0 outside: there a condition takes the term away
    let place = 0;
    for (let n = 0; n < tensor.shape.length; n++) {
      if (!(at[n] >= 0 && at[n] < tensor.shape[n])) return 0;
      place = place * tensor.shape[n] + at[n];
    }
    return tensor.values[place];
  }

  // With sizes, how large the terms are that it adds up, signs left out: symgrad/numeric/sparse.py, terms_of.
  function value(tree, tensors, index, sizes = false) {
    const [kind, first] = typeof tree === "number" ? [] : tree, go = part => value(part, tensors, index, sizes);
    const whole = kind === "?" || ["+", "*", "*0", "sum"].includes(kind) || (kind === "^" && tree[2] > 0);
    if (sizes && !whole) return functions.abs(value(tree, tensors, index));
    if (typeof tree === "number") return tree;
    switch (kind) {
      case "i": return index[first];
      case "at": return entry(tensors[first], tree.slice(2).map(go).map(narrow));
      case "+": { let total = 0; for (let n = 1; n < tree.length; n++) total = add(total, go(tree[n])); return total; }
      case "*": case "*0": {  // a condition ends its product, in the second kind any 0
        let total = 1;
        for (let n = 1; n < tree.length; n++) if ((kind === "*0" || tree[n][0] === "?") && go(tree[n]) === 0) return 0;
        for (let n = 1; n < tree.length; n++) total = times(total, go(tree[n]));
        return total;
      }
      case "^": return power(go(first), go(tree[2]));
      case "?": {
        const [a, b] = [tree[2], tree[3]].map(side => narrow(value(side, tensors, index)));
        return relations[first](a, b) ? 1 : 0;
      }
      case "f": return functions[first](...tree.slice(2).map(go));
      case "sum": case "prod": {
        const product = kind === "prod";
        let total = product ? 1 : 0;
        for (let k = 0; k < tree[2]; k++) {
          index[first] = k;
          total = (product ? times : add)(total, go(tree[3]));
        }
        return total;
      }
      default: throw new Error("unknown " + kind);
    }
  }

  // terms: of entries that are small beside ``scale``, what they were added up from; of others, their own size.
  function equation(found, tensors, scale = 0) {
    const size = found.shape.reduce((a, b) => a * b, 1), values = new Array(size), terms = new Array(size), index = [];
    for (let place = 0; place < size; place++) {
      let rest = place;
      for (let n = found.axes.length - 1; n >= 0; n--) {
        index[found.axes[n]] = rest % found.shape[n];
        rest = Math.floor(rest / found.shape[n]);
      }
      values[place] = narrow(value(found.tree, tensors, index));
      terms[place] = Math.abs(values[place]);
      if (0 < terms[place] && terms[place] <= SMALL * scale) terms[place] = narrow(value(found.tree, tensors, index, true));
    }
    return {shape: found.shape, values, terms};
  }

  // What rounding leaves of 0, by the rule of symgrad/explanation/evidence.py.
  const ULPS = 64 * Number.EPSILON, SMALL = 1e-6;
  const isRounding = (a, terms) => a !== 0 && Number.isFinite(terms) && Math.abs(a) <= ULPS * terms;

  // Everything that follows from the inputs and the seed: {tensors, gradients, jacobians}.
  function everything(data, inputs, v) {
    const tensors = {...inputs, [data.seed]: v}, jacobians = {};
    const size = () => Math.max(1, ...Object.values(tensors).map(t => largest(t.values)));
    for (const step of data.steps) tensors[step.name] = equation(step, tensors, step.name === data.output ? size() : 0);
    if (data.loss) {
      const later = {...inputs, [data.output]: tensors[data.output], [data.loss.seed]: {shape: [], values: [1]}};
      for (const step of [...data.loss.steps, ...data.loss.stages]) later[step.name] = equation(step, later);
      tensors[data.loss.output] = later[data.loss.output];
      v = tensors[data.seed] = later[data.output + "·grad"];
    }
    const scale = size();
    for (const stage of data.stages) tensors[stage.name] = equation(stage, tensors, scale);
    for (const found of data.jacobians) if (found.formula) {
      const all = equation(found.formula, tensors, scale), columns = found.shape[1];
      jacobians[found.by] = all.values.flatMap((a, n) => a === 0 ? [] : [[Math.floor(n / columns), n % columns, a, all.terms[n]]]);
    }
    const swept = data.jacobians.filter(found => found.rows);
    for (const found of swept) jacobians[found.by] = [];
    for (let row = 0; swept.length && row < swept[0].shape[0]; row++) {
      const one = {...tensors, [data.seed]: {shape: v.shape, values: v.values.map((_, n) => Number(n === row))}};
      for (const stage of data.stages) one[stage.name] = equation(stage, one, scale);
      for (const found of swept) {
        const line = one[found.by + "·grad"];
        line.values.forEach((a, column) => { if (a !== 0) jacobians[found.by].push([row, column, a, line.terms[column]]); });
      }
    }
    return {tensors, jacobians};
  }

  function weighed(cells, v, columns) {  // vᵀJ, and how large the terms are that each entry adds up
    const values = new Array(columns).fill(0), terms = new Array(columns).fill(0);
    for (const [row, column, cell, size = Math.abs(cell)] of cells) {
      values[column] += v[row] * cell;
      terms[column] += Math.abs(v[row] * size);
    }
    return {values, terms};
  }

  // What Python has no finite number for is a singular point: the formula may come to it in another way.
  const near = (a, b, scale, floor) => !Number.isFinite(b) || Object.is(a, b) || a === b || Math.abs(a - b) <= Math.max(1e-9 * Math.max(scale, Math.abs(a)), floor);
  const largest = list => Math.max(0, ...list.filter(Number.isFinite).map(Math.abs));
  // terms: how large what was added up may be; way: the largest number on the way, whose roundings may be all there is
  function same(found, wanted, terms = 0, way = 0) {
    const scale = Math.max(terms, largest(wanted));
    return found.length === wanted.length && found.every((a, n) => near(a, wanted[n], scale, 1e-13 * way));
  }

  // What does not come out in the page as it did in Python: the names.
  function differing(data) {
    const inputs = Object.fromEntries(data.inputs.map(x => [x.name, {shape: x.shape, values: x.values}]));
    const found = everything(data, inputs, data.v), wrong = [];
    const way = largest(Object.values(found.tensors).flatMap(t => t.values));
    if (found.tensors[data.output] && !same(found.tensors[data.output].values, data.out.values)) wrong.push(data.output);
    if (data.loss && !same(found.tensors[data.seed].values, data.v.values, 1)) wrong.push(data.seed);
    data.gradients.forEach((g, n) => {
      const own = found.tensors[g.name + "·grad"], cells = found.jacobians[g.name] || data.jacobians[n].cells;
      const terms = cells ? largest(cells.map(c => c[2])) * largest(data.v.values) : largest(data.v.values);
      if (own && !same(own.values, g.values, terms, way)) wrong.push(g.name + ".grad");
      if (cells && !same(weighed(cells, data.v.values, data.jacobians[n].shape[1]).values, g.values, terms, way)) wrong.push("J by " + g.name);
    });
    return wrong;
  }

  const revived = list => list.map(a => typeof a === "string" ? {nan: NaN, inf: Infinity, "-inf": -Infinity}[a] : a);
  function read(text) {
    const data = JSON.parse(text);
    for (const x of [...data.inputs, ...data.gradients, data.v]) x.values = revived(x.values);
    data.out.values = revived(data.out.values);
    for (const j of data.jacobians) if (j.cells) j.cells = j.cells.map(revived);
    return data;
  }
  return {read, everything, weighed, differing, same, isRounding, erf};
})();
