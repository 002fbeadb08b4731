"use strict";
// The graphs, all by uPlot.
function colours() {
  const style = getComputedStyle(document.documentElement);
  const get = (name) => style.getPropertyValue(name).trim();
  return { fore: get("--fore"), line: get("--line"), good: get("--good"), bad: get("--bad"), warn: get("--warn"), link: get("--link"), dim: get("--dim") };
}

const INCREMENTS = [1, 2, 5].flatMap((one) => [0, 1, 2, 3, 4, 5, 6].map((power) => one * 10 ** power)).sort((one, two) => one - two);

function axes(found, xLabel, yLabel, whole = true) {
  const axis = { stroke: found.fore, grid: { stroke: found.line, width: 0.5 }, ticks: { stroke: found.line } };
  const values = (plot, ticks) => ticks.map((one) => (one === null ? "" : short(one).replace(".000e", "e")));
  return [{ ...axis, label: xLabel, size: 36, labelSize: 20, values, incrs: whole ? INCREMENTS : undefined }, { ...axis, label: yLabel, size: 70, labelSize: 20, values }];
}

const main = { plot: null, records: [] };

function drawMain() {
  const place = document.getElementById("plot");
  const found = colours();
  const inStep = records.filter((record) => record.step === tree.step && record.reference && record.candidate && (record.metrics || record.restsOn === "digest"));
  inStep.sort((one, two) => one.place.order - two.place.order || one.id - two.id);
  main.records = inStep;
  place.replaceChildren();
  if (!inStep.length) {
    place.append(make("p", { class: "dim" }, "nothing was measured"));
    return;
  }
  const error = (record) => (record.metrics && typeof record.metrics[0] === "number" ? record.metrics[0] : record.metrics && record.metrics[0] === null ? null : 0);
  const errors = inStep.map(error);
  const allowed = inStep.map((record) => (record.tolerance && record.tolerance[0] > 0 ? record.tolerance[0] : null));
  const positive = [...errors, ...allowed].filter((one) => one > 0);
  const lowest = 10 ** Math.floor(Math.log10(positive.reduce((least, one) => Math.min(least, one), 1e-6)) - 1);
  const raised = errors.map((one) => (one === null ? null : Math.max(one, lowest)));
  const only = (test) => raised.map((one, at) => (test(inStep[at]) ? one : null));
  const points = (stroke, size, fill) => ({ paths: () => null, stroke, points: { show: true, size, stroke, fill, width: 2 } });
  const value = (plot, one) => (one === null || one === undefined ? "-" : one <= lowest ? "0" : one.toPrecision(3));
  const series = [
    { label: "record", value: (plot, at) => (at === null || at === undefined || !inStep[at] ? "-" : shown(`${inStep[at].place.module || "(root)"} ${inStep[at].what}`)) },
    { label: "agrees", value, ...points(found.good, 3, found.good) },
    { label: "inherited ●", value, ...points(found.warn, 6, found.warn) },
    { label: "origin ◯", value, ...points(found.bad, 13, "transparent") },
    { label: "allowed (atol) - -", value, stroke: found.link, dash: [6, 4], width: 1.5, spanGaps: true, points: { show: false } },
  ];
  const floor = packed.noise === null ? [] : [packed.noise];
  const data = [inStep.map((record, at) => at), only((one) => one.verdict === "match"),
    only((one) => one.verdict !== "match" && one.kind !== "origin"), only((one) => one.kind === "origin"), allowed];
  for (const noise of floor) {
    series.push({ label: "noise floor ···", value, stroke: found.dim, dash: [2, 3], width: 1.5, points: { show: false } });
    data.push(inStep.map(() => noise));
  }
  main.plot = new uPlot({
    width: Math.max(320, place.clientWidth), height: 260, series, axes: axes(found, "record, in execution order", "max abs"),
    scales: { x: { time: false }, y: { distr: 3 } }, cursor: { drag: { x: true, y: false } }, legend: { live: true },
  }, data, place);
  main.plot.over.addEventListener("click", () => pick(main.plot.cursor.idx));
}

function pick(at) {
  const record = at === null || at === undefined ? null : main.records[at];
  if (record && record.node) select(record.node, { record, scroll: true });
}

function small(place, xLabel, yLabel, series, data, whole) {
  return new uPlot({
    width: Math.max(260, place.clientWidth), height: 150, series, axes: axes(colours(), xLabel, yLabel, whole),
    scales: { x: { time: false }, y: { range: (plot, low, high) => [0, high || 1] } }, legend: { show: series.length > 2 }, cursor: { show: false },
  }, data, place);
}

function drawHistogram(place, histogram) {
  const found = colours();
  const bins = histogram.reference.length;
  const width = (histogram.high - histogram.low) / bins;
  const at = histogram.reference.map((count, bin) => histogram.low + (bin + 0.5) * width);
  const stepped = uPlot.paths.stepped({ align: 1 });
  small(place, "value", "elements", [{}, { label: "reference", stroke: found.link, width: 2, paths: stepped, points: { show: false } },
    { label: "candidate - -", stroke: found.bad, dash: [5, 3], width: 2, paths: stepped, points: { show: false } }],
  [at, histogram.reference, histogram.candidate], false);
}

function drawProfile(place, profile) {
  const step = profile.size / profile.largest.length;
  const top = profile.largest.map((one) => (typeof one === "number" ? one : null));
  small(place, "index", "max abs", [{}, { label: "largest error", stroke: colours().bad, width: 1.5 }],
    [top.map((one, at) => Math.round(at * step)), top], true);
}
