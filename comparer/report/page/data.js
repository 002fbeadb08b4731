"use strict";
// The result, unpacked from the page's tables.
const text = packed.strings;
const BAD = ["diverged", "incomparable", "missing"];
const RANKED = ["covered", "skipped", "match", "missing", "incomparable", "diverged"];  // the worst last
const WORDS = { covered: "elsewhere" };  // its value is judged as that of another module
const SIGNS = { match: "✓", diverged: "✗", incomparable: "≠", missing: "∅", skipped: "–", covered: "≈" };

function end(row) {
  if (!row) return null;
  const [module, className, call, role, slot, order, dtype, shape, statistics] = row;
  return {
    module: text[module], className: text[className], call, role: text[role], slot: text[slot],
    order, dtype: text[dtype], shape, statistics,
  };
}

const records = packed.records.map((row, id) => {
  const [step, phase, reference, candidate, verdict, kind, reason, metrics, tolerance, pairedBy, layout, restsOn, sampledOf] = row;
  const record = {
    id, step, phase: text[phase], reference: end(reference), candidate: end(candidate),
    verdict: text[verdict], kind: text[kind], reason: text[reason], metrics, tolerance,
    pairedBy: text[pairedBy], layout: text[layout], restsOn: text[restsOn], sampledOf,
  };
  record.place = record.reference || record.candidate;
  record.what = record.place.role + record.place.slot;
  return record;
});

// Add a module and what is inside it to what one above it holds.
function addInside(sum, node) {
  for (const worst of [node.worst, node.inside.worst]) {
    for (const [phase, verdict] of Object.entries(worst)) {
      if (RANKED.indexOf(verdict) > RANKED.indexOf(sum.worst[phase])) sum.worst[phase] = verdict;
    }
  }
  const isBad = Object.values(node.worst).some((verdict) => BAD.includes(verdict));
  sum.modules += 1 + node.inside.modules;
  sum.bad += (isBad || node.origin) + node.inside.bad;
  sum.origins += node.origin + node.inside.origins;
  sum.own += (isBad && !node.inherited) + node.inside.own;
}

const steps = packed.steps.map((step, number) => {
  const nodes = step.rows.map((row, id) => {
    const [parent, reference, candidate, referenceClass, candidateClass, pairedBy, worst, flags, sources] = row;
    return {
      id, parent, reference: reference === null ? null : text[reference],
      candidate: candidate === null ? null : text[candidate],
      classes: [text[referenceClass], text[candidateClass]], pairedBy: text[pairedBy],
      worst: Object.fromEntries(worst.map(([phase, verdict]) => [text[phase], text[verdict]])),
      origin: Boolean(flags & 1), inherited: Boolean(flags & 2),
      sources: sources.map((place) => (place === null ? null : text[place])),
      inside: { worst: {}, modules: 0, bad: 0, origins: 0, own: 0 }, children: [], records: [], level: 1, open: false, bad: false, step: number,
    };
  });
  const sides = [new Map(), new Map()];
  for (const node of nodes) {
    if (node.parent !== null) {
      node.level = nodes[node.parent].level + 1;
      nodes[node.parent].children.push(node);
    }
    if (node.reference !== null) sides[0].set(node.reference, node);
    if (node.candidate !== null) sides[1].set(node.candidate, node);
  }
  for (let place = nodes.length - 1; place >= 0; place -= 1) {
    const node = nodes[place];
    node.bad = node.bad || node.origin || Object.values(node.worst).some((verdict) => BAD.includes(verdict));
    node.hasOrigin = node.hasOrigin || node.origin;
    if (node.parent === null) continue;
    const parent = nodes[node.parent];
    addInside(parent.inside, node);
    parent.bad = parent.bad || node.bad;
    parent.hasOrigin = parent.hasOrigin || node.hasOrigin;
  }
  return { step: step.step, rank: step.rank, nodes, roots: nodes.filter((node) => node.parent === null), sides };
});

for (const record of records) {
  const { sides } = steps[record.step];
  const node = record.reference ? sides[0].get(record.reference.module) : sides[1].get(record.candidate.module);
  record.node = node || null;
  if (node) node.records.push(record);
}

// An origin whose values are judged at another address shows the record that is judged there.
packed.origins.forEach((at, place) => {
  const owner = packed.findings[place].owner;
  const record = at === null || owner === null ? null : records[at];
  const node = record ? steps[record.step].sides[0].get(owner) : null;
  if (!node) return;
  record.kind = "origin";
  record.node = node;
  node.records.push(record);
});

// What both sides ran, by step: operators as text, and whether the programs differ there.
const programs = new Map(packed.programs.map(([step, ...sides]) => [step, sides.map(([rows, leftOut], side) => {
  const faulty = new Set(packed.slices[step][side]);
  const operators = rows.map(([id, call, module, number, site, outputs]) => ({
    text: `%${id} = ${text[call]}`, module: module === null ? null : text[module], call: number,
    site: site === null ? "" : text[site], faulty: faulty.has(id),
    outputs: outputs.map(([dtype, shape, numbers]) => ({ dtype: text[dtype], shape, numbers })),
  }));
  return { operators, leftOut };
})]));

const floors = new Map(packed.floors);
const findings = new Map(packed.origins.map((record, at) => [record, packed.findings[at]]));
const confidence = new Map(packed.pairing.map(([reference, candidate, sure, others]) =>
  [`${text[reference]}\n${text[candidate]}`, { sure, others: others.map((other) => text[other] || "(root)") }]));

function verdictWord(verdict, inherited) {
  const word = inherited || !BAD.includes(verdict) ? WORDS[verdict] || verdict : verdict.toUpperCase();
  return make("span", { class: `v-${inherited ? "inherited" : verdict}` }, SIGNS[verdict] || "", make("span", { class: "word" }, ` ${word}`));
}

function bothNames(node) {
  const one = node.reference === null ? null : node.reference || "(root)";
  const two = node.candidate === null ? null : node.candidate || "(root)";
  if (one === null || two === null || one === two) return one === null ? two : one;
  return `${one} = ${two}`;
}
