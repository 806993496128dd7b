// The card beside a measured range: how long, how many events, and what the devices did in it.

class Measure {
  constructor(timeline) {
    this.timeline = timeline;
    this.model = timeline.model;
    this.el = document.createElement("div");
    this.el.className = "wb-timeline-card";
    this.el.hidden = true;
  }
  follow() { return [["change:measured", () => this.show()]]; }
  get current() {                 // what is known of the present range; while it is drawn, nothing
    const m = this.model.get("measured") || {}, s = this.timeline.selection, { origin } = this.timeline;
    return s && m.range && String(m.range) === String(s.map((t) => t + origin)) ? m : null;
  }
  show() {
    const s = this.timeline.selection, m = this.current;
    this.el.hidden = !s;
    if (!s) return;
    const line = (name, ...texts) => {
      const row = Object.assign(document.createElement("div"), { className: name });
      row.append(...texts.map((textContent) => Object.assign(document.createElement("span"), { textContent })));
      return row;
    };
    const count = m ? `${m.partly ? "about " : ""}${m.events.toLocaleString("en")} event${m.events === 1 ? "" : "s"}` : "";
    const on = m && m.devices > 1 ? ` on ${m.devices} devices` : "";
    const parts = (m ? m.parts : []).map((p) => {
      const row = line("wb-timeline-part", p.part, duration(Number(p.busy_ns)), p.share === null ? "" : `${(100 * p.share).toFixed(1)} %`);
      row.style.setProperty("--share", p.share || 0);
      row.style.setProperty("--colour", this.colour(p.part));
      return row;
    });
    this.el.replaceChildren(line("wb-timeline-length", duration(Number(s[1] - s[0])), count + on), ...parts);
    this.place();
    if (m && this.said !== String(m.range)) this.say(m, count);
  }
  say(m, count) {
    this.said = String(m.range);
    const [a, b] = m.range.map(BigInt);
    this.timeline.say([`Range of ${duration(Number(b - a))}`, count, ...m.parts.map((p) => `${p.part} ${duration(Number(p.busy_ns))}`)].join(", "));
  }
  colour(part) {
    const names = ["compute", "communication", "copy", "idle"], k = names.findIndex((n) => part.endsWith(n));
    return this.timeline.colours.palette[Math.max(k, 0)];
  }
  place() {                       // beside the range where there is room, else inside it
    const t = this.timeline, s = t.selection;
    if (!s || this.el.hidden) return;
    const [a, b] = s.map((time) => t.xOf(time)), w = this.el.offsetWidth, right = t.gutter + t.plot;
    this.el.style.visibility = b < t.gutter || a > right ? "hidden" : "visible";
    const x = b + 8 + w <= right ? b + 8 : a - w - 8 >= t.gutter ? a - w - 8 : right - w - 8;
    this.el.style.left = `${Math.round(clamp(x, t.gutter + 4, Math.max(t.gutter + 4, right - w - 4)))}px`;
    this.el.style.top = `${AXIS + 24}px`;
  }
}
