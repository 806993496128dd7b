// What the kernel answered, painted: every event as a box while there are few, else each pixel of a
// row as high as it is busy. timeline_draw.js goes on with all that stands around them.

const BOILERPLATE = /^void |\(anonymous namespace\)::|^(void )?(at::native::|cutlass::Kernel2?<)+/g;
const TALLEST = 3000;         // px from the top in sight beyond which rows are not painted ahead

class Boxes {
  drawBins() {
    const d = this.got, x0 = this.x(d.base, d.a), x1 = this.x(d.base, d.b);
    // the part in sight alone: a sheet stretched a millionfold overflows the canvas
    const scale = d.width / (x1 - x0), from = clamp((this.gutter - x0) * scale, 0, d.width);
    const to = clamp((this.gutter + this.plot - x0) * scale, 0, d.width);
    if (to <= from) return;
    this.g.imageSmoothingEnabled = false;
    this.g.drawImage(this.sheet, from, 0, to - from, this.sheet.height,
      x0 + from / scale, AXIS - this.top + d.sheetY, (to - from) / scale, this.sheet.height);
    if (d.wide) this.drawRects(d.wide);   // by name, and apart from what touches them
  }
  drawRects(d = this.got) {
    this.shown = 0;
    const { hits } = d;
    if (!hits) { this.drawBoxes(d, () => true, this.colours.palette, this.colours.onto); return; }
    const muted = this.colours.palette.map(() => this.colours.muted);
    this.drawBoxes(d, (text) => !hits[text], this.colours.dim, muted);
    this.drawBoxes(d, (text) => hits[text], this.colours.palette, this.colours.onto);  // on top, however thin
  }
  drawBoxes(d, wanted, palette, onto) {
    const g = this.g, s = this.plot / this.span;
    const shift = this.gutter + (Number(d.base - this.base) - this.a) * s, right = this.gutter + this.plot;
    let reached = -1, row = -1;
    const instants = [];
    for (let i = 0; i < d.row.length; i++) {
      if (!wanted(d.text[i])) continue;
      const r = this.rows[d.row[i]], x = shift + d.x0[i] * s, w = d.length[i] * s;
      if (d.row[i] !== row) { row = d.row[i]; reached = -1; }
      if (!r.h || x > right || x + w < this.gutter) continue;
      if (r.y + r.h <= this.top || r.y >= this.top + this.body) continue;
      const joined = d.counts ? d.counts[d.text[i]] : 1;   // several events in one box: a page that holds too many
      this.shown += joined;
      if (!d.length[i]) { instants.push([x, r, d.colours[d.text[i]]]); continue; }
      const a = Math.max(x, this.gutter - 2), b = Math.min(x + Math.max(w, 1), right + 2);
      if (b <= reached) continue;          // a sliver inside a pixel that is painted already
      reached = Math.ceil(b);
      const y = AXIS - this.top + r.y, colour = d.colours[d.text[i]];
      if (d.ground) { g.fillStyle = this.colours.lane; g.fillRect(b - 1, y, 1, r.h - 1); }
      g.fillStyle = joined > 1 ? this.hatched(palette[colour]) : palette[colour];
      g.fillRect(a, y, w > 3 ? b - a - 0.6 : b - a, r.h - 1);
      if (b - a > 30) this.drawText(d.texts[d.text[i]], a, b, y + (r.h - 1) / 2, joined > 1 ? this.colours.text : onto[colour]);
    }
    for (const [x, r, colour] of instants) {
      g.fillStyle = palette[colour];
      g.fillRect(x - 1, AXIS - this.top + r.y, 2, r.h - 1);
    }
  }
  hatched(colour) {
    this.hatches ||= new Map();
    if (!this.hatches.has(colour)) {
      const tile = Object.assign(document.createElement("canvas"), { width: 6, height: 6 }), g = tile.getContext("2d");
      g.fillStyle = mix(this.colours.lane, colour, 0.25); g.fillRect(0, 0, 6, 6);
      g.strokeStyle = mix(this.colours.lane, colour, 0.6); g.lineWidth = 2;
      for (const x of [-6, 0, 6]) { g.beginPath(); g.moveTo(x - 1, 7); g.lineTo(x + 7, -1); g.stroke(); }
      this.hatches.set(colour, this.g.createPattern(tile, "repeat"));
    }
    return this.hatches.get(colour);
  }
  drawText(text, a, b, y, colour) {
    const left = Math.max(a, this.gutter) + 4, room = Math.min(b, this.gutter + this.plot) - left - 3;
    const fits = this.fitted(text.replace(BOILERPLATE, "").replace(BOILERPLATE, ""), room);
    if (!fits) return;
    this.g.fillStyle = colour;
    this.g.fillText(fits, left, y + 0.5);
  }
  fitted(text, room) {
    if (text.length * 9 > room && this.g.measureText(text).width > room) {
      let n = Math.floor(room / 6);
      while (n > 1 && this.g.measureText(text.slice(0, n) + "…").width > room) n--;
      return n < 3 ? "" : text.slice(0, n) + "…";
    }
    return text;
  }

  paintBins(d) {               // into a sheet of one device pixel a bin, stretched when drawn
    const drawn = d.rows.map((r) => this.rows[r]).filter((row) => row && row.h);
    const near = drawn.filter((row) => Math.abs(row.y - this.top) < TALLEST);
    const y0 = near.reduce((y, row) => Math.min(y, row.y), near.length ? Infinity : 0);
    const h = near.reduce((y, row) => Math.max(y, row.y + row.h), y0 + 1) - y0;
    const c = this.colours, image = this.blank(d.width, h), px = new Uint32Array(image.data.buffer);
    d.stale ||= near.length < drawn.length;
    this.paintRows(d, px, y0, d.busy, d.colour, d.hitBusy ? c.packedDim : c.packed, 2);
    // a match is looked for, so it stands out of what is drawn low
    if (d.hitBusy) this.paintRows(d, px, y0, d.hitBusy, d.hitColour, c.packed, 6);
    if (this.sheet.width !== d.width || this.sheet.height !== h) Object.assign(this.sheet, { width: d.width, height: h });
    this.sheet.getContext("2d", { willReadFrequently: true }).putImageData(image, 0, 0);
    d.sheetY = y0;
  }
  blank(width, height) {       // the same memory again: several megabytes for each step of a wheel
    const { image } = this;
    if (image && image.width === width && image.height === height) image.data.fill(0);
    else this.image = new ImageData(width, height);
    return this.image;
  }
  paintRows(d, px, y0, share, colour, palette, least) {
    const w = d.width;
    for (let k = 0; k < d.rows.length; k++) {
      const row = this.rows[d.rows[k]];
      if (!row || !row.h || Math.abs(row.y - this.top) >= TALLEST) continue;
      const top = row.y - y0, at = k * w, rise = row.h - 1;
      const heights = Uint8Array.from({ length: 256 }, (_, busy) => Math.min(rise, Math.max(least, Math.ceil((busy * rise) / 255))));
      for (let x = 0; x < w; x++) {  // column by column: line by line, the branch costs three times as much
        const busy = share[at + x];
        if (!busy) continue;
        const c = palette[colour[at + x]], end = (top + rise) * w;
        for (let i = end - heights[busy] * w + x; i < end; i += w) px[i] = c;
      }
    }
  }
}
