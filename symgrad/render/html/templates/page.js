// A page of symgrad: lighting what belongs together, copying, folding; editing lives in the second half.
"use strict";
(() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const said = document.getElementById("said");
  const say = text => { said.textContent = text; };

  // Symbols: every use of the name under the pointer or the focus is lit.
  for (const word of all("math mi")) if (!word.dataset.s) word.dataset.s = word.textContent.replace(/\.grad$/, "");
  let symbol = null;
  const symbolOf = target => {
    const found = target.closest && target.closest("[data-s]");
    return found ? found.dataset.s : null;
  };
  function lightSymbol(name) {
    if (name === symbol) return;
    for (const word of all(".lit-symbol")) word.classList.remove("lit-symbol");
    symbol = name;
    if (name) for (const word of all("[data-s]")) if (word.dataset.s === name) word.classList.add("lit-symbol");
  }

  // Lines of the backward, and the lines of the forward that they undo.
  function lightLine(target) {
    for (const line of all(".lit-line")) line.classList.remove("lit-line");
    const line = target.closest && target.closest(".lines-of li");
    if (!line) return;
    line.classList.add("lit-line");
    const both = line.closest(".both"), forward = all("[data-makes]", both), of = line.dataset.of;
    if (!of && !line.dataset.makes) return;
    if (of !== undefined) {
      const made = forward.filter(f => f.dataset.makes === of);
      const found = made.length ? made : forward.filter(f => f.dataset.reads.split(" ").includes(of));
      for (const f of found) f.classList.add("lit-line");
    } else {
      const own = line.dataset.makes, back = all("[data-of]", both);
      const reads = (line.dataset.reads || "").split(" ");
      for (const b of back) if (b.dataset.of === own || (reads.includes(b.dataset.of) && !forward.some(f => f.dataset.makes === b.dataset.of))) b.classList.add("lit-line");
    }
  }

  // Of a run: the line of source of what is pointed at, and what happened at a line of source.
  function lightSource(target) {
    const here = target.closest && (target.closest("[data-at]") || target.closest(".source li"));
    if (!here) return;
    for (const old of all(".lit-source, .lit-event")) old.classList.remove("lit-source", "lit-event");
    const at = here.dataset.at;
    const row = at === undefined ? here : at && document.getElementById(at);
    if (!row) return;
    row.classList.add("lit-source");
    if (at === undefined) { for (const told of all(`.event[data-at="${row.id}"], .brief [data-at="${row.id}"]`)) told.classList.add("lit-event"); return; }
    const box = row.closest(".source"), above = row.offsetTop - box.scrollTop;
    if (above < 0 || above > box.clientHeight - row.offsetHeight) box.scrollTop = row.offsetTop - box.clientHeight / 2;
  }
  const onTo = event => { lightSymbol(symbolOf(event.target)); lightLine(event.target); lightSource(event.target); };
  document.addEventListener("pointerover", onTo);
  document.addEventListener("focusin", onTo);

  // Copying: buttons beside every displayed formula, and a toolbar for one that is pointed at or clicked.
  function copy(text) {
    const done = () => say("copied"), failed = () => say("the browser does not let this page copy");
    if (navigator.clipboard && window.isSecureContext) return navigator.clipboard.writeText(text).then(done, () => byHand(text) ? done() : failed());
    byHand(text) ? done() : failed();
  }
  function byHand(text) {
    const area = document.createElement("textarea");
    area.value = text; area.className = "hidden";
    document.body.append(area); area.select();
    const fine = document.execCommand("copy");
    area.remove();
    return fine;
  }
  const toolbar = document.getElementById("toolbar");
  let formula = null;
  document.addEventListener("click", event => {
    const button = event.target.closest(".copy");
    if (button) {
      copy(button.dataset.which && formula ? formula.dataset[button.dataset.which] : button.dataset.copy);
      const before = button.textContent;
      button.textContent = "copied";
      setTimeout(() => { button.textContent = before; }, 900);
      return;
    }
    const found = event.target.closest(".m");
    formula = found;
    toolbar.hidden = !found;
    if (found) {
      const box = found.getBoundingClientRect();
      toolbar.style.left = `${Math.max(4, box.left + window.scrollX)}px`;
      toolbar.style.top = `${box.bottom + window.scrollY + 4}px`;
      found.after(toolbar);
      document.body.append(toolbar);
    }
  });
  document.addEventListener("keydown", event => {
    if (event.key !== "Escape") return;
    if (toolbar.contains(document.activeElement) && formula) formula.focus();
    toolbar.hidden = true;
    lightSymbol(null);
  });
  for (const inline of all("p .m, td .m, th .m")) if (inline.closest("p")) {
    inline.tabIndex = 0;
    inline.addEventListener("keydown", event => {
      if (event.key !== "Enter") return;
      inline.click();
      toolbar.querySelector("button").focus();
    });
  }
  toolbar.addEventListener("focusout", event => { if (!toolbar.contains(event.relatedTarget)) toolbar.hidden = true; });

  // What is wider than its place can be moved by the keyboard.
  const wide = new ResizeObserver(found => {
    for (const {target} of found) {
      if (target.scrollWidth > target.clientWidth || target.scrollHeight > target.clientHeight) target.tabIndex = 0;
      else target.removeAttribute("tabindex");
    }
  });
  for (const part of all(".lines, pre, .sheet")) wide.observe(part);

  const fold = document.getElementById("fold");
  if (fold) fold.addEventListener("click", () => {
    const parts = all(".story > details"), open = parts.some(d => !d.open);
    for (const part of parts) part.open = open;
    fold.setAttribute("aria-pressed", String(open));
    fold.textContent = open ? "close all" : "open all";
  });
  // On paper everything is open, and what is wider than a page is set smaller by itself: not the whole page with it.
  const PAPER = 680, WIDE = ".matrix, .product, .grid, .lines, .listing pre";
  function ownWidth(part) {  // of what stands in it, however wide its place is
    const lines = all(".line", part), widths = [];
    for (const one of lines.length ? lines : [part]) {
      const before = one.style.cssText;
      one.style.cssText = "flex:none;width:max-content";
      widths.push(one.getBoundingClientRect().width);
      one.style.cssText = before;
    }
    return Math.max(...widths);
  }
  window.addEventListener("beforeprint", () => {
    for (const part of all("details")) part.open = true;
    const unseen = all(".panel[hidden]");
    for (const panel of unseen) panel.hidden = false;
    for (const part of all(WIDE)) {
      const own = part.closest(".vector") ? 0 : ownWidth(part);
      if (own > PAPER) part.style.zoom = PAPER / own;
    }
    for (const panel of unseen) panel.hidden = true;
  });
  window.addEventListener("afterprint", () => { for (const part of all(WIDE)) part.style.zoom = ""; });

  // Numbers ------------------------------------------------------------------------------------------------
  const source = document.getElementById("symgrad-data");
  if (!source) return;
  const data = symgradTree.read(source.textContent);
  let broken = [];
  try { broken = data.steps.length || data.stages.length ? symgradTree.differing(data) : []; } catch (error) { broken = [String(error)]; }
  const inputs = {}, v = {shape: data.v.shape, values: [...data.v.values]};
  for (const x of data.inputs) inputs[x.name] = {shape: x.shape, values: [...x.values]};
  const formulas = data.stages.length > 0 && !broken.length;
  document.documentElement.dataset.formulas = broken.length ? "differ" : formulas ? "travel" : "none";
  if (broken.length) {
    document.getElementById("why").textContent = `Only ${data.seed} can be edited here: in this browser ${broken.join(", ")} ${broken.length > 1 ? "do" : "does"} not come out as in Python.`;
    for (const x of data.inputs) for (const box of all(`.sheet[data-tensor="${CSS.escape(x.name)}"] input`)) box.disabled = true;
  }

  const number = text => {
    const match = /^\s*([+-]?[\d.]+(?:e[+-]?\d+)?)\s*(?:\/\s*([\d.]+))?\s*$/i.exec(text.replace("−", "-"));
    const value = match ? Number(match[1]) / (match[2] ? Number(match[2]) : 1) : NaN;
    return Number.isFinite(value) ? value : null;
  };
  const shown = (value, terms = 0) => {
    if (symgradTree.isRounding(value, terms)) return "≈0";
    if (!Number.isFinite(value)) return String(value).toLowerCase().replace("infinity", "inf");
    if (Number.isInteger(value) && Math.abs(value) < 1e15) return String(value === 0 ? 0 : value);
    let short = Number(value.toPrecision(5));
    const beside = short !== 0 && Number.isInteger(short) && Math.abs(short) < 1e4 && Math.abs(value - short) > 1e-6 * Math.abs(short);
    for (let digits = 6; beside && Number.isInteger(short) && digits < 18; digits++) short = Number(value.toPrecision(digits));
    const size = Math.abs(short);
    return size < 1e-4 || size >= 1e5 ? short.toExponential().replace(/e([+-])(\d)$/, "e$10$2") : String(short);
  };
  const signed = (value, terms) => shown(value, terms).replace(/^-/, "−");
  const factor = (value, terms) => { const text = signed(value, terms); return text.startsWith("−") ? `(${text})` : text; };
  const place = (name, n, shape) => {
    const at = [];
    for (let axis = shape.length - 1; axis >= 0; axis--) { at.unshift(n % shape[axis]); n = Math.floor(n / shape[axis]); }
    return at.length ? `${name}[${at.join(",")}]` : name;
  };
  let current = {};

  function cellsOf(n) {
    const j = data.jacobians[n];
    return (current.jacobians && current.jacobians[j.by]) || (current.moved ? null : j.cells);
  }
  function update() {
    current = {};
    const same = data.inputs.every(x => x.values.every((a, n) => Object.is(a, inputs[x.name].values[n])));
    if (formulas && !same) current = {...symgradTree.everything(data, inputs, v), moved: true};
    if (data.loss) {  // it says what v is
      v.values = [...(same ? data.v : current.tensors[data.seed]).values];
      fill(data.seed, v);
      for (const output of all("output.v")) output.textContent = signed(v.values[Number(output.dataset.place)]);
      const loss = current.tensors && current.tensors[data.loss.output];
      for (const output of all(`.sheet[data-tensor="${CSS.escape(data.loss.output)}"] output`)) output.textContent = loss ? shown(loss.values[0]) : output.dataset.first ??= output.textContent;
    }
    const untouched = same && v.values.every((a, n) => Object.is(a, data.v.values[n]));
    data.gradients.forEach((g, n) => {
      const cells = cellsOf(n), columns = data.jacobians[n].shape[1];
      const total = untouched ? g : cells ? symgradTree.weighed(cells, v.values, columns) : current.moved ? current.tensors[g.name + "·grad"] : null;
      if (!total) return;
      fill(`${g.name}.grad`, total);
      const panel = all(".panel").find(p => p.dataset.by === g.name);
      if (!cells || !panel || !panel.querySelector(".product")) return;
      const numbers = new Map(cells.map(([r, c, a, size]) => [r * columns + c, [a, size]]));
      const bySign = panel.querySelector(".product.signed") !== null;  // in the colours of signs
      for (const cell of all("tbody td[data-col]", panel)) {
        const number = cell.querySelector(".number"), [a, size] = numbers.get(Number(cell.dataset.row) * columns + Number(cell.dataset.col)) ?? [0, 0];
        if (!number) continue;  // always 0
        number.textContent = a === 0 && number.parentElement.childElementCount === 1 && bySign ? "·" : signed(a, size);
        if (!bySign) continue;
        const counts = a !== 0 && a === a && !symgradTree.isRounding(a, size);
        cell.classList.toggle("cell", counts);
        cell.classList.toggle("zero", !counts);
        cell.classList.toggle("below", a < 0);
      }
      for (const output of all("tfoot output", panel)) output.textContent = signed(...at(total, Number(output.dataset.col)));
      if (panel.hidden) return;
      if (panel.dataset.mode === "row") lightRow(panel, Number(panel.dataset.litRow));
      else lightColumn(panel, Number(panel.dataset.lit));
    });
    if (current.tensors && current.tensors[data.output]) fill(data.output, current.tensors[data.output]);
    else if (same) fill(data.output, data.out);
    const note = document.getElementById("edited");
    note.hidden = untouched;
    const odd = !untouched && data.gradients.some(g => all(`.sheet[data-tensor="${CSS.escape(g.name + ".grad")}"] output`).some(o => o.textContent === "nan" || o.textContent.endsWith("inf")));
    note.firstElementChild.textContent = "Edited: this section follows your numbers. The answer above holds for every number" + (data.unit ? ` (a line without ${data.seed}: for ${data.seed} = 1)` : "") + "; sentences about single values, and the steps below, are about the ones it was made with." + (odd ? " Where nan or inf stands, plain arithmetic overflowed or met a point without a derivative." : "");
  }
  const at = (found, n) => [found.values[n], found.terms && found.terms[n]];
  function fill(name, found) {
    for (const output of all(`.sheet[data-tensor="${CSS.escape(name)}"] output`)) output.textContent = shown(...at(found, Number(output.dataset.place)));
  }

  // Rows and columns that are lit.
  const clear = panel => { for (const cell of all(".on, .on-row", panel)) cell.classList.remove("on", "on-row"); for (const o of all(".sheet .on")) o.classList.remove("on"); };
  function mark(name, n) { for (const box of all(`.sheet[data-tensor="${CSS.escape(name)}"] [data-place="${n}"]`)) box.classList.add("on"); }
  function lightColumn(panel, column) {
    const n = data.gradients.findIndex(g => g.name === panel.dataset.by), g = data.gradients[n], cells = cellsOf(n);
    if (!cells || !panel.querySelector(".product")) { clear(panel); mark(g.name, column); mark(`${g.name}.grad`, column); return; }
    clear(panel);
    panel.dataset.lit = column; panel.dataset.mode = "column";
    for (const cell of all(`[data-col="${column}"]`, panel)) if (cell.matches("td, th")) cell.classList.add("on");
    mark(g.name, column); mark(`${g.name}.grad`, column);
    const terms = cells.filter(c => c[1] === column).sort((a, b) => a[0] - b[0]).map(([r, , a, size]) => `${factor(v.values[r])}·${factor(a, size)}`);
    const total = at(symgradTree.weighed(cells, v.values, data.jacobians[n].shape[1]), column);
    const many = terms.length > 10 ? [...terms.slice(0, 10), `… ${terms.length - 10} more`] : terms;
    panel.querySelector(".told").textContent = `${place(`${g.name}.grad`, column, g.shape)} = ${many.join(" + ") || "0"}${terms.length ? ` = ${signed(...total)}` : ""}`.replace("= ≈", "≈ ");
  }
  function lightRow(panel, row) {
    const n = data.gradients.findIndex(g => g.name === panel.dataset.by), g = data.gradients[n], cells = cellsOf(n);
    clear(panel);
    mark(data.seed, row); mark(data.output, row);
    if (!cells || !panel.querySelector(".product")) return;
    panel.dataset.litRow = row; panel.dataset.mode = "row";
    for (const cell of all(`tr[data-row="${row}"]`, panel)) cell.classList.add("on-row");
    for (const cell of all(`td[data-row="${row}"]`, panel)) cell.classList.add("on");
    const moved = cells.filter(c => c[0] === row).map(([, c, a, size]) => `${signed(v.values[row])}·${factor(a, size)} to ${place(`${g.name}.grad`, c, g.shape)}`);
    const few = moved.length > 8 ? [...moved.slice(0, 8), `… ${moved.length - 8} more`] : moved;
    panel.querySelector(".told").textContent = `${place(data.output, row, data.v.shape)} has the weight ${signed(v.values[row])}: it adds ${few.join(", ") || "nothing"}`;
  }
  const shownPanel = () => all(".panel").find(p => !p.hidden);
  function point(target) {
    if (!target.closest) return;
    const panel = target.closest(".panel"), cell = target.closest("[data-col],[data-row]");
    if (panel && cell && panel.querySelector(".product")) {
      if (cell.dataset.col !== undefined) lightColumn(panel, Number(cell.dataset.col));
      else lightRow(panel, Number(cell.dataset.row));
      return;
    }
    const sheet = target.closest(".sheet"), box = target.closest("[data-place]");
    if (!sheet || !box) return;
    const name = sheet.dataset.tensor, n = Number(box.dataset.place), by = name.replace(/\.grad$/, "");
    if (name === data.seed || name === data.output) lightRow(shownPanel(), n);
    else {
      const panel = all(".panel").find(p => p.dataset.by === by);
      if (panel) { choose(panel); lightColumn(panel, n); }
    }
  }
  document.addEventListener("pointerover", event => point(event.target));
  document.addEventListener("focusin", event => point(event.target));

  // Tabs.
  const tabs = all("[role=tab]");
  function choose(panel) {
    for (const other of all(".panel")) other.hidden = other !== panel;
    for (const tab of tabs) {
      const own = tab.getAttribute("aria-controls") === panel.id;
      tab.setAttribute("aria-selected", String(own));
      tab.tabIndex = own ? 0 : -1;
    }
  }
  tabs.forEach((tab, n) => {
    tab.addEventListener("click", () => choose(document.getElementById(tab.getAttribute("aria-controls"))));
    tab.addEventListener("keydown", event => {
      const to = {ArrowRight: n + 1, ArrowLeft: n - 1, Home: 0, End: tabs.length - 1}[event.key];
      if (to === undefined) return;
      event.preventDefault();
      const next = tabs[(to + tabs.length) % tabs.length];
      next.click(); next.focus();
    });
  });

  // Editing.
  // A position that is read at: what torch raises an IndexError for is refused, with the reason.
  function refused(name, value) {
    const x = name === data.seed ? null : data.inputs.find(found => found.name === name);
    if (!x || x.below === undefined || (Number.isInteger(value) && value >= 0 && value < x.below) || x.values.includes(value)) return "";
    return `no position: ${name} holds whole numbers from 0 to ${x.below - 1}`;
  }
  function tell(box, why) {
    const note = document.getElementById("refused");
    box.dataset.why = why && `${box.getAttribute("aria-label")} = ${box.value.trim() || "nothing"} is ${why}. What is shown goes on with the number before.`;
    const first = why ? box : all("input[data-place][aria-invalid=true]")[0];
    note.hidden = !first;
    note.textContent = first ? first.dataset.why : "";
  }
  document.addEventListener("input", event => {
    const box = event.target;
    if (!box.matches("input[data-place]")) return;
    const sheet = box.closest(".sheet"), name = sheet ? sheet.dataset.tensor : data.seed, value = number(box.value);
    const n = Number(box.dataset.place), why = value === null ? "no number that a float holds" : refused(name, value);
    box.setAttribute("aria-invalid", String(why !== ""));
    tell(box, why);
    if (why) return;
    (name === data.seed ? v : inputs[name]).values[n] = value;
    if (name === data.seed) for (const other of all(`input.v[data-place="${n}"], .sheet[data-tensor="${CSS.escape(name)}"] input[data-place="${n}"]`)) if (other !== box) other.value = box.value;
    update();
  });
  document.addEventListener("keydown", event => {  // the number before comes back
    const box = event.target;
    if (event.key !== "Escape" || !box.matches("input[data-place][aria-invalid=true]")) return;
    const sheet = box.closest(".sheet"), values = (sheet && inputs[sheet.dataset.tensor] || v).values;
    box.value = shown(values[Number(box.dataset.place)]);
    box.setAttribute("aria-invalid", "false");
    tell(box, "");
  });
  document.getElementById("reset").addEventListener("click", () => {
    v.values = [...data.v.values];
    for (const x of data.inputs) inputs[x.name].values = [...x.values];
    for (const box of all("input[data-place]")) { box.value = box.defaultValue; box.setAttribute("aria-invalid", "false"); }
    document.getElementById("refused").hidden = true;
    update();
  });
  update();
})();
