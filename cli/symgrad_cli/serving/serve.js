// The page to type in: what stands in its fields is the address, so that a link holds all of it.
"use strict";
(() => {
  const known = JSON.parse(document.body.dataset.known), form = document.getElementById("state");
  const fields = ["expression", "let", "shape", "seed", "then"], $ = id => document.getElementById(id);
  const frame = $("frame"), busy = $("busy");
  const query = () => {
    const found = new URLSearchParams();
    for (const name of fields) if (form.elements[name].value.trim()) found.set(name, form.elements[name].value);
    for (const [name, value] of rest) found.set(name, value);
    return found;
  };
  // What an example or a link fills in goes with its expression: where another is typed, its seed and its loss have no
  // sense, nor have values and shapes of names that do not stand there. What somebody typed stays.
  let filled = {}, rest = [];
  function fill(values) {
    filled = {...values};
    for (const name of fields) form.elements[name].value = values[name] || "";
  }
  const words = text => new Set(text.match(/[\p{L}_][\p{L}\p{N}_]*/gu));
  function follow(edited) {
    if (edited !== "expression") { delete filled[edited]; return; }
    const text = form.elements.expression.value, same = text.trim() === (filled.expression || "").trim();
    for (const name of ["seed", "then"]) if (name in filled) form.elements[name].value = same ? filled[name] : "";
    const read = words(`${text} ${form.elements.then.value}`);
    for (const name of ["let", "shape"]) if (name in filled) {
      const parts = filled[name].split(";").filter(part => same || read.has(part.split("=")[0].trim()));
      form.elements[name].value = parts.join(";").trim();
    }
  }
  let shown = null, timer = null, mode = "page";
  function show() {
    const text = query().toString();
    history.replaceState(null, "", text ? `/?${text}` : "/");
    $("link").href = text ? `/?${text}` : "/";
    if (mode === "exercise") { ask(""); return; }
    if (text === shown || mode !== "page") return;
    shown = text;
    busy.textContent = "working …";
    frame.src = `/page?${text}`;
  }
  frame.addEventListener("load", () => { busy.textContent = ""; });
  const now = () => { clearTimeout(timer); timer = null; show(); };
  form.addEventListener("input", event => { if (event.target.name) { follow(event.target.name); clearTimeout(timer); timer = setTimeout(now, 500); } });
  form.addEventListener("change", event => { if (event.target.name && timer) now(); });  // who leaves a field waits no longer
  form.addEventListener("submit", event => event.preventDefault());

  known.examples.forEach((example, n) => {
    const option = document.createElement("option");
    option.value = n; option.textContent = example.title;
    $("examples").append(option);
  });
  $("examples").addEventListener("change", event => {
    if (event.target.value === "") return;
    rest = [];
    fill(known.examples[Number(event.target.value)]);
    show();
  });

  async function post(path, body) {
    busy.textContent = "working …";
    try {
      const answer = await fetch(path, {method: "POST", body: JSON.stringify(body),
        headers: {"Content-Type": "application/json", "X-Symgrad-Token": known.token}});
      return await answer.json();
    } catch (error) { return {error: "the server does not answer"}; } finally { busy.textContent = ""; }
  }
  async function ask(line, solution = "") {
    const own = $("ask").elements;
    const answer = await post("/exercise", {...Object.fromEntries(query()), wrt: own.wrt.value, line, solution});
    if (answer.error) { $("verdict").textContent = answer.error; return; }
    $("question").textContent = answer.found.question;
    $("verdict").textContent = answer.found.solution ? `${answer.found.name}.grad = ${answer.found.solution}`
      : answer.found.kind ? `${answer.found.kind}: ${answer.found.said}` : "";
  }
  $("ask").addEventListener("submit", event => { event.preventDefault(); ask($("ask").elements.line.value); });
  $("ask").elements.wrt.addEventListener("change", () => ask(""));
  $("solution").addEventListener("click", () => ask("", "yes"));
  $("run").addEventListener("submit", async event => {
    event.preventDefault();
    const answer = await post("/script", {source: $("run").elements.source.value});
    $("told").textContent = answer.error || answer.found.said;
    $("story").hidden = !(answer.found && answer.found.story);
    if (!$("story").hidden) $("story").src = answer.found.story;
  });

  const modes = ["page", "exercise", "script"];
  function choose(name) {
    mode = name;
    for (const other of modes) {
      $(other).hidden = other !== name;
      $(`show-${other}`).setAttribute("aria-pressed", String(other === name));
    }
    show();
  }
  for (const name of modes) $(`show-${name}`).addEventListener("click", () => choose(name));
  $("show-script").hidden = !known.scripts;
  const given = Object.fromEntries(new URLSearchParams(location.search));
  rest = Object.entries(given).filter(([name]) => !fields.includes(name));
  fill(given.expression || rest.length ? given : known.examples[0]);
  show();
})();
