// The keys of the timeline, and the card that lists them.

const KEY_CARD = [
  ["w / s", "zoom in / out, at the pointer"], ["a / d", "earlier / later"], ["f", "the whole extent"],
  ["← / →", "previous / next event of the row; without a selection, earlier / later"],
  ["↑ / ↓", "parent or child of the selected event, then the neighbouring lane; without one, from lane to lane"],
  ["Enter, F", "zoom to the selected event or range"], ["[ / ]", "walk along the links of the selected event"],
  ["m", "measure the selected event"], ["e", "note on the selected range or event"], ["Shift+drag", "measure a range"],
  ["/ then n / N", "search, next / previous match"],
  ["c / C", "fold or unfold the lane / its group"], ["Alt+↑ / Alt+↓", "move the lane"], ["h", "hide the lane"],
  ["PageUp / PageDown", "scroll the lanes"], ["t", "table of what is in sight"], ["Esc", "clear selection and range"], ["?", "this card"],
];

class Keys {
  constructor(timeline) {
    this.timeline = timeline;
    this.el = Object.assign(document.createElement("div"), { className: "wb-timeline-help", hidden: true });
    this.el.setAttribute("role", "dialog");
    this.el.setAttribute("aria-label", "Keys of the timeline");
    const list = this.el.appendChild(document.createElement("dl"));
    const add = (tag, textContent) => list.append(Object.assign(document.createElement(tag), { textContent }));
    for (const [keys, does] of KEY_CARD) { add("dt", keys); add("dd", does); }
  }
  toggle(open = this.el.hidden) {
    this.el.hidden = !open;
    this.timeline.say(open ? KEY_CARD.map((pair) => pair.join(": ")).join(". ") : "Keys hidden");
  }
  press(e) {
    const t = this.timeline, does = e.altKey ? this.moved(e.key) : this.action(e.key);
    const typed = t.bar.contains(e.target) || (e.key === "Enter" && e.target !== t.canvas);  // a button's own
    if (e.ctrlKey || e.metaKey || typed || !does) return;
    e.preventDefault(); e.stopPropagation();
    does();
  }
  moved(key) {
    return { ArrowUp: () => this.timeline.shelf.shift(-1), ArrowDown: () => this.timeline.shelf.shift(1) }[key];
  }
  action(key) {
    const t = this.timeline, { shelf } = t, step = t.plot * 0.15;
    const x = t.pointer && t.pointer.x > t.gutter ? t.pointer.x - t.gutter : undefined;
    return {
      w: () => t.zoom(0.7, x), s: () => t.zoom(1 / 0.7, x), "+": () => t.zoom(0.7), "-": () => t.zoom(1 / 0.7),
      a: () => t.pan(-step), d: () => t.pan(step), f: () => t.fit(), F: () => this.zoomTo(), Enter: () => this.zoomTo(),
      ArrowLeft: () => (t.mark ? this.along(-1) : t.pan(-step)), ArrowRight: () => (t.mark ? this.along(1) : t.pan(step)),
      ArrowUp: () => (t.mark ? this.across(-1) : shelf.step(-1)), ArrowDown: () => (t.mark ? this.across(1) : shelf.step(1)),
      PageUp: () => t.scrollTo(t.top - t.body * 0.8), PageDown: () => t.scrollTo(t.top + t.body * 0.8),
      "[": () => t.links.step(-1), "]": () => t.links.step(1), m: () => this.measure(), e: () => t.notes.begin(),
      c: () => shelf.toggle(shelf.focused()), C: () => shelf.toggle(this.group()), h: () => shelf.hide(shelf.focused()),
      t: () => t.sight.toggle(), "?": () => this.toggle(),
      "/": () => t.finder.focus(), n: () => t.finder.step(1), N: () => t.finder.step(-1),
      Escape: () => (this.el.hidden ? this.clear() : this.toggle(false)),
    }[key];
  }
  clear() {
    const t = this.timeline;
    t.shelf.focus = null;
    t.clear();
  }
  zoomTo() {
    const t = this.timeline, m = t.mark;
    if (m) t.fit(BigInt(m.start), BigInt(m.start) + BigInt(m.dur));
    else if (t.selection) t.fit(...t.selection);
  }
  measure() {
    const t = this.timeline, m = t.mark;
    if (!m) { t.say("Nothing selected"); return; }
    t.selection = [BigInt(m.start), BigInt(m.start) + BigInt(m.dur)];
    t.select(t.selection);
  }
  group() {                       // the heading that the lane in focus stands below
    const { items } = this.timeline.shelf, item = this.timeline.shelf.focused();
    return items.slice(0, items.indexOf(item) + 1).reverse().find((i) => i.kind === "head");
  }
  along(by) { this.timeline.tell({ type: "move", view: this.timeline.id, by }); }
  across(by) {                    // the next row that is drawn, of this lane or of the one beside it
    const t = this.timeline, { items, lanes } = t.shelf, me = t.rows[t.mark.row];
    const drawn = items.filter((i) => i.kind === "lane").flatMap((i) => Array.from({ length: lanes[i.k].rows }, (_, r) => lanes[i.k].first + r));
    const rows = drawn.filter((r) => t.rows[r].h || r === t.mark.row), at = rows.indexOf(t.mark.row);
    if (me.y < 0 || at + by < 0 || at + by >= rows.length) { this.ended(); return; }
    t.tell({ type: "move", view: t.id, row: rows[at + by] });
  }
  ended() { this.timeline.say("No further event there"); }
}
