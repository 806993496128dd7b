// The bar above the timeline: a text to look for, what is drawn at all, and both in words.
// timeline_view.js makes one; the kernel does the looking.

const TYPING = 150;           // ms without a key until what was typed is looked for
const CHOICES = { families: ["family", "families"], streams: ["stream", "streams"], steps: ["step", "steps"] };

class Finder {
  constructor(timeline) {
    this.timeline = timeline;
    this.model = timeline.model;
    this.el = document.createElement("div");
    this.el.className = "wb-timeline-bar";
    this.box = this.add("input", { type: "search", placeholder: "Search names  ( / )", spellcheck: false }, "Search the names of events; /…/ is a regular expression");
    this.before = this.add("button", { type: "button", textContent: "‹" }, "Previous match (N)");
    this.next = this.add("button", { type: "button", textContent: "›" }, "Next match (n)");
    this.count = this.add("span", { className: "wb-timeline-count" });
    this.selects = Object.fromEntries(Object.keys(CHOICES).map((key) => [key, this.add("select", {}, `Draw only one ${CHOICES[key][0]}`)]));
    this.only = this.add("button", { type: "button", textContent: "Only matches" }, "Draw only what matches the search");
    this.all = this.add("button", { type: "button", textContent: "Show all" }, "Remove the filter");
    this.words = this.add("span", { className: "wb-timeline-filtered" });
    this.box.value = this.model.get("search") || "";
    this.sent = this.box.value;
    this.showCount();
    this.showFilter();
  }
  add(tag, properties, label) {
    const node = this.el.appendChild(Object.assign(document.createElement(tag), properties));
    if (label) { node.setAttribute("aria-label", label); node.title = label; }
    return node;
  }
  listen(on) {
    on(this.box, "input", () => { clearTimeout(this.typing); this.typing = setTimeout(() => this.look(), TYPING); });
    on(this.box, "keydown", (e) => this.onKey(e));
    on(this.before, "click", () => this.step(-1));
    on(this.next, "click", () => this.step(1));
    on(this.only, "click", () => this.choose("text", this.filter.text ? "" : this.model.get("search")));
    on(this.all, "click", () => this.narrow({}));
    for (const [key, select] of Object.entries(this.selects))
      on(select, "change", () => this.choose(key, select.value ? [select.value] : ""));
  }
  follow() {
    return [
      ["change:search", () => this.onSearch()], ["change:matches", () => this.onMatches()],
      ["change:filter", () => this.showFilter()], ["change:filtered", () => this.onFiltered()],
      ["change:version", () => this.timeline.changed()],
    ];
  }
  // ---- searching ----------------------------------------------------------------------------
  onKey(e) {
    const does = { Enter: () => this.step(e.shiftKey ? -1 : 1), Escape: () => this.leave() }[e.key];
    if (!does) return;
    e.preventDefault(); e.stopPropagation();
    does();
  }
  look() {
    clearTimeout(this.typing);
    if (this.box.value === this.sent) return;
    this.sent = this.box.value;
    this.timeline.tell({ type: "search", text: this.sent });
  }
  step(by) { this.look(); this.timeline.tell({ type: "step", by }); }
  focus() { this.box.focus(); this.box.select(); }
  leave() {                    // back to the picture, without a search
    this.box.value = "";
    this.look();
    this.timeline.canvas.focus({ preventScroll: true });
  }
  onSearch() {                 // set in Python; what is being typed stays
    const text = this.model.get("search");
    if (text === this.sent || document.activeElement === this.box) return;
    this.box.value = this.sent = text;
  }
  onMatches() {
    const m = this.matches, what = [m.text, m.total, m.problem].join("\n");
    this.showCount();
    if (what === this.said) return;      // a pan alone is not worth a sentence
    this.said = what;
    this.timeline.say(m.text ? `${this.counted()}: ${m.text}` : "Search cleared");
  }
  get matches() { return this.model.get("matches") || {}; }
  counted() {
    const m = this.matches, number = (n) => n.toLocaleString("en");
    if (m.problem) return m.problem;
    if (!m.text) return "";
    const joined = m.joined ? ` · ${number(m.joined)} more inside hatched boxes` : "";   // in pages that hold too many
    return (m.total ? `${number(m.within)} of ${number(m.total)} matches in this window` : "No match") + joined;
  }
  showCount() {
    const m = this.matches;
    this.count.textContent = (m.at ? `Match ${m.at.toLocaleString("en")} · ` : "") + this.counted();
    this.count.classList.toggle("wb-timeline-problem", Boolean(m.problem || (m.text && !m.total)));
    this.before.disabled = this.next.disabled = !m.total;
    this.only.disabled = !this.filter.text && !m.total;
  }
  // ---- what is drawn ------------------------------------------------------------------------
  get filter() { return this.model.get("filter") || {}; }
  choose(key, value) {
    const { [key]: _, ...rest } = this.filter;
    this.narrow(value ? { ...rest, [key]: value } : rest);
  }
  narrow(filter) {
    this.model.set("filter", filter);
    this.model.save_changes();
  }
  showFilter() {
    const offers = this.model.get("offers") || {};
    for (const [key, select] of Object.entries(this.selects)) {
      const [one, many] = CHOICES[key], chosen = (this.filter[key] || []).map(String), known = offers[key] || [];
      const option = (value, text) => new Option(text, value, false, chosen.length === 1 && chosen[0] === value);
      const list = [...new Set([...known, ...(chosen.length === 1 ? chosen : [])])];
      select.replaceChildren(option("", `All ${many}`), ...list.map((v) => option(v, `${one} ${v}`)));
      if (chosen.length > 1) select.add(new Option(`${chosen.length} ${many}`, "", true, true), 0);
      select.hidden = !known.length;
    }
    this.only.setAttribute("aria-pressed", String(Boolean(this.filter.text)));
    this.all.hidden = !Object.keys(this.filter).length;
    this.words.textContent = this.model.get("filtered") || "";
    this.showCount();
  }
  onFiltered() {
    this.showFilter();
    this.timeline.say(this.model.get("filtered") || "All events are drawn");
  }
}
