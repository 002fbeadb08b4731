"use strict";
// The paired tree: only the rows in sight are in the document.
const ROW = 24;
const MARGIN = 12;
const box = document.getElementById("tree");
const spacer = document.getElementById("spacer");
const tree = { step: 0, rows: [], at: 0, selected: null, drawn: new Map() };
const filters = { search: "", phase: "", verdict: "", kind: "" };
const phases = [...new Set(records.map((record) => record.phase))];

function hasFilter() {
  return Object.values(filters).some(Boolean);
}

function fits(node) {
  const verdicts = filters.phase ? [node.worst[filters.phase]] : Object.values(node.worst);
  if (filters.phase && !node.worst[filters.phase]) return false;
  if (filters.verdict && !verdicts.includes(filters.verdict)) return false;
  if (filters.kind === "origin" && !node.origin) return false;
  if (filters.kind === "inherited" && !node.inherited) return false;
  if (!filters.search) return true;
  const names = [node.reference, node.candidate, ...node.classes];
  return names.some((name) => name && name.toLowerCase().includes(filters.search));
}

function visibleRows() {
  const { nodes, roots } = steps[tree.step];
  const filtered = hasFilter();
  let hits = 0;
  if (filtered) {
    for (const node of nodes) {
      node.hit = fits(node);
      node.kept = node.hit;
      hits += node.hit;
    }
    for (let place = nodes.length - 1; place >= 0; place -= 1) {
      if (nodes[place].kept && nodes[place].parent !== null) nodes[nodes[place].parent].kept = true;
    }
  }
  const rows = [];
  const waiting = [...roots].reverse();
  while (waiting.length) {
    const node = waiting.pop();
    if (filtered && !node.kept) continue;
    rows.push(node);
    if (node.open || filtered) for (let place = node.children.length - 1; place >= 0; place -= 1) waiting.push(node.children[place]);
  }
  const what = filtered ? `${grouped(hits)} of ${grouped(nodes.length)} modules found` : `${grouped(nodes.length)} modules, ${grouped(rows.length)} shown`;
  document.getElementById("count").textContent = what;
  return rows;
}

function refresh() {
  tree.rows = visibleRows();
  tree.at = Math.max(0, tree.selected ? tree.rows.indexOf(tree.selected) : 0);
  spacer.style.height = `${tree.rows.length * ROW}px`;
  for (const element of tree.drawn.values()) element.remove();
  tree.drawn.clear();
  paint();
}

function paint() {
  const first = Math.max(0, Math.floor(box.scrollTop / ROW) - MARGIN);
  const last = Math.min(tree.rows.length, Math.ceil((box.scrollTop + box.clientHeight) / ROW) + MARGIN);
  for (const [place, element] of tree.drawn) {
    if (place < first || place >= last) {
      element.remove();
      tree.drawn.delete(place);
    }
  }
  for (let place = first; place < last; place += 1) {
    if (!tree.drawn.has(place)) {
      const element = drawRow(tree.rows[place], place);
      tree.drawn.set(place, element);
      box.append(element);
    }
  }
  const active = tree.drawn.get(tree.at);
  if (active && tree.selected) box.setAttribute("aria-activedescendant", active.id);
  else box.removeAttribute("aria-activedescendant");
}

function localName(node) {
  const parent = node.parent === null ? null : steps[node.step].nodes[node.parent];
  const part = (path, above) => {
    if (path === null) return null;
    if (!path) return "(root)";
    return above && path.startsWith(`${above}.`) ? path.slice(above.length + 1) : path;
  };
  return bothNames({
    reference: part(node.reference, parent && parent.reference),
    candidate: part(node.candidate, parent && parent.candidate),
  });
}

// What a row tells: of a closed one the worst of itself and all inside.
function toldOf(node, isOpen) {
  const { inside } = node;
  if (isOpen || !node.children.length) return { worst: node.worst, isInherited: node.inherited && !node.origin, inside: "", origins: 0 };
  const sum = { worst: {}, modules: 0, bad: 0, origins: 0, own: 0 };
  addInside(sum, node);
  const bad = inside.bad ? `, ${grouped(inside.bad)} diverged` : "";
  return { worst: sum.worst, isInherited: !sum.own, inside: `${grouped(inside.modules)} inside${bad}`, origins: inside.origins };
}

