"use strict";
// What is known of the selected module and record.
const panel = document.getElementById("panel");
const METRICS = ["max_abs", "max_rel", "mean_abs", "relative_l2", "cosine", "mismatched", "size", "needed_atol",
  "needed_rtol", "nan_reference", "nan_candidate", "inf_reference", "inf_candidate", "nonfinite_mismatched"];
const STATISTICS = ["minimum", "maximum", "mean", "l2", "nan", "posinf", "neginf", "zeros"];

function table(header, rows, { numbers = [] } = {}) {
  const cell = (tag, value, place) => make(tag, {
    class: numbers.includes(place) ? "number" : "", scope: tag === "th" ? "col" : null,
  }, value instanceof Node ? value : shown(value));
  return make("table", {},
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
  const [referenceModule, referenceCall, candidateModule, candidateCall] = node.sources.map((place) => place || "-");
  const parts = [
    make("h2", {}, shown(bothNames(node))),
    facts([
      ["paired by", node.pairedBy || "unmatched"],
      ["reference", `${classes[0]}, class at ${referenceModule}, called at ${referenceCall}`],
      ["candidate", `${classes[1]}, class at ${candidateModule}, called at ${candidateCall}`],
    ]),
    make("h3", {}, "Records"), recordTable(node, record),
    make("div", { id: "record", "aria-live": "polite" }),
    ...attributes(node),
  ];
  panel.replaceChildren(...parts);
  panel.scrollTop = 0;
  const bad = (one) => BAD.includes(one.verdict);
  const chosen = record || node.records.find((one) => one.kind === "origin") || node.records.find(bad) || node.records[0];
  if (chosen) showRecord(chosen);
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

function attributes(node) {
  const found = packed.attributes[`${node.step}:${node.id}`];
  if (!found) return [];
  const names = [...new Set([...Object.keys(found[0]), ...Object.keys(found[1])])].sort();
  const rows = names.map((name) => {
    const [one, two] = found.map((side) => (name in side ? JSON.stringify(side[name]) : "-"));
    return [name, one, two, one === two ? "" : one === "-" || two === "-" ? "one side" : "differs"];
  });
  return [make("h3", {}, "Attributes"), table(["attribute", "reference", "candidate", ""], rows)];
}

function showRecord(record) {
  const place = document.getElementById("record");
  for (const row of panel.querySelectorAll("tr.selected")) row.classList.remove("selected");
  const button = panel.querySelector(`[data-record="${record.id}"]`);
  if (button) button.closest("tr").classList.add("selected");
  const form = (side) => (side ? `${side.dtype} (${side.shape.join(", ")})` : "nothing here");
  const parts = [make("h3", {}, shown(record.what), " ", verdictWord(record.verdict, record.kind === "inherited"))];
  const rows = [["reference", form(record.reference)], ["candidate", form(record.candidate)]];
  if (record.kind) rows.push(["kind", record.kind]);
  if (record.reason) rows.push(["reason", record.reason]);
  rows.push(["rests on", { digest: "equal digests: bit-equal", elements: "all elements", statistics: "statistics only: a divergence is certain, a match is not", description: "shape, dtype and presence" }[record.restsOn] || record.restsOn]);
  if (record.pairedBy) rows.push(["paired by", record.pairedBy + (record.layout ? `, layout: ${record.layout}` : "")]);
  parts.push(facts(rows), ...metricsTable(record), ...statisticsTable(record));
  place.replaceChildren(...parts);
  const detail = packed.details[record.id];
  if (detail) showDetail(place, detail);
  else if (record.verdict === "diverged") place.append(make("p", { class: "dim" }, "This record was not looked at more closely."));
}

function metricsTable(record) {
  if (!record.metrics) return [];
  const [atol, rtol] = record.tolerance || [null, null];
  const limit = { max_abs: `${short(atol)} + ${short(rtol)} * |ref|`, mismatched: "0", needed_atol: short(atol), needed_rtol: short(rtol) };
  const written = (name, value) => (name === "cosine" && value > 0.9995 && value < 1 ? `1 - ${short(1 - value)}` : short(value));
  const rows = METRICS.map((name, place) => [name.replaceAll("_", " "), written(name, record.metrics[place]), limit[name] || ""]);
  const kept = rows.filter((row, place) => place < 9 || row[1] !== "0");
  return [make("h3", {}, "Measured"), table(["metric", "value", "allowed"], kept, { numbers: [1] })];
}

function statisticsTable(record) {
  const sides = [record.reference, record.candidate].map((side) => side && side.statistics);
  if (!sides[0] && !sides[1]) return [];
  const rows = STATISTICS.map((name, place) => [name, ...sides.map((side) => short(side && side[place]))]);
  return [make("h3", {}, "Statistics"), table(["", "reference", "candidate"], rows, { numbers: [1, 2] })];
}

function showDetail(place, detail) {
  if (detail.stride > 1) place.append(make("p", { class: "dim" }, `Looked at every ${detail.stride}th index of the longest axis.`));
  if (detail.mismatches.length) {
    place.append(make("h3", {}, "First mismatching elements"), table(["index", "reference", "candidate"],
      detail.mismatches.map((one) => [`[${one.index.join(", ")}]`, one.reference, one.candidate]), { numbers: [1, 2] }));
  }
  if (detail.histogram) {
    const graph = make("div", { role: "img", "aria-label": `Histograms of both sides from ${short(detail.histogram.low)} to ${short(detail.histogram.high)}` });
    place.append(make("h3", {}, "Histograms"), graph);
    drawHistogram(graph, detail.histogram);
  }
  if (detail.heat.rows.length) drawHeat(place, detail.heat);
  for (const profile of detail.profiles) {
    if (profile.size < 2) continue;
    const graph = make("div", { role: "img", "aria-label": `Largest error along axis ${profile.axis}` });
    place.append(make("h3", {}, `Largest error along axis ${profile.axis} (${profile.size})`), graph);
    drawProfile(graph, profile);
  }
}

function drawHeat(place, heat) {
  const height = heat.rows.length;
  const width = heat.rows[0].length;
  const value = (one) => (typeof one === "string" ? Infinity : one);
  const finite = heat.rows.flat().map(value).filter((one) => Number.isFinite(one));
  const top = finite.reduce((most, one) => Math.max(most, one), 0);
  const label = `Error of the tensor as ${heat.shape[0]} x ${heat.shape[1]}: from 0 (blank) to ${short(top)} (full); crossed cells: only one side is finite`;
  const canvas = make("canvas", { class: "heat", width: width * 4, height: height * 4, role: "img", "aria-label": label });
  const pen = canvas.getContext("2d");
  const colour = getComputedStyle(document.documentElement).getPropertyValue("--bad");
  heat.rows.forEach((row, y) => row.forEach((one, x) => {
    const found = value(one);
    pen.fillStyle = colour;
    pen.globalAlpha = Number.isFinite(found) ? (top > 0 ? Math.sqrt(found / top) : 0) : 1;
    if (Number.isFinite(found)) pen.fillRect(x * 4, y * 4, 4, 4);
    else for (let at = 0; at < 4; at += 1) pen.fillRect(x * 4 + at, y * 4 + at, 1, 1);
  }));
  place.append(make("h3", {}, "Error map"), canvas, make("p", { class: "dim" }, label));
}
