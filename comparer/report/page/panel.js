"use strict";
// What is known of the selected module and record.
const panel = document.getElementById("panel");
const METRICS = ["max_abs", "max_rel", "mean_abs", "relative_l2", "cosine", "mismatched", "size", "needed_atol",
  "needed_rtol", "nan_reference", "nan_candidate", "inf_reference", "inf_candidate", "nonfinite_mismatched"];
const STATISTICS = ["minimum", "maximum", "mean", "l2", "nan", "posinf", "neginf", "zeros"];

function table(header, rows, { numbers = [], labelled = false } = {}) {
  const cell = (tag, value, place) => make(tag, {
    class: numbers.includes(place) ? "number" : "", scope: tag === "th" ? "col" : null,
  }, value instanceof Node ? value : shown(value));
  return make("table", { class: labelled ? "labelled" : "" },
    make("thead", {}, make("tr", {}, ...header.map((title, place) => cell("th", title, place)))),
    make("tbody", {}, ...rows.map((row) => make("tr", {}, ...row.map((value, place) => cell("td", value, place))))));
}

function facts(rows) {
  const list = make("dl", { class: "facts" });
  for (const [name, value] of rows) list.append(make("dt", {}, name), make("dd", {}, value instanceof Node ? value : shown(value)));
  return list;
}

function showNode(node, record) {
  const classes = node.classes.map((name) => name || "-");
  const [referenceModule, referenceCall, candidateModule, candidateCall] = node.sources;
  const code = (place) => (place ? make("code", {}, shown(place)) : "-");
  const sides = table(["", "reference", "candidate"], [
    ["class", ...classes],
    ["called at", code(referenceCall), code(candidateCall)],
    ["class at", code(referenceModule), code(candidateModule)],
  ], { labelled: true });
  panel.replaceChildren(
    make("h2", {}, shown(bothNames(node))), sides, make("p", { class: "dim" }, shown(pairedBy(node))),
    make("h3", {}, "Records"), recordTable(node, record), make("div", { id: "record", "aria-live": "polite" }), ...program(node), ...attributes(node),
  );
  panel.scrollTop = 0;
  const bad = (one) => BAD.includes(one.verdict);
  const chosen = record || node.records.find((one) => one.kind === "origin") || node.records.find(bad) || node.records[0];
  if (chosen) showRecord(chosen);
}

function pairedBy(node) {
  if (!node.pairedBy) return node.reference === null ? "only on the candidate" : "only on the reference";
  const known = confidence.get(`${node.reference}\n${node.candidate}`);
  const sure = known ? `, confidence ${known.sure.toFixed(2)}` : "";
  const others = known && known.others.length ? `; it could also be ${known.others.join(", ")}` : "";
  return `paired by ${node.pairedBy}${sure}${others}`;
}

function why(record) {
  const found = findings.get(record.id);
  if (!found) return [];
  const list = make("ul", { class: "why" }, ...found.evidence.map((line) => make("li", {}, shown(line))));
  if (found.suspects.length) list.append(make("li", {}, shown(`one of ${found.suspects.map((path) => path || "(root)").join(", ")}: the evidence cannot tell them apart`)));
  const rows = [];
  if (found.amplification !== null) rows.push(["amplification", found.amplification === "inf" ? "the inputs are equal, the outputs are not" : `the relative error of the output is ${short(found.amplification)} times that of the inputs`]);
  return [make("h3", {}, record.kind === "origin" ? "Why this is the origin" : "What is known"), list, facts(rows)];
}

function recordTable(node, chosen) {
  const rows = node.records.map((record) => {
    const call = record.place.call ? `#${record.place.call} ` : "";
    const button = make("button", { type: "button", class: "link", "data-record": record.id, onclick: () => showRecord(record) }, shown(`${call}${record.what}`));
    const word = make("span", {}, verdictWord(record.verdict, record.kind === "inherited"), record.kind ? ` ${record.kind}` : "");
    return [button, record.phase, word, short(record.metrics && record.metrics[0])];
  });
  const limit = 200;
  const found = make("div", { class: "scroll" }, table(["record", "phase", "verdict", "max abs"], rows.slice(0, limit), { numbers: [3] }));
  if (rows.length > limit) found.append(make("p", { class: "dim" }, `${rows.length - limit} more records`));
  if (!rows.length) found.replaceChildren(make("p", { class: "dim" }, "no record of its own"));
  return found;
}

// The operators that ran in a module and below, of both sides.
const OPERATORS = 150;
const NUMBERS = ["mean", "min", "max"];

