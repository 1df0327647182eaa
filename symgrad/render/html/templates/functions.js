// The functions that a student's line may call, as functions and as methods: symgradFunctions(tools of line.js) is a Map
// from a name to f(args, named). Each takes what torch takes, as far as it is listed here, and refuses the rest.
"use strict";
const symgradFunctions = tools => {
  const {fail, count, told, scalar, make, strides, dot, tensor, whole, dims, sizes, axis, each, expand, permute, turn, reshape, matmul, reduce} = tools;
  const found = new Map();
  // Arguments by their names: names in order, a value for those that may be left out.
  const define = (names, parameters, f) => {
    for (const name of names.split(" ")) found.set(name, (args, named) => {
      const listed = typeof f.many === "number" && (args.length > f.many + 1 || (args.length === f.many + 1 && !Array.isArray(args[f.many])));
      const rest = listed ? [...args.slice(0, f.many), args.slice(f.many)] : args;
      if (rest.length > parameters.length) fail(`${name} takes ${parameters.length} ${parameters.length === 1 ? "argument" : "arguments"} at most here`);
      const values = parameters.map(([key, otherwise], n) => {
        if (n < rest.length) return rest[n];
        if (Object.hasOwn(named, key)) return named[key];
        return otherwise === undefined ? fail(`${name} needs ${key}`) : otherwise;
      });
      for (const key of Object.keys(named)) if (!parameters.some(([own], n) => own === key && n >= rest.length)) fail(`${name} does not read ${key} here`);
      return f(...values);
    });
  };
  const many = (n, f) => Object.assign(f, {many: n});  // what follows argument n is one list
  const flag = a => typeof a === "boolean" ? a : fail("True or False is expected");
  const over = (a, dim) => dim === null ? null : dims([dim], a.shape.length);
  const list = a => Array.isArray(a) ? a : [a];

  const sigmoid = x => x < 0 ? Math.exp(x) / (1 + Math.exp(x)) : 1 / (1 + Math.exp(-x));
  const elementwise = {
    exp: Math.exp, log: Math.log, sin: Math.sin, cos: Math.cos, tan: Math.tan, sinh: Math.sinh, cosh: Math.cosh, tanh: Math.tanh,
    asin: Math.asin, acos: Math.acos, atan: Math.atan, asinh: Math.asinh, acosh: Math.acosh, atanh: Math.atanh,
    arcsin: Math.asin, arccos: Math.acos, arctan: Math.atan, arcsinh: Math.asinh, arccosh: Math.acosh, arctanh: Math.atanh,
    sqrt: Math.sqrt, rsqrt: x => 1 / Math.sqrt(x), abs: Math.abs, sign: Math.sign, sgn: Math.sign, floor: Math.floor, ceil: Math.ceil,
    sigmoid, relu: x => x > 0 ? x : 0 * x, square: x => x * x, reciprocal: x => 1 / x, neg: x => -x, negative: x => -x,
    exp2: x => 2 ** x, log2: Math.log2, log10: Math.log10, log1p: Math.log1p, expm1: Math.expm1, erf: symgradTree.erf,
    logsigmoid: x => Math.min(x, 0) - Math.log1p(Math.exp(-Math.abs(x))), softsign: x => x / (1 + Math.abs(x)), silu: x => x * sigmoid(x),
    deg2rad: x => x * Math.PI / 180, rad2deg: x => x * 180 / Math.PI, isnan: x => Number(Number.isNaN(x)),
    logical_not: x => Number(x === 0), detach: x => x, clone: x => x, contiguous: x => x, double: x => x, float: x => x, to_dense: x => x, bool: x => Number(x !== 0),
  };
  for (const [name, f] of Object.entries(elementwise)) define(name, [["x"]], a => each(f, a));
  const pairs = {
    add: (a, b) => a + b, sub: (a, b) => a - b, mul: (a, b) => a * b, multiply: (a, b) => a * b, div: (a, b) => a / b, pow: Math.pow,
    maximum: (a, b) => Math.max(a, b), minimum: (a, b) => Math.min(a, b), atan2: Math.atan2, hypot: Math.hypot,
    eq: (a, b) => Number(a === b), ne: (a, b) => Number(a !== b), gt: (a, b) => Number(a > b), ge: (a, b) => Number(a >= b),
    lt: (a, b) => Number(a < b), le: (a, b) => Number(a <= b), logical_and: (a, b) => Number(a !== 0 && b !== 0), logical_or: (a, b) => Number(a !== 0 || b !== 0),
    heaviside: (a, b) => a === 0 ? b : Number(a > 0),
  };
  for (const [name, f] of Object.entries(pairs)) define(name, [["x"], ["other"]], (a, b) => each(f, a, b));
  define("softplus", [["x"]], a => each(x => Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x))), a));
  define("gelu", [["x"]], a => each(x => x / 2 * (1 + symgradTree.erf(x / Math.SQRT2)), a));
  define("leaky_relu", [["x"], ["negative_slope", scalar(0.01)]], (a, s) => each((x, k) => x > 0 ? x : k * x, a, s));
  define("elu", [["x"], ["alpha", scalar(1)]], (a, s) => each((x, k) => x > 0 ? x : k * Math.expm1(x), a, s));
  define("where", [["condition"], ["x"], ["other"]], (c, a, b) => each((q, x, y) => q ? x : y, c, a, b));
  define("clamp clip", [["x"], ["min", null], ["max", null]], (a, low, high) => each((x, l, h) => Math.min(Math.max(x, l), h), a, low === null ? scalar(-Infinity) : low, high === null ? scalar(Infinity) : high));
  define("masked_fill", [["x"], ["mask"], ["value"]], (a, m, b) => each((x, q, y) => q ? y : x, a, m, b));

  const total = met => met.reduce((a, b) => a + b, 0);
  const reductions = {
    sum: total, mean: met => total(met) / met.length, prod: met => met.reduce((a, b) => a * b, 1),
    logsumexp: met => { const top = Math.max(...met); return Number.isFinite(top) ? top + Math.log(total(met.map(x => Math.exp(x - top)))) : top; },
    amax: met => met.length ? Math.max(...met) : fail("there is no largest of nothing"), amin: met => met.length ? Math.min(...met) : fail("there is no smallest of nothing"),
    all: met => Number(met.every(x => x !== 0)), any: met => Number(met.some(x => x !== 0)),
  };
  for (const [name, f] of Object.entries(reductions)) define(name, [["x"], ["dim", null], ["keepdim", false]], (a, dim, keep) => reduce(tensor(a), over(tensor(a), dim), flag(keep), f));
  define("max", [["x"]], a => reduce(tensor(a), null, false, reductions.amax));
  define("min", [["x"]], a => reduce(tensor(a), null, false, reductions.amin));
  const spreadOf = root => (a, dim, correction, keep, unbiased) => {
    const own = flag(unbiased) ? whole(correction) : 0;
    return reduce(tensor(a), over(tensor(a), dim), flag(keep), met => {
      const middle = total(met) / met.length, found = total(met.map(x => (x - middle) ** 2)) / (met.length - own);
      return root ? Math.sqrt(found) : found;
    });
  };
  const spreads = [["x"], ["dim", null], ["correction", scalar(1)], ["keepdim", false], ["unbiased", true]];
  define("var", spreads, spreadOf(false));
  define("std", spreads, spreadOf(true));
  define("norm", [["x"], ["p", scalar(2)], ["dim", null], ["keepdim", false]], (a, p, dim, keep) => {
    const power = tensor(p).values[0];
    return reduce(tensor(a), over(tensor(a), dim), flag(keep), met => power === Infinity ? Math.max(0, ...met.map(Math.abs)) : total(met.map(x => Math.abs(x) ** power)) ** (1 / power));
  });
  function along(a, dim, f) {  // f maps the list along one axis to a list as long
    const own = tensor(a), rank = own.shape.length, d = axis(whole(dim), rank);
    if (!rank) return {shape: [], values: f(own.values)};
    const steps = strides(own.shape), values = new Array(own.values.length);
    make(own.shape.map((n, k) => k === d ? Math.min(n, 1) : n), at => {
      const first = dot(at, steps), lane = Array.from({length: own.shape[d]}, (_, n) => own.values[first + n * steps[d]]);
      f(lane).forEach((x, n) => { values[first + n * steps[d]] = x; });
      return 0;
    });
    return {shape: own.shape, values};
  }
  const soft = lane => { const top = Math.max(...lane), e = lane.map(x => Math.exp(x - top)), sum = total(e); return e.map(x => x / sum); };
  define("softmax", [["x"], ["dim", scalar(-1)]], (a, d) => along(a, d, soft));
  define("softmin", [["x"], ["dim", scalar(-1)]], (a, d) => along(a, d, lane => soft(lane.map(x => -x))));
  define("log_softmax", [["x"], ["dim", scalar(-1)]], (a, d) => along(a, d, lane => { const all = reductions.logsumexp(lane); return lane.map(x => x - all); }));
  const running = (lane, f) => { let last; return lane.map((x, n) => { last = n ? f(last, x) : x; return last; }); };
  define("cumsum", [["x"], ["dim"]], (a, d) => along(a, d, lane => running(lane, (p, x) => p + x)));
  define("cumprod", [["x"], ["dim"]], (a, d) => along(a, d, lane => running(lane, (p, x) => p * x)));
  define("logcumsumexp", [["x"], ["dim"]], (a, d) => along(a, d, lane => running(lane, (p, x) => Math.max(p, x) + Math.log1p(Math.exp(-Math.abs(p - x))))));
  define("flip", [["x"], ["dims"]], many(1, (a, d) => dims([d], tensor(a).shape.length).reduce((b, k) => along(b, scalar(k), lane => [...lane].reverse()), tensor(a))));
  define("fliplr", [["x"]], a => along(a, scalar(1), lane => [...lane].reverse()));
  define("flipud", [["x"]], a => along(a, scalar(0), lane => [...lane].reverse()));
  define("roll", [["x"], ["shifts"], ["dims"]], (a, shifts, d) => list(d).reduce((b, k, n) => along(b, k, lane => lane.map((_, i) => lane[((i - whole(list(shifts)[n])) % lane.length + lane.length) % lane.length])), tensor(a)));

  define("matmul mm mv bmm", [["x"], ["other"]], matmul);
  define("dot vdot inner", [["x"], ["other"]], (a, b) => tensor(a).shape.length === 1 && tensor(b).shape.length === 1 ? matmul(a, b) : fail("dot takes two vectors here"));
  define("outer ger", [["x"], ["other"]], (a, b) => tensor(a).shape.length === 1 && tensor(b).shape.length === 1 ? each((x, y) => x * y, reshape(a, [-1, 1]), b) : fail("outer takes two vectors"));
  define("t", [["x"]], a => tensor(a).shape.length > 2 ? fail("t is for matrices") : tensor(a).shape.length < 2 ? a : turn(a, 0, 1));
  define("transpose swapaxes swapdims", [["x"], ["dim0"], ["dim1"]], (a, p, q) => turn(tensor(a), ...dims([p, q], tensor(a).shape.length)));
  define("permute", [["x"], ["dims"]], many(1, (a, d) => permute(tensor(a), dims([d], tensor(a).shape.length))));
  define("movedim moveaxis", [["x"], ["source"], ["destination"]], (a, p, q) => {
    const rank = tensor(a).shape.length, [from, to] = dims([p, q], rank), order = tensor(a).shape.map((_, k) => k).filter(k => k !== from);
    order.splice(to, 0, from);
    return permute(a, order);
  });
  define("reshape view", [["x"], ["shape"]], many(1, (a, s) => reshape(tensor(a), sizes([s]))));
  define("reshape_as view_as", [["x"], ["other"]], (a, b) => reshape(tensor(a), tensor(b).shape));
  define("expand broadcast_to", [["x"], ["shape"]], many(1, (a, s) => expand(tensor(a), sizes([s]))));
  define("expand_as", [["x"], ["other"]], (a, b) => expand(tensor(a), tensor(b).shape));
  define("unsqueeze", [["x"], ["dim"]], (a, d) => { const shape = [...tensor(a).shape]; shape.splice(axis(whole(d), shape.length + 1), 0, 1); return reshape(a, shape); });
  define("squeeze", [["x"], ["dim", null]], (a, d) => {
    const own = tensor(a), gone = d === null ? own.shape.map((_, k) => k) : dims([d], own.shape.length);
    return reshape(own, own.shape.filter((n, k) => n !== 1 || !gone.includes(k)));
  });
  define("flatten ravel", [["x"], ["start_dim", scalar(0)], ["end_dim", scalar(-1)]], (a, p, q) => {
    const shape = tensor(a).shape, [from, to] = dims([p, q], shape.length);
    return shape.length ? reshape(a, [...shape.slice(0, from), count(shape.slice(from, to + 1)), ...shape.slice(to + 1)]) : reshape(a, [1]);
  });
  define("unflatten", [["x"], ["dim"], ["sizes"]], (a, d, s) => { const shape = [...tensor(a).shape]; shape.splice(dims([d], shape.length)[0], 1, ...sizes([s])); return reshape(a, shape); });
  define("narrow", [["x"], ["dim"], ["start"], ["length"]], (a, d, start, length) => {
    const own = tensor(a), k = dims([d], own.shape.length)[0], first = whole(start), steps = strides(own.shape);
    if (first < 0 || first + whole(length) > own.shape[k]) fail("that is beyond the end");
    return make(own.shape.map((n, j) => j === k ? whole(length) : n), at => own.values[dot(at, steps) + first * steps[k]]);
  });
  define("pad", [["x"], ["pad"]], (a, p) => {
    const own = tensor(a), by = sizes([p]), rank = own.shape.length, steps = strides(own.shape);
    const before = own.shape.map((_, k) => by[2 * (rank - 1 - k)] || 0), after = own.shape.map((_, k) => by[2 * (rank - 1 - k) + 1] || 0);
    return make(own.shape.map((n, k) => n + before[k] + after[k]), at => {
      const inside = at.map((n, k) => n - before[k]);
      return inside.every((n, k) => n >= 0 && n < own.shape[k]) ? own.values[dot(inside, steps)] : 0;
    });
  });
  const joined = (parts, d) => {
    const all = list(parts).map(tensor);
    if (!all.length) fail("there is nothing to put together");
    const k = dims([d], all[0].shape.length)[0], ends = running(all.map(a => a.shape[k]), (p, n) => p + n);
    if (all.some(a => a.shape.length !== all[0].shape.length || a.shape.some((n, j) => j !== k && n !== all[0].shape[j]))) fail("these do not fit together");
    return make(all[0].shape.map((n, j) => j === k ? ends.at(-1) : n), at => {
      const which = ends.findIndex(end => at[k] < end), own = [...at];
      own[k] -= which ? ends[which - 1] : 0;
      return all[which].values[dot(own, strides(all[which].shape))];
    });
  };
  define("cat concat", [["tensors"], ["dim", scalar(0)]], joined);
  define("stack", [["tensors"], ["dim", scalar(0)]], (parts, d) => joined(list(parts).map(a => found.get("unsqueeze")([a, d], {})), d));

  const filled = a => s => make(sizes([s]), () => a);
  define("zeros", [["size"]], many(0, filled(0)));
  define("ones", [["size"]], many(0, filled(1)));
  define("full", [["size"], ["fill_value"]], (s, a) => expand(tensor(a), sizes([s])));
  define("zeros_like", [["x"]], a => each(() => 0, a));
  define("ones_like", [["x"]], a => each(() => 1, a));
  define("full_like", [["x"], ["fill_value"]], (a, b) => each((_, y) => y, a, b));
  define("tensor", [["data"]], a => a.values ? a : found.get("stack")([a.map(part => found.get("tensor")([part], {}))], {}));
  define("eye", [["n"], ["m", null]], (n, m) => make([whole(n), whole(m === null ? n : m)], ([p, q]) => Number(p === q)));
  define("arange", [["start"], ["end", null]], (a, b) => { const from = b === null ? 0 : whole(a), to = whole(b === null ? a : b); return make([Math.max(0, to - from)], ([n]) => from + n); });
  define("one_hot", [["x"], ["num_classes"]], (a, n) => { const own = tensor(a); return make([...own.shape, whole(n)], (at, place) => Number(own.values[Math.floor(place / whole(n))] === at.at(-1))); });
  define("size", [["x"], ["dim", null]], (a, d) => d === null ? tensor(a).shape.map(scalar) : scalar(tensor(a).shape[dims([d], tensor(a).shape.length)[0]]));
  define("numel", [["x"]], a => scalar(tensor(a).values.length));
  define("dim", [["x"]], a => scalar(tensor(a).shape.length));
  define("len", [["x"]], a => scalar(Array.isArray(a) ? a.length : tensor(a).shape.length ? a.shape[0] : fail("a number has no length")));
  const band = keeps => (a, k) => { const own = tensor(a), by = whole(k); return make(own.shape.length < 2 ? fail("two axes are needed") : own.shape, (at, n) => keeps(at.at(-1) - at.at(-2), by) ? own.values[n] : 0); };
  define("tril", [["x"], ["diagonal", scalar(0)]], band((off, by) => off <= by));
  define("triu", [["x"], ["diagonal", scalar(0)]], band((off, by) => off >= by));
  define("diagonal", [["x"], ["offset", scalar(0)], ["dim1", scalar(0)], ["dim2", scalar(1)]], (a, offset, p, q) => {
    const rank = tensor(a).shape.length, pair = dims([p, q], rank), by = whole(offset), rest = a.shape.map((_, k) => k).filter(k => !pair.includes(k));
    const own = permute(a, [...rest, ...pair]), [m, n] = own.shape.slice(-2), steps = strides(own.shape);
    return make([...own.shape.slice(0, -2), Math.max(0, Math.min(m + Math.min(by, 0), n - Math.max(by, 0)))], at => {
      const k = at.at(-1);
      return own.values[dot(at.slice(0, -1), steps.slice(0, -2)) + (k - Math.min(by, 0)) * n + k + Math.max(by, 0)];
    });
  });
  define("inverse inv", [["x"]], a => {  // Gauss and Jordan, the largest pivot first
    const n = tensor(a).shape.at(-1), found = new Array(a.values.length);
    if (a.shape.length < 2 || a.shape.at(-2) !== n) fail("inverse takes square matrices");
    for (let from = 0; from < a.values.length; from += n * n) {
      const rows = Array.from({length: n}, (_, i) => [...a.values.slice(from + i * n, from + i * n + n), ...Array.from({length: n}, (_, j) => Number(i === j))]);
      for (let i = 0; i < n; i++) {
        const best = rows.reduce((most, row, r) => r > most && r > i && Math.abs(row[i]) > Math.abs(rows[most][i]) ? r : most, i);
        [rows[i], rows[best]] = [rows[best], rows[i]];
        rows[i] = rows[i].map(x => x / rows[i][i]);
        rows.forEach((row, r) => { if (r !== i) rows[r] = row.map((x, j) => x - row[i] * rows[i][j]); });
      }
      rows.forEach((row, i) => row.slice(n).forEach((x, j) => { found[from + i * n + j] = x; }));
    }
    return {shape: a.shape, values: found};
  });
  define("einsum", [["equation"], ["operands"]], many(1, (text, given) => {
    const match = /^([a-zA-Z,\s]*)->([a-zA-Z\s]*)$/.exec(text && text.text || "") || fail("einsum takes letters and an arrow: 'ij,jk->ik'");
    const parts = match[1].replace(/\s/g, "").split(","), out = [...match[2].replace(/\s/g, "")], all = list(given).map(tensor), sizes = new Map();
    if (parts.length !== all.length) fail("einsum has another number of operands than its equation");
    parts.forEach((part, n) => {
      if (part.length !== all[n].shape.length) fail(`"${part}" is no name for the axes of ${told(all[n].shape)}`);
      [...part].forEach((letter, k) => { if ((sizes.has(letter) ? sizes.get(letter) : all[n].shape[k]) !== all[n].shape[k]) fail(`the axes called ${letter} differ`); sizes.set(letter, all[n].shape[k]); });
    });
    if (new Set(out).size !== out.length || out.some(letter => !sizes.has(letter))) fail("each letter behind the arrow stands once, and before it too");
    const inner = [...sizes.keys()].filter(letter => !out.includes(letter)), order = [...out, ...inner];
    const steps = all.map((a, n) => order.map(letter => [...parts[n]].reduce((step, own, k) => own === letter ? step + strides(a.shape)[k] : step, 0)));
    const full = make(order.map(letter => sizes.get(letter)), at => all.reduce((product, a, n) => product * a.values[dot(at, steps[n])], 1));
    return inner.length ? reduce(full, inner.map((_, k) => k + out.length), false, total) : full;
  }));
  const diagonal = a => { const n = Math.min(...a.shape.slice(-2)), steps = strides(a.shape).slice(-2); return make([...a.shape.slice(0, -2), n], at => a.values[dot(at.slice(0, -1), strides(a.shape).slice(0, -2)) + at.at(-1) * (steps[0] + steps[1])]); };
  define("diag_embed", [["x"]], a => make([...tensor(a).shape, a.shape.at(-1)], at => at.at(-1) === at.at(-2) ? a.values[dot(at.slice(0, -1), strides(a.shape))] : 0));
  define("diag", [["x"]], a => tensor(a).shape.length === 1 ? found.get("diag_embed")([a], {}) : a.shape.length === 2 ? diagonal(a) : fail("diag takes a vector or a matrix"));
  define("trace", [["x"]], a => tensor(a).shape.length === 2 ? scalar(total(diagonal(a).values)) : fail("trace takes a matrix"));
  return found;
};
