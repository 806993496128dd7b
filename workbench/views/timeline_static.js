// Stands in for the kernel in a standalone page: answers the messages of timeline.js from arrays
// that the page carries (html.py), and keeps traits in a plain object.

const ARRAYS = { i8: BigInt64Array, u4: Uint32Array, i4: Int32Array, u2: Uint16Array, u1: Uint8Array };
const MAX_RECTS = 5000;

async function unpack([type, text]) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new ARRAYS[type](await new Response(stream).arrayBuffer());
}

class StaticModel {
  constructor(state) { this.state = state; this.heard = {}; }
  static async load(page) {
    const model = new StaticModel(page.state);
    for (const [name, packed] of Object.entries(page.arrays)) model[name] = await unpack(packed);
    Object.assign(model, { texts: page.texts, tints: page.colours, complete: page.complete, levels: page.levels });
    model.extent = BigInt(page.state.extent[1]) - BigInt(page.state.extent[0]);
    // what Number holds exactly enough to draw; times that are shown stay BigInt
    model.t0 = Float64Array.from(model.start, Number);
    model.t1 = model.t0.map((t, i) => t + Number(model.dur[i]));
    return model;
  }
  get(name) { return this.state[name]; }
  set(name, value) { this.state[name] = value; this.tell(`change:${name}`); }
  save_changes() {}
  on(event, does) { (this.heard[event] ||= []).push(does); }
  off(event, does) { this.heard[event] = (this.heard[event] || []).filter((f) => f !== does); }
  tell(event, ...args) { for (const does of this.heard[event] || []) does(...args); }
  send(m) {
    setTimeout(() => {
      if (m.type === "view") this.tell("msg:custom", ...this.view(m));
      else if (m.type === "hover") this.tell("msg:custom", { type: "hover", view: m.view, ...this.describe(this.find(m)) }, []);
      else if (m.type === "pick") this.set("mark", this.describe(this.find(m)));
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
  view(m) {
    const base = Number(m.base), a = base + m.a, b = base + m.b, spans = [];
    let n = 0;
    for (let r = m.first; r < m.last; r++) {
      const lo = this.after(r, a);
      let hi = lo;
      while (hi < this.offset[r + 1] && this.t0[hi] < b) hi++;
      spans.push([lo, hi]);
      n += hi - lo;
    }
    const coarse = (m.b - m.a) / m.width >= Number(this.extent) / this.levels[this.levels.length - 1];
    const header = { ...m, n: this.complete ? n : null };
    if (!this.complete && coarse) return [{ ...header, kind: "bins" }, this.fromLevels(m, a, b)];
    if (n > MAX_RECTS) return [{ ...header, kind: "bins" }, this.fromEvents(m, a, b, spans)];
    return this.rects(header, spans);
  }
  rects(header, spans) {
    const index = [], row = [];
    spans.forEach(([lo, hi], k) => { for (let i = lo; i < hi; i++) { index.push(i); row.push(header.first + k); } });
    const used = [...new Set(index.map((i) => this.name[i]))], at = new Map(used.map((t, k) => [t, k]));
    const pick = (T, from) => T.from(index, (i) => from[i]);
    return [{ ...header, kind: "rects", texts: used.map((t) => this.texts[t]), colours: used.map((t) => this.tints[t]) },
      [pick(BigInt64Array, this.start), pick(BigInt64Array, this.dur), Uint32Array.from(index), pick(Int32Array, this.step),
        Uint16Array.from(row), Uint16Array.from(index, (i) => at.get(this.name[i]))]];
  }
  fromEvents(m, a, b, spans) {   // busy share and colour of each pixel, from every event in sight
    const w = m.width, busy = new Uint8Array(spans.length * w), colour = new Uint8Array(spans.length * w);
    const share = new Float64Array(w), most = new Float64Array(w), px = (b - a) / w;
    spans.forEach(([lo, hi], k) => {
      share.fill(0); most.fill(-1);
      for (let i = lo; i < hi; i++) {
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
    const full = Number(this.extent), px = (b - a) / m.width, rows = this.offset.length - 1;
    const level = this.levels.find((w) => full / w <= px * 1.01) || this.levels[this.levels.length - 1];
    const out = [0, 1].map(() => new Uint8Array((m.last - m.first) * m.width));
    for (let x = 0; x < m.width; x++) {
      const j = Math.floor(((a + (x + 0.5) * px) / full) * level);
      if (j < 0 || j >= level) continue;
      for (let r = m.first; r < Math.min(m.last, rows); r++) {
        out[0][(r - m.first) * m.width + x] = this[`busy${level}`][r * level + j];
        out[1][(r - m.first) * m.width + x] = this[`colour${level}`][r * level + j];
      }
    }
    return out;
  }
  find(m) {
    if (m.event !== undefined) return m.event;
    if (m.row < 0) return -1;
    const t = BigInt(m.t), slack = BigInt(m.slack), i = this.after(m.row, Number(t));
    const gap = (k) => { const d = [this.start[k] - t, t - this.start[k] - this.dur[k] + 1n, 0n]; return d.reduce((x, y) => (x > y ? x : y)); };
    const near = [i - 1, i].filter((k) => k >= this.offset[m.row] && k < this.offset[m.row + 1] && gap(k) <= slack);
    return near.length ? near.reduce((x, y) => (gap(y) < gap(x) ? y : x)) : -1;
  }
  describe(i) {
    if (i < 0) return {};
    let row = 0;
    while (this.offset[row + 1] <= i) row++;
    let lane = 0;
    for (let left = row; left >= this.state.lanes[lane].rows; lane++) left -= this.state.lanes[lane].rows;
    return { text: this.texts[this.name[i]], lane: this.state.lanes[lane].label, row, start: String(this.start[i]),
      dur: String(this.dur[i]), step: this.step[i] === -(2 ** 31) ? null : this.step[i] };
  }
}

for (const data of document.querySelectorAll("script[type='application/workbench-timeline']")) {
  if (data.dataset.shown) continue;   // by the copy of this script that another timeline brought
  data.dataset.shown = "yes";
  const el = document.createElement("div");
  data.after(el);
  StaticModel.load(JSON.parse(data.textContent)).then((model) => render({ model, el }));
}
