// How the timeline looks: lanes, colours, and everything that is painted on the canvas.
// `timeline.js` continues this file; the two are joined into one module (timeline.py).

const AXIS = 24, SINGLE = 18, NESTED = 15, LANE_GAP = 5, SCROLLBAR = 13;
const BUSY_AFTER = 400;       // ms until the status says that the kernel is busy
const SMALL = "11px system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif";
const UNITS = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];

const BOILERPLATE = /^void |\(anonymous namespace\)::|^(void )?(at::native::|cutlass::Kernel2?<)+/g;
const clamp = (v, lo, hi) => Math.max(lo, Math.min(hi, v));
const floorBig = (v) => BigInt(Math.floor(v));

function duration(ns) {
  const [scale, unit] = UNITS.find(([s]) => Math.abs(ns) >= s) || UNITS[3];
  return `${Number((ns / scale).toPrecision(4))} ${unit}`;
}
function exactTime(big) {     // all digits of a time, in the largest unit that it reaches
  const size = big < 0n ? -big : big;
  const [scale, unit] = UNITS.find(([s]) => size >= BigInt(s)) || UNITS[3];
  const s = BigInt(scale), digits = String(scale).length - 1;
  const rest = digits ? String(size % s).padStart(digits, "0").replace(/0+$/, "") : "";
  return `${big < 0n ? "-" : ""}${size / s}${rest && "." + rest} ${unit}`;
}
function array(buffer, Type) { // buffers arrive at any alignment, so they are copied
  const u = ArrayBuffer.isView(buffer) ? buffer : new Uint8Array(buffer);
  return new Type(u.buffer.slice(u.byteOffset, u.byteOffset + u.byteLength));
}
function rgb(colour) {        // as canvases write colours: #rrggbb or rgba(r, g, b, a)
  if (colour[0] !== "#") return colour.match(/[\d.]+/g).slice(0, 3).map(Number);
  const n = parseInt(colour.slice(1), 16);
  return [n >> 16, (n >> 8) & 255, n & 255];
}
function mix(a, b, share) {
  const [x, y] = [rgb(a), rgb(b)];
  return `rgb(${x.map((v, k) => Math.round(v + (y[k] - v) * share))})`;
}
const brightness = ([r, g, b]) => (0.299 * r + 0.587 * g + 0.114 * b) / 255;

class Picture {
  // ---- layout -------------------------------------------------------------------------------
  layout() {
    this.rows = []; this.laneTop = [];
    let y = 3;
    this.lanes.forEach((lane, k) => {
      this.laneTop.push(y);
      const h = lane.rows > 1 ? NESTED : SINGLE;
      for (let r = 0; r < lane.rows; r++) {
        const shown = r === 0 || !this.folded.has(k);
        this.rows.push({ y, h: shown ? h : 0, lane: k });
        y += shown ? h : 0;
      }
      y += LANE_GAP;
    });
    this.content = y;
    this.body = clamp(y, 40, this.model.get("max_height"));
    this.height = AXIS + this.body;
    this.overflows = y > this.body;
    this.width = this.root.clientWidth || 0;
    this.gutter = this.gutterWidth();
    this.plot = Math.max(50, this.width - this.gutter - (this.overflows ? SCROLLBAR : 0));
    this.canvas.style.height = `${this.height}px`;
    this.scroller.style.cssText = `display:${this.overflows ? "block" : "none"};top:${AXIS}px;height:${this.body}px`;
    this.spacer.style.height = `${y}px`;
    this.top = clamp(this.top, 0, Math.max(0, y - this.body));
  }
  gutterWidth() {
    this.g.font = SMALL;
    const widest = Math.max(60, ...this.lanes.map((l) => this.g.measureText(this.label(l)).width + 26));
    return Math.ceil(Math.min(widest, 260, this.width * 0.3));
  }
  label(lane) { return lane.hidden ? `${lane.label} (${lane.hidden} not shown)` : lane.label; }
  visibleRows() {
    const first = this.rows.findIndex((r) => r.y + r.h > this.top);
    let last = first < 0 ? 0 : first;
    while (last < this.rows.length && this.rows[last].y < this.top + this.body) last++;
    return [Math.max(0, first), last];
  }
  rowAt(y) {
    const v = y - AXIS + this.top;
    return y < AXIS ? -1 : this.rows.findIndex((r) => v >= r.y && v < r.y + r.h);
  }

