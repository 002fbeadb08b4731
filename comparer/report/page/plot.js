"use strict";
// The graphs, all by uPlot.
function colours() {
  const style = getComputedStyle(document.documentElement);
  const get = (name) => style.getPropertyValue(name).trim();
  return { fore: get("--fore"), line: get("--line"), good: get("--good"), bad: get("--bad"), warn: get("--warn"), link: get("--link"), dim: get("--dim") };
}

const INCREMENTS = [1, 2, 5].flatMap((one) => [0, 1, 2, 3, 4, 5, 6].map((power) => one * 10 ** power)).sort((one, two) => one - two);
const FONT = "12px system-ui, sans-serif";

function axes(found, xLabel, yLabel, whole = true) {
  const axis = { stroke: found.dim, font: FONT, labelFont: FONT, grid: { stroke: found.line, width: 0.5 }, ticks: { stroke: found.line, width: 0.5, size: 5 } };
  const values = (plot, ticks) => ticks.map((one) => (one === null ? "" : short(one).replace(".000e", "e")));
  return [{ ...axis, label: xLabel, size: 34, labelSize: 20, values, incrs: whole ? INCREMENTS : undefined }, { ...axis, label: yLabel, size: 62, labelSize: 20, values }];
}

// Powers of ten, at most about ten of them.
function decades(plot, axis, low, high) {
  const [from, to] = [Math.ceil(Math.log10(low) - 1e-9), Math.floor(Math.log10(high) + 1e-9)];
  const step = Math.max(1, Math.ceil((to - from) / 10));
  return Array.from({ length: Math.floor((to - from) / step) + 1 }, (_, at) => 10 ** (from + at * step));
}

const main = { plot: null, records: [] };

// How to read a record: its error, what it may be, and the measured noise floor; null where unknown.
const MEASURES = {
  abs: {
    label: "largest absolute difference",
    error: (metrics) => metrics[0],
    allowed: (tolerance) => (tolerance && tolerance[0] > 0 ? tolerance[0] : null),
    floor: (record) => floors.get(record.id),
  },
  ratio: {
    label: "multiple of the allowed",
    error: (metrics, tolerance) => {
      if (!tolerance) return null;
      if (tolerance[0] > 0 && typeof metrics[7] === "number") return metrics[7] / tolerance[0];
      return tolerance[1] > 0 && typeof metrics[8] === "number" ? metrics[8] / tolerance[1] : null;
    },
    allowed: (tolerance) => (tolerance ? 1 : null),
    floor: (record) => (record.tolerance && record.tolerance[0] > 0 && floors.has(record.id) ? floors.get(record.id) / record.tolerance[0] : null),
  },
  l2: { label: "relative L2", error: (metrics) => metrics[3], allowed: () => null, floor: () => null },
};

function errorOf(record, measure) {
  if (!record.metrics) return 0;  // bit-equal
  const found = measure.error(record.metrics, record.tolerance);
  return typeof found === "number" ? found : null;
}