function program(node) {
  const sides = programs.get(node.step);
  if (!sides) return [];
  const found = [node.reference, node.candidate].map((path, side) => (path === null ? [] : sides[side].operators.filter((one) => within(one.module, path))));
  if (!found[0].length && !found[1].length) return [];
  const columns = ["reference", "candidate"].map((name, side) => make("section", { "aria-label": `${name}: program` },
    make("h4", {}, `${name}: ${grouped(found[side].length)} operators`), listing(found[side], [node.reference, node.candidate][side]),
    sides[side].leftOut ? make("p", { class: "dim" }, `${grouped(sides[side].leftOut)} operators of the whole are not listed`) : null));
  return [make("details", { class: "ran", open: found.flat().length <= 40 || found.flat().some((one) => one.faulty) ? "" : null },
    make("summary", {}, "Program"), make("div", { class: "both" }, ...columns))];
}

function within(module, path) {
  return path === "" || (module !== null && (module === path || module.startsWith(`${path}.`)));
}

function listing(operators, path) {
  const rows = operators.slice(0, OPERATORS).map((one) => make("li", { class: one.faulty ? "faulty" : "" },
    make("code", {}, shown(one.text)),
    one.faulty ? make("strong", {}, "the programs differ here") : null,
    make("span", { class: "dim" }, shown([inside(one, path), one.site].filter(Boolean).join(", "))),
    ...one.outputs.map((made) => make("span", { class: "made" }, shown([`${made.dtype} (${made.shape.join(", ")})`, ...made.numbers.map((number, at) => `${NUMBERS[at]} ${short(number)}`)].join("  "))))));
  if (operators.length > OPERATORS) rows.push(make("li", { class: "dim" }, `${grouped(operators.length - OPERATORS)} more: select a module inside`));
  if (!operators.length) rows.push(make("li", { class: "dim" }, "nothing here"));
  return make("ol", { class: "program" }, ...rows);
}

function inside(operator, path) {
  if (operator.module === null) return "outside modules";
  const below = operator.module === path ? "" : path ? operator.module.slice(path.length + 1) : operator.module;
  return `${below}${operator.call ? `#${operator.call}` : ""}`;
}

function attributes(node) {
  const found = packed.attributes[`${node.step}:${node.id}`];
  if (!found) return [];
  const names = [...new Set([...Object.keys(found[0]), ...Object.keys(found[1])])].sort();
  const rank = { differs: 0, "": 1, "one side": 2 };
  const rows = names.map((name) => {
    const [one, two] = found.map((side) => (name in side ? JSON.stringify(side[name]) : "-"));
    return [name, one, two, one === two ? "" : one === "-" || two === "-" ? "one side" : "differs"];
  }).sort((one, two) => rank[one[3]] - rank[two[3]]);
  const made = table(["attribute", "reference", "candidate", ""], rows);
  rows.forEach((row, at) => made.tBodies[0].rows[at].classList.toggle("differs", row[3] === "differs"));
  return [make("h3", {}, "Attributes"), made];
}

function showRecord(record) {
  const place = document.getElementById("record");
  for (const row of panel.querySelectorAll("tr.selected")) row.classList.remove("selected");
  const button = panel.querySelector(`[data-record="${record.id}"]`);
  if (button) button.closest("tr").classList.add("selected");
  const form = (side) => (side ? `${side.dtype} (${side.shape.join(", ")})` : "nothing here");
  const parts = [make("h3", {}, shown(`${record.what} `), verdictWord(record.verdict, record.kind === "inherited"), record.kind ? ` ${record.kind}` : "")];
  const forms = [form(record.reference), form(record.candidate)];
  const rows = forms[0] === forms[1] ? [["tensor", forms[0]]] : [["reference", forms[0]], ["candidate", forms[1]]];
  if (record.reason) rows.push(["reason", record.reason]);
  rows.push(["rests on", evidence(record)]);
  if (record.pairedBy) rows.push(["paired by", record.pairedBy + (record.layout ? `; candidate = reference, ${record.layout}` : "")]);
  if (floors.has(record.id)) rows.push(["noise floor", `${short(floors.get(record.id))}, the most that correct runs differed by`]);
  parts.push(facts(rows), ...why(record), make("div", { class: "grid" }, make("div", {}, ...metricsTable(record)), make("div", {}, ...statisticsTable(record))));
  place.replaceChildren(...parts);
  const detail = packed.details[record.id];
  if (detail) showDetail(place, detail);
  else if (record.verdict === "diverged" && record.metrics) place.append(make("p", { class: "dim" }, "This record was not looked at more closely; compare with --html or --details."));
}

function evidence(record) {
  if (record.restsOn === "sample") return `a sample of ${record.metrics[6].toLocaleString("en")} of ${record.sampledOf.toLocaleString("en")} elements, and statistics of all`;
  const words = { digest: record.verdict === "match" ? "equal digests: bit-equal" : "digests: not bit-equal", elements: "all elements", execution: "both programs, executed in float64", statistics: "statistics only: a divergence is certain, a match is not", description: "shape, dtype and presence" };
  return words[record.restsOn] || record.restsOn;
}

