// Explorers and pictures of a standalone page: tabs, tables and pictures around a timeline, linked as
// in Jupyter. What a click means was written down by static_links.py; nothing is computed anew.

class StillFigure extends Traits {     // answers figure.js from the pictures that the page carries
  constructor(pictures, height) { super({ height }); this.pictures = pictures; }
  async send(m) {
    if (m.type === "bokehjs") this.tell("msg:custom", { type: "bokehjs" }, [await inflated(carried(document, "bokeh").code)]);
    else if (m.type === "draw") {
      const item = JSON.parse(await unpackText(this.pictures[m.theme]));
      item.doc.roots[0].attributes.width = m.width;
      this.tell("msg:custom", { type: "item", item, view: m.view, seq: m.seq });
    } else if (m.type === "pick") this.tell("pick", m.row);
  }
}

const carried = (root, kind) => JSON.parse(root.querySelector(`script[type='application/workbench-${kind}']`).textContent);

class Page {
  constructor(root, data, links, timeline) {
    Object.assign(this, { root, data, links, timeline, tables: {}, quiet: false });
    this.details = root.querySelector(".wb-page-details");
    this.tabs = [...root.querySelectorAll(".wb-page-tabs button")];
    this.sections = [...root.querySelectorAll("section[data-tab]")];
    for (const name of Object.keys(data.tables))
      this.tables[name] = new Traits({ html: "", selected: data.rows[name] ?? -1, order: links.sort[name] ?? {} });
    for (const [name, table] of Object.entries(this.tables)) table.on("change:selected", () => this.clicked(name, table.get("selected")));
    timeline.on("change:mark", () => this.marked());
    for (const tab of this.tabs) tab.addEventListener("click", () => this.open(tab.dataset.tab));
    root.querySelector(".wb-page-tabs").addEventListener("keydown", (e) => this.onKey(e));
    addEventListener("beforeprint", () => this.sections.forEach((s) => this.fill(s)));
    this.fill(root, ":scope > ");
    this.open(this.tabs.find((tab) => tab.ariaSelected === "true").dataset.tab);
  }

  open(title) {
    for (const tab of this.tabs) {
      const on = tab.dataset.tab === title;
      tab.setAttribute("aria-selected", String(on));
      tab.tabIndex = on ? 0 : -1;
    }
    for (const section of this.sections) {
      section.hidden = section.dataset.tab !== title;
      if (!section.hidden) this.fill(section);
    }
  }
  onKey(e) {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[e.key], n = this.tabs.length, at = this.tabs.indexOf(e.target);
    if (!by || at < 0) return;
    const next = this.tabs[(at + by + n) % n];
    next.focus();
    this.open(next.dataset.tab);
  }
  fill(root, directly = "") {
    for (const el of root.querySelectorAll(`${directly}[data-table]:empty`)) this.showTable(el);
    for (const el of root.querySelectorAll(`${directly}[data-figure]:empty`)) this.showFigure(el);
  }
  async showTable(el) {
    const table = this.tables[el.dataset.table];
    tableWidget.render({ model: table, el });
    table.set("html", await unpackText(this.data.tables[el.dataset.table]));
  }
  showFigure(el) {
    const { figure: name, height } = el.dataset, figure = new StillFigure(this.data.pictures[name], Number(height));
    figure.on("pick", (row) => this.tables[name]?.set("selected", row));
    figureWidget.render({ model: figure, el });
  }

  // ---- from a row to the timeline, and back -------------------------------------------------
  clicked(name, row) {
    const target = this.links.targets[name]?.[row];
    if (this.quiet || !target) return;
    const [number, stretch] = target;
    if (stretch) this.timeline.set("window", stretch);
    this.by = name;
    if (number >= 0) this.timeline.mark(this.timeline.places[number]);
    else if (name === "idle") this.timeline.mark(-1);
    this.by = null;
    this.root.querySelector(".wb-timeline")?.scrollIntoView({ block: "nearest" });
  }
  marked() {
    const i = this.timeline.marked, key = i < 0 ? "" : `${this.timeline.laneOf(i)} ${this.timeline.name[i]}`;
    const rows = Object.fromEntries(Object.keys(this.links.belongs).map((name) => [name, this.links.belongs[name][key] ?? -1]));
    const op = i < 0 ? 0 : this.timeline.columns.op.low[i];
    if (op) rows.ops = op - 1;
    this.quiet = true;
    for (const [name, row] of Object.entries(rows)) if (name !== this.by) this.tables[name]?.set("selected", row);
    this.quiet = false;
    this.describe(i, rows.ops);
  }
  describe(i, op) {
    const span = (name, value) => {
      const box = document.createElement("span");
      box.append(Object.assign(document.createElement("i"), { textContent: name }), String(value));
      return box;
    };
    if (i < 0) { this.details.replaceChildren(); return; }
    const e = this.timeline.describe(i), start = BigInt(e.start) + BigInt(this.timeline.get("extent")[0]);
    const fields = [["on", e.lane], ["duration", duration(Number(e.dur))], ["start", exactTime(start)]];
    if (e.step !== null) fields.push(["step", e.step]);
    if (op >= 0 && this.links.operators[op]) fields.push(["operator", this.links.operators[op]]);
    const box = Object.assign(document.createElement("div"), { className: "wb-details" });
    box.append(Object.assign(document.createElement("b"), { textContent: e.text }), ...fields.map((f) => span(...f)));
    this.details.replaceChildren(box);
  }
}

const dark = matchMedia("(prefers-color-scheme: dark)");
const follow = () => { document.body.dataset.jpThemeLight = String(!dark.matches); };
dark.addEventListener("change", follow);
follow();
await showTimelines();
for (const root of document.querySelectorAll(".wb-page")) {
  const data = carried(root, "panes"), links = JSON.parse(await unpackText(data.links));
  root.page = new Page(root, data, links, root.querySelector(".wb-page-timeline > div").model);
}
for (const el of document.querySelectorAll(".wb-page-picture")) {
  const { looks, height } = carried(el, "picture");
  figureWidget.render({ model: new StillFigure(looks, height), el });
}
