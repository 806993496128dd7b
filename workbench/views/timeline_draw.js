// How the timeline looks: lanes, colours, and everything that is painted on the canvas.
// It continues timeline_boxes.js; timeline_view.js continues it (timeline.py joins all of them).

const AXIS = 24, SCROLLBAR = 13;
const LOST = "the kernel was restarted: run the cell again";
const BUSY_AFTER = 400;       // ms until the status says that the kernel is busy
const SMALL = "11px system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif";
const UNITS = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];

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

class Picture extends Boxes {
  // ---- layout -------------------------------------------------------------------------------
  layout() {
    const y = this.content = this.shelf.layout();
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
    const widest = Math.max(90, ...this.shelf.items.map((item) => this.widthOf(item.label) + item.indent + 26));
    return Math.ceil(Math.min(widest, 260, this.width * 0.3));
  }
  widthOf(text) {              // measured once: a timeline may have hundreds of lanes
    this.widths ||= new Map();
    if (!this.widths.has(text)) this.widths.set(text, this.g.measureText(text).width);
    return this.widths.get(text);
  }
  rowAt(y) {
    const v = y - AXIS + this.top, item = this.shelf.at(y);
    if (!item || item.kind !== "lane") return -1;
    const { first, rows } = this.shelf.lanes[item.k], end = first + rows;
    for (let r = first; r < end; r++) if (v >= this.rows[r].y && v < this.rows[r].y + this.rows[r].h) return r;
    return -1;
  }

  // ---- colours ------------------------------------------------------------------------------
  restyle() {
    const css = getComputedStyle(this.root), g = this.g;
    const value = (name) => { g.fillStyle = "#808080"; g.fillStyle = css.getPropertyValue(name).trim(); return g.fillStyle; };
    const c = { page: value("--wb-page"), text: value("--wb-text"), muted: value("--wb-muted"), accent: value("--wb-accent") };
    c.lane = mix(c.page, c.text, 0.05);
    c.line = mix(c.page, c.text, 0.15);
    c.head = mix(c.page, c.text, 0.09);
    c.dark = brightness(rgb(c.page)) < 0.5;
    c.palette = this.model.get("palette")[c.dark ? "dark" : "light"];
    c.dim = c.palette.map((p) => mix(c.lane, p, 0.22));   // what a search does not match
    [c.packed, c.packedDim] = [c.palette, c.dim].map((all) => Uint32Array.from(all, (p) => { const [r, g2, b] = rgb(p); return 0xff000000 | (b << 16) | (g2 << 8) | r; }));
    c.area = [0.3, 0.62, 1].map((share) => mix(c.page, mix(c.accent, c.text, 0.25), share));
    c.ontoAccent = brightness(rgb(c.accent)) > 0.55 ? "#14181f" : "#ffffff";
    c.onto = c.palette.map((p) => (brightness(rgb(p)) > 0.55 ? "#14181f" : "#ffffff"));
    const changed = JSON.stringify(c.palette) + c.page !== this.look;
    this.look = JSON.stringify(c.palette) + c.page;
    this.colours = c;
    this.hatches = null;
    this.root.dataset.theme = c.dark ? "dark" : "light";
    if (changed && this.got && this.got.kind === "bins") this.paintBins(this.got);
    if (changed) { this.map.paint(); this.card.show(); }
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
      this.shelf.drawTracks();
      this.notes.draw();
      this.links.draw();
      this.drawMark();
      this.drawSelection();
    });
    this.drawAxis();
    this.clipped(0, AXIS, this.width, this.body, () => this.shelf.drawLabels());
    this.map.draw();
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
    for (const item of this.shelf.inSight()) {
      this.g.fillStyle = item.kind === "head" ? this.colours.head : this.colours.lane;
      this.g.fillRect(this.gutter, this.yOf(item), this.plot, item.kind === "head" ? item.h - 1 : item.h);
    }
    this.g.fillStyle = this.colours.line;
    for (const { x } of this.ticks()) this.g.fillRect(Math.round(x), AXIS, 1, this.body);
  }
  yOf({ y }) { return AXIS - this.top + y; }
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
  elided(text, room) {         // in the middle: both ends tell lanes apart
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
    const wait = this.lost ? ` · ${LOST}` : !late ? "" : this.answered ? " · the kernel is busy" : " · overview only: the kernel has not answered yet";
    const none = this.lanes.length ? "" : "Nothing to draw: the source has no events. ";
    this.left.textContent = `${none}${events}${duration(this.span)} shown${wait}`;
    Object.assign(this.root.dataset, { kind: got && !got.snapshot ? got.kind : "", busy: String(Boolean(this.asked)) });
  }
}
