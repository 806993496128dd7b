// Counter tracks: what a device drew, held or waited for over time, as areas among the lanes. The
// kernel gives the least, mean and largest value of each pixel; what is not known stays blank.

const TRACK_PAD = 3;
const PREFIXES = [[1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];

function quantity(value, unit) {   // 12.5 GB, 1980 MHz, 87 %
  const number = (v) => String(Number(v.toPrecision(4)));
  const [scale, prefix] = (unit === "B" && PREFIXES.find(([s]) => Math.abs(value) >= s)) || [1, ""];
  const plain = Math.abs(value) >= 1e4 ? Math.round(value).toLocaleString("en") : number(value);
  return `${scale === 1 ? plain : number(value / scale)}${unit ? ` ${prefix}${unit}` : ""}`;
}

class Tracks {
  constructor(timeline) {
    this.timeline = timeline;
    this.got = new Map();         // by number: { base, a, b, width, low, mean, high }
    this.limits = new Map();
    this.asked = null;
    this.seq = 0;
  }
  wanted() { return this.timeline.shelf.inSight(100).filter((item) => item.kind === "track").map((item) => item.k); }
  fresh(k) {                      // what is there of a track covers the window, as fine as its pixels
    const d = this.got.get(k), t = this.timeline;
    if (!d) return false;
    const shift = Number(t.base - d.base), slop = t.span * 1e-6;
    const fine = Math.abs((d.b - d.a) / d.width / (t.span / t.plot) - 1) < 0.01;
    return fine && shift + t.a >= d.a - slop && shift + t.b <= d.b + slop;
  }
  ask() {                         // one request at a time, besides that for the events
    const t = this.timeline;
    if (this.asked || !t.width) return;
    const tracks = this.wanted().filter((k) => !this.fresh(k));
    const spot = [t.base, t.a, t.b, t.plot, ...tracks].join();
    if (!tracks.length || spot === this.lastSpot) return;
    this.lastSpot = spot;
    this.asked = ++this.seq;
    if (!t.tell({ type: "tracks", view: t.id, seq: this.seq, tracks, ...t.stretch() })) this.asked = null;
  }
  receive(m, buffers) {
    if (m.seq !== this.asked) return;
    this.asked = null;
    m.tracks.forEach((k, n) => {
      const all = array(buffers[n], Float32Array), w = m.width;
      this.limits.set(k, m.limits[n]);
      this.got.set(k, { base: BigInt(m.base), a: m.a, b: m.b, width: w,
        low: all.subarray(0, w), mean: all.subarray(w, 2 * w), high: all.subarray(2 * w) });
    });
    this.timeline.draw();
    this.ask();
  }
  // ---- drawing ------------------------------------------------------------------------------
  scale(k) {                      // from zero, so that areas compare; below it where values are
    const [low, high] = this.limits.get(k) || [0, 0];
    return [Math.min(0, low), high > Math.min(0, low) ? high : Math.min(0, low) + 1];
  }
  draw(item) {
    const d = this.got.get(item.k), t = this.timeline;
    if (!d || !this.limits.get(item.k)) return;
    const [least, most] = this.scale(item.k), bottom = t.yOf(item) + item.h - 1, rise = item.h - TRACK_PAD - 1;
    const y = (v) => bottom - ((v - least) / (most - least)) * rise;
    const x = (j) => t.x(d.base, d.a + ((d.b - d.a) * j) / d.width);
    for (const [from, to] of this.stretches(d)) {
      this.area(d.high, from, to, x, y, bottom, t.colours.area[0]);
      this.area(d.low, from, to, x, y, bottom, t.colours.area[1]);
      this.line(d.mean, from, to, x, y, t.colours.area[2]);
    }
  }
  stretches(d) {                  // of pixels in a row in which something is known
    const out = [];
    for (let j = 0; j < d.width; j++) {
      if (Number.isNaN(d.high[j])) continue;
      const from = j;
      while (j < d.width && !Number.isNaN(d.high[j])) j++;
      out.push([from, j]);
    }
    return out;
  }
  area(values, from, to, x, y, bottom, colour) {
    const g = this.timeline.g;
    g.beginPath();
    g.moveTo(x(from), bottom);
    for (let j = from; j < to; j++) { const v = y(values[j]); g.lineTo(x(j), v); g.lineTo(x(j + 1), v); }
    g.lineTo(x(to), bottom);
    g.fillStyle = colour;
    g.fill();
  }
  line(values, from, to, x, y, colour) {
    const g = this.timeline.g;
    g.beginPath();
    for (let j = from; j < to; j++) { const v = y(values[j]); g.lineTo(x(j), v); g.lineTo(x(j + 1), v); }
    g.strokeStyle = colour; g.lineWidth = 1;
    g.stroke();
  }
  drawScale(item) {               // below the name: the unit and the largest value, at the line it means
    const t = this.timeline, limits = this.limits.get(item.k), { unit } = t.shelf.tracks[item.k];
    const [least, most] = this.scale(item.k);
    const range = least < 0 ? `${quantity(least, unit)} … ${quantity(most, unit)}` : `0 … ${quantity(most, unit)}`;
    const text = limits ? range : limits === null ? "nothing known" : "";
    t.g.fillStyle = t.colours.muted;
    t.g.fillText(t.elided(text, t.gutter - item.indent - 18), item.indent + 14, t.yOf(item) + 25);
  }
  // ---- pointing -----------------------------------------------------------------------------
  hover(item, p) {
    const t = this.timeline, d = this.got.get(item.k), { unit } = t.shelf.tracks[item.k];
    const at = d && Math.floor(((Number(t.base - d.base) + t.a + ((p.x - t.gutter) / t.plot) * t.span - d.a) / (d.b - d.a)) * d.width);
    const [low, mean, high] = d && at >= 0 && at < d.width ? [d.low[at], d.mean[at], d.high[at]] : [NaN, NaN, NaN];
    const text = Number.isNaN(mean) ? "not known here" : quantity(mean, unit);
    const range = low < high ? [`${quantity(low, unit)} to ${quantity(high, unit)} in ${duration(t.span / t.plot)}`] : [];
    t.showLines(text, [`at ${exactTime(p.t + t.origin)}`, ...range, t.shelf.tracks[item.k].label], p);
  }
}
