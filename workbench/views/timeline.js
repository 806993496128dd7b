// The timeline's front end: an anywidget view in Jupyter, and alive in standalone pages
// (timeline_static.js). It continues timeline_draw.js and timeline_search.js.
//
// Times: ns since the first event. Those of events are BigInt. The window is a BigInt `base` and two
// Number offsets from it, kept small by moving the base along, so nothing is lost at any zoom.
// At most one request for a picture is in flight; meanwhile the last picture is stretched.

const MIN_SPAN = 10;          // ns across the whole width: 1 ns ticks still stand apart
const MARGIN = 0.1;           // drawn beyond each edge, so that a pan has something to show
const ROW_MARGIN = 12;
const REACH = 2;              // px around the pointer that still hit an event
const FOREIGN_WHEEL = 250;    // ms in which a page scroll that arrives here stays a page scroll
const OWN_WHEEL = 400;        // ms in which a zoom that hits its limit does not scroll the page
const KEYS = "w/s zoom · a/d pan · f all · Shift+f selection · Shift+drag measures · / search · n/N next/previous · Esc clears";

class Timeline extends Picture {
  constructor(model, el) {
    super();
    this.model = model;
    this.id = Math.random().toString(36).slice(2);
    this.lanes = model.get("lanes");
    [this.origin, this.end] = model.get("extent").map(BigInt);
    this.extent = this.end - this.origin;
    this.base = 0n; this.a = 0; this.b = Number(this.extent);
    this.got = null; this.asked = null; this.seq = 0; this.samples = [];
    this.top = 0; this.folded = new Set(); this.selection = null; this.hovered = null;
    this.build(el);
    this.layout();
    this.restyle();
    this.restore();
    this.follow();
    this.listen();
    this.onWindow(); this.onSelection(); this.onMark();
    this.changed();
  }

