// Links of the selected event, drawn as curves from what came first to what followed. `flow` of the
// widget names the events; [ and ] walk along them.

const HEAD_SIZE = 6;

class Links {
  constructor(timeline) {
    this.timeline = timeline;
    this.model = timeline.model;
    this.at = 0;                  // which stop a walk has come to
  }
  follow() { return [["change:flow", () => { this.at = 0; this.timeline.draw(); }]]; }
  get flow() { return this.model.get("flow") || {}; }
  get stops() { return (this.flow.stops || []).map((k) => this.flow.nodes[k]); }

  step(by) {
    const stops = this.stops, t = this.timeline;
    if (stops.length < 2) { t.say(t.mark ? "No links" : "Nothing selected"); return; }
    this.at = (this.at + by + stops.length) % stops.length;   // the kernel may still owe the last step
    this.timeline.tell({ type: "pick", view: t.id, event: stops[this.at].event });
  }
  told(mark) {                    // what is said when a walk arrives
    const at = this.at = Math.max(0, this.stops.findIndex((s) => s.event === mark.event));
    return at > 0 ? `Link ${at} of ${this.stops.length - 1}, ${this.stops[at].relation}. ` : "";
  }
  // ---- drawing ------------------------------------------------------------------------------
  draw() {
    const { nodes, lines } = this.flow;
    if (!nodes || !this.timeline.mark) return;
    for (const e of nodes) this.outline(e);
    for (const [a, b] of lines) this.line(nodes[a], nodes[b]);
  }
  box(e) {
    const t = this.timeline, row = t.rows[e.row];
    if (!row || row.y < 0) return null;
    const start = BigInt(e.start), x0 = t.xOf(start), x1 = Math.max(x0 + 1, t.xOf(start + BigInt(e.dur)));
    return { x0, x1, y: t.yOf(row) + (row.h || HEAD) / 2, h: row.h };
  }
  outline(e) {
    const t = this.timeline, box = this.box(e);
    if (!box || !box.h || box.x1 < t.gutter || box.x0 > t.gutter + t.plot) return;
    const a = Math.max(box.x0, t.gutter - 5), b = Math.min(box.x1, t.gutter + t.plot + 5);
    t.g.strokeStyle = t.colours.accent; t.g.lineWidth = 1.5;
    t.g.strokeRect(a - 0.5, box.y - box.h / 2 - 0.5, Math.max(b - a, 2) + 1, box.h);
  }
  line(from, to) {
    const t = this.timeline, [a, b] = [this.box(from), this.box(to)];
    if (!a || !b) return;
    const across = to.relation === "other rank";
    const begin = this.inside(across ? a.x0 : clamp(b.x0, a.x0, a.x1), a.y), end = this.inside(b.x0, b.y);
    const out = (p, q) => p.out && q.out && p.x === q.x;
    if (out(begin, end) || (begin.beyond && begin.beyond === end.beyond)) return;
    const reach = clamp(Math.abs(end.x - begin.x) / 2, 18, 90), back = end.x < begin.x && !across ? -1 : 1;
    const curve = () => {
      t.g.beginPath(); t.g.moveTo(begin.x, begin.y);
      t.g.bezierCurveTo(begin.x + reach * (across ? -0.6 : back), begin.y, end.x - reach * (across ? 0.6 : back), end.y, end.x, end.y);
      t.g.stroke();
    };
    Object.assign(t.g, { strokeStyle: t.colours.page, lineWidth: 4 }); curve();
    Object.assign(t.g, { strokeStyle: t.colours.accent, lineWidth: 1.75 }); curve();
    this.end(end, to, across ? 1 : back);
    if (begin.out || begin.beyond) this.end(begin, from, 0);
  }
  inside(x, y) {                  // the nearest place in sight; `out`: to which side it was moved
    const t = this.timeline, left = t.gutter + 1, right = t.gutter + t.plot - 1;
    return { x: clamp(x, left, right), y: clamp(y, AXIS + 6, t.height - 6), out: x < left ? -1 : x > right ? 1 : 0,
      beyond: y < AXIS ? -1 : y > t.height ? 1 : 0 };
  }
  end(p, e, way) {                // an arrow head; at an edge it points out and says what lies there
    const g = this.timeline.g, c = this.timeline.colours, s = HEAD_SIZE;
    const [dx, dy] = p.out ? [p.out, 0] : p.beyond ? [0, p.beyond] : [way, 0];
    if (dx || dy) {
      g.fillStyle = c.accent;
      g.beginPath(); g.moveTo(p.x, p.y);
      g.lineTo(p.x - dx * s - dy * s * 0.6, p.y - dy * s - dx * s * 0.6); g.lineTo(p.x - dx * s + dy * s * 0.6, p.y - dy * s + dx * s * 0.6);
      g.fill();
    }
    if (p.out || p.beyond) this.note(p, e);
  }
  note(p, e) {
    const t = this.timeline, text = t.fitted(`${e.relation || "selected"}: ${e.text}`, 220), w = t.g.measureText(text).width + 8;
    if (!text) return;
    const x = clamp(p.x - (p.out > 0 ? w + 10 : p.out < 0 ? -10 : w / 2), t.gutter + 2, t.gutter + t.plot - w - 2);
    const y = clamp(p.y - (p.beyond > 0 ? 16 : p.beyond < 0 ? -16 : 0), AXIS + 9, t.height - 9);
    t.g.fillStyle = t.colours.accent;
    t.g.beginPath(); t.g.roundRect(x, y - 8, w, 16, 3); t.g.fill();
    t.g.fillStyle = t.colours.ontoAccent;
    t.g.fillText(text, x + 4, y + 0.5);
  }
}
