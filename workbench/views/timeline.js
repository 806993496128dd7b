// The timeline's front end: an anywidget view in Jupyter, and alive in standalone pages
// (timeline_static.js). This file is the hands: pointer and wheel. It continues the other
// timeline_*.js files (timeline.py joins them into one module).

const REACH = 2;              // px around the pointer that still hit an event
const FOREIGN_WHEEL = 250;    // ms in which a page scroll that arrives here stays a page scroll
const OWN_WHEEL = 400;        // ms in which a zoom that hits its limit does not scroll the page

class Timeline extends View {
  listen() {
    this.fingers = new Map();    // where each finger is that touches the picture
    const on = (target, names, does, options) => {
      for (const name of names.split(" ")) target.addEventListener(name, does, options);
      this.leave.push(() => names.split(" ").forEach((name) => target.removeEventListener(name, does, options)));
    };
    on(this.canvas, "wheel", (e) => this.onWheel(e), { passive: false });
    on(this.canvas, "pointerdown", (e) => this.onDown(e));
    on(this.canvas, "pointermove", (e) => (this.drag ? this.onDrag(e) : this.onHover(e)));
    on(this.canvas, "pointerup", (e) => this.onUp(e));
    on(this.canvas, "pointercancel", (e) => { this.drag = null; this.fingers.delete(e.pointerId); });
    on(this.canvas, "pointerleave", () => { this.pointer = null; this.hideTip(); this.draw(); });
    on(this.canvas, "dblclick", () => this.mark && this.fit(BigInt(this.mark.start), BigInt(this.mark.start) + BigInt(this.mark.dur)));
    on(this.root, "keydown", (e) => this.keys.press(e));
    for (const part of [this.finder, this.menu, this.map, this.notes]) part.listen(on);
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
    if (e.pointerType === "touch") this.fingers.set(e.pointerId, e.clientX);
    const p = this.at(e);
    this.drag = { ...p, base: this.base, a: this.a, top: this.top, range: e.shiftKey, moved: false,
      item: p.x < this.gutter ? this.shelf.at(p.y) : null };
  }
  pinch(e) {                   // the stretch between two fingers stays between them
    const before = [...this.fingers.values()];
    this.fingers.set(e.pointerId, e.clientX);
    const after = [...this.fingers.values()], left = this.canvas.getBoundingClientRect().left + this.gutter;
    const [d0, d1] = [before, after].map(([a, b]) => Math.max(8, Math.abs(a - b)));
    this.zoom(d0 / d1, (after[0] + after[1]) / 2 - left);
    this.drag.moved = true;
  }
  onDrag(e) {
    const d = this.drag, p = this.at(e);
    if (this.fingers.size === 2) { this.pinch(e); return; }
    d.moved ||= Math.hypot(p.x - d.x, p.y - d.y) > 3;
    if (d.moved && d.item) this.shelf.drag(d.item, p.y);
    if (!d.moved || d.item || d.x < this.gutter) return;
    if (d.range) {
      this.selection = p.t < d.t ? [p.t, d.t] : [d.t, p.t];
      this.card.show();
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
    this.fingers.delete(e.pointerId);
    if (!d) return;
    if (d.moved && d.item) { this.shelf.drop(); return; }
    if (d.moved) { if (d.range && this.selection) this.select(this.selection); return; }
    const here = this.shelf.at(p.y), label = d.item || (here && here.kind === "head" ? here : null);
    if (label) { this.shelf.focus = label.key; this.shelf.toggle(label); this.draw(); }
    else if (p.x >= this.gutter) this.pick(p);
  }
  pick(p) {
    const i = this.hit(p), d = this.got;
    if (i >= 0) { this.mark = this.eventAt(i); this.draw(); }
    const what = i >= 0 ? { event: d.event[i] } : { row: p.row, t: String(p.t), slack: String(this.slack()) };
    this.tell({ type: "pick", view: this.id, ...what });
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
    const item = p.x > this.gutter ? this.shelf.at(p.y) : null;
    if (item && item.kind === "track") { this.tracks.hover(item, p); this.draw(); return; }
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
    if (!this.tell({ type: "hover", view: this.id, row, t: String(t), slack: String(this.slack()) })) this.hovering = null;
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
    const step = event.step === null || event.step === undefined ? "" : ` · step ${event.step}`;
    this.showLines(event.text, [`${duration(Number(event.dur))} at ${exactTime(BigInt(event.start) + this.origin)}`, `${event.lane}${step}`], p);
  }
  showLines(name, lines, p) {
    const title = Object.assign(document.createElement("b"), { textContent: name });
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
  clear() {
    this.selection = null;
    this.select(null);
    this.tell({ type: "pick", view: this.id, row: -1, t: "0", slack: "0" });
    this.say("Nothing selected");
  }
}

function render({ model, el }) {
  const timeline = new Timeline(model, el);
  return () => timeline.leave.forEach((undo) => undo());
}
export default { render };
