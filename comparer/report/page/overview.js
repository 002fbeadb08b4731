"use strict";
// The map: a row for each module, a column for each step and rank.
const HEIGHT = 20;
const PAPER = 690;  // pixels of a page of A4
const { severity, phases, columns } = packed;
const BAD = severity.length - 3;  // from here on a verdict is bad
const MATCH = severity.indexOf("match");
const map = document.getElementById("map");
const here = { row: null, column: 0, measure: "ratio", phase: -1, rank: null, isPrinted: false };

const rows = packed.rows.map(([parent, reference, candidate, classes], id) => ({
  id, parent, classes, names: [reference, candidate].filter((name) => name !== null), open: false,
  level: 0, children: [], own: columns.map(() => phases.map(() => null)),
}));
for (const row of rows) {
  if (row.parent === null) continue;
  row.level = rows[row.parent].level + 1;
  rows[row.parent].children.push(row);
}
packed.cells.forEach((column, at) => column.forEach((flat, phase) => {
  for (let place = 0; place < flat.length; place += 4) {
    const [row, coded, ratio, relativeL2] = flat.slice(place, place + 4);
    rows[row].own[at][phase] = { verdict: coded % severity.length, origin: coded >= severity.length, ratio, relativeL2 };
  }
}));

function worse(one, two) {
  if (!one || !two) return one || two;
  return {
    verdict: Math.max(one.verdict, two.verdict), origin: one.origin || two.origin,
    ratio: Math.max(one.ratio, two.ratio), relativeL2: Math.max(one.relativeL2, two.relativeL2),
  };
}

// What each row holds, itself and inside: children come after their parents.
for (const row of rows) row.all = row.own.map((cells) => [...cells]);
for (const row of [...rows].reverse()) {
  if (row.parent === null) continue;
  const above = rows[row.parent].all;
  row.all.forEach((cells, at) => cells.forEach((cell, phase) => { above[at][phase] = worse(above[at][phase], cell); }));
}

function cellOf(row, column) {
  const cells = (row.open && row.children.length ? row.own : row.all)[column];
  return here.phase >= 0 ? cells[here.phase] : cells.reduce(worse, null);
}

function nameOf(row) {
  return [...new Set(row.names.map((name) => name || "(root)"))].join(" = ");
}

function localName(row) {
  const above = row.parent === null ? null : rows[row.parent].names;
  const part = (name, at) => (above && above[at] && name.startsWith(`${above[at]}.`) ? name.slice(above[at].length + 1) : name || "(root)");
  return [...new Set(row.names.map(part))].join(" = ");
}

function worded(level) {
  if (level <= -99999) return "0";
  return level >= 99999 ? "inf" : short(Number((10 ** (level / 100)).toPrecision(2)));
}

// From 0 to 1: how dark a cell is.
function shade(cell) {
  if (here.measure === "verdict") return cell.origin ? 1 : 0.5;
  const level = cell[here.measure];
  const [low, high] = here.measure === "ratio" ? [0, 400] : [-800, 0];
  return Math.max(0.15, Math.min(1, 0.15 + (0.85 * (level - low)) / (high - low)));
}

let paint = {};
// Agreeing cells are low, diverged ones high, origins have a point: nothing is said by colour alone.
function drawCell(pen, cell, left, width) {
  const wide = Math.max(1, width - (width > 4 ? 1 : 0));
  const centre = left + wide / 2;
  if (!cell) return;
  const isBad = cell.verdict >= BAD || cell.origin;
  pen.globalAlpha = isBad ? shade(cell) : cell.verdict === MATCH ? 0.75 : 0.5;
  pen.fillStyle = isBad ? paint.bad : cell.verdict === MATCH ? paint.good : paint.dim;
  if (isBad) pen.fillRect(left, 1, wide, HEIGHT - 2);
  else pen.fillRect(left, HEIGHT - 6, wide, 4);
  pen.globalAlpha = 1;
  if (!cell.origin) return;
  pen.fillStyle = paint.card;
  pen.strokeStyle = paint.fore;
  pen.lineWidth = 1.5;
  pen.beginPath();
  pen.arc(centre, HEIGHT / 2, Math.max(2, Math.min(5, wide / 2 - 1)), 0, 2 * Math.PI);
  pen.fill();
  pen.stroke();
}

function canvasOf(width, height) {
  const ratio = Math.max(1, window.devicePixelRatio || 1);
  const canvas = make("canvas", { width: Math.ceil(width * ratio), height: Math.ceil(height * ratio), "aria-hidden": "true" });
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  return [canvas, pen];
}

function shownColumns() {
  return columns.map((_, at) => at).filter((at) => here.rank === null || columns[at][1] === here.rank);
}

function visibleRows() {
  const found = [];
  const waiting = rows.filter((row) => row.parent === null).reverse();
  while (waiting.length) {
    const row = waiting.pop();
    found.push(row);
    if (row.open) waiting.push(...[...row.children].reverse());
  }
  return found;
}

