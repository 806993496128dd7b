// Stands in for the kernel in a standalone page: answers the messages of timeline.js from arrays
// that the page carries (html.py), and keeps traits in a plain object.

const ARRAYS = { i8: BigInt64Array, u4: Uint32Array, i4: Int32Array, u2: Uint16Array, u1: Uint8Array, f4: Float32Array };
const MAX_RECTS = 5000;
const WELL_SEEN = 200;        // as in timeline.py
const LISTED = 4;

async function unpack([type, text]) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new ARRAYS[type](await new Response(stream).arrayBuffer());
}

class StaticModel {
  constructor(state) { this.state = state; this.heard = {}; this.marked = -1; }
  static async load(page) {
    const model = new StaticModel(page.state);
    for (const [name, packed] of Object.entries(page.arrays)) model[name] = await unpack(packed);
    Object.assign(model, { texts: page.texts, tints: page.colours, complete: page.complete, levels: page.levels,
      families: page.families, streams: page.streams, curves: page.curves, parts: page.parts, peers: page.peers });
    model.extent = BigInt(page.state.extent[1]) - BigInt(page.state.extent[0]);
    // what Number holds exactly enough to draw; times that are shown stay BigInt
    model.t0 = Float64Array.from(model.start, Number);
    model.t1 = model.t0.map((t, i) => t + Number(model.dur[i]));
    model.row = new Uint32Array(model.start.length);
    for (let r = 0; r + 1 < model.offset.length; r++) model.row.fill(r, model.offset[r], model.offset[r + 1]);
    for (const name of ["operator", "forward", "backward"]) for (let i = 1; i < model[name].length; i++) model[name][i] += model[name][i - 1];
    model.byTime = Uint32Array.from(model.start.keys()).sort((i, j) => model.t0[i] - model.t0[j] || i - j);
    model.narrow();
    return model;
  }
  get(name) { return this.state[name]; }
  set(name, value) {
    this.state[name] = value;
    if (name === "filter") this.narrow();
    if (name === "selection") this.set("measured", measured(this, value));
    this.tell(`change:${name}`);
    if (name === "window") this.count();
  }
  save_changes() {}
  on(event, does) { (this.heard[event] ||= []).push(does); }
  off(event, does) { this.heard[event] = (this.heard[event] || []).filter((f) => f !== does); }
  tell(event, ...args) { for (const does of this.heard[event] || []) does(...args); }
  send(m) {
    setTimeout(() => {
      if (m.type === "view") this.tell("msg:custom", ...this.view(m));
      else if (m.type === "hover") this.tell("msg:custom", { type: "hover", view: m.view, ...this.describe(this.find(m)) }, []);
      else if (m.type === "pick") this.mark(this.find(m));
      else if (m.type === "search") this.look(m.text);
      else if (m.type === "step") this.walk(m.by > 0 ? 1 : -1);
      else {
        const answer = PARTS[m.type] && PARTS[m.type](this, m);
        if (answer) this.tell("msg:custom", ...answer);
      }
    }, 0);
  }

