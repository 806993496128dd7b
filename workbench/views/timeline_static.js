// Stands in for the kernel in a standalone page: answers the messages of timeline.js from arrays
// that the page carries (html.py), and keeps traits in a plain object.

const MAX_RECTS = 5000;
const WELL_SEEN = 200;        // as in timeline.py
const LISTED = 4;
const WIDE = 24;             // as in wide.py

// starts and ends of boxes from the gaps between them, row by row: as doubles, exact up to 2^53 ns
// (104 days); beyond that `exact` has starts and lengths as BigInt
function restored(gap, dur, offset, long) {
  const n = gap.low.length, t0 = new Float64Array(n), t1 = new Float64Array(n);
  const exact = long ? [new BigInt64Array(n), new BigInt64Array(n)] : null;
  const whole = ({ low, high }, i) => BigInt(low[i]) + (high ? BigInt(high[i]) << 32n : 0n);
  const number = ({ low, high }, i) => low[i] + (high ? high[i] * 2 ** 32 : 0);
  for (let r = 0; r + 1 < offset.length; r++) {
    if (!long) for (let i = offset[r], t = 0; i < offset[r + 1]; i++) { t0[i] = t += number(gap, i); t1[i] = t += number(dur, i); }
    else for (let i = offset[r], t = 0n; i < offset[r + 1]; i++) {
      exact[0][i] = t += whole(gap, i); exact[1][i] = whole(dur, i);
      t0[i] = Number(t); t1[i] = Number(t += exact[1][i]);
    }
  }
  return { t0, t1, exact };
}