function drawRow(node, place) {
  const isOpen = node.open || hasFilter();
  const told = toldOf(node, isOpen);
  const classes = [...new Set(node.classes.filter(Boolean))].join(" = ");
  const mark = node.origin ? "◄ HERE origin" : node.reference === null ? "candidate only"
    : node.candidate === null ? "reference only" : told.origins ? `${grouped(told.origins)} origin${told.origins > 1 ? "s" : ""} inside`
    : told.isInherited && Object.values(told.worst).some((verdict) => BAD.includes(verdict)) ? "inherited" : "";
  const element = make("div", {
    class: `row${node === tree.selected ? " selected" : ""}`, role: "treeitem", id: `node-${node.id}`,
    "aria-level": node.level, "aria-selected": node === tree.selected,
    "aria-label": shown(`${bothNames(node)}, ${classes}, ${Object.entries(told.worst).map(([phase, verdict]) => `${phase} ${WORDS[verdict] || verdict}`).join(", ")}${told.inside ? `, ${told.inside}` : ""}${mark ? `, ${mark.replace("◄ ", "")}` : ""}`),
    "aria-expanded": node.children.length ? String(isOpen) : null,
    "aria-setsize": tree.rows.length, "aria-posinset": place + 1,
    onclick: () => select(node),
  });
  const twist = make("span", { class: "twist", "aria-hidden": "true" }, node.children.length ? (isOpen ? "▾" : "▸") : "");
  twist.addEventListener("click", (event) => { event.stopPropagation(); toggle(node); });
  const name = make("span", { class: "name" }, shown(localName(node)), " ", make("span", { class: "class" }, shown(classes)), make("span", { class: "inside" }, told.inside ? ` ${told.inside}` : ""));
  name.title = shown(bothNames(node));
  element.append(twist, name);
  twist.style.marginLeft = `${Math.min(node.level - 1, 40) * 14}px`;
  for (const phase of phases) {
    const cell = make("span", { class: "cell" });
    if (told.worst[phase]) cell.append(verdictWord(told.worst[phase], told.isInherited));
    element.append(cell);
  }
  element.append(make("span", { class: `mark${node.origin || told.origins ? " v-origin" : " dim"}` }, mark));
  element.style.transform = `translateY(${place * ROW}px)`;
  return element;
}

function toggle(node, open = !node.open) {
  if (!node.children.length || hasFilter()) return;
  node.open = open;
  if (!tree.selected) tree.selected = node;
  refresh();
}

function openTo(node) {
  const { nodes } = steps[node.step];
  for (let above = node.parent; above !== null; above = nodes[above].parent) nodes[above].open = true;
}

function select(node, { record = null, scroll = false } = {}) {
  if (node.step !== tree.step) {
    tree.step = node.step;
    document.getElementById("step").value = String(node.step);
  }
  tree.selected = node;
  if (scroll) openTo(node);
  refresh();
  if (scroll && !tree.rows.includes(node)) {
    clearFilters();
    refresh();
  }
  tree.at = tree.rows.indexOf(node);
  if (scroll) reveal();
  showNode(node, record);
}

function reveal() {
  const top = tree.at * ROW;
  if (top < box.scrollTop) box.scrollTop = top;
  else if (top + 2 * ROW > box.scrollTop + box.clientHeight) box.scrollTop = top + 2 * ROW - box.clientHeight;
  paint();
}

function moveTo(place) {
  if (!tree.rows.length) return;
  select(tree.rows[Math.max(0, Math.min(tree.rows.length - 1, place))]);
  reveal();
}

function nextDivergence() {
  const { nodes } = steps[tree.step];
  const from = tree.selected ? tree.selected.id : -1;
  const isBad = (node) => node.origin || Object.values(node.worst).some((verdict) => BAD.includes(verdict));
  const next = nodes.find((node) => node.id > from && isBad(node)) || nodes.find(isBad);
  if (next) select(next, { scroll: true });
}

function clearFilters() {
  for (const name of Object.keys(filters)) {
    filters[name] = "";
    document.getElementById(name).value = "";
  }
}

const keys = {
  ArrowDown: () => moveTo(tree.selected ? tree.at + 1 : 0),
  ArrowUp: () => moveTo(tree.at - 1),
  Home: () => moveTo(0),
  End: () => moveTo(tree.rows.length - 1),
  PageDown: () => moveTo(tree.at + Math.floor(box.clientHeight / ROW)),
  PageUp: () => moveTo(tree.at - Math.floor(box.clientHeight / ROW)),
  ArrowRight: (node) => { if (node) { if (node.children.length && !node.open) toggle(node, true); else if (node.children.length) moveTo(tree.at + 1); } },
  ArrowLeft: (node) => { if (node) { if (node.open && node.children.length) toggle(node, false); else if (node.parent !== null) select(steps[node.step].nodes[node.parent], { scroll: true }); } },
  Enter: (node) => { if (node) document.getElementById("panel").focus(); },
  n: () => nextDivergence(),
};
box.addEventListener("keydown", (event) => {
  const act = keys[event.key];
  if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  act(tree.selected);
});
let waitingPaint = false;
box.addEventListener("scroll", () => {
  if (waitingPaint) return;
  waitingPaint = true;
  requestAnimationFrame(() => { waitingPaint = false; paint(); });
});