let view = { rows: [], columns: [], width: 10 };
function draw() {
  const style = getComputedStyle(document.documentElement);
  paint = Object.fromEntries(["bad", "good", "dim", "fore", "card", "line"].map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
  const label = parseFloat(getComputedStyle(map).getPropertyValue("--label")) * parseFloat(style.fontSize);
  const list = shownColumns();
  const room = (here.isPrinted ? PAPER : map.clientWidth) - label - 2;
  view = { rows: visibleRows(), columns: list, width: Math.max(here.isPrinted ? 1 : 4, Math.min(28, Math.floor(room / Math.max(1, list.length)))) };
  const whole = view.width * list.length;
  document.getElementById("rows").replaceChildren(...view.rows.map((row) => drawRow(row, whole)));
  drawTicks(whole);
  drawLegend();
  mark();
}

function drawRow(row, whole) {
  const [canvas, pen] = canvasOf(whole, HEIGHT);
  view.columns.forEach((column, at) => drawCell(pen, cellOf(row, column), at * view.width, view.width));
  const twist = make("span", { class: "twist", onclick: () => toggle(row) }, row.children.length ? (row.open ? "▾" : "▸") : "");
  const label = make("span", { class: "label", title: shown(nameOf(row)) }, twist, shown(localName(row)), " ", make("span", { class: "class" }, shown(row.classes)));
  twist.style.marginLeft = `${Math.min(row.level, 20) * 10}px`;
  label.addEventListener("click", () => choose(row, here.column));
  canvas.addEventListener("click", (event) => choose(row, view.columns[Math.min(view.columns.length - 1, Math.floor(event.offsetX / view.width))]));
  return make("div", { class: "line", "data-row": row.id }, label, canvas);
}

function drawTicks(whole) {
  const [canvas, pen] = canvasOf(whole, HEIGHT);
  pen.fillStyle = paint.dim;
  pen.font = "11px system-ui, sans-serif";
  let free = 0;
  view.columns.forEach((column, at) => {
    const [step, rank] = columns[column];
    const isFirst = !at || columns[view.columns[at - 1]][0] !== step;
    const left = at * view.width;
    if (isFirst && rankCount > 1 && here.rank === null) pen.fillRect(left, 0, 1, HEIGHT);
    const word = isFirst ? `${step}` : `r${rank}`;
    const size = pen.measureText(word).width;
    if (left < free || (!isFirst && size + 4 > view.width) || left + size > whole + 24) return;
    pen.fillText(word, left + 2, 14);
    free = left + size + 8;
  });
  const name = make("span", { class: "label dim" }, rankCount > 1 && here.rank === null ? "step, rank" : "step");
  document.getElementById("ticks").replaceChildren(make("div", { class: "line" }, name, canvas));
}

function drawLegend() {
  const none = { ratio: -99999, relativeL2: -99999, origin: false };
  const scale = here.measure === "ratio" ? [[50, "some 3 times"], [400, "10,000 times what is allowed"]]
    : here.measure === "relativeL2" ? [[-600, "1e-6 of its size"], [0, "its size"]] : [];
  const parts = [["agrees", { ...none, verdict: MATCH }], ...scale.map(([level, word]) => [`off by ${word}`, { ...none, verdict: BAD + 2, [here.measure]: level }])];
  if (!scale.length) parts.push(["diverged by inheritance", { ...none, verdict: BAD + 2 }]);
  parts.push(["an origin", { ...none, verdict: BAD + 2, origin: true, ratio: 250, relativeL2: -300 }], ["no verdict of its own", { ...none, verdict: 0 }]);
  document.getElementById("legend").replaceChildren(...parts.map(([word, cell]) => {
    const [canvas, pen] = canvasOf(18, HEIGHT);
    drawCell(pen, cell, 0, 18);
    return make("span", {}, canvas, word);
  }));
}

function toggle(row, open = !row.open) {
  if (!row.children.length) return;
  row.open = open;
  draw();
}

function choose(row, column) {
  here.row = row;
  here.column = column;
  for (let above = row.parent; above !== null; above = rows[above].parent) if (!rows[above].open) { rows[above].open = true; draw(); }
  mark();
  const line = map.querySelector(`[data-row="${row.id}"]`);
  if (line) line.scrollIntoView({ block: "nearest", inline: "nearest" });
  const left = view.columns.indexOf(column) * view.width;
  const room = map.clientWidth - (line ? line.firstChild.offsetWidth : 0);
  if (left < map.scrollLeft) map.scrollLeft = left;
  else if (left + view.width > map.scrollLeft + room) map.scrollLeft = left + view.width - room;
  tell();
}

function mark() {
  for (const line of map.querySelectorAll(".line.at")) {
    line.classList.remove("at");
    line.lastChild.replaceWith(drawRow(rows[Number(line.dataset.row)], view.width * view.columns.length).lastChild);
  }
  const line = here.row && map.querySelector(`[data-row="${here.row.id}"]`);
  if (!line) return;
  line.classList.add("at");
  const pen = line.lastChild.getContext("2d");
  pen.strokeStyle = paint.fore;
  pen.lineWidth = 2;
  pen.strokeRect(view.columns.indexOf(here.column) * view.width, 1, Math.max(3, view.width - 1), HEIGHT - 2);
}

// The chosen cell in words.
function tell() {
  const [step, rank] = columns[here.column];
  const { row } = here;
  const isWhole = !row.open && row.children.length > 0;
  const cells = (isWhole ? row.all : row.own)[here.column];
  const lines = phases.map((phase, at) => [phase, cells[at]]).filter(([, cell]) => cell).map(([phase, cell]) => make("tr", {},
    make("td", {}, phase),
    make("td", { class: cell.verdict >= BAD ? "v-diverged" : "v-match" }, `${severity[cell.verdict]}${cell.origin ? ", an origin" : ""}`),
    make("td", { class: "number" }, worded(cell.ratio)), make("td", { class: "number" }, worded(cell.relativeL2))));
  const head = make("tr", {}, ...["phase", "verdict", "times the allowed", "relative L2"].map((title, at) => make("th", { scope: "col", class: at > 1 ? "number" : "" }, title)));
  const place = rankCount > 1 ? `step ${step} rank ${rank}` : `step ${step}`;
  document.getElementById("cell").replaceChildren(
    make("strong", {}, shown(`${place}: ${nameOf(row)}`)), isWhole ? " and what is inside" : "",
    lines.length ? make("table", {}, make("thead", {}, head), make("tbody", {}, ...lines)) : make("p", { class: "dim" }, "nothing recorded here"));
}

// Origins in the order of the columns.
const origins = columns.flatMap((_, column) => rows.filter((row) => row.own[column].some((cell) => cell && cell.origin)).map((row) => [row, column]));
let visited = -1;
function nextOrigin() {
  const known = origins.filter(([, column]) => here.rank === null || columns[column][1] === here.rank);
  if (!known.length) return;
  visited = (visited + 1) % known.length;
  choose(...known[visited]);
}

function move(down, right) {
  if (!here.row) { choose(view.rows[0], view.columns[0]); return; }
  const at = (list, one, by) => list[Math.max(0, Math.min(list.length - 1, list.indexOf(one) + by))];
  choose(at(view.rows, here.row, down), at(view.columns, here.column, right));
}

const keys = {
  ArrowDown: () => move(1, 0), ArrowUp: () => move(-1, 0), ArrowRight: () => move(0, 1), ArrowLeft: () => move(0, -1),
  Home: () => move(0, -columns.length), End: () => move(0, columns.length), n: nextOrigin,
  Enter: () => { if (here.row) { toggle(here.row); tell(); } },
};
map.addEventListener("keydown", (event) => {
  const act = keys[event.key];
  if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  act();
});

const ranks = [...new Set(columns.map(([, rank]) => rank))].sort((one, two) => one - two);
const rankCount = ranks.length;
function listen() {
  phases.forEach((phase, at) => document.getElementById("phase").append(make("option", { value: at }, phase)));
  ranks.forEach((rank) => document.getElementById("rank").append(make("option", { value: rank }, String(rank))));
  document.getElementById("rank-label").hidden = rankCount < 2;
  const set = (id, read) => document.getElementById(id).addEventListener("change", (event) => { here[id] = read(event.target.value); draw(); });
  set("measure", String);
  set("phase", Number);
  document.getElementById("rank").addEventListener("change", (event) => {
    here.rank = event.target.value === "" ? null : Number(event.target.value);
    here.column = shownColumns()[0];
    draw();
  });
  document.getElementById("next").addEventListener("click", nextOrigin);
  const openAll = (open) => { for (const row of rows) row.open = row.children.length > 0 && (open || row.parent === null); draw(); };
  document.getElementById("expand").addEventListener("click", () => openAll(true));
  document.getElementById("collapse").addEventListener("click", () => openAll(false));
  document.getElementById("theme").addEventListener("click", () => { setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"); draw(); });
  let resizing = null;
  window.addEventListener("resize", () => { clearTimeout(resizing); resizing = setTimeout(draw, 150); });
  let before = "light";
  window.addEventListener("beforeprint", () => { before = document.documentElement.dataset.theme; setTheme("light"); here.isPrinted = true; draw(); });
  window.addEventListener("afterprint", () => { setTheme(before); here.isPrinted = false; draw(); });
}

setTheme(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
for (const row of rows) row.open = row.parent === null && row.children.length > 0;
for (const [row] of origins) for (let above = row.parent; above !== null; above = rows[above].parent) rows[above].open = true;
listen();
draw();
if (packed.folded) document.getElementById("map-help").append(` ${grouped(packed.folded)} modules are taken together with those that hold them.`);
if (origins.length) nextOrigin();
document.documentElement.dataset.ready = String(Math.round(performance.now()));