  // ---- colours ------------------------------------------------------------------------------
  restyle() {
    const css = getComputedStyle(this.root), g = this.g;
    const value = (name) => { g.fillStyle = "#808080"; g.fillStyle = css.getPropertyValue(name).trim(); return g.fillStyle; };
    const c = { page: value("--wb-page"), text: value("--wb-text"), muted: value("--wb-muted"), accent: value("--wb-accent") };
    c.lane = mix(c.page, c.text, 0.05);
    c.line = mix(c.page, c.text, 0.15);
    c.dark = brightness(rgb(c.page)) < 0.5;
    c.palette = this.model.get("palette")[c.dark ? "dark" : "light"];
    c.dim = c.palette.map((p) => mix(c.lane, p, 0.22));   // what a search does not match
    [c.packed, c.packedDim] = [c.palette, c.dim].map((all) => Uint32Array.from(all, (p) => { const [r, g2, b] = rgb(p); return 0xff000000 | (b << 16) | (g2 << 8) | r; }));
    c.onto = c.palette.map((p) => (brightness(rgb(p)) > 0.55 ? "#14181f" : "#ffffff"));
    const changed = JSON.stringify(c.palette) + c.page !== this.look;
    this.look = JSON.stringify(c.palette) + c.page;
    this.colours = c;
    this.hatches = null;
    this.root.dataset.theme = c.dark ? "dark" : "light";
    if (changed && this.got && this.got.kind === "bins") this.paintBins(this.got);
    this.draw();
  }

  // ---- where times lie ----------------------------------------------------------------------
  get span() { return this.b - this.a; }
  x(base, offset) { return this.gutter + ((Number(base - this.base) + offset - this.a) / this.span) * this.plot; }
  xOf(time) { return this.x(time, 0); }

