// Where the timeline stands: its window, what it asks the kernel, and the traits it follows. It
// continues timeline_draw.js; timeline.js adds the hands.
//
// Times: ns since the first event. Those of events are BigInt. The window is a BigInt `base` and two
// Number offsets from it, kept small by moving the base along, so nothing is lost at any zoom.
// At most one request for a picture is in flight; meanwhile the last picture is stretched.

const MIN_SPAN = 10;          // ns across the whole width: 1 ns ticks still stand apart
const MARGIN = 0.1;           // drawn beyond each edge, so that a pan has something to show
const BELOW = 180;            // px above and below what is in sight that are asked for too
const COLUMNS = [BigInt64Array, BigInt64Array, Uint32Array, Int32Array, Uint16Array, Uint16Array];
const KEYS = "w/s zoom · a/d pan · f all · arrows walk · [ ] links · Shift+drag measures · / search · e note · ? all keys";

class View extends Picture {
  constructor(model, el) {
    super();
    this.model = model;
    this.id = Math.random().toString(36).slice(2);
    this.lanes = model.get("lanes");
    [this.origin, this.end] = model.get("extent").map(BigInt);
    this.extent = this.end - this.origin;
    this.base = 0n; this.a = 0; this.b = Number(this.extent);
    this.got = null; this.asked = null; this.seq = 0; this.samples = [];
    this.top = 0; this.selection = null; this.hovered = null; this.mark = null;
    this.shelf = new Shelf(this);
    this.tracks = new Tracks(this);
    this.links = new Links(this);
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
    this.menu = new LaneMenu(this);
    this.map = new Minimap(this);
    this.card = new Measure(this);
    this.notes = new Notes(this);
    this.sight = new Sight(this);
    this.keys = new Keys(this);
    this.bar = this.finder.el;
    this.bar.append(this.menu.button, this.menu.el);
    const stage = make("div", "wb-timeline-stage");
    stage.append(this.canvas, this.scroller, this.card.el, this.tip, this.keys.el);
    this.root.append(this.bar, this.map.el, stage, this.notes.el, this.notes.card.el, this.status, this.live, this.sight.el);
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
    this.map.ask();
    this.tracks.ask();
    this.card.place();
    clearTimeout(this.settling);
    this.settling = setTimeout(() => this.publish(), 250);
  }
  publish() {                  // tell the kernel where we are, once it stands still
    this.sight.update();
    const abs = this.origin + this.base;
    this.sent = [abs + floorBig(this.a), abs + BigInt(Math.ceil(this.b))].map(String);
    if (String(this.sent) === String(this.model.get("window"))) return;
    this.model.set("window", this.sent);
    this.model.save_changes();
  }
  // ---- asking the kernel --------------------------------------------------------------------
  satisfied() {
    const got = this.got;
    if (!got || got.snapshot || got.stale || got.version !== this.model.get("version")) return false;
    if (!this.shelf.rowsInSight().every((r) => got.has[r])) return false;
    const a = Number(this.base - got.base) + this.a, b = Number(this.base - got.base) + this.b;
    const slop = this.span * 1e-6;
    if (a < got.a - slop || b > got.b + slop) return false;
    return got.kind === "rects" || Math.abs((got.b - got.a) / got.width / (this.span / this.plot) - 1) < 0.01;
  }
  ask() {
    if (this.asked || !this.width || this.satisfied()) return;
    const runs = Shelf.runs(this.shelf.rowsInSight(BELOW));
    const spot = [this.base, this.a, this.b, this.plot, this.model.get("version"), ...runs].join();
    if (spot === this.lastSpot && !(this.got && this.got.stale)) return;      // the kernel has no better picture of it
    this.lastSpot = spot;
    this.asked = { seq: ++this.seq, at: performance.now() };
    if (!this.tell({ type: "view", view: this.id, seq: this.seq, version: this.model.get("version"), runs, ...this.stretch() })) { this.asked = null; return; }
    this.root.dataset.busy = "true";
    setTimeout(() => this.draw(), BUSY_AFTER + 20);
  }
  tell(message) {              // false where the kernel that knew this view is gone
    try { this.model.send(message); this.lost = false; } catch { this.lost = true; this.report(); }
    return !this.lost;
  }
  stretch() {                  // the window and a little more, as requests name it
    const extra = this.span * MARGIN, a = Math.max(this.a - extra, -Number(this.base));
    const b = Math.min(this.b + extra, Number(this.extent - this.base));
    return { base: String(this.base), a, b, width: Math.max(1, Math.round((this.plot * (b - a)) / this.span)) };
  }
  receive(m, buffers) {
    if (m.view !== this.id) return;
    const does = { hover: () => this.hoverReply(m), tracks: () => this.tracks.receive(m, buffers), map: () => this.map.receive(m, buffers),
      sight: () => this.sight.receive(m), end: () => this.keys.ended(), view: () => this.viewReply(m, buffers) }[m.type];
    if (does) does();
  }
  viewReply(m, buffers) {
    if (!this.asked || m.seq !== this.asked.seq) return;
    const got = this.withRows({ ...m, base: BigInt(m.base) });
    if (m.kind === "bins") {
      const { wide } = m, pixels = wide ? buffers.slice(0, -COLUMNS.length) : buffers;
      [got.busy, got.colour, got.hitBusy, got.hitColour] = pixels.map((b) => array(b, Uint8Array));
      if (wide) this.readRects(Object.assign(wide, { base: got.base, ground: true }), buffers.slice(-COLUMNS.length));
      this.paintBins(got);
    } else this.readRects(got, buffers);
    this.got = got;
    this.answered = true;
    this.asked = null;
    this.paintNow();
    this.ask();
  }
  withRows(got) {              // the numbers of the rows that a picture holds, and whether it holds one
    got.rows = got.runs.flatMap(([first, last]) => Array.from({ length: last - first }, (_, k) => first + k));
    got.has = new Uint8Array(this.rows.length);
    for (const r of got.rows) got.has[r] = 1;
    return got;
  }
  readRects(got, buffers) {
    [got.start, got.dur, got.event, got.step, got.row, got.text] = COLUMNS.map((T, k) => array(buffers[k], T));
    got.x0 = Float64Array.from(got.start, (s) => Number(s - got.base));
    got.length = Float64Array.from(got.dur, Number);
  }
  restore() {                  // the overview kept in saved notebooks, until the kernel answers
    const busy = this.model.get("snapshot_busy"), colour = this.model.get("snapshot_colour");
    if (!busy || !busy.byteLength) return;
    const [b, c] = [array(busy, Uint8Array), array(colour, Uint8Array)];
    const last = Math.min(this.rows.length, this.model.get("snapshot_rows")), width = b.length / last;
    this.got = this.withRows({ kind: "bins", snapshot: true, base: 0n, a: 0, b: Number(this.extent), runs: [[0, last]], width, busy: b, colour: c });
    this.paintBins(this.got);
  }
  // ---- traits -------------------------------------------------------------------------------
  follow() {
    const { model } = this, on = [
      ["msg:custom", (m, buffers) => this.receive(m, buffers)],
      ["change:window", () => this.onWindow()], ["change:selection", () => this.onSelection()],
      ["change:mark", () => this.onMark()],
      ["change:max_height", () => this.resize()],
      ...[this.finder, this.notes, this.shelf, this.links, this.map, this.card].flatMap((part) => part.follow()),
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
    this.card.show();
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
      const { at, total } = this.finder.matches, number = at ? `Match ${at} of ${total}. ` : this.links.told(this.mark);
      this.say(`${number}Selected ${mark.text} on ${mark.lane}, ${duration(Number(mark.dur))}${mark.hidden ? ", hidden by the filter" : ""}`);
      this.reveal(this.mark);
    }
    this.draw();
  }
  reveal(mark) {
    const start = BigInt(mark.start), half = this.span / 2;
    const x0 = this.xOf(start), x1 = this.xOf(start + BigInt(mark.dur));
    this.shelf.unfold(mark.row);
    const { y, h } = this.rows[mark.row];
    if (h && (y < this.top || y + h > this.top + this.body)) this.scrollTo(y - this.body / 2);
    if (x1 < this.gutter || x0 > this.gutter + this.plot) this.setWindow(start, -half, half);
  }
  say(text) { this.live.textContent = text; }
}
