// The minimap: the whole extent with what keeps the devices busy, the window as a frame to drag and
// resize, and marks of the selection, notes, matches and the selected event.

const MAP = 38, MAP_ROWS = 64, GRIP = 6;

class Minimap {
  constructor(timeline) {
    this.timeline = timeline;
    this.model = timeline.model;
    this.el = document.createElement("canvas");
    this.el.className = "wb-timeline-map";
    this.el.setAttribute("aria-hidden", "true");   // keys move the window; the live region says where
    this.sheet = document.createElement("canvas");
    this.g = this.el.getContext("2d");
    this.drag = null;
  }
  follow() { return [["change:version", () => this.ask()]]; }
  listen(on) {
    on(this.el, "pointerdown", (e) => this.onDown(e));
    on(this.el, "pointermove", (e) => this.onMove(e));
    on(this.el, "pointerup pointercancel", () => { this.drag = null; });
    on(this.el, "wheel", (e) => this.onWheel(e), { passive: false });
  }
  // ---- what is shown: rows of devices; of a source without any, the first row of each lane ----
  rows() {
    const lanes = this.timeline.shelf.lanes, on = lanes.filter((lane) => lane.table === "activities");
    const rows = on.length ? on.flatMap((lane) => Array.from({ length: Math.min(lane.rows, 3) }, (_, r) => lane.first + r)) : lanes.map((lane) => lane.first);
    return rows.slice(0, MAP_ROWS);
  }
  ask() {
    const t = this.timeline, width = Math.round(t.plot), version = this.model.get("version");
    if (!t.width) return;
    const spot = `${width} ${version}`;
    if (spot === this.lastSpot) return;
    this.lastSpot = spot;
    this.timeline.tell({ type: "map", view: t.id, version, width, runs: Shelf.runs(this.rows()) });
  }
  receive(m, buffers) {
    const [busy, colour, hits] = buffers.map((b) => array(b, Uint8Array));
    this.got = { ...m, busy, colour, hits };
    this.paint();
    this.timeline.draw();
  }
  paint() {                       // a line a row, as strong as it is busy
    if (!this.got) return;
    const { busy, colour, width } = this.got, rows = busy.length / width;
    const image = new ImageData(width, Math.max(rows, 1)), c = this.timeline.colours.packed;
    const px = new Uint32Array(image.data.buffer);
    for (let i = 0; i < busy.length; i++)
      if (busy[i]) px[i] = (c[colour[i]] & 0xffffff) | ((60 + (busy[i] * 195) / 255) << 24);
    Object.assign(this.sheet, { width, height: Math.max(rows, 1) });
    this.sheet.getContext("2d").putImageData(image, 0, 0);
  }
  // ---- drawing ------------------------------------------------------------------------------
  x(time) { return this.timeline.gutter + (Number(time) / Number(this.timeline.extent)) * this.timeline.plot; }
  frame() {
    const t = this.timeline, a = this.x(0n) + ((Number(t.base) + t.a) / Number(t.extent)) * t.plot;
    return [a, a + (t.span / Number(t.extent)) * t.plot];
  }
  draw() {
    const t = this.timeline, { g, el } = this, c = t.colours, dpr = window.devicePixelRatio || 1;
    const [w, h] = [Math.round(t.width * dpr), Math.round(MAP * dpr)];
    if (el.width !== w || el.height !== h) { Object.assign(el, { width: w, height: h }); el.style.height = `${MAP}px`; }
    g.setTransform(dpr, 0, 0, dpr, 0, 0);
    g.fillStyle = c.page; g.fillRect(0, 0, t.width, MAP);
    g.fillStyle = c.lane; g.fillRect(t.gutter, 2, t.plot, MAP - 4);
    g.imageSmoothingEnabled = false;
    if (this.got) g.drawImage(this.sheet, t.gutter, 4, t.plot, MAP - 8);
    this.drawMarks();
    this.drawFrame();
    g.font = SMALL; g.textBaseline = "middle"; g.fillStyle = c.muted;
    g.fillText(`whole: ${duration(Number(t.extent))}`, 4, MAP / 2);
  }
  drawFrame() {
    const t = this.timeline, g = this.g, c = t.colours, [a, b] = this.frame(), right = t.gutter + t.plot;
    g.globalAlpha = 0.55; g.fillStyle = c.page;
    g.fillRect(t.gutter, 2, a - t.gutter, MAP - 4); g.fillRect(b, 2, right - b, MAP - 4);
    g.globalAlpha = 1;
    const wide = Math.max(b - a, 3), left = clamp(a, t.gutter, right - 3);
    g.strokeStyle = c.text; g.lineWidth = 1.5;
    g.strokeRect(left + 0.5, 1.5, wide - 1, MAP - 3);
    g.fillStyle = c.text;
    for (const x of wide > 14 ? [left, left + wide - 3] : []) g.fillRect(x, MAP / 2 - 6, 3, 12);
  }
  drawMarks() {
    const t = this.timeline, g = this.g, c = t.colours, hits = this.got && this.got.hits;
    const tick = (x, colour, y, h, w = 2) => { g.fillStyle = colour; g.fillRect(Math.round(x - w / 2), y, w, h); };
    if (t.selection) {
      const [a, b] = t.selection.map((s) => this.x(s));
      g.globalAlpha = 0.3; g.fillStyle = c.accent; g.fillRect(a, 2, Math.max(b - a, 2), MAP - 4); g.globalAlpha = 1;
    }
    if (hits) for (let j = 0; j < hits.length; j++) if (hits[j]) tick(t.gutter + ((j + 0.5) / hits.length) * t.plot, c.accent, 2, 5);
    for (const note of this.model.get("annotations") || []) tick(this.x(BigInt(note.start_ns) - t.origin), "#e69f00", MAP - 8, 7, 3);
    if (t.mark) tick(this.x(BigInt(t.mark.start)), c.text, 1, MAP - 2);
  }
  // ---- hands --------------------------------------------------------------------------------
  time(e) {                       // as a share of the extent, in ns
    const t = this.timeline, x = e.clientX - this.el.getBoundingClientRect().left;
    return { x, ns: clamp((x - t.gutter) / t.plot, 0, 1) * Number(t.extent) };
  }
  part(x) {
    const [a, b] = this.frame();
    if (b - a > 3 * GRIP && Math.abs(x - a) <= GRIP) return "left";
    if (b - a > 3 * GRIP && Math.abs(x - b) <= GRIP) return "right";
    return x > a - GRIP && x < b + GRIP ? "frame" : "jump";
  }
  place(a, b) { this.timeline.setWindow(floorBig(a), a - Math.floor(a), b - Math.floor(a)); }
  onDown(e) {
    if (e.button) return;
    const t = this.timeline, { x, ns } = this.time(e), part = this.part(x), a = Number(t.base) + t.a;
    this.el.setPointerCapture(e.pointerId);
    this.drag = { part: part === "jump" ? "frame" : part, ns, a, b: a + t.span };
    if (part !== "jump") return;
    this.drag.a = clamp(ns - t.span / 2, 0, Number(t.extent) - t.span);
    this.drag.b = this.drag.a + t.span;
    this.place(this.drag.a, this.drag.b);
  }
  onMove(e) {
    const { x, ns } = this.time(e), d = this.drag;
    if (!d) { this.el.style.cursor = { left: "ew-resize", right: "ew-resize", frame: "grab", jump: "pointer" }[this.part(x)]; return; }
    const by = ns - d.ns, full = Number(this.timeline.extent), least = Math.min(MIN_SPAN, full);
    if (d.part === "left") this.place(clamp(d.a + by, 0, d.b - least), d.b);
    else if (d.part === "right") this.place(d.a, clamp(d.b + by, d.a + least, full));
    else { const a = clamp(d.a + by, 0, full - (d.b - d.a)); this.place(a, a + d.b - d.a); }
  }
  onWheel(e) {
    const t = this.timeline, [a, b] = this.frame(), x = this.time(e).x;
    if (e.deltaY > 0 && t.span >= Number(t.extent)) return;
    e.preventDefault(); e.stopPropagation();
    t.zoom(Math.exp(clamp(e.deltaY, -300, 300) * 0.002), x > a && x < b ? ((x - a) / (b - a)) * t.plot : undefined);
  }
}