  build(el) {
    const make = (tag, name) => Object.assign(document.createElement(tag), { className: name });
    this.root = make("div", "wb-timeline");
    this.root.setAttribute("data-lm-suppress-shortcuts", "true"); // else Lab takes a, d, f, s, w
    this.canvas = make("canvas", "wb-timeline-canvas");
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "application");
    this.canvas.setAttribute("aria-label", `Timeline of ${this.lanes.length} lanes. ${KEYS}`);
    this.scroller = make("div", "wb-timeline-scroll");
    this.spacer = this.scroller.appendChild(make("div", ""));
    this.tip = make("div", "wb-timeline-tip");
    this.status = make("div", "wb-timeline-status");
    this.left = this.status.appendChild(make("span", ""));
    this.status.appendChild(make("span", "")).textContent = KEYS;
    this.live = make("div", "wb-timeline-live");
    this.live.setAttribute("aria-live", "polite");
    this.finder = new Finder(this);
    const stage = make("div", "wb-timeline-stage");
    stage.append(this.canvas, this.scroller, this.tip);
    this.root.append(this.finder.el, stage, this.status, this.live);
    el.append(this.root);
    this.g = this.canvas.getContext("2d");
    this.sheet = document.createElement("canvas");
    this.root.timeline = this;  // tests read samples and windows here
  }

  // ---- the window ---------------------------------------------------------------------------
  setWindow(base, a, b) {
    const full = Number(this.extent), least = Math.min(MIN_SPAN, full);
    const span = clamp(b - a, least, full), grown = span - (b - a);
    a -= grown / 2;
    const k = floorBig(a);
    base += k; a -= Number(k);
    if (base < 0n) { base = 0n; a = 0; }
    if (Number(base - this.extent) + a + span > 0) {
      base = this.extent - BigInt(Math.ceil(span)); a = Math.ceil(span) - span;
      if (base < 0n) { base = 0n; a = 0; }
    }
    this.base = base; this.a = a; this.b = a + span;
    this.changed();
  }
  zoom(factor, x = this.plot / 2) {
    const p = this.a + (x / this.plot) * this.span;
    const span = clamp(this.span * factor, Math.min(MIN_SPAN, Number(this.extent)), Number(this.extent));
    const f = span / this.span;
    this.setWindow(this.base, p - (p - this.a) * f, p + (this.b - p) * f);
  }
  pan(px) { const d = (px / this.plot) * this.span; this.setWindow(this.base, this.a + d, this.b + d); }
  fit(start = 0n, end = this.extent) {
    const room = start > 0n || end < this.extent ? Number(end - start) * 0.1 : 0;
    this.setWindow(start, -room, Number(end - start) + room);
  }
  scrollTo(top) {
    this.top = clamp(top, 0, Math.max(0, this.content - this.body));
    this.scroller.scrollTop = this.top;
    this.changed();
  }
  changed() {
    this.hideTip();
    this.since ||= performance.now();
    this.draw();
    this.ask();
    clearTimeout(this.settling);
    this.settling = setTimeout(() => this.publish(), 250);
  }
  publish() {                  // tell the kernel where we are, once it stands still
    const abs = this.origin + this.base;
    this.sent = [abs + floorBig(this.a), abs + BigInt(Math.ceil(this.b))].map(String);
    if (String(this.sent) === String(this.model.get("window"))) return;
    this.model.set("window", this.sent);
    this.model.save_changes();
  }
  // ---- asking the kernel --------------------------------------------------------------------
  satisfied() {
    const got = this.got, [first, last] = this.visibleRows();
    if (!got || got.snapshot || got.version !== this.model.get("version")) return false;
    if (first < got.first || last > got.last) return false;
    const a = Number(this.base - got.base) + this.a, b = Number(this.base - got.base) + this.b;
    const slop = this.span * 1e-6;
    if (a < got.a - slop || b > got.b + slop) return false;
    return got.kind === "rects" || Math.abs((got.b - got.a) / got.width / (this.span / this.plot) - 1) < 0.01;
  }
  ask() {
    if (this.asked || !this.width || this.satisfied()) return;
    const spot = [this.base, this.a, this.b, this.plot, this.model.get("version"), ...this.visibleRows()].join();
    if (spot === this.lastSpot) return;      // the kernel has no better picture of it
    this.lastSpot = spot;
    const [first, last] = this.visibleRows(), extra = this.span * MARGIN;
    const a = Math.max(this.a - extra, -Number(this.base));
    const b = Math.min(this.b + extra, Number(this.extent - this.base));
    const width = Math.max(1, Math.round((this.plot * (b - a)) / this.span));
    this.asked = { seq: ++this.seq, at: performance.now() };
    this.model.send({ type: "view", view: this.id, seq: this.seq, version: this.model.get("version"), base: String(this.base), a, b, width,
      first: Math.max(0, first - ROW_MARGIN), last: Math.min(this.rows.length, last + ROW_MARGIN) });
    this.root.dataset.busy = "true";
    setTimeout(() => this.draw(), BUSY_AFTER + 20);
  }
  receive(m, buffers) {
    if (m.view !== this.id) return;
    if (m.type === "hover") return this.hoverReply(m);
    if (m.type !== "view" || !this.asked || m.seq !== this.asked.seq) return;
    const got = { ...m, base: BigInt(m.base) };
    if (m.kind === "bins") {
      [got.busy, got.colour, got.hitBusy, got.hitColour] = buffers.map((b) => array(b, Uint8Array));
      this.paintBins(got);
    } else this.readRects(got, buffers);
    this.got = got;
    this.answered = true;
    this.asked = null;
    this.paintNow();
    this.ask();
  }
  readRects(got, buffers) {
    const types = [BigInt64Array, BigInt64Array, Uint32Array, Int32Array, Uint16Array, Uint16Array];
    [got.start, got.dur, got.event, got.step, got.row, got.text] = types.map((T, k) => array(buffers[k], T));
    got.x0 = Float64Array.from(got.start, (s) => Number(s - got.base));
    got.length = Float64Array.from(got.dur, Number);
  }
  restore() {                  // the overview kept in saved notebooks, until the kernel answers
    const busy = this.model.get("snapshot_busy"), colour = this.model.get("snapshot_colour");
    if (!busy || !busy.byteLength) return;
    const [b, c] = [array(busy, Uint8Array), array(colour, Uint8Array)];
    const last = Math.min(this.rows.length, this.model.get("snapshot_rows")), width = b.length / last;
    this.got = { kind: "bins", snapshot: true, base: 0n, a: 0, b: Number(this.extent), first: 0, last, width, busy: b, colour: c };
    this.paintBins(this.got);
  }
  // ---- traits -------------------------------------------------------------------------------
  follow() {
    const { model } = this, on = [
      ["msg:custom", (m, buffers) => this.receive(m, buffers)],
      ["change:window", () => this.onWindow()], ["change:selection", () => this.onSelection()],
      ["change:mark", () => this.onMark()], ["change:annotations", () => this.draw()],
      ["change:max_height", () => this.resize()], ...this.finder.follow(),
    ];
    for (const [event, does] of on) model.on(event, does);
    this.leave = [() => on.forEach(([event, does]) => model.off(event, does))];
  }
  onWindow() {
    const [start, end] = this.model.get("window");
    if (String([start, end]) === String(this.sent) || end === undefined) return;
    this.setWindow(BigInt(start) - this.origin, 0, Number(BigInt(end) - BigInt(start)));
  }
  onSelection() {
    const range = this.model.get("selection");
    this.selection = range.length === 2 ? range.map((t) => BigInt(t) - this.origin) : null;
    if (this.selection) this.say(`Range of ${duration(Number(this.selection[1] - this.selection[0]))}`);
    this.draw();
  }
  select(range) {
    this.model.set("selection", range ? range.map((t) => String(t + this.origin)) : []);
    this.model.save_changes();
  }
  onMark() {
    const mark = this.model.get("mark");
    this.mark = mark && mark.dur ? mark : null;
    const told = this.told;
    this.told = this.mark ? `${mark.row} ${mark.start}` : "";
    if (this.mark && this.told !== told) {   // a filter that hides or shows it again moves nothing
      const { at, total } = this.finder.matches, number = at ? `Match ${at} of ${total}. ` : "";
      this.say(`${number}Selected ${mark.text} on ${mark.lane}, ${duration(Number(mark.dur))}${mark.hidden ? ", hidden by the filter" : ""}`);
      this.reveal(this.mark);
    }
    this.draw();
  }
  reveal(mark) {
    const row = this.rows[mark.row], start = BigInt(mark.start), half = this.span / 2;
    const x0 = this.xOf(start), x1 = this.xOf(start + BigInt(mark.dur));
    if (!row.h) { this.folded.delete(row.lane); this.layout(); }
    const { y, h } = this.rows[mark.row];
    if (y < this.top || y + h > this.top + this.body) this.scrollTo(y - this.body / 2);
    if (x1 < this.gutter || x0 > this.gutter + this.plot) this.setWindow(start, -half, half);
  }
  say(text) { this.live.textContent = text; }

  // ---- pointer, wheel and keys --------------------------------------------------------------
  listen() {
    const on = (target, names, does, options) => {
      for (const name of names.split(" ")) target.addEventListener(name, does, options);
      this.leave.push(() => names.split(" ").forEach((name) => target.removeEventListener(name, does, options)));
    };
    on(this.canvas, "wheel", (e) => this.onWheel(e), { passive: false });
    on(this.canvas, "pointerdown", (e) => this.onDown(e));
    on(this.canvas, "pointermove", (e) => (this.drag ? this.onDrag(e) : this.onHover(e)));
    on(this.canvas, "pointerup", (e) => this.onUp(e));
    on(this.canvas, "pointercancel", () => { this.drag = null; });
    on(this.canvas, "pointerleave", () => { this.pointer = null; this.hideTip(); this.draw(); });
    on(this.canvas, "dblclick", () => this.mark && this.fit(BigInt(this.mark.start), BigInt(this.mark.start) + BigInt(this.mark.dur)));
    on(this.root, "keydown", (e) => this.onKey(e));
    this.finder.listen(on);
    on(this.scroller, "scroll", () => this.scroller.scrollTop !== Math.round(this.top) && this.scrollTo(this.scroller.scrollTop));
    on(document, "wheel", (e) => { if (!this.root.contains(e.target)) this.foreign = performance.now(); }, { capture: true, passive: true });
    const restyle = () => { this.restyle(); setTimeout(() => this.restyle(), 300); };  // style sheets load late
    on(window.matchMedia("(prefers-color-scheme: dark)"), "change", restyle);
    const look = new MutationObserver(restyle);
    for (const node of [document.documentElement, document.body])
      look.observe(node, { attributes: true, attributeFilter: ["class", "style", "data-jp-theme-light", "data-jp-theme-name"] });
    const size = new ResizeObserver(() => this.resize());
    size.observe(this.root);
    this.leave.push(() => look.disconnect(), () => size.disconnect(), () => clearTimeout(this.settling));
  }
  resize() {                   // also the first time that style sheets apply
    this.layout();
    this.restyle();
    this.changed();
  }
  at(e) {
    const r = this.canvas.getBoundingClientRect(), x = e.clientX - r.left, y = e.clientY - r.top;
    const px = clamp(x - this.gutter, 0, this.plot), t = this.base + floorBig(this.a + (px / this.plot) * this.span);
    return { x, y, t: t < 0n ? 0n : t > this.extent ? this.extent : t, row: x < this.gutter ? -1 : this.rowAt(y) };
  }
  slack() { return BigInt(Math.ceil((REACH * this.span) / this.plot)); }
  onWheel(e) {
    const now = performance.now(), p = this.at(e), px = e.deltaMode ? 16 : 1;
    if (now - (this.foreign || -1e9) < FOREIGN_WHEEL) { this.foreign = now; return; }
    const lanes = p.x < this.gutter || e.altKey, sideways = Math.abs(e.deltaX) > Math.abs(e.deltaY);
    const idle = lanes ? !this.overflows : !sideways && e.deltaY > 0 && this.span >= Number(this.extent);
    if (idle && now - (this.own || -1e9) > OWN_WHEEL) return;
    e.preventDefault(); e.stopPropagation();
    if (!idle) this.own = now;
    if (lanes) this.scrollTo(this.top + e.deltaY * px);
    else if (sideways) this.pan(e.deltaX * px);
    else this.zoom(Math.exp(clamp(e.deltaY * px, -300, 300) * (e.ctrlKey ? 0.01 : 0.002)), p.x - this.gutter);
  }
  onDown(e) {
    if (e.button) return;
    this.canvas.focus({ preventScroll: true });
    this.canvas.setPointerCapture(e.pointerId);
    this.hideTip();
    this.drag = { ...this.at(e), base: this.base, a: this.a, top: this.top, range: e.shiftKey, moved: false };
  }
  onDrag(e) {
    const d = this.drag, p = this.at(e);
    d.moved ||= Math.hypot(p.x - d.x, p.y - d.y) > 3;
    if (!d.moved || d.x < this.gutter) return;
    if (d.range) {
      this.selection = p.t < d.t ? [p.t, d.t] : [d.t, p.t];
      this.draw();
      return;
    }
    const a = d.a - ((p.x - d.x) / this.plot) * this.span;
    if (this.overflows) this.top = clamp(d.top - (p.y - d.y), 0, this.content - this.body);
    this.scroller.scrollTop = this.top;
    this.setWindow(d.base, a, a + this.span);
  }
  onUp(e) {
    const d = this.drag, p = this.at(e);
    this.drag = null;
    if (!d) return;
    if (d.moved) { if (d.range && d.x >= this.gutter) this.select(this.selection); return; }
    if (p.x < this.gutter) this.fold(p.y);
    else this.pick(p);
  }
  fold(y) {
    const k = this.lanes.findIndex((_, i) => y >= Math.max(AXIS, this.laneY(i)) && y < this.laneY(i) + this.laneHeight(i));
    if (k < 0 || this.lanes[k].rows < 2) return;
    if (!this.folded.delete(k)) this.folded.add(k);
    this.layout();
    if (this.got && this.got.kind === "bins") this.paintBins(this.got);
    this.changed();
  }
  pick(p) {
    const i = this.hit(p), d = this.got;
    if (i >= 0) { this.mark = this.eventAt(i); this.draw(); }
    const what = i >= 0 ? { event: d.event[i] } : { row: p.row, t: String(p.t), slack: String(this.slack()) };
    this.model.send({ type: "pick", view: this.id, ...what });
  }
  // the same rule as `Engine.pick`: an instant within reach, what runs here, what is within reach
  hit({ row, t }) {
    const d = this.got;
    if (!d || d.kind !== "rects" || row < 0) return -1;
    const slack = this.slack();
    let best = -1, least = slack, instant = false;
    for (let i = 0; i < d.row.length; i++) {
      if (d.row[i] !== row) continue;
      const s = d.start[i], e = s + d.dur[i], point = s === e;
      const gap = t < s ? s - t : point ? t - s : t >= e ? t - e + 1n : 0n;
      if (gap > slack || (instant && !point)) continue;
      if ((point && !instant) || gap < least || best < 0) { best = i; least = gap; instant = point; }
    }
    return best;
  }
  eventAt(i) {
    const d = this.got, step = d.step[i];
    return { text: d.texts[d.text[i]], lane: this.lanes[this.rows[d.row[i]].lane].label, row: d.row[i],
      start: String(d.start[i]), dur: String(d.dur[i]), step: step === -(2 ** 31) ? null : step };
  }
  onHover(e) {
    const p = this.pointer = this.at(e);
    if (p.row < 0 || !this.got || this.got.snapshot) { this.hideTip(); this.draw(); return; }
    if (this.got.kind === "rects") {
      const i = this.hit(p);
      this.showTip(i < 0 ? null : this.eventAt(i), p);
    } else this.askHover();
  }
  askHover() {                 // one at a time; the newest place wins
    if (this.hovering) { this.hoverAgain = true; return; }
    const { row, t } = this.pointer;
    this.hovering = { at: this.pointer };
    this.model.send({ type: "hover", view: this.id, row, t: String(t), slack: String(this.slack()) });
  }
  hoverReply(m) {
    const asked = this.hovering, again = this.hoverAgain;
    this.hovering = null; this.hoverAgain = false;
    if (again && this.pointer && this.pointer.row >= 0) this.askHover();
    else if (asked && this.pointer === asked.at) this.showTip(m.dur ? m : null, this.pointer);
  }
  showTip(event, p) {
    this.hovered = event;
    this.draw();
    this.canvas.style.cursor = event ? "pointer" : "default";
    if (!event) { this.hideTip(); return; }
    const title = Object.assign(document.createElement("b"), { textContent: event.text });
    const step = event.step === null || event.step === undefined ? "" : ` · step ${event.step}`;
    const lines = [`${duration(Number(event.dur))} at ${exactTime(BigInt(event.start) + this.origin)}`, `${event.lane}${step}`];
    this.tip.replaceChildren(title, ...lines.map((textContent) => Object.assign(document.createElement("div"), { textContent })));
    this.tip.style.display = "block";
    const { offsetWidth: w, offsetHeight: h } = this.tip;
    this.tip.style.left = `${p.x + 14 + w > this.width ? Math.max(0, p.x - w - 10) : p.x + 14}px`;
    this.tip.style.top = `${p.y + 16 + h > this.height + 20 ? Math.max(0, p.y - h - 8) : p.y + 16}px`;
  }
  hideTip() {                  // and drop the answer that may still be on its way
    this.tip.style.display = "none"; this.hovered = null; this.hoverAgain = false;
    if (this.hovering) this.hovering.at = null;
  }
  onKey(e) {
    if (e.ctrlKey || e.metaKey || e.altKey || this.finder.el.contains(e.target)) return;
    const x = this.pointer && this.pointer.x > this.gutter ? this.pointer.x - this.gutter : undefined;
    const step = this.plot * 0.15, m = this.mark;
    const focus = () => {
      if (this.selection) this.fit(...this.selection);
      else if (m) this.fit(BigInt(m.start), BigInt(m.start) + BigInt(m.dur));
    };
    const does = {
      w: () => this.zoom(0.7, x), s: () => this.zoom(1 / 0.7, x), "+": () => this.zoom(0.7), "-": () => this.zoom(1 / 0.7),
      a: () => this.pan(-step), d: () => this.pan(step), ArrowLeft: () => this.pan(-step), ArrowRight: () => this.pan(step),
      ArrowUp: () => this.scrollTo(this.top - 60), ArrowDown: () => this.scrollTo(this.top + 60),
      f: () => this.fit(), F: focus, Escape: () => this.clear(),
      "/": () => this.finder.focus(), n: () => this.finder.step(1), N: () => this.finder.step(-1),
    }[e.key];
    if (!does) return;
    e.preventDefault(); e.stopPropagation();
    does();
  }
  clear() {
    this.select(null);
    this.model.send({ type: "pick", view: this.id, row: -1, t: "0", slack: "0" });
    this.say("Nothing selected");
  }
}

function render({ model, el }) {
  const timeline = new Timeline(model, el);
  return () => timeline.leave.forEach((undo) => undo());
}
export default { render };