function metricsTable(record) {
  if (!record.metrics) return [];
  const [atol, rtol] = record.tolerance || [null, null];
  const limit = { max_abs: `${short(atol)} + ${short(rtol)} |ref|`, mismatched: "0", needed_atol: short(atol), needed_rtol: short(rtol) };
  const written = (name, value) => (name === "cosine" && value > 0.9995 && value < 1 ? `1 - ${short(1 - value)}` : short(value));
  const rows = METRICS.map((name, place) => [name.replaceAll("_", " "), written(name, record.metrics[place]), limit[name] || ""]);
  const kept = rows.filter((row, place) => place < 9 || row[1] !== "0");
  return [make("h3", {}, "Measured"), table(["metric", "value", "allowed"], kept, { numbers: [1], labelled: true })];
}

function statisticsTable(record) {
  const sides = [record.reference, record.candidate].map((side) => side && side.statistics);
  if (!sides[0] && !sides[1]) return [];
  const rows = STATISTICS.map((name, place) => [name, ...sides.map((side) => short(side && side[place]))]);
  const kept = rows.filter((row, place) => place < 4 || row[1] !== row[2] || row[1] !== "0");
  return [make("h3", {}, "Statistics"), table(["", "reference", "candidate"], kept, { numbers: [1, 2], labelled: true })];
}

function showDetail(place, detail) {
  if (detail.stride > 1) place.append(make("p", { class: "dim" }, `Looked at every ${detail.stride}th index of the longest axis.`));
  if (detail.sampled) place.append(make("p", { class: "dim" }, "Only the elements of the sample are known: no map, no profiles."));
  if (detail.mismatches.length) {
    place.append(make("h3", {}, "First mismatching elements"), make("div", { class: "scroll" }, table(["index", "reference", "candidate", "difference"],
      detail.mismatches.map(([index, one, two]) => [`[${index.join(", ")}]`, one, two, difference(one, two)]), { numbers: [1, 2, 3] })));
  }
  const grid = make("div", { class: "grid" });
  place.append(grid);
  const part = (title, label, draw) => {
    const graph = make("div", { role: "img", "aria-label": label });
    grid.append(make("div", {}, make("h3", {}, title), graph));
    draw(graph);
  };
  if (detail.histogram) part("Histograms", `Histograms of both sides from ${short(detail.histogram.low)} to ${short(detail.histogram.high)}`, (graph) => drawHistogram(graph, detail.histogram));
  if (!detail.heat) place.append(make("p", { class: "dim" }, "Only the origins and the first records after them have a map and curves."));
  else if (detail.heat.rows.length) drawHeat(grid, detail.heat);
  for (const profile of detail.profiles) {
    if (profile.size > 1) part(`Largest error along axis ${profile.axis} (${profile.size})`, `Largest error along axis ${profile.axis}`, (graph) => drawProfile(graph, profile));
  }
}

function difference(one, two) {
  const [left, right] = [Number(one), Number(two)];
  return Number.isFinite(left) && Number.isFinite(right) ? short(right - left) : "-";
}

const SHADES = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_";

function drawHeat(place, heat) {
  const height = heat.rows.length;
  const width = heat.rows[0].length;
  const hatched = heat.rows.some((row) => row.includes(" "));
  const { top } = heat;
  const label = `Error of the tensor as ${heat.shape[0]} x ${heat.shape[1]}, the last axis across: from 0 to ${short(top)}${hatched ? "; hatched: finite on one side only" : ""}`;
  const canvas = make("canvas", { class: "heat", width: width * 4, height: height * 4, role: "img", "aria-label": label });
  const pen = canvas.getContext("2d");
  const colour = getComputedStyle(document.documentElement).getPropertyValue("--bad");
  pen.fillStyle = colour;
  heat.rows.forEach((row, y) => [...row].forEach((shade, x) => {
    pen.globalAlpha = shade === " " ? 1 : SHADES.indexOf(shade) / (SHADES.length - 1);
    if (shade !== " ") pen.fillRect(x * 4, y * 4, 4, 4);
    else for (let at = 0; at < 4; at += 1) pen.fillRect(x * 4 + at, y * 4 + at, 1, 1);
  }));
  const bar = make("canvas", { width: 64, height: 1, "aria-hidden": "true" });
  const ink = bar.getContext("2d");
  ink.fillStyle = colour;
  for (let at = 0; at < 64; at += 1) { ink.globalAlpha = Math.sqrt(at / 63); ink.fillRect(at, 0, 1, 1); }
  place.append(make("div", {}, make("h3", {}, `Error map (${heat.shape[0]} x ${heat.shape[1]}, the last axis across)`), canvas,
    make("div", { class: "scale" }, "0", bar, short(top), hatched ? "hatched: finite on one side only" : "")));
}
