"use strict";
// The weights table, the controls, and the first picture.
const ROLES = ["weight", "buffer", "weight_grad"];
const MOST = 2000;

function drawWeights() {
  const place = document.getElementById("weights");
  const found = records.filter((record) => record.step === tree.step && ROLES.includes(record.place.role));
  const columns = [
    ["parameter", (record) => `${record.place.module}${record.place.slot}`],
    ["role", (record) => record.place.role.replace("_", " ")],
    ["shape", (record) => record.place.shape.join("x") || "scalar"],
    ["verdict", (record) => record.verdict],
    ["kind", (record) => record.kind],
    ["allowed", (record) => (record.tolerance ? record.tolerance[0] : null)],
    ["max abs", (record) => (record.metrics ? record.metrics[0] : record.restsOn === "digest" ? 0 : null)],
    ["relative L2", (record) => (record.metrics ? record.metrics[3] : record.restsOn === "digest" ? 0 : null)],
  ];
  const numeric = (place_) => place_ >= 5;
  let sorted = { column: 3, down: true };
  const rank = (value, column) => (column === 3 ? RANKED.indexOf(value) : value);
  const compare = (one, two) => {
    const [left, right] = [one, two].map((record) => rank(columns[sorted.column][1](record), sorted.column));
    const number = (value) => (typeof value === "string" ? Infinity : value === null ? -1 : value);
    const order = numeric(sorted.column) || sorted.column === 3 ? number(left) - number(right) || 0 : String(left).localeCompare(String(right));
    return (sorted.down ? -order : order) || one.id - two.id;
  };
  const head = make("tr");
  const body = make("tbody");
  const fill = () => {
    [...head.children].forEach((cell, at) => {
      cell.setAttribute("aria-sort", at !== sorted.column ? "none" : sorted.down ? "descending" : "ascending");
      cell.firstChild.textContent = columns[at][0] + (at !== sorted.column ? "" : sorted.down ? " ▾" : " ▴");
    });
    body.replaceChildren(...[...found].sort(compare).slice(0, MOST).map((record) => make("tr", { class: BAD.includes(record.verdict) ? "" : "agrees" }, ...columns.map(([name, get], at) => {
      if (!at) return make("td", {}, make("button", { type: "button", class: "link", onclick: () => record.node && select(record.node, { record, scroll: true }) }, shown(get(record))));
      if (at === 3) return make("td", {}, verdictWord(record.verdict, record.kind === "inherited"));
      return make("td", { class: numeric(at) ? "number" : "" }, numeric(at) ? short(get(record)) : shown(get(record)));
    }))));
  };
  columns.forEach(([name], at) => head.append(make("th", { scope: "col", class: numeric(at) ? "number" : "" }, make("button", {
    type: "button", onclick: () => { sorted = { column: at, down: sorted.column === at ? !sorted.down : at >= 3 }; fill(); },
  }, name))));
  fill();
  place.replaceChildren(make("div", { class: "scroll" }, make("table", {}, make("thead", {}, head), body)));
  place.append(make("p", { class: "printed" }, "What agrees is not printed."));
  if (!found.length) place.replaceChildren(make("p", { class: "dim" }, "none recorded"));
  if (found.length > MOST) place.append(make("p", { class: "dim" }, `${found.length - MOST} more are not listed`));
}

function options(id, values) {
  for (const [value, label] of values) document.getElementById(id).append(make("option", { value }, label));
}

function listen() {
  let waiting = null;
  document.getElementById("search").addEventListener("input", (event) => {
    clearTimeout(waiting);
    waiting = setTimeout(() => { filters.search = event.target.value.toLowerCase(); box.scrollTop = 0; refresh(); }, 80);
  });
  for (const name of ["phase", "verdict", "kind"]) {
    document.getElementById(name).addEventListener("change", (event) => { filters[name] = event.target.value; box.scrollTop = 0; refresh(); });
  }
  document.getElementById("step").addEventListener("change", (event) => {
    tree.step = Number(event.target.value);
    tree.selected = null;
    start();
  });
  const openAll = (open) => { for (const node of steps[tree.step].nodes) node.open = open || node.parent === null; refresh(); };
  document.getElementById("expand").addEventListener("click", () => openAll(true));
  document.getElementById("collapse").addEventListener("click", () => openAll(false));
  document.getElementById("theme").addEventListener("click", () => {
    setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
    drawMain();
    if (tree.selected) showNode(tree.selected, null);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !/^(INPUT|SELECT)$/.test(event.target.tagName)) {
      event.preventDefault();
      document.getElementById("search").focus();
    }
  });
  document.getElementById("measure").addEventListener("change", () => drawMain());
  panel.addEventListener("keydown", (event) => { if (event.key === "Escape") box.focus(); });
  listenToPrinter();
  for (const button of document.querySelectorAll(".goto")) {
    button.addEventListener("click", () => {
      const at = packed.origins[Number(button.dataset.origin)];
      const record = at === null ? null : records[at];
      if (record && record.node) { select(record.node, { record, scroll: true }); box.focus(); }
    });
  }
  for (const button of document.querySelectorAll("button.module")) {
    button.addEventListener("click", () => {
      const { step, side, module } = button.dataset;
      const node = steps[Number(step)].sides[side === "reference" ? 0 : 1].get(module);
      if (node) { select(node, { scroll: true }); panel.focus(); }
    });
  }
  let resizing = null;
  window.addEventListener("resize", () => { clearTimeout(resizing); resizing = setTimeout(() => { drawMain(); paint(); }, 150); });
}

// On paper: light, all origins open, the plot as wide as the page.
function listenToPrinter() {
  const before = { theme: "light", closed: [] };
  window.addEventListener("beforeprint", () => {
    before.theme = document.documentElement.dataset.theme;
    before.closed = [...document.querySelectorAll("details:not([open])")];
    for (const one of before.closed) one.open = true;
    setTheme("light");
    drawMain(690);
  });
  window.addEventListener("afterprint", () => {
    for (const one of before.closed) one.open = false;
    setTheme(before.theme);
    drawMain();
  });
}

function start() {
  const { nodes, roots } = steps[tree.step] || { nodes: [], roots: [] };
  for (const node of nodes) node.open = node.parent === null || Boolean(node.hasOrigin && !node.origin);
  const first = records.find((record) => record.step === tree.step && record.kind === "origin" && record.node);
  if (first) select(first.node, { record: first, scroll: true });
  else if (roots.length) select(roots[0]);
  drawMain();
  drawWeights();
}

document.getElementById("heads").append(make("span", { class: "name" }, "module"),
  ...phases.map((phase) => make("span", { class: "cell" }, phase)), make("span", { class: "mark" }));
document.getElementById("signs").append(["match", ...BAD, "skipped", "covered"].map((one) => `${SIGNS[one]} ${WORDS[one] || one}`).join("  "));
setTheme(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
options("step", steps.map((step, at) => [String(at), `${step.step} rank ${step.rank}`]));
options("phase", phases.map((phase) => [phase, phase]));
options("verdict", ["diverged", "incomparable", "missing", "match", "skipped", "covered"].map((one) => [one, WORDS[one] || one]));
listen();
if (steps.length) start();
document.documentElement.dataset.ready = String(Math.round(performance.now()));
