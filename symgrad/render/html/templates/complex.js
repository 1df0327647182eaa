// Complex numbers in a student's line: {shape, real, imag}, two tensors that no function of real numbers takes for one.
// What moves or adds entries is done to each half; the rest is written here, of both parts of a number: (x, y) → [x, y].
"use strict";
const symgradComplex = (tools, functions) => {
  const {fail, scalar, tensor, whole, axis, each, make, turn, matmul} = tools;
  const is = a => Boolean(a && a.real);
  const pair = (real, imag) => ({shape: real.shape, real, imag});
  const nothing = a => each(() => 0, a);
  const real = a => is(a) ? a.real : tensor(a), imag = a => is(a) ? a.imag : nothing(tensor(a));
  const halves = (a, f) => is(a) ? pair(f(a.real), f(a.imag)) : f(a);
  const call = (name, ...args) => functions.get(name)(args, {});
  const numbers = (f, ...all) => {
    const parts = all.flatMap(a => [real(a), imag(a)]);
    return pair(...[0, 1].map(n => each((...given) => f(...given)[n], ...parts)));
  };
  const add = (a, b) => pair(each((x, y) => x + y, real(a), real(b)), each((x, y) => x + y, imag(a), imag(b)));
  const minus = a => halves(a, half => each(x => -x, half)), subtract = (a, b) => add(a, minus(b));
  const conj = a => is(a) ? pair(a.real, minus(a.imag)) : tensor(a);
  const bilinear = f => (a, b) => {
    if (!is(a)) return pair(f(a, b.real), f(a, b.imag));
    if (!is(b)) return pair(f(a.real, b), f(a.imag, b));
    return pair(each((x, y) => x - y, f(a.real, b.real), f(a.imag, b.imag)), each((x, y) => x + y, f(a.real, b.imag), f(a.imag, b.real)));
  };
  const times = bilinear((a, b) => each((x, y) => x * y, a, b));

  const over = (x, y) => { const size = x * x + y * y; return [x / size, -y / size]; };
  const product = ([a, b], [x, y]) => [a * x - b * y, a * y + b * x];
  const exp = (x, y) => [Math.exp(x) * Math.cos(y), Math.exp(x) * Math.sin(y)];
  const log = (x, y) => [Math.log(Math.hypot(x, y)), Math.atan2(y, x)];
  const sinh = (x, y) => [Math.sinh(x) * Math.cos(y), Math.cosh(x) * Math.sin(y)];
  const cosh = (x, y) => [Math.cosh(x) * Math.cos(y), Math.sinh(x) * Math.sin(y)];
  const tanh = (x, y) => product(sinh(x, y), over(...cosh(x, y)));
  const turned = f => (x, y) => { const [p, q] = f(-y, x); return [q, -p]; };  // sin z = −i·sinh(iz), and so tan
  function power(x, y, p, q) {
    if (q !== 0 || !Number.isInteger(p) || Math.abs(p) > 64) return x === 0 && y === 0 ? [p > 0 ? 0 : NaN, 0] : exp(...product([p, q], log(x, y)));
    const base = p < 0 ? over(x, y) : [x, y];
    let found = [1, 0];
    for (let n = 0; n < Math.abs(p); n++) found = product(found, base);
    return found;
  }
  function sqrt(x, y) {
    const long = Math.sqrt((Math.hypot(x, y) + Math.abs(x)) / 2), short = long === 0 ? 0 : Math.abs(y) / (2 * long);
    const up = y < 0 || Object.is(y, -0) ? -1 : 1;
    return x < 0 ? [short, up * long] : [long, up * short];
  }
  const divide = (a, b) => is(b) ? times(a, numbers(over, b)) : halves(a, half => each((x, y) => x / y, half, b));
  const none = () => fail("complex numbers are not compared here");
  const signs = {"+": add, "-": subtract, "*": times, "/": divide, "**": (a, b) => numbers(power, a, b), "@": bilinear(matmul),
    "<": none, "<=": none, ">": none, ">=": none, "==": none, "!=": none};

  const found = new Map();
  const open = (names, f) => { for (const name of names.split(" ")) found.set(name, (args, named) => f(args, named, name)); };
  const define = (names, takes, f) => open(names, (args, named, name) => {
    if (args.length !== takes || Object.keys(named).length) fail(`${name} takes ${takes} ${takes === 1 ? "argument" : "arguments"} here, and no named one`);
    return f(...args);
  });
  // Halves of what stands at these places, and of each in a list there: the functions of real numbers do the rest.
  const split = (names, ...places) => open(names, (args, named, name) => {
    const part = half => args.map((a, n) => !places.includes(n) ? a : Array.isArray(a) ? a.map(half) : half(a));
    return pair(functions.get(name)(part(real), named), functions.get(name)(part(imag), named));
  });
  split("sum mean cumsum trace diag diag_embed diagonal tril triu flip fliplr flipud roll t transpose swapaxes swapdims permute movedim moveaxis reshape view expand broadcast_to unsqueeze squeeze flatten ravel unflatten narrow pad cat concat stack clone contiguous detach zeros_like", 0);
  split("masked_fill", 0, 2);
  split("where", 1, 2);
  for (const name of ["reshape_as", "view_as", "expand_as"]) define(name, 2, (a, b) => halves(a, half => call(name, half, real(b))));
  for (const name of ["size", "numel", "dim", "len"]) open(name, ([a, ...rest], named) => functions.get(name)([real(a), ...rest], named));
  for (const name of ["matmul", "mm", "mv", "bmm", "dot", "outer", "ger"]) define(name, 2, (a, b) => bilinear((x, y) => call(name, x, y))(a, b));
  define("vdot", 2, (a, b) => bilinear((x, y) => call("dot", x, y))(conj(a), b));
  open("einsum", ([text, ...given]) => {
    const all = given.length === 1 && Array.isArray(given[0]) ? given[0] : given;
    if (all.length > 2) fail("einsum takes two complex tensors at most here");
    return all.length === 1 ? halves(all[0], half => call("einsum", text, half)) : bilinear((x, y) => call("einsum", text, x, y))(...all);
  });
  const named = {add: "+", sub: "-", mul: "*", multiply: "*", div: "/", pow: "**"};
  for (const [name, sign] of Object.entries(named)) define(name, 2, signs[sign]);
  const elementwise = {exp, log, sqrt, sinh, cosh, tanh, sin: turned(sinh), tan: turned(tanh), cos: (x, y) => cosh(-y, x), reciprocal: over, square: (x, y) => product([x, y], [x, y]),
    rsqrt: (x, y) => over(...sqrt(x, y)), sgn: (x, y) => { const size = Math.hypot(x, y); return size ? [x / size, y / size] : [0, 0]; }};
  for (const [name, f] of Object.entries(elementwise)) define(name, 1, a => numbers(f, a));
  define("neg negative", 1, a => minus(a));
  define("conj conj_physical", 1, a => conj(a));
  define("resolve_conj resolve_neg", 1, a => a);
  define("adjoint", 1, a => halves(conj(a), half => turn(half, ...[-2, -1].map(d => axis(d, half.shape.length)))));
  define("real", 1, a => real(a));
  define("imag", 1, a => is(a) ? a.imag : fail("real numbers have no imaginary part in torch"));
  define("abs", 1, a => each(Math.hypot, real(a), imag(a)));
  define("angle", 1, a => each(Math.atan2, imag(a), real(a)));
  define("ones_like", 1, a => pair(each(() => 1, a.real), nothing(a.imag)));
  define("complex", 2, (a, b) => is(a) || is(b) ? fail("complex takes two real tensors") : pair(each(x => x, a, nothing(b)), each((_, y) => y, a, b)));
  define("polar", 2, (r, t) => pair(each((a, b) => a * Math.cos(b), r, t), each((a, b) => a * Math.sin(b), r, t)));
  define("view_as_real", 1, a => is(a) ? call("stack", [a.real, a.imag], scalar(-1)) : fail("view_as_real takes complex numbers"));
  define("view_as_complex", 1, a => {
    const {shape, values} = tensor(a);
    if (shape.at(-1) !== 2) fail("view_as_complex takes pairs: a last axis of 2");
    return pair(...[0, 1].map(part => make(shape.slice(0, -1), (_, n) => values[2 * n + part])));
  });

  // Fourier transforms, axis by axis, as products with the matrix of the roots of one; what is 0 in it is 0.
  function roots(rows, size, sign) {
    const turn = (zero, f) => make([rows, size], ([j, k]) => { const t = 4 * (j * k % size); return t % (2 * size) === zero * size ? 0 : f(Math.PI / 2 * t / size); });
    return pair(turn(1, Math.cos), turn(0, y => sign * Math.sin(y)));
  }
  function transform(a, d, size, norm, back) {
    const last = halves(a, half => turn(half, d, half.shape.length - 1)), length = size || last.shape.at(-1), least = Math.min(length, last.shape.at(-1));
    const cut = halves(last, half => call("narrow", half, scalar(-1), scalar(0), scalar(least)));
    const share = {backward: back ? length : 1, forward: back ? 1 : length, ortho: Math.sqrt(length)}[norm] || fail("norm is backward, forward or ortho");
    const rows = least > 0 ? roots(least, length, back ? 1 : -1) : fail("nothing has no transform");
    return halves(divide(bilinear(matmul)(cut, rows), scalar(share)), half => turn(half, d, half.shape.length - 1));
  }
  const word = a => a === null ? "backward" : a.text || fail("norm is a word");
  // fft(x, n, dim, norm) and fftn(x, s, dim, norm)
  for (const [name, back, first] of [["fft", false, -1], ["ifft", true, -1], ["fft2", false, -2], ["ifft2", true, -2], ["fftn", false, null], ["ifftn", true, null]]) {
    open(name, (args, named) => {
      const several = first !== -1, keys = ["x", several ? "s" : "n", "dim", "norm"];
      for (const key of Object.keys(named)) if (keys.indexOf(key) < args.length) fail(`${name} does not read ${key} here`);
      const [a, n, dim, norm] = keys.map((key, k) => k < args.length ? args[k] : Object.hasOwn(named, key) ? named[key] : null), z = pair(real(a), imag(a)), rank = z.shape.length;
      const given = several ? n && n.map(whole) : n && [whole(n)], every = first === -2 ? [-2, -1] : first === -1 ? [-1] : a.shape.map((_, k) => k).slice(given ? -given.length : 0);
      const axes = (dim === null ? every : [dim].flat().map(whole)).map(d => axis(d, rank));
      if (new Set(axes).size !== axes.length || (given && given.length !== axes.length)) fail(`${name} takes each axis once, and a size for each or none`);
      return axes.reduce((b, d, k) => transform(b, d, given && given[k], word(norm), back), z);
    });
  }
  return {is, halves, minus, conj, pair, real, signs, functions: found};
};
