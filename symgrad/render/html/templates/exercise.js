// The exercise of a page: what is typed is held against the numbers that symgrad/exercises/points.py wrote down.
"use strict";
const symgradExercise = (() => {
  const revived = a => typeof a === "string" ? {nan: NaN, inf: Infinity, "-inf": -Infinity}[a] : a;
  const alive = x => ({shape: x.shape, values: x.values.map(revived)});
  const size = shape => shape.join("×") || "a number";
  const gap = (a, b) => Object.is(a, b) || a === b ? 0 : Number.isFinite(a - b) ? Math.abs(a - b) : Infinity;
  const largest = list => list.reduce((most, a) => Number.isFinite(a) ? Math.max(most, Math.abs(a)) : most, 0);
  const number = a => !Number.isFinite(a) ? String(a).toLowerCase().replace("infinity", "inf") : String(Number(a.toPrecision(6)));

  function read(text) {
    const data = JSON.parse(text);
    for (const point of data.points) {
      for (const name of Object.keys(point.known)) point.known[name] = alive(point.known[name]);
      for (const trial of point.trials) {
        trial.v = alive(trial.v);
        for (const name of Object.keys(trial.expected)) trial.expected[name] = alive(trial.expected[name]);
      }
    }
    return data;
  }

  // What came for every seed of a point, beside what is right.
  function tried(data, point, name, statements) {
    return point.trials.map(trial => {
      const known = new Map([[data.seed, trial.v], ...Object.entries(point.known)]);
      const expected = trial.expected[name], got = symgradLine.evaluate(statements, known);
      const scale = Math.max(largest(expected.values), data.least), gaps = expected.values.map((a, n) => Number.isFinite(a) ? gap(a, got.values[n]) : 0);
      const off = Math.max(0, ...gaps) / scale;
      return {name: trial.name, v: trial.v, expected, got, scale, gaps, off: off <= trial.allowed[name] ? 0 : off};
    });
  }

  // The mistake that gives just this, for every seed; "" where none does.
  function why(data, name, trials, first) {
    const same = (trial, other) => trial.got.values.every((a, n) => gap(a, other[n]) <= 1e-6 * trial.scale);
    if (trials.some(t => t.got.values.some(a => !Number.isFinite(a)))) return "";
    if (trials.every(t => t.got.values.every(a => a === 0))) return "only zeros come back";
    if (trials.every(t => same(t, t.expected.values.map(a => -a)))) return "the sign is flipped";
    for (const mistake of first ? data.mistakes[name] : []) {
      const told = trials.every((t, n) => same(t, mistake.made[n]));
      if (told) return mistake.said;
    }
    const at = trials[0].expected.values.reduce((most, a, n, all) => Math.abs(a) > Math.abs(all[most]) ? n : most, 0);
    const factor = trials[0].got.values[at] / trials[0].expected.values[at];
    if (Number.isFinite(factor) && trials.every(t => same(t, t.expected.values.map(a => factor * a)))) {
      return `every entry is ${Math.abs(factor) < 1 ? `${number(factor)} of` : `${number(factor)} times`} what it should be`;
    }
    for (const mistake of first ? data.mistakes[name] : []) if (trials.every((t, n) => same(t, mistake.made[n]))) return mistake.said;
    if (trials.slice(1).every(t => same(t, trials[0].got.values)) && trials.length > 1) return `${data.seed} is not used: the same comes whatever ${data.seed} is`;
    return "";
  }

  function place(name, n, shape) {
    const at = [];
    for (let k = shape.length - 1; k >= 0; k--) { at.unshift(n % shape[k]); n = Math.floor(n / shape[k]); }
    return at.length ? `${name}[${at.join(",")}]` : name;
  }

  // exact, approximate, wrong or unread, and what is said of it.
  function check(data, name, typed) {
    const line = typed.trim(), text = line.startsWith(`${name}.grad`) ? line.slice(name.length + 5).replace(/^\s*=(?!=)\s*/, "") : line;
    if (!text) return {kind: "unread", said: "there is no line"};
    if (text.length > data.longest) return {kind: "unread", said: `a line has at most ${data.longest} characters`};
    let worst = 0;
    try {
      const statements = symgradLine.parse(text);
      for (const [number_, point] of data.points.entries()) {
        const lead = data.lead[point.where], trials = tried(data, point, name, statements);
        for (const t of trials) {
          if (size(t.got.shape) !== size(t.expected.shape)) return {kind: "wrong", said: `${lead}${name}.grad has the shape of ${name}, ${size(t.expected.shape)}; this has ${size(t.got.shape)}`};
        }
        worst = Math.max(worst, ...trials.map(t => t.off));
        if (worst <= data.near) continue;
        const t = trials.reduce((a, b) => b.off > a.off ? b : a), n = t.gaps.indexOf(Math.max(...t.gaps)), cause = why(data, name, trials, number_ === 0);
        const entry = `with ${data.seed} = [${t.v.values.slice(0, 8).map(number).join(", ")}${t.v.values.length > 8 ? ", …" : ""}], ${place(`${name}.grad`, n, t.expected.shape)} is ${number(t.expected.values[n])}, not ${number(t.got.values[n])}`;
        return {kind: "wrong", said: `${lead}${cause ? `${cause}; ` : ""}${entry}`};
      }
    } catch (error) {
      if (error instanceof symgradLine.Unread) return {kind: "unread", said: error.message};
      if (error instanceof RangeError) return {kind: "unread", said: "this is nested too deeply"};
      return {kind: "unread", said: `internal error: ${error}`};
    }
    if (worst <= data.exact) return {kind: "exact", said: `${name}.grad, at ${data.points.length} points, ${data.sizes}`};
    return {kind: "approximate", said: `the largest difference is ${worst.toExponential(1)} of the largest entry`};
  }
  return {read, check};
})();

(() => {
  const source = document.getElementById("symgrad-exercise"), form = document.getElementById("try");
  if (!source || !form) return;
  const data = symgradExercise.read(source.textContent), verdict = document.getElementById("verdict"), wrt = form.elements.wrt;
  const hide = document.getElementById("hide"), main = document.querySelector("main");
  function asking(now) {
    main.classList.toggle("asking", now);
    hide.setAttribute("aria-pressed", String(now));
    hide.textContent = now ? "show the answers" : "hide the answers";
  }
  const clear = () => { verdict.textContent = ""; verdict.className = ""; };
  hide.addEventListener("click", () => asking(!main.classList.contains("asking")));
  if (wrt) wrt.addEventListener("change", () => { clear(); form.elements.line.value = ""; });
  form.addEventListener("submit", event => {
    event.preventDefault();
    const found = symgradExercise.check(data, wrt.value, form.elements.line.value);
    verdict.textContent = `${found.kind}: ${found.said}`;
    verdict.className = {exact: "good", wrong: "bad"}[found.kind] || "";
  });
  window.addEventListener("beforeprint", () => asking(false));
  asking(main.classList.contains("asking"));
})();
