// What is in sight as a table of text, for screen readers and for those who ask for it with t. It
// follows the window once that stands still.

const MOST_READ = 50;

class Sight {
  constructor(timeline) {
    this.timeline = timeline;
    this.model = timeline.model;
    this.el = Object.assign(document.createElement("div"), { className: "wb-timeline-table wb-timeline-unseen" });
    this.table = this.el.appendChild(document.createElement("table"));
  }
  toggle() {
    const shown = !this.el.classList.toggle("wb-timeline-unseen");
    this.timeline.say(shown ? "Table of what is in sight, below the picture" : "Table hidden");
  }
  update() {                      // few events by themselves, else the kernel counts by lane
    const t = this.timeline, d = t.got;
    if (!d || d.snapshot || !t.width) return;
    const lanes = t.shelf.inSight().filter((item) => item.kind === "lane").map((item) => item.k).slice(0, MOST_READ);
    const few = d.kind === "rects" ? this.events(d) : null;
    if (few) this.fill(["event", "lane", "start", "duration"], few);
    else this.timeline.tell({ type: "sight", view: t.id, base: String(t.base), a: t.a, b: t.b, lanes });
  }
  events(d) {                     // in order of lanes and time; null where there are many
    const t = this.timeline, rows = [], inside = new Set(t.shelf.rowsInSight());
    for (let i = 0; i < d.row.length; i++) {
      const x0 = t.x(d.base, d.x0[i]), x1 = t.x(d.base, d.x0[i] + d.length[i]);
      if (!inside.has(d.row[i]) || x1 < t.gutter || x0 > t.gutter + t.plot) continue;
      if (rows.length === MOST_READ) return null;
      const e = t.eventAt(i);
      rows.push([e.text, e.lane, exactTime(BigInt(e.start) + t.origin), duration(Number(e.dur))]);
    }
    return rows;
  }
  receive(m) { this.fill(["lane", "events", "busy", "share"], m.rows); }
  fill(heads, rows) {
    const cell = (tag, textContent) => Object.assign(document.createElement(tag), { textContent });
    const line = (tag, texts) => { const tr = document.createElement("tr"); tr.append(...texts.map((text) => cell(tag, text))); return tr; };
    const t = this.timeline, from = exactTime(t.origin + t.base + floorBig(t.a));
    const head = document.createElement("thead"), body = document.createElement("tbody");
    head.append(line("th", heads));
    for (const th of head.querySelectorAll("th")) th.scope = "col";
    body.append(...rows.map((row) => line("td", row)));
    this.table.replaceChildren(cell("caption", `In sight: ${duration(t.span)} from ${from}`), head, body);
  }
}
