// What stands in for the kernel in a standalone page, beside the picture itself: tracks, minimap,
// links, measured ranges and the walk along rows. Each takes the model of timeline_static.js.

const PARTS = {
  tracks(model, m) {
    const buffers = m.tracks.map((k) => bands(model, k, m));
    return [{ ...m, limits: m.tracks.map((k) => model.curves[k].limits) }, buffers];
  },
  map(model, m) {
    const whole = { ...m, base: "0", a: 0, b: Number(model.extent) };
    const [, buffers] = model.view({ ...whole, bins: true });
    const out = buffers.slice(0, 2);
    if (model.hit) out.push(matched(model, m.width));
    return [m, out];
  },
  sight(model, m) {
    const base = Number(m.base), [a, b] = [base + m.a, base + m.b], lanes = model.state.lanes;
    const firsts = lanes.map((_, k) => lanes.slice(0, k).reduce((n, lane) => n + lane.rows, 0));
    const rows = m.lanes.map((k) => {
      const rest = [];
      for (let r = firsts[k]; r < firsts[k] + lanes[k].rows; r++) rest.push(...model.touching(r, a, b));
      const busy = united(rest.map((i) => [Math.max(model.t0[i], a), Math.min(model.t1[i], b)]));
      const events = rest.reduce((n, i) => n + model.events(i), 0);
      return [lanes[k].label, events.toLocaleString("en"), duration(busy), `${((100 * busy) / (b - a)).toFixed(1)} %`];
    });
    return [{ ...m, rows }, []];
  },
  move(model, m) {
    const at = model.marked, row = m.row === undefined ? model.row[at] : m.row;
    if (at < 0) return null;
    const to = m.row === undefined ? model.along(at, m.by) : model.across(at, row);
    if (to < 0) return [{ type: "end", view: m.view }, []];
    model.mark(to);
    return null;
  },
};

const TIES = ["operator", "forward", "backward"];

// whole numbers that travel as differences, with the sign in the lowest bit (page_parts.py)
function running({ low, high }) {
  const out = new Float64Array(low.length);
  for (let i = 0, sum = 0; i < low.length; i++) {
    const coded = low[i] + (high ? high[i] * 2 ** 32 : 0), half = Math.floor(coded / 2);
    out[i] = sum += coded % 2 ? -half - 1 : half;
  }
  return out;
}
function readTrack(columns, k) {  // times in ns, and least, mean and largest value from each on
  const single = ({ low }) => new Float32Array(Uint32Array.from(low).buffer);
  const read = (name) => columns[`track${k}_${name}`] && single(columns[`track${k}_${name}`]), mean = read("mean");
  return { t: running(columns[`track${k}_t`]), low: read("low") || mean, mean, high: read("high") || mean };
}

// least, mean and largest value of each pixel, of steps that may hold several values themselves
function bands(model, k, m) {
  const { t: at, low, mean, high } = model.tracks[k];
  const w = m.width, out = new Float32Array(3 * w).fill(NaN), base = Number(m.base), px = (m.b - m.a) / w;
  const start = base + m.a, area = new Float64Array(w), known = new Float64Array(w);
  for (let i = 0; i < at.length; i++) {
    const end = i + 1 < at.length ? at[i + 1] : at[i], first = Math.floor((at[i] - start) / px);
    if (Number.isNaN(mean[i]) || end < start || first >= w) continue;
    const last = end > at[i] ? Math.ceil((end - start) / px) - 1 : first;
    for (let x = Math.max(0, first); x <= Math.min(w - 1, last); x++) {
      const held = Math.min(end, start + (x + 1) * px) - Math.max(at[i], start + x * px);
      area[x] += Math.max(0, held) * mean[i]; known[x] += Math.max(0, held);
      if (!(out[x] <= low[i])) out[x] = low[i];
      if (!(out[2 * w + x] >= high[i])) out[2 * w + x] = high[i];
    }
  }
  for (let x = 0; x < w; x++) out[w + x] = known[x] ? area[x] / known[x] : (out[x] + out[2 * w + x]) / 2;
  return out;
}
function matched(model, width) {
  const out = new Uint8Array(width), px = Number(model.extent) / width;
  for (const i of model.found)
    for (let x = Math.floor(model.t0[i] / px); x <= Math.min(width - 1, Math.floor(model.t1[i] / px)); x++) out[x] = 1;
  return out;
}
function united(parts) {        // length of the union of [start, end) pairs
  let total = 0, reach = -Infinity;
  for (const [start, end] of parts.sort((x, y) => x[0] - y[0])) {
    total += Math.max(0, end - Math.max(start, reach));
    reach = Math.max(reach, end);
  }
  return total;
}
// ---- measured ranges, as measure.py ---------------------------------------------------------
const DEVICE_PARTS = ["compute", "communication", "copy"];