  // ---- drawing ------------------------------------------------------------------------------
  draw() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => this.paintNow());
  }
  paintNow() {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    if (!this.width) return;
    const g = this.g, dpr = window.devicePixelRatio || 1, c = this.colours;
    const [w, h] = [Math.round(this.width * dpr), Math.round(this.height * dpr)];
    if (this.canvas.width !== w || this.canvas.height !== h) Object.assign(this.canvas, { width: w, height: h });
    g.setTransform(dpr, 0, 0, dpr, 0, 0);
    g.font = SMALL; g.textBaseline = "middle"; g.textAlign = "left";
    g.fillStyle = c.page; g.fillRect(0, 0, this.width, this.height);
    this.clipped(this.gutter, AXIS, this.plot, this.body, () => {
      this.drawLanes();
      if (this.got) this.got.kind === "bins" ? this.drawBins() : this.drawRects();
      this.drawNotes();
      this.drawMark();
      this.drawSelection();
    });
    this.drawAxis();
    this.drawLabels();
    this.report();
    if (this.since && this.satisfied()) {   // how long the newest picture took, for tests
      this.samples.push(performance.now() - this.since);
      this.since = 0;
    }
  }
  clipped(x, y, w, h, body) {
    this.g.save();
    this.g.beginPath(); this.g.rect(x, y, w, h); this.g.clip();
    body();
    this.g.restore();
  }
  drawLanes() {
    this.g.fillStyle = this.colours.lane;
    this.lanes.forEach((_, k) => this.g.fillRect(this.gutter, this.laneY(k), this.plot, this.laneHeight(k)));
    this.g.fillStyle = this.colours.line;
    for (const { x } of this.ticks()) this.g.fillRect(Math.round(x), AXIS, 1, this.body);
  }
  laneY(k) { return AXIS - this.top + this.laneTop[k]; }
  laneHeight(k) { return (k + 1 < this.laneTop.length ? this.laneTop[k + 1] : this.content) - this.laneTop[k] - LANE_GAP; }
  drawBins() {
    const d = this.got, x0 = this.x(d.base, d.a), x1 = this.x(d.base, d.b);
    // the part in sight alone: a sheet stretched a millionfold overflows the canvas
    const scale = d.width / (x1 - x0), from = clamp((this.gutter - x0) * scale, 0, d.width);
    const to = clamp((this.gutter + this.plot - x0) * scale, 0, d.width);
    if (to <= from) return;
    this.g.imageSmoothingEnabled = false;
    this.g.drawImage(this.sheet, from, 0, to - from, this.sheet.height,
      x0 + from / scale, AXIS - this.top + d.sheetY, (to - from) / scale, this.sheet.height);
  }
  drawRects() {
    this.shown = 0;
    const { hits } = this.got;
    if (!hits) { this.drawBoxes(() => true, this.colours.palette, this.colours.onto); return; }
    const muted = this.colours.palette.map(() => this.colours.muted);
    this.drawBoxes((text) => !hits[text], this.colours.dim, muted);
    this.drawBoxes((text) => hits[text], this.colours.palette, this.colours.onto);  // on top, however thin
  }
  drawBoxes(wanted, palette, onto) {
    const d = this.got, g = this.g, s = this.plot / this.span;
    const shift = this.gutter + (Number(d.base - this.base) - this.a) * s, right = this.gutter + this.plot;
    let reached = -1, row = -1;
    const instants = [];
    for (let i = 0; i < d.row.length; i++) {
      if (!wanted(d.text[i])) continue;
      const r = this.rows[d.row[i]], x = shift + d.x0[i] * s, w = d.length[i] * s;
      if (d.row[i] !== row) { row = d.row[i]; reached = -1; }
      if (!r.h || x > right || x + w < this.gutter) continue;
      if (r.y + r.h <= this.top || r.y >= this.top + this.body) continue;
      const joined = d.counts ? d.counts[d.text[i]] : 1;   // several events in one box: a page that holds too many
      this.shown += joined;
      if (!d.length[i]) { instants.push([x, r, d.colours[d.text[i]]]); continue; }
      const a = Math.max(x, this.gutter - 2), b = Math.min(x + Math.max(w, 1), right + 2);
      if (b <= reached) continue;          // a sliver inside a pixel that is painted already
      reached = Math.ceil(b);
      const y = AXIS - this.top + r.y, colour = d.colours[d.text[i]];
      g.fillStyle = joined > 1 ? this.hatched(palette[colour]) : palette[colour];
      g.fillRect(a, y, w > 3 ? b - a - 0.6 : b - a, r.h - 1);
      if (b - a > 30) this.drawText(d.texts[d.text[i]], a, b, y + (r.h - 1) / 2, joined > 1 ? this.colours.text : onto[colour]);
    }
    for (const [x, r, colour] of instants) {
      g.fillStyle = palette[colour];
      g.fillRect(x - 1, AXIS - this.top + r.y, 2, r.h - 1);
    }
  }
  hatched(colour) {
    this.hatches ||= new Map();
    if (!this.hatches.has(colour)) {
      const tile = Object.assign(document.createElement("canvas"), { width: 6, height: 6 }), g = tile.getContext("2d");
      g.fillStyle = mix(this.colours.lane, colour, 0.25); g.fillRect(0, 0, 6, 6);
      g.strokeStyle = mix(this.colours.lane, colour, 0.6); g.lineWidth = 2;
      for (const x of [-6, 0, 6]) { g.beginPath(); g.moveTo(x - 1, 7); g.lineTo(x + 7, -1); g.stroke(); }
      this.hatches.set(colour, this.g.createPattern(tile, "repeat"));
    }
    return this.hatches.get(colour);
  }
  drawText(text, a, b, y, colour) {
    const left = Math.max(a, this.gutter) + 4, room = Math.min(b, this.gutter + this.plot) - left - 3;
    const fits = this.fitted(text.replace(BOILERPLATE, "").replace(BOILERPLATE, ""), room);
    if (!fits) return;
    this.g.fillStyle = colour;
    this.g.fillText(fits, left, y + 0.5);
  }
  fitted(text, room) {
    if (text.length * 9 > room && this.g.measureText(text).width > room) {
      let n = Math.floor(room / 6);
      while (n > 1 && this.g.measureText(text.slice(0, n) + "…").width > room) n--;
      return n < 3 ? "" : text.slice(0, n) + "…";
    }
    return text;
  }
  drawNotes() {
    for (const note of this.model.get("annotations") || []) {
      const x0 = this.xOf(BigInt(note.start_ns) - this.origin), x1 = this.xOf(BigInt(note.end_ns) - this.origin);
      this.band(x0, x1, "#e69f00", String(note.name), this.height - 10);
    }
  }
  band(x0, x1, colour, text, y) {
    const g = this.g, left = Math.max(x0, this.gutter), right = Math.min(x1, this.gutter + this.plot);
    if (right < left) return;
    g.globalAlpha = 0.18; g.fillStyle = colour; g.fillRect(left, AXIS, Math.max(right - left, 1), this.body);
    g.globalAlpha = 1;
    for (const x of [x0, x1]) g.fillRect(Math.round(x) - 0.5, AXIS, 1, this.body);
    const w = g.measureText(text).width + 12, at = clamp((left + right - w) / 2, this.gutter, this.gutter + this.plot - w);
    g.beginPath(); g.roundRect(at, y - 8, w, 16, 4); g.fill();
    g.fillStyle = brightness(rgb(g.fillStyle)) > 0.55 ? "#14181f" : "#ffffff";
    g.fillText(text, at + 6, y + 0.5);
  }
  drawSelection() {
    const s = this.selection;
    if (s) this.band(this.xOf(s[0]), this.xOf(s[1]), this.colours.accent, duration(Number(s[1] - s[0])), AXIS + 11);
  }
  drawMark() {
    const outline = (e, colour, width) => {
      const r = e && this.rows[e.row];
      if (!r || !r.h) return;
      const start = BigInt(e.start), x0 = this.xOf(start), x1 = Math.max(this.xOf(start + BigInt(e.dur)), x0 + 2);
      if (x1 < this.gutter || x0 > this.gutter + this.plot) return;
      this.g.strokeStyle = colour; this.g.lineWidth = width;
      const a = Math.max(x0, this.gutter - 5), b = Math.min(x1, this.gutter + this.plot + 5);
      this.g.strokeRect(a - 0.5, AXIS - this.top + r.y - 0.5, b - a + 1, r.h);
    };
    outline(this.hovered, this.colours.muted, 1);
    outline(this.mark, this.colours.page, 4);
    this.g.setLineDash(this.mark && this.mark.hidden ? [3, 3] : []);
    outline(this.mark, this.colours.text, 2);
    this.g.setLineDash([]);
  }
  ticks() {
    const least = (this.span * 90) / this.plot;
    let step = 1;
    for (let k = 0; step < least; k++) step = [1, 2, 5][k % 3] * 10 ** Math.floor(k / 3);
    const big = BigInt(step), [scale, unit] = UNITS.find(([s]) => step >= s);
    const abs = this.origin + this.base, start = abs + floorBig(this.a), group = BigInt(scale) * 1000n;
    const reference = scale < 1e9 && start >= group ? (start / group) * group : 0n;
    const out = [];
    for (let t = ((start + big - 1n) / big) * big; out.length < 60; t += big) {
      const x = this.xOf(t - this.origin);
      if (x > this.gutter + this.plot) break;
      const text = `${reference ? "+" : ""}${(t - reference) / BigInt(scale)} ${unit}`;
      if (x >= this.gutter) out.push({ x, text, reference });
    }
    return out;
  }
  drawAxis() {
    const g = this.g, ticks = this.ticks();
    g.fillStyle = this.colours.muted;
    for (const { x, text } of ticks) {
      g.fillRect(Math.round(x), AXIS - 5, 1, 5);
      if (x + g.measureText(text).width + 4 < this.width) g.fillText(text, x + 3, AXIS - 12);
    }
    if (ticks.length && ticks[0].reference) g.fillText(exactTime(ticks[0].reference), 4, AXIS - 12);
    g.fillStyle = this.colours.line;
    g.fillRect(0, AXIS - 1, this.width, 1);
  }
  drawLabels() {
    this.clipped(0, AXIS, this.gutter, this.body, () => {
      this.lanes.forEach((lane, k) => {
        const y = this.laneY(k);
        if (y + this.laneHeight(k) < AXIS || y > this.height) return;
        const many = lane.rows > 1, mid = Math.max(y, AXIS) + 8;
        this.g.fillStyle = this.colours.muted;
        if (many) this.g.fillText(this.folded.has(k) ? "▸" : "▾", 3, mid);
        this.g.fillStyle = this.colours.text;
        this.g.fillText(this.elided(this.label(lane)), 14, mid);
      });
    });
  }
  elided(text) {               // in the middle: both ends tell lanes apart
    const room = this.gutter - 20;
    if (this.g.measureText(text).width <= room) return text;
    let n = text.length - 1;
    const cut = () => `${text.slice(0, Math.ceil(n / 2))}…${text.slice(text.length - Math.floor(n / 2))}`;
    while (n > 4 && this.g.measureText(cut()).width > room) n--;
    return cut();
  }
  // how many events are in sight, where that is known: pictures of pixels reach beyond the edges
  count() {
    const got = this.got;
    if (!got || got.snapshot || got.n === null) return null;
    if (got.kind === "rects") return this.shown;
    const whole = got.b - got.a >= Number(this.extent) && this.span >= Number(this.extent);
    return whole && !this.overflows ? got.n : null;
  }
  report() {
    const late = this.asked && performance.now() - this.asked.at > BUSY_AFTER, got = this.got;
    const count = this.count(), events = count === null ? "" : `${count.toLocaleString("en")} events in sight · `;
    const wait = !late ? "" : this.answered ? " · the kernel is busy" : " · overview only: the kernel has not answered yet";
    const none = this.lanes.length ? "" : "Nothing to draw: the source has no events. ";
    this.left.textContent = `${none}${events}${duration(this.span)} shown${wait}`;
    Object.assign(this.root.dataset, { kind: got && !got.snapshot ? got.kind : "", busy: String(Boolean(this.asked)) });
  }

  paintBins(d) {               // into a sheet of one device pixel a bin, stretched when drawn
    const y0 = d.first < this.rows.length ? this.rows[d.first].y : 0;
    const end = d.last > d.first ? this.rows[d.last - 1] : { y: y0, h: 0 };
    const h = Math.max(1, end.y + end.h - y0), image = new ImageData(d.width, h);
    const c = this.colours, px = new Uint32Array(image.data.buffer);
    this.paintRows(d, px, y0, d.busy, d.colour, d.hitBusy ? c.packedDim : c.packed, 2);
    // a match is looked for, so it stands out of what is drawn low
    if (d.hitBusy) this.paintRows(d, px, y0, d.hitBusy, d.hitColour, c.packed, 6);
    this.sheet.width = d.width; this.sheet.height = h;
    this.sheet.getContext("2d", { willReadFrequently: true }).putImageData(image, 0, 0);
    d.sheetY = y0;
  }
  paintRows(d, px, y0, share, colour, palette, least) {
    const w = d.width;
    for (let r = d.first; r < d.last; r++) {
      const row = this.rows[r], top = row.y - y0, at = (r - d.first) * w, rise = row.h - 1;
      if (!row.h) continue;
      for (let x = 0; x < w; x++) {  // column by column: line by line, the branch costs three times as much
        const busy = share[at + x];
        if (!busy) continue;
        const tall = Math.min(rise, Math.max(least, Math.ceil((busy * rise) / 255))), c = palette[colour[at + x]];
        for (let y = top + rise - tall, i = y * w + x; y < top + rise; y++, i += w) px[i] = c;
      }
    }
  }
}