class StaticModel extends Traits {
  constructor(state) { super(state); this.marked = -1; }
  static async load(page) {
    const model = new StaticModel(page.state), names = Object.keys(page.columns);
    const read = await Promise.all(names.map((name) => unpackNumbers(page.columns[name])));
    const columns = Object.fromEntries(names.map((name, k) => [name, read[k]]));
    model.extent = BigInt(page.state.extent[1]) - BigInt(page.state.extent[0]);
    const times = restored(columns.gap, columns.dur, page.offset, model.extent >> 53n);
    Object.assign(model, JSON.parse(await unpackText(page.words)), times, {
      places: page.places, offset: page.offset, grain: page.grain, steps: page.steps, streams: page.streams, columns,
      name: columns.name.low, step: columns.step.low, more: columns.count && columns.count.low,
      peers: page.peers, curves: page.curves });
    for (const tie of TIES) model[tie] = columns[tie] ? running(columns[tie]) : new Float64Array(model.t0.length).fill(-1);
    model.tracks = page.curves.map((_, k) => readTrack(columns, k));
    model.row = new Uint32Array(model.t0.length);
    for (let r = 0; r + 1 < model.offset.length; r++) model.row.fill(r, model.offset[r], model.offset[r + 1]);
    model.readJoined();
    const { mark } = page.state;
    if (mark && mark.dur) model.marked = model.find({ row: mark.row, t: mark.start, slack: 0 });
    model.state.flow = linked(model, model.marked);
    model.narrow();
    return model;
  }
  // a box may hold several events; what it was idle between them stands with those alone
  readJoined() {
    if (!this.more) return;
    const { low, high } = this.columns.idle;
    this.idle = new Float64Array(this.t0.length);
    this.before = new Uint32Array(this.t0.length + 1);   // events in the boxes before each
    for (let i = 0, k = 0; i < this.idle.length; i++) {
      this.before[i + 1] = this.before[i] + this.more[i] + 1;
      if (this.more[i]) { this.idle[i] = low[k] + (high ? high[k] * 2 ** 32 : 0); k++; }
    }
  }
  start(i) { return this.exact ? this.exact[0][i] : BigInt(this.t0[i]); }
  dur(i) { return this.exact ? this.exact[1][i] : BigInt(this.t1[i] - this.t0[i]); }
  events(i) { return this.more ? this.more[i] + 1 : 1; }
  textOf(i) {
    const text = this.texts[this.name[i]];
    if (this.events(i) === 1) return text;
    const busy = Number(this.dur(i)) - this.idle[i];
    return `${this.events(i).toLocaleString("en")} events, longest ${text}; busy for ${duration(busy)}`;
  }
  set(name, value) {
    this.state[name] = value;
    if (name === "filter") this.narrow();
    if (name === "selection") this.set("measured", measured(this, value));
    this.tell(`change:${name}`);
    if (name === "window") this.count();
  }
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
  startedBefore(row, t) {
    let [lo, hi] = [this.offset[row], this.offset[row + 1]];
    while (lo < hi) { const mid = (lo + hi) >> 1; if (this.t0[mid] < t) lo = mid + 1; else hi = mid; }
    return lo;
  }
  within(r, a, b) {              // the boxes [lo, hi) of a row that touch a stretch
    const lo = this.after(r, a);
    return [lo, Math.max(lo, this.startedBefore(r, b))];
  }
  touching(r, a, b) {
    const [lo, hi] = this.within(r, a, b), out = [];
    for (let i = lo; i < hi; i++) if (!this.shown || this.shown[i]) out.push(i);
    return out;
  }
  numbers(m) { return m.runs.flatMap(([first, last]) => Array.from({ length: last - first }, (_, k) => first + k)); }
  view(m) {
    const base = Number(m.base), a = base + m.a, b = base + m.b, spans = [], { shown, more } = this, rows = this.numbers(m);
    let boxes = 0, n = 0;
    for (const r of rows) {
      const [lo, hi] = this.within(r, a, b);
      spans.push([lo, hi]);
      if (!shown) { boxes += hi - lo; n += more ? this.before[hi] - this.before[lo] : hi - lo; }
      else for (let i = lo; i < hi; i++) if (shown[i]) { boxes++; n += this.events(i); }
    }
    const header = { ...m, n };
    if (boxes <= MAX_RECTS && !m.bins) return this.rects(header, spans, rows);
    const matches = this.hit ? this.fromEvents(m, a, b, spans, this.hit) : [];
    const least = (WIDE * (b - a)) / m.width, single = (i) => this.events(i) === 1 && Math.min(this.t1[i], b) - Math.max(this.t0[i], a) >= least;
    const [wide, columns] = this.rects({}, spans, rows, single), pixels = [...this.fromEvents(m, a, b, spans, shown), ...matches];
    return [{ ...header, kind: "bins", ...(wide.texts.length ? { wide } : {}) }, wide.texts.length ? [...pixels, ...columns] : pixels];
  }
  rects(header, spans, rows, wanted = () => true) {
    const index = [], row = [], texts = [], at = new Map(), tints = [], hits = [], counts = [];
    const text = (i) => {      // boxes of one event share their name; each other one has its own
      const known = this.events(i) === 1 ? at.get(this.name[i]) : undefined;
      if (known !== undefined) return known;
      if (this.events(i) === 1) at.set(this.name[i], texts.length);
      tints.push(this.tints[this.name[i]]); counts.push(this.events(i));
      if (this.hit) hits.push(this.hitTexts[this.name[i]]);
      return texts.push(this.textOf(i)) - 1;
    };
    spans.forEach(([lo, hi], k) => { for (let i = lo; i < hi; i++) if ((!this.shown || this.shown[i]) && wanted(i)) { index.push(i); row.push(rows[k]); } });
    const numbered = Uint16Array.from(index, text);
    return [{ ...header, ...(this.hit ? { hits } : {}), kind: "rects", texts, colours: tints, counts },
      [BigInt64Array.from(index, (i) => this.start(i)), BigInt64Array.from(index, (i) => this.dur(i)), Uint32Array.from(index),
        Int32Array.from(index, (i) => this.steps[this.step[i]]), Uint16Array.from(row), numbered]];
  }
  fromEvents(m, a, b, spans, wanted) {   // busy share and colour of each pixel, from the boxes in sight
    const w = m.width, busy = new Uint8Array(spans.length * w), colour = new Uint8Array(spans.length * w);
    const share = new Float64Array(w), most = new Float64Array(w), px = (b - a) / w, { t0, t1, idle, tints, name } = this;
    spans.forEach(([lo, hi], k) => {
      share.fill(0); most.fill(-1);
      for (let i = lo; i < hi; i++) {
        if (wanted && !wanted[i]) continue;
        const left = t0[i] - a, right = t1[i] - a, apart = idle ? idle[i] : 0;
        const x0 = left < 0 ? 0 : Math.floor(left / px);
        if (right <= (x0 + 1) * px && left >= 0) {     // inside one pixel, as most are
          const part = right - left - apart;
          share[x0] += part;
          if (part > most[x0]) { most[x0] = part; colour[k * w + x0] = tints[name[i]]; }
          continue;
        }
        const x1 = Math.min(w - 1, Math.ceil(right / px) - 1), dense = 1 - apart / (right - left);
        for (let x = x0; x <= x1; x++) {
          const part = dense * (Math.min(right, (x + 1) * px) - Math.max(left, x * px));
          share[x] += part;
          if (part > most[x]) { most[x] = part; colour[k * w + x] = tints[name[i]]; }
        }
      }
      for (let x = 0; x < w; x++) busy[k * w + x] = most[x] < 0 ? 0 : Math.max(1, Math.min(255, Math.round((share[x] * 255) / px)));
    });
    return [busy, colour];
  }
  find(m) {
    if (m.event !== undefined) return m.event;
    if (m.row < 0) return -1;
    const t = BigInt(m.t), slack = BigInt(m.slack);
    let [i, before] = [this.after(m.row, Number(t)), -1];
    if (this.shown) while (i < this.offset[m.row + 1] && !this.shown[i]) i++;
    for (before = i - 1; this.shown && before >= this.offset[m.row] && !this.shown[before];) before--;
    const gap = (k) => { const d = [this.start(k) - t, t - this.start(k) - this.dur(k) + 1n, 0n]; return d.reduce((x, y) => (x > y ? x : y)); };
    const near = [before, i].filter((k) => k >= this.offset[m.row] && k < this.offset[m.row + 1] && gap(k) <= slack);
    return near.length ? near.reduce((x, y) => (gap(y) < gap(x) ? y : x)) : -1;
  }
  laneOf(i) {
    let lane = 0;
    for (let left = this.row[i]; left >= this.state.lanes[lane].rows; lane++) left -= this.state.lanes[lane].rows;
    return lane;
  }
  describe(i) {
    if (i < 0) return {};
    return { event: i, text: this.textOf(i), lane: this.state.lanes[this.laneOf(i)].label, row: this.row[i], start: String(this.start(i)),
      dur: String(this.dur(i)), ...(this.shown && !this.shown[i] ? { hidden: true } : {}), step: this.stepOf(i) };
  }