function drawMain(width) {
  const place = document.getElementById("plot");
  const found = colours();
  const measure = MEASURES[document.getElementById("measure").value];
  const inStep = records.filter((record) => record.step === tree.step && record.reference && record.candidate && (record.metrics || record.restsOn === "digest"));
  inStep.sort((one, two) => one.place.order - two.place.order || one.id - two.id);
  main.records = inStep;
  place.replaceChildren();
  if (!inStep.length) {
    place.append(make("p", { class: "dim" }, "nothing was measured"));
    return;
  }
  const positive = (one) => (typeof one === "number" && one > 0 ? one : null);
  const errors = inStep.map((record) => errorOf(record, measure));
  const allowed = inStep.map((record) => positive(measure.allowed(record.tolerance)));
  const floor = inStep.map((record) => positive(measure.floor(record)));
  const least = [...errors, ...allowed, ...floor].filter((one) => one > 0).reduce((low, one) => Math.min(low, one), 1e-6);
  const lowest = 10 ** Math.floor(Math.log10(least) - 1);
  const raised = errors.map((one) => (one === null ? null : Math.max(one, lowest)));
  const only = (test) => raised.map((one, at) => (test(inStep[at]) ? one : null));
  const points = (stroke, size, fill) => ({ paths: () => null, stroke, points: { show: true, size, stroke, fill, width: 2 } });
  const line = (stroke, dash) => ({ stroke, dash, width: 1.5, spanGaps: true, points: { show: false } });
  const value = (plot, one) => (one === null || one === undefined ? "-" : one <= lowest ? "0" : one.toPrecision(3));
  const named = (plot, at) => (at === null || at === undefined || !inStep[at] ? "-" : shown(`${inStep[at].place.module || "(root)"} ${inStep[at].what}`));
  const series = [
    { label: "record", value: named },
    { label: "agrees ·", value, ...points(found.good, 3, found.good) },
    { label: "inherited ●", value, ...points(found.warn, 6, found.warn) },
    { label: "origin ◯", value, ...points(found.bad, 13, "transparent") },
  ];
  const data = [inStep.map((record, at) => at), only((one) => one.verdict === "match"),
    only((one) => one.verdict !== "match" && one.kind !== "origin"), only((one) => one.kind === "origin")];
  const lines = [["allowed (atol) – –", allowed, found.link, [6, 4]], ["noise floor ···", floor, found.dim, [2, 3]]];
  for (const [label, values, stroke, dash] of lines) {
    if (values.every((one) => one === null)) continue;
    series.push({ label, value, ...line(stroke, dash) });
    data.push(values);
  }
  const [x, y] = axes(found, "record, in execution order", measure.label);
  main.plot = new uPlot({
    width: typeof width === "number" ? width : Math.max(300, place.clientWidth), height: 270, series, axes: [x, { ...y, splits: decades }],
    scales: { x: { time: false }, y: { distr: 3 } }, cursor: { drag: { x: true, y: false } }, legend: { live: true },
    hooks: { draw: [(plot) => drawPhases(plot, inStep, found)] }, padding: [18, 20, 0, 0],
  }, data, place);
  main.plot.over.addEventListener("click", () => pick(main.plot.cursor.idx));
}

// Where a phase begins: a thin line and its name.
function drawPhases(plot, inStep, found) {
  const { ctx, bbox } = plot;
  const ratio = devicePixelRatio || 1;
  ctx.save();
  ctx.strokeStyle = found.dim;
  ctx.fillStyle = found.dim;
  ctx.font = `${12 * ratio}px system-ui, sans-serif`;
  ctx.textAlign = "left";
  ctx.textBaseline = "alphabetic";
  ctx.setLineDash([2 * ratio, 4 * ratio]);
  inStep.forEach((record, at) => {
    if (at && inStep[at - 1].phase === record.phase) return;
    const left = Math.max(bbox.left, plot.valToPos(at - 0.5, "x", true));
    if (left > bbox.left + bbox.width) return;
    ctx.beginPath();
    if (at) { ctx.moveTo(left, bbox.top); ctx.lineTo(left, bbox.top + bbox.height); }
    ctx.stroke();
    const last = inStep.findIndex((one, place) => place > at && one.phase !== record.phase);
    const room = plot.valToPos((last < 0 ? inStep.length : last) - 0.5, "x", true) - left;
    if (room > ctx.measureText(record.phase).width + 10 * ratio) ctx.fillText(record.phase, left + 4 * ratio, bbox.top - 5 * ratio);
  });
  ctx.restore();
}

function pick(at) {
  const record = at === null || at === undefined ? null : main.records[at];
  if (record && record.node) select(record.node, { record, scroll: true });
}

function small(place, xLabel, yLabel, series, data, whole) {
  return new uPlot({
    width: Math.max(240, place.clientWidth), height: 150, series, axes: axes(colours(), xLabel, yLabel, whole),
    scales: { x: { time: false }, y: { range: (plot, low, high) => [0, high || 1] } }, legend: { show: series.length > 2, live: false }, cursor: { show: false },
  }, data, place);
}

function drawHistogram(place, histogram) {
  const found = colours();
  const bins = histogram.reference.length;
  const width = (histogram.high - histogram.low) / bins;
  const at = histogram.reference.map((count, bin) => histogram.low + (bin + 0.5) * width);
  const stepped = uPlot.paths.stepped({ align: 0 });
  small(place, "value", "elements", [{}, { label: "reference ––", stroke: found.link, width: 2, paths: stepped, points: { show: false } },
    { label: "candidate - -", stroke: found.bad, dash: [5, 3], width: 2, paths: stepped, points: { show: false } }],
  [at, histogram.reference, histogram.candidate], false);
}

function drawProfile(place, profile) {
  const step = profile.size / profile.largest.length;
  const top = profile.largest.map((one) => (typeof one === "number" ? one : null));
  small(place, "index", "max abs", [{}, { label: "largest error", stroke: colours().bad, width: 1.5 }],
    [top.map((one, at) => Math.round(at * step)), top], true);
}
