// Notes: a strip of bars below the lanes, one a note, with bands and outlines over what they are
// about. Bars are buttons: a click or Enter opens the card (timeline_card.js), a drag of an end
// moves it. timeline_view.js makes one of these; the kernel keeps the notes.

const NOTE_COLOUR = "#e69f00";
const NOTE_LINE = 19, NOTE_LINES = 4;   // px a line of bars, and how many there are at most
const NOTE_LEAST = 16, NOTE_MOST = 220; // px of a bar without room for its name, and of a name
const NOTE_EDGE = 5;                    // px at the end of a bar that take hold of it
const NOTE_NUDGE = 8;                   // px that an arrow key moves an end
const NOTE_SETTLE = 500;                // ms after the last arrow key until the note is moved

class Notes {
  constructor(timeline) {
    this.timeline = timeline;
    this.model = timeline.model;
    this.items = [];
    this.bars = new Map();
    this.el = document.createElement("div");
    this.el.className = "wb-timeline-notes";
    this.el.setAttribute("role", "group");
    this.el.setAttribute("aria-label", "Notes");
    this.add = this.el.appendChild(Object.assign(document.createElement("button"), { type: "button", textContent: "+ note" }));
    this.add.className = "wb-timeline-addnote";
    this.add.title = "Note the selected range or event (e)";
    this.more = this.el.appendChild(document.createElement("span"));
    this.more.className = "wb-timeline-morenotes";
    this.card = new Card(this);
    this.read();
  }
  get keeping() { return this.model.get("keeping") || {}; }
  listen(on) {
    on(this.add, "click", () => this.begin());
    on(this.el, "wheel", (e) => this.timeline.onWheel(e), { passive: false });
    this.card.listen(on);
  }
  follow() {
    return [
      ["change:annotations", () => { this.read(); this.timeline.draw(); }],
      ["change:keeping", () => this.timeline.draw()],
      ["msg:custom", (m) => m.type === "note" && m.view === this.timeline.id && this.card.answered(m)],
    ];
  }
  read() {                     // times as BigInt, in order: parsed once, not at each frame
    const origin = this.timeline.origin, first = (a, b) => (a.start < b.start ? -1 : a.start > b.start ? 1 : 0);
    this.items = (this.model.get("annotations") || []).map((note, k) => ({ ...note,
      key: note.id ? note.id + (note.conflict ? note.revision : "") : `own ${k}`,
      start: BigInt(note.start_ns) - origin, end: BigInt(note.end_ns) - origin })).sort(first);
  }
  // ---- over the lanes -----------------------------------------------------------------------
  draw() {                     // inside the lanes' clip, at each frame
    const t = this.timeline, right = t.gutter + t.plot;
    this.place();
    for (const note of this.items) {
      const x0 = t.xOf(note.start), x1 = t.xOf(note.end);
      if (x1 < t.gutter || x0 > right) continue;
      t.g.fillStyle = t.g.strokeStyle = note.colour || NOTE_COLOUR;
      const strong = note.key === this.lit || note.key === this.card.key;
      if (typeof note.row === "number") this.outline(note, x0, x1, strong);
      else this.band(note, x0, x1, strong);
    }
    t.g.globalAlpha = 1;
  }
  band(note, x0, x1, strong) {
    const t = this.timeline, left = Math.max(x0, t.gutter), right = Math.min(x1, t.gutter + t.plot);
    const rows = note.rows ? note.rows.map((r) => t.rows[r]).filter((r) => r && r.h) : [{ y: t.top, h: t.body }];
    for (const { y, h } of rows) {
      const top = AXIS - t.top + y;
      t.g.globalAlpha = strong ? 0.3 : 0.1;
      t.g.fillRect(left, top, Math.max(right - left, 1), h);
      t.g.globalAlpha = 1;
      for (const x of [x0, x1]) t.g.fillRect(Math.round(x) - 0.5, top, strong ? 2 : 1, h);
    }
  }
  outline(note, x0, x1, strong) {
    const t = this.timeline, row = t.rows[note.row], g = t.g;
    if (!row || !row.h) return;
    const a = Math.max(x0, t.gutter - 5), b = Math.min(Math.max(x1, x0 + 3), t.gutter + t.plot + 5), y = AXIS - t.top + row.y;
    g.globalAlpha = 1;
    g.lineWidth = strong ? 3 : 1.5;
    g.strokeRect(a - 0.5, y - 0.5, b - a + 1, row.h);
    g.beginPath(); g.moveTo(a - 1, y - 1); g.lineTo(a + 8, y - 1); g.lineTo(a - 1, y + 8); g.fill();
  }
  // ---- the strip ----------------------------------------------------------------------------
  place() {
    const t = this.timeline, ends = [], right = t.gutter + t.plot, seen = new Set();
    let hidden = 0, before = this.more;
    for (const note of this.items) {
      const x0 = t.xOf(note.start), x1 = t.xOf(note.end);
      if (x1 < t.gutter || x0 > right) continue;
      const from = Math.max(x0, t.gutter), to = Math.min(x1, right);
      const named = Math.min(NOTE_MOST, t.g.measureText(note.name).width + 16);
      const spot = [Math.max(to - from, named), Math.max(to - from, NOTE_LEAST)].map((w) => this.free(ends, from, w, right)).find(Boolean);
      if (!spot) { hidden++; continue; }
      ends[spot.line] = spot.at + spot.wide + 3;
      seen.add(note.key);
      const bar = this.show(note, spot, from, to);
      if (before.nextSibling !== bar) before.after(bar);   // Tab goes through them in order of time
      before = bar;
    }
    for (const [key, bar] of this.bars) if (!seen.has(key)) { bar.remove(); this.bars.delete(key); }
    this.dress(ends.length, hidden);
  }
  free(ends, from, wide, right) {  // the first line with room for so wide a bar, or nothing
    const at = Math.max(this.timeline.gutter, Math.min(from, right - wide));
    for (let line = 0; line < NOTE_LINES; line++) if (!(ends[line] > at)) return { at, wide, line };
    return null;
  }
  show(note, { at, wide, line }, from, to) {
    const bar = this.bars.get(note.key) || this.make(note.key), style = bar.style;
    bar.note = note;
    bar.edges = [from, to];
    style.left = `${at}px`; style.top = `${line * NOTE_LINE + 1}px`; style.width = `${wide}px`;
    style.setProperty("--wb-note", note.colour || NOTE_COLOUR);
    style.setProperty("--wb-from", `${from - at}px`);
    style.setProperty("--wb-to", `${Math.max(to - at, from - at + 3)}px`);
    if (bar.said === note) return bar;   // texts change more seldom than places
    bar.said = note;
    bar.textContent = note.name + (note.conflict ? " ⚠" : "");
    bar.setAttribute("aria-label", `Note ${note.name}, ${this.about(note)}${note.text ? `: ${note.text}` : ""}${note.conflict ? "; changed on two sides" : ""}`);
    return bar;
  }
  make(key) {
    const bar = Object.assign(document.createElement("button"), { type: "button", className: "wb-timeline-note" });
    this.bars.set(key, bar);
    bar.addEventListener("pointerdown", (e) => this.onDown(e, bar));
    bar.addEventListener("pointermove", (e) => this.onMove(e, bar));
    bar.addEventListener("pointerup", (e) => this.onUp(e, bar));
    bar.addEventListener("pointercancel", () => { this.drag = null; this.read(); this.timeline.draw(); });
    bar.addEventListener("click", (e) => { if (!e.detail) this.open(bar.note); });  // by key: a pointer's click is onUp
    for (const name of ["pointerenter", "focus"]) bar.addEventListener(name, () => this.light(bar));
    for (const name of ["pointerleave", "blur"]) bar.addEventListener(name, () => this.light(null));
    bar.addEventListener("keydown", (e) => this.nudge(e, bar));
    return bar;
  }
  dress(lines, hidden) {
    const t = this.timeline, editable = Boolean(this.keeping.editable);
    const look = [lines, hidden, editable, t.gutter, this.items.length].join();
    if (look === this.look) return;  // at each frame: a text that is set anew is laid out anew
    this.look = look;
    this.el.style.height = `${Math.max(lines, 1) * NOTE_LINE + 2}px`;
    this.el.hidden = !editable && !this.items.length;
    this.add.style.width = this.more.style.width = `${t.gutter - 8}px`;
    this.add.hidden = !editable;
    this.more.textContent = hidden ? `${hidden.toLocaleString("en")} more: zoom in` : editable ? "" : "notes";
    this.more.style.top = editable ? `${NOTE_LINE}px` : "2px";
    this.more.hidden = editable && lines < 2;
  }
  light(bar) {
    const t = this.timeline;
    this.lit = bar && bar.note.key;
    t.draw();
    t.hideTip();
    if (!bar || this.drag || this.card.key === bar.note.key) return;
    const line = (tag, textContent, className = "") => Object.assign(document.createElement(tag), { textContent, className });
    const { name, text, author, changed } = bar.note, by = [author, changed && changed.slice(0, 10)].filter(Boolean).join(", ");
    t.tip.replaceChildren(line("b", name), ...(text ? [line("div", text, "wb-timeline-notetext")] : []),
      line("div", [this.about(bar.note), by].filter(Boolean).join(" · ")));
    t.tip.style.display = "block";
    t.tip.style.left = `${clamp(bar.offsetLeft, 0, Math.max(0, t.width - t.tip.offsetWidth))}px`;
    t.tip.style.top = `${Math.max(0, t.height - t.tip.offsetHeight - 4)}px`;
  }
  about(note) {
    const at = exactTime(note.start + this.timeline.origin);
    if (note.end === note.start && note.kind !== "event") return `at ${at}`;
    return `${note.kind === "event" ? `${note.target}, ` : ""}${duration(Number(note.end - note.start))} at ${at}`;
  }
  // ---- hands --------------------------------------------------------------------------------
  movable(note) { return Boolean(note.id && this.keeping.editable && note.kind === "span"); }
  edge(e, bar) {               // which end of a span the pointer holds: start, end, or neither
    if (!this.movable(bar.note)) return null;
    const t = this.timeline, x = e.clientX - t.canvas.getBoundingClientRect().left, [from, to] = bar.edges;
    const whole = [t.xOf(bar.note.start), t.xOf(bar.note.end)];
    if (whole[1] === to && Math.abs(x - to) <= NOTE_EDGE && (x > from + 3 || to === from)) return "end";
    return whole[0] === from && Math.abs(x - from) <= NOTE_EDGE ? "start" : null;
  }
  onDown(e, bar) {
    if (e.button) return;
    this.timeline.hideTip();
    bar.setPointerCapture(e.pointerId);
    this.drag = { edge: this.edge(e, bar), x: e.clientX, moved: false };
  }
  onMove(e, bar) {
    bar.style.cursor = this.drag ? "" : this.edge(e, bar) ? "ew-resize" : "pointer";
    const d = this.drag;
    if (!d || !d.edge) return;
    d.moved ||= Math.abs(e.clientX - d.x) > 3;
    if (d.moved) this.stretch(bar.note, d.edge, this.timeline.at(e).t);
  }
  onUp(e, bar) {
    const d = this.drag;
    this.drag = null;
    if (d && d.moved) this.settle(bar.note);
    else if (d && Math.abs(e.clientX - d.x) <= 3) this.open(bar.note);
  }
  stretch(note, edge, time) {  // an end never passes the other
    const bound = edge === "start" ? (time < note.end ? time : note.end) : time > note.start ? time : note.start;
    note[edge] = bound;
    this.timeline.draw();
  }
  nudge(e, bar) {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[e.key], edge = e.shiftKey ? "end" : e.ctrlKey ? "start" : null;
    if (!by || !edge || !this.movable(bar.note)) return;
    e.preventDefault(); e.stopPropagation();
    const t = this.timeline, step = BigInt(Math.max(1, Math.round((NOTE_NUDGE * t.span) / t.plot)));
    this.stretch(bar.note, edge, bar.note[edge] + BigInt(by) * step);
    clearTimeout(this.settling);
    this.settling = setTimeout(() => this.settle(bar.note), NOTE_SETTLE);
  }
  settle(note) {
    const { id, revision } = note, span = [note.start, note.end].map((x) => String(x + this.timeline.origin));
    this.card.send({ do: "move", id, revision, span }, `Note ${note.name} is now ${this.about(note)}`);
  }
  begin() {                    // a new note, on the selected range or event
    const t = this.timeline, [s, m] = [t.selection, t.mark];
    if (!this.keeping.editable) t.say(this.keeping.said || "Notes can't be changed here");
    else if (s) this.card.write({ kind: "span", start: s[0], end: s[1] });
    else if (m) this.card.write({ kind: "event", target: m.text, start: BigInt(m.start), end: BigInt(m.start) + BigInt(m.dur) });
    else this.card.tell("Select a range (Shift and drag) or click an event first; then + note, or the key e.");
  }
  open(note) {
    this.card.read(note);
    if (note.kind === "event") this.card.send({ do: "show", id: note.id, revision: note.revision });
  }
}