  stepOf(i) { const step = this.steps[this.step[i]]; return step === -(2 ** 31) ? null : step; }

  // ---- search and filter, as search.py and filters.py do them ---------------------------------
  sum(flags) { let n = 0; for (let i = 0; i < this.name.length; i++) if (!flags || flags[i]) n += this.events(i); return n; }
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
      && (!s || s.has(this.streams[this.row[i]])) && (!k || k.has(String(this.steps[this.step[i]])))) : null;
    this.state.filtered = any ? this.sentence(this.sum(this.shown)) : "";
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
    const number = (v) => v.toLocaleString("en");
    return `Only ${parts.join(", ")}: ${number(n)} of ${number(this.sum())} events; the others are hidden.`;
  }
  look(text) {
    this.hitTexts = text ? this.matching(text) : null;
    this.hit = this.hitTexts && Uint8Array.from(this.name, (n, i) => this.hitTexts[n] && (!this.shown || this.shown[i]));
    this.found = this.hit ? this.inTime(this.hit) : [];
    this.state.search = this.hit ? text : "";
    this.typed = text;
    this.count();
    this.tell("change:search");
    this.set("version", this.state.version + 1);
  }
  inTime(flags) {              // by start, then by row; sorting plain numbers is ten times as fast as with a comparison
    const found = this.row.map((_, i) => i).filter((i) => flags[i]), sorted = Float64Array.from(found, (i) => this.t0[i]).sort();
    const out = new Uint32Array(found.length), taken = new Uint32Array(found.length);
    for (const i of found) {
      let [lo, hi] = [0, sorted.length];
      while (lo < hi) { const mid = (lo + hi) >> 1; if (sorted[mid] < this.t0[i]) lo = mid + 1; else hi = mid; }
      out[lo + taken[lo]++] = i;
    }
    return out;
  }
  count() {
    if (!this.typed) { this.set("matches", {}); return; }
    const [a, b] = this.state.window.map((t) => Number(BigInt(t) - BigInt(this.state.extent[0])));
    let within = 0;
    for (const i of this.found) within += this.t0[i] < b && (this.t0[i] >= a || this.t1[i] > a);
    const problem = this.hit ? "" : `${this.typed} can't be read as a regular expression.`;
    let joined = 0;            // events that match, inside boxes that are called by another
    if (this.hit && this.more && !this.shown) {
      joined = -this.found.length;
      for (let k = 0; k < this.totals.length; k++) if (this.hitTexts[k]) joined += this.totals[k];
    }
    this.set("matches", { text: this.typed, total: this.found.length, within, at: this.found.indexOf(this.marked) + 1, problem, joined });
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
    const start = this.start(i) + first, dur = this.dur(i);
    let span = b - a;
    if ((dur > 0n && dur * BigInt(WELL_SEEN) < span) || dur > span) span = dur > span ? 2n * dur : 50n * dur;
    else if (a <= start && start + dur <= b) return this.state.window;
    const least = (x, y) => (x < y ? x : y), most = (x, y) => (x > y ? x : y);
    span = least(most(span, 1n), last - first);
    const left = least(most(start + dur / 2n - span / 2n, first), last - span);
    return [left, left + span].map(String);
  }
}

async function showTimelines() {
  for (const data of document.querySelectorAll("script[type='application/workbench-timeline']")) {
    const el = document.createElement("div");
    data.after(el);
    el.model = await StaticModel.load(JSON.parse(data.textContent));
    render({ model: el.model, el });
  }
}