  // the first event of a row that ends after time t
  after(row, t) {
    let [lo, hi] = [this.offset[row], this.offset[row + 1]];
    while (lo < hi) {
      const mid = (lo + hi) >> 1;
      if (this.t1[mid] > t || this.t0[mid] >= t) hi = mid; else lo = mid + 1;
    }
    return lo;
  }
  within(r, a, b) {              // the events [lo, hi) of a row that touch a stretch
    const lo = this.after(r, a);
    let [hi, end] = [lo, this.offset[r + 1]];
    while (hi < end) { const mid = (hi + end) >> 1; if (this.t0[mid] < b) hi = mid + 1; else end = mid; }
    return [lo, hi];
  }
  touching(r, a, b) {
    const [lo, hi] = this.within(r, a, b), out = [];
    for (let i = lo; i < hi; i++) if (!this.shown || this.shown[i]) out.push(i);
    return out;
  }
  numbers(m) { return m.runs.flatMap(([first, last]) => Array.from({ length: last - first }, (_, k) => first + k)); }
  view(m) {
    const base = Number(m.base), a = base + m.a, b = base + m.b, spans = [];
    let n = 0;
    for (const r of this.numbers(m)) {
      const [lo, hi] = this.within(r, a, b);
      spans.push([lo, hi]);
      n += this.shown ? this.some(lo, hi, this.shown) : hi - lo;
    }
    const coarse = (m.b - m.a) / m.width >= Number(this.extent) / this.levels[this.levels.length - 1];
    const header = { ...m, n: this.complete ? n : null };
    const all = this.shown ? (i) => this.shown[i] : () => true, hit = (i) => this.hit[i];
    const matches = this.hit ? () => this.fromEvents(m, a, b, spans, hit) : () => [];
    // the embedded levels hold every event, so they can't stand for some of them
    if (!this.complete && coarse && !this.shown) return [{ ...header, kind: "bins" }, [...this.fromLevels(m, a, b), ...matches()]];
    if (n > MAX_RECTS || m.bins) return [{ ...header, kind: "bins" }, [...this.fromEvents(m, a, b, spans, all), ...matches()]];
    return this.rects(header, spans, this.numbers(m));
  }
  rects(header, spans, rows) {
    const index = [], row = [];
    spans.forEach(([lo, hi], k) => { for (let i = lo; i < hi; i++) if (!this.shown || this.shown[i]) { index.push(i); row.push(rows[k]); } });
    const used = [...new Set(index.map((i) => this.name[i]))], at = new Map(used.map((t, k) => [t, k]));
    const hits = this.hit ? { hits: used.map((t) => this.hitTexts[t]) } : {};
    const pick = (T, from) => T.from(index, (i) => from[i]);
    return [{ ...header, ...hits, kind: "rects", texts: used.map((t) => this.texts[t]), colours: used.map((t) => this.tints[t]) },
      [pick(BigInt64Array, this.start), pick(BigInt64Array, this.dur), Uint32Array.from(index), pick(Int32Array, this.step),
        Uint16Array.from(row), Uint16Array.from(index, (i) => at.get(this.name[i]))]];
  }
  fromEvents(m, a, b, spans, wanted) {   // busy share and colour of each pixel, from the events in sight
    const w = m.width, busy = new Uint8Array(spans.length * w), colour = new Uint8Array(spans.length * w);
    const share = new Float64Array(w), most = new Float64Array(w), px = (b - a) / w;
    spans.forEach(([lo, hi], k) => {
      share.fill(0); most.fill(-1);
      for (let i = lo; i < hi; i++) {
        if (!wanted(i)) continue;
        const x0 = Math.max(0, Math.floor((this.t0[i] - a) / px)), x1 = Math.min(w - 1, Math.floor((this.t1[i] - a) / px));
        for (let x = x0; x <= x1; x++) {
          const part = Math.min(this.t1[i], a + (x + 1) * px) - Math.max(this.t0[i], a + x * px);
          share[x] += Math.max(0, part);
          if (part > most[x]) { most[x] = part; colour[k * w + x] = this.tints[this.name[i]]; }
        }
      }
      for (let x = 0; x < w; x++) busy[k * w + x] = most[x] < 0 ? 0 : Math.max(1, Math.min(255, Math.round((share[x] * 255) / px)));
    });
    return [busy, colour];
  }
  fromLevels(m, a, b) {
    const full = Number(this.extent), px = (b - a) / m.width, rows = this.numbers(m);
    const level = this.levels.find((w) => full / w <= px * 1.01) || this.levels[this.levels.length - 1];
    const out = [0, 1].map(() => new Uint8Array(rows.length * m.width));
    for (let x = 0; x < m.width; x++) {
      const j = Math.floor(((a + (x + 0.5) * px) / full) * level);
      if (j < 0 || j >= level) continue;
      for (let k = 0; k < rows.length; k++) {
        out[0][k * m.width + x] = this[`busy${level}`][rows[k] * level + j];
        out[1][k * m.width + x] = this[`colour${level}`][rows[k] * level + j];
      }
    }
    return out;
  }
  find(m) {
    if (m.event !== undefined) return m.event;
    if (m.row < 0) return -1;
    const t = BigInt(m.t), slack = BigInt(m.slack);
    let [i, before] = [this.after(m.row, Number(t)), -1];
    if (this.shown) while (i < this.offset[m.row + 1] && !this.shown[i]) i++;
    for (before = i - 1; this.shown && before >= this.offset[m.row] && !this.shown[before];) before--;
    const gap = (k) => { const d = [this.start[k] - t, t - this.start[k] - this.dur[k] + 1n, 0n]; return d.reduce((x, y) => (x > y ? x : y)); };
    const near = [before, i].filter((k) => k >= this.offset[m.row] && k < this.offset[m.row + 1] && gap(k) <= slack);
    return near.length ? near.reduce((x, y) => (gap(y) < gap(x) ? y : x)) : -1;
  }
  describe(i) {
    if (i < 0) return {};
    const row = this.row[i], lane = this.laneOf(i);
    return { event: i, text: this.texts[this.name[i]], lane: this.state.lanes[lane].label, row, start: String(this.start[i]),
      dur: String(this.dur[i]), ...(this.shown && !this.shown[i] ? { hidden: true } : {}), step: this.step[i] === -(2 ** 31) ? null : this.step[i] };
  }