function measured(model, selection) {
  if (selection.length !== 2) return {};
  const [a, b] = selection.map((t) => Number(BigInt(t) - BigInt(model.state.extent[0])));
  const lanes = model.state.lanes, devices = new Map();
  let row = 0, events = 0;
  for (const lane of lanes) {
    for (let r = row; r < row + lane.rows; r++) {
      const [lo, hi] = model.within(r, a, b), at = Array.from({ length: hi - lo }, (_, k) => lo + k);
      for (const i of at) events += model.events(i);   // hidden ones too: a filter keeps no device from work
      if (lane.table === "activities") devices.set(lane.group, [...(devices.get(lane.group) || []), ...at]);
    }
    row += lane.rows;
  }
  const sums = { compute: 0, communication: 0, "exposed communication": 0, copy: 0, idle: 0 };
  for (const at of devices.values()) {
    const of = (...parts) => at.filter((i) => parts.includes(DEVICE_PARTS[model.parts[model.name[i]]]));
    const busy = (list) => united(list.map((i) => [Math.max(model.t0[i], a), Math.min(model.t1[i], b)]));
    for (const part of DEVICE_PARTS) sums[part] += busy(of(part));
    sums["exposed communication"] += busy(of("compute", "communication")) - busy(of("compute"));
    sums.idle += b - a - busy(of(...DEVICE_PARTS));
  }
  const whole = (b - a) * devices.size, parts = Object.entries(sums).filter(([part, ns]) => devices.size && (ns || part === "idle"));
  return { range: selection, events, partly: model.grain > 0,
    devices: devices.size, parts: parts.map(([part, ns]) => ({ part, busy_ns: ns, share: whole ? ns / whole : null })) };
}
// ---- links, as flow.py, of what the page holds ----------------------------------------------
function linked(model, i) {
  const flow = model.state.flow || {};
  if (i >= 0 && (flow.stops || []).some((k) => flow.nodes[k].event === i)) return flow;
  if (i < 0) return {};
  const nodes = [{ ...model.describe(i), relation: "" }], lines = [], number = new Map([[i, 0]]);
  const add = (at, relation, beside) => {
    if (at < 0 || number.has(at)) return;
    number.set(at, nodes.length);
    nodes.push({ ...model.describe(at), relation });
    const pair = [number.get(at), number.get(beside)];
    // on the host a piece lies right above its operator
    if (relation === "operator" && model.streams[model.row[i]] === null && DEVICE_PARTS[model.parts[model.name[i]]] !== "communication") return;
    lines.push(["work", "backward", "other rank"].includes(relation) ? pair.reverse() : pair);
  };
  const operator = model.operator[i], at = operator < 0 ? i : operator;
  add(operator, "operator", i);
  for (const name of ["forward", "backward"]) add(model[name][at], name, at);
  if (operator < 0) for (const k of model.launchedIn(i)) add(k, "work", i);
  for (const group of model.peers) if (group.includes(i)) for (const k of group) add(k, "other rank", i);
  return nodes.length > 1 ? { nodes, lines, stops: [...nodes.keys()] } : {};
}
