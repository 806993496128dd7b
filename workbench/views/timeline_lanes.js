// Which lanes, tracks and group headings stand where, their labels, and how they are moved about.
// `order`, `folded` and `hidden` of the widget say it; timeline_view.js makes one Shelf.

const SINGLE = 18, NESTED = 15, TRACK = 38, HEAD = 20, LANE_GAP = 5, INDENT = 12;
const ALL = " · *";           // ends the name of a whole group
const BOLD = SMALL.replace("11px", "600 11px");

class Shelf {
  constructor(timeline) {
    this.timeline = timeline;
    this.model = timeline.model;
    let first = 0;
    this.lanes = timeline.lanes.map((lane, k) => {
      const mine = { ...lane, kind: "lane", k, first, key: lane.key || lane.label, name: lane.short || lane.label };
      first += lane.rows;
      return mine;
    });
    this.tracks = (this.model.get("curves") || []).map((c, k) => ({ ...c, kind: "track", k, label: c.key, name: c.short }));
    const all = [...this.lanes, ...this.tracks].sort((x, y) => x.place - y.place);
    this.byKey = new Map(all.map((entry) => [entry.key, entry]));
    this.rows = first;
    this.items = [];
    this.focus = null;           // key of the item that keys act on
  }
  follow() {
    const again = () => this.rearrange();
    return [["change:order", again], ["change:folded", again], ["change:hidden", again]];
  }
  set(name, value) {
    this.model.set(name, value);
    this.model.save_changes();
    this.rearrange();
  }
  rearrange() {
    const t = this.timeline;
    t.layout();
    if (t.got) { t.got.stale = !t.got.snapshot; if (t.got.kind === "bins") t.paintBins(t.got); }
    t.changed();
    t.menu.show();
  }
  has(name, key) { return (this.model.get(name) || []).includes(key); }
  get order() {
    const order = (this.model.get("order") || []).filter((key) => this.byKey.has(key));
    return order.length ? order : [...this.byKey.keys()];
  }
  sections() {                   // neighbours of one group stand below a heading, if there are several
    const out = [];
    for (const key of this.order) {
      if (this.has("hidden", key)) continue;
      const entry = this.byKey.get(key), last = out[out.length - 1];
      if (last && entry.group && last.group === entry.group) last.entries.push(entry);
      else out.push({ group: entry.group, entries: [entry] });
    }
    return out;
  }
  // ---- layout -------------------------------------------------------------------------------
  layout() {
    const t = this.timeline;
    t.rows = Array.from({ length: this.rows }, () => ({ y: -1, h: 0, lane: -1 }));
    this.items = [];
    let y = 3;
    const add = (item, h) => { this.items.push({ indent: 0, ...item, y, h }); y += h + LANE_GAP; };
    for (const lane of this.lanes) for (let r = 0; r < lane.rows; r++) t.rows[lane.first + r].lane = lane.k;
    for (const { group, entries } of this.sections()) {
      const headed = group && entries.length > 1, folded = headed && this.has("folded", group + ALL);
      if (headed) {
        const at = y;
        add({ kind: "head", key: group + ALL, label: group, entries, folded }, HEAD);
        if (folded) for (const e of entries) if (e.kind === "lane") for (let r = 0; r < e.rows; r++) t.rows[e.first + r].y = at;
        y -= LANE_GAP - 2;
      }
      for (const entry of folded ? [] : entries) {
        const indent = headed ? INDENT : 0, label = headed ? entry.name : entry.label;
        if (entry.kind === "track") { add({ kind: "track", k: entry.k, key: entry.key, label, indent }, TRACK); continue; }
        const { h, one } = this.stack(entry, y), lost = entry.hidden ? ` (${entry.hidden} not shown)` : "";
        add({ kind: "lane", k: entry.k, key: entry.key, label: label + lost, indent, folded: one, many: entry.rows > 1 }, h);
      }
    }
    return y;
  }
  stack(lane, y) {               // the rows of a lane; all lie on the first one when it is folded
    const one = this.has("folded", lane.key), h = lane.rows > 1 ? NESTED : SINGLE, rows = this.timeline.rows;
    for (let r = 0; r < lane.rows; r++) Object.assign(rows[lane.first + r], { y: one ? y : y + r * h, h: r && one ? 0 : h });
    return { h: one ? h : h * lane.rows, one };
  }
  at(y) {                        // the item at a place on the canvas
    const v = y - AXIS + this.timeline.top;
    return y < AXIS ? null : this.items.find((item) => v >= item.y - 1 && v < item.y + item.h + 1) || null;
  }
  inSight(margin = 0) {
    const { top, body } = this.timeline, all = this.items;
    let lo = 0, hi = all.length;   // the first one that ends below the upper edge
    while (lo < hi) { const mid = (lo + hi) >> 1; if (all[mid].y + all[mid].h <= top - margin) lo = mid + 1; else hi = mid; }
    let end = lo;
    while (end < all.length && all[end].y < top + body + margin) end++;
    return all.slice(lo, end);
  }
  rowsInSight(margin = 0) {
    const { rows, top, body } = this.timeline, out = [];
    for (const item of this.inSight(margin)) {
      if (item.kind !== "lane") continue;
      const { first, rows: count } = this.lanes[item.k];
      for (let r = first; r < first + count; r++)
        if (rows[r].h && rows[r].y + rows[r].h > top - margin && rows[r].y < top + body + margin) out.push(r);
    }
    return out.sort((a, b) => a - b);
  }
  static runs(rows) {            // [first, last) pairs of ascending numbers
    const out = [];
    for (const r of rows) {
      if (out.length && out[out.length - 1][1] === r) out[out.length - 1][1]++;
      else out.push([r, r + 1]);
    }
    return out;
  }
  // ---- labels -------------------------------------------------------------------------------
  drawTracks() {
    const { timeline: t } = this;
    for (const item of this.inSight()) if (item.kind === "track") t.tracks.draw(item);
  }
  drawLabels() {
    const t = this.timeline, g = t.g, c = t.colours, marked = t.mark ? t.rows[t.mark.row].lane : -1;
    for (const item of this.inSight()) {
      const y = t.yOf(item), mid = clamp(AXIS + 10, y + 9, y + item.h - 7), head = item.kind === "head";
      if (head) { g.fillStyle = c.head; g.fillRect(0, y, t.gutter, item.h - 1); }
      else { g.fillStyle = c.page; g.fillRect(0, y, t.gutter, item.h); }
      if (this.focus === item.key) { g.strokeStyle = c.accent; g.lineWidth = 1.5; g.strokeRect(1, y + 0.5, t.gutter - 3, item.h - 1); }
      g.fillStyle = c.muted;
      if (head || item.many) g.fillText(item.folded ? "▸" : "▾", item.indent + 3, mid);
      g.fillStyle = item.kind === "lane" && item.k === marked ? c.accent : c.text;
      g.font = head ? BOLD : SMALL;
      const more = head && item.folded ? ` · ${item.entries.length} folded` : "";
      g.fillText(t.elided(item.label + more, head ? t.width - 40 : t.gutter - item.indent - 18), item.indent + 14, mid);
      g.font = SMALL;
      if (item.kind === "track") t.tracks.drawScale(item);
    }
    if (this.moving) this.drawDrop();
  }
  // ---- folding and moving -------------------------------------------------------------------
  toggle(item) {
    if (!item || (item.kind === "lane" && !item.many) || item.kind === "track") return;
    const folded = this.model.get("folded") || [], at = this.has("folded", item.key);
    this.set("folded", at ? folded.filter((key) => key !== item.key) : [...folded, item.key]);
    this.timeline.say(`${item.label} ${at ? "unfolded" : "folded"}`);
  }
  unfold(row) {                  // what a selected event is folded into
    const t = this.timeline, lane = this.lanes[t.rows[row].lane];
    if (t.rows[row].h || this.has("hidden", lane.key)) return;
    const keys = [lane.key, lane.group + ALL];
    this.set("folded", this.model.get("folded").filter((key) => !keys.includes(key)));
  }
  hide(item) {
    if (!item) return;
    const keys = item.kind === "head" ? item.entries.map((e) => e.key) : [item.key];
    this.set("hidden", [...new Set([...(this.model.get("hidden") || []), ...keys])]);
    this.timeline.say(`${item.label} hidden; the menu Lanes shows it again`);
  }
  keysOf(item) { return item.kind === "head" ? item.entries.map((e) => e.key) : [item.key]; }
  move(item, before) {           // `before`: the item that it goes in front of; null: to the end
    const keys = this.keysOf(item), rest = this.order.filter((key) => !keys.includes(key));
    const target = before && this.keysOf(before)[0], at = target ? rest.indexOf(target) : rest.length;
    if (at < 0) return;
    this.set("order", [...rest.slice(0, at), ...keys, ...rest.slice(at)]);
  }
  shift(by) {                    // the item in focus past its neighbour
    const item = this.focused();
    if (!item) return;
    const peers = this.items.filter((i) => (item.kind === "head" ? i.kind === "head" : i.kind !== "head"));
    const at = peers.findIndex((i) => i.key === item.key), to = peers[at + by];
    if (!to) { this.timeline.say(`${item.label} is ${by < 0 ? "first" : "last"}`); return; }
    if (by < 0) this.move(item, to);
    else this.move(item, peers[at + 2] || null);
    this.show(this.focused());
    this.timeline.say(`${item.label} moved ${by < 0 ? "up" : "down"}, ${by < 0 ? "above" : "below"} ${to.label}`);
  }
  focused() {
    const t = this.timeline, mine = this.items.find((i) => i.key === this.focus);
    return mine || (t.mark && this.items.find((i) => i.kind === "lane" && i.k === t.rows[t.mark.row].lane)) || null;
  }
  step(by) {                     // the focus to the next item, in sight
    const at = this.items.findIndex((i) => i.key === this.focus);
    const first = this.items.indexOf(this.inSight()[0]);
    const item = this.items[at < 0 ? Math.max(first, 0) : clamp(at + by, 0, this.items.length - 1)];
    if (!item) return;
    this.focus = item.key;
    this.show(item);
    const folds = item.kind === "head" || item.many ? (item.folded ? ", folded" : ", unfolded") : "";
    this.timeline.say(`${{ head: "Group", lane: "Lane", track: "Track" }[item.kind]} ${item.label}${folds}`);
    this.timeline.draw();
  }
  show(item) {
    const t = this.timeline;
    if (item && (item.y < t.top || item.y + item.h > t.top + t.body)) t.scrollTo(item.y - t.body / 3);
  }
  // ---- dragging a label ---------------------------------------------------------------------
  drag(item, y) {
    const t = this.timeline, v = y - AXIS + t.top, peers = this.items.filter((i) => (item.kind === "head" ? i.kind === "head" : i.kind !== "head"));
    if (y < AXIS + 20) t.scrollTo(t.top - 12);
    else if (y > t.height - 20) t.scrollTo(t.top + 12);
    this.moving = { item, before: peers.find((i) => v < i.y + i.h / 2) || null };
    t.draw();
  }
  drop() {
    const { item, before } = this.moving;
    this.moving = null;
    if (before && before.key === item.key) { this.timeline.draw(); return; }
    this.move(item, before);
    this.timeline.say(before ? `${item.label} moved above ${before.label}` : `${item.label} moved to the end`);
  }
  drawDrop() {
    const { g, width, colours, content } = this.timeline, { before } = this.moving;
    g.fillStyle = colours.accent;
    g.fillRect(0, this.timeline.yOf({ y: before ? before.y - 3 : content - 3 }), width, 2);
  }
}