  // ---- search and filter, as search.py and filters.py do them ---------------------------------
  some(lo, hi, flags) { let n = 0; for (let i = lo; i < hi; i++) n += flags[i]; return n; }
  matching(text) {             // by distinct name; null where the expression is none
    const regex = text.length > 2 && text[0] === "/" && text.endsWith("/");
    const escaped = text.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&");
    try {
      const pattern = new RegExp(regex ? text.slice(1, -1) : escaped, "iu");
      return Uint8Array.from(this.texts, (name) => pattern.test(name));
    } catch { return null; }
  }
  narrow() {
    const { families, streams, steps, text } = this.state.filter, names = text && this.matching(text);
    const any = families || streams || steps || names;
    const some = (list) => list && new Set(list.map(String)), [f, s, k] = [some(families), some(streams), some(steps)];
    this.shown = any ? Uint8Array.from(this.name, (n, i) => (!f || f.has(this.families[n])) && (!names || names[n])
      && (!s || s.has(this.streams[this.row[i]])) && (!k || k.has(String(this.step[i])))) : null;
    this.state.filtered = any ? this.sentence(this.some(0, this.shown.length, this.shown)) : "";
    this.tell("change:filtered");
    this.look(this.state.search);
    if (this.marked >= 0) this.set("mark", this.describe(this.marked));
  }
  sentence(n) {
    const named = ([key, one, many]) => {
      const list = this.state.filter[key];
      if (!list) return [];
      if (list.length > LISTED) return [`${list.length} ${many}`];
      return [list.length > 1 ? `${many} ${list.slice(0, -1).join(", ")} and ${list[list.length - 1]}` : `${one} ${list[0]}`];
    };
    const parts = [["families", "family", "families"], ["streams", "stream", "streams"], ["steps", "step", "steps"]].flatMap(named);
    if (this.state.filter.text) parts.push(`name matching ${this.state.filter.text}`);
    const number = (v) => v.toLocaleString("en"), held = this.complete ? "" : " that this page holds";
    return `Only ${parts.join(", ")}: ${number(n)} of ${number(this.start.length)} events${held}; the others are hidden.`;
  }
  look(text) {
    this.hitTexts = text ? this.matching(text) : null;
    this.hit = this.hitTexts && Uint8Array.from(this.name, (n, i) => this.hitTexts[n] && (!this.shown || this.shown[i]));
    this.found = this.hit ? this.byTime.filter((i) => this.hit[i]) : [];
    this.state.search = this.hit ? text : "";
    this.typed = text;
    this.count();
    this.tell("change:search");
    this.set("version", this.state.version + 1);
  }
  count() {
    if (!this.typed) { this.set("matches", {}); return; }
    const [a, b] = this.state.window.map((t) => Number(BigInt(t) - BigInt(this.state.extent[0])));
    let within = 0;
    for (const i of this.found) within += this.t0[i] < b && (this.t0[i] >= a || this.t1[i] > a);
    const problem = this.hit ? "" : `${this.typed} can't be read as a regular expression.`;
    this.set("matches", { text: this.typed, total: this.found.length, within, at: this.found.indexOf(this.marked) + 1, problem });
  }
  mark(i) {
    this.marked = i;
    this.count();
    this.set("flow", linked(this, i));
    this.set("mark", this.describe(i));
  }
  along(i, by) {                 // as walk.py
    const k = i + by, row = this.row[i];
    return k >= this.offset[row] && k < this.offset[row + 1] ? k : -1;
  }
  across(i, row) {
    const [lo, end] = [this.offset[row], this.offset[row + 1]], t = this.t0[i];
    const k = this.after(row, t), before = k < end && this.t0[k] <= t ? k : -1;
    if (before >= 0) return before;
    if (k < end && this.t0[k] < this.t1[i]) return k;
    const near = [k - 1, k].filter((j) => j >= lo && j < end), gap = (j) => Math.max(this.t0[j] - t, t - this.t1[j]);
    return near.length ? near.reduce((x, y) => (gap(y) < gap(x) ? y : x)) : -1;
  }
  launchedIn(i) {                // activities of an operator and of what it called
    const inside = (k) => k >= 0 && this.laneOf(k) === this.laneOf(i) && this.t0[k] >= this.t0[i] && this.t1[k] <= this.t1[i];
    const out = [];
    this.operator.forEach((op, k) => { if (out.length < 50 && inside(op)) out.push(k); });
    return out;
  }
  laneOf(i) {
    let [left, lane] = [this.row[i], 0];
    for (; left >= this.state.lanes[lane].rows; lane++) left -= this.state.lanes[lane].rows;
    return lane;
  }
  walk(by) {
    const n = this.found.length, at = this.found.indexOf(this.marked);
    if (!n) return;
    const from = this.marked >= 0 ? this.t0[this.marked] : Number(BigInt(this.state.window[0]) - BigInt(this.state.extent[0]));
    let k = at + by;
    if (at < 0) {
      k = this.found.findIndex((i) => this.t0[i] >= from);
      k = (k < 0 ? n : k) - (by > 0 ? 0 : 1);
    }
    const i = this.found[(k + n) % n];
    this.set("window", this.around(i));
    this.mark(i);
  }
  around(i) {                  // as Timeline._around, in BigInt
    const [first, last] = this.state.extent.map(BigInt), [a, b] = this.state.window.map(BigInt);
    const start = this.start[i] + first, dur = this.dur[i];
    let span = b - a;
    if ((dur > 0n && dur * BigInt(WELL_SEEN) < span) || dur > span) span = dur > span ? 2n * dur : 50n * dur;
    else if (a <= start && start + dur <= b) return this.state.window;
    const least = (x, y) => (x < y ? x : y), most = (x, y) => (x > y ? x : y);
    span = least(most(span, 1n), last - first);
    const left = least(most(start + dur / 2n - span / 2n, first), last - span);
    return [left, left + span].map(String);
  }
}

for (const data of document.querySelectorAll("script[type='application/workbench-timeline']")) {
  if (data.dataset.shown) continue;   // by the copy of this script that another timeline brought
  data.dataset.shown = "yes";
  const el = document.createElement("div");
  data.after(el);
  StaticModel.load(JSON.parse(data.textContent)).then((model) => render({ model, el }));
}
