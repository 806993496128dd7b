// The menu of lanes: which are shown, in which order, and which are folded.

class LaneMenu {
  constructor(timeline) {
    this.timeline = timeline;
    this.shelf = timeline.shelf;
    this.button = Object.assign(document.createElement("button"), { type: "button", textContent: "Lanes" });
    this.button.setAttribute("aria-haspopup", "true");
    this.button.title = "Show, hide and order lanes and counter tracks";
    this.el = Object.assign(document.createElement("div"), { className: "wb-timeline-menu", hidden: true });
    this.el.setAttribute("role", "group");
    this.el.setAttribute("aria-label", "Lanes and tracks");
    this.toggle(false);
  }
  listen(on) {
    on(this.button, "click", () => this.toggle(this.el.hidden));
    for (const part of [this.el, this.button])
      on(part, "keydown", (e) => { if (e.key === "Escape" && !this.el.hidden) { this.toggle(false); this.button.focus(); } e.stopPropagation(); });
    on(document, "pointerdown", (e) => { if (!this.el.hidden && !this.el.contains(e.target) && e.target !== this.button) this.toggle(false); });
    on(this.el, "change", (e) => this.onChange(e.target));
  }
  toggle(open) {
    this.el.hidden = !open;
    this.button.setAttribute("aria-expanded", String(open));
    if (open) { this.show(); this.el.style.top = `${this.button.offsetTop + this.button.offsetHeight + 4}px`; }
  }
  show() {
    if (this.el.hidden) return;
    const top = this.el.scrollTop, groups = new Map();
    for (const key of this.shelf.order) {
      const entry = this.shelf.byKey.get(key);
      groups.set(entry.group || "", [...(groups.get(entry.group || "") || []), entry]);
    }
    const controls = () => [...this.el.querySelectorAll("button, input")], held = controls().indexOf(document.activeElement);
    const parts = [...groups].map(([group, entries]) => this.group(group, entries));
    this.el.replaceChildren(this.actions(), ...parts);
    this.el.scrollTop = top;
    if (held >= 0) controls()[held]?.focus();   // made anew below the hands of who uses the keyboard
  }
  actions() {
    const { shelf } = this, row = Object.assign(document.createElement("div"), { className: "wb-timeline-actions" });
    const heads = () => shelf.sections().filter((s) => s.group && s.entries.length > 1).map((s) => s.group + ALL);
    const add = (textContent, does) => {
      const button = row.appendChild(Object.assign(document.createElement("button"), { type: "button", textContent }));
      button.onclick = does;
    };
    add("Show all", () => shelf.set("hidden", []));
    add("Fold all", () => shelf.set("folded", [...new Set(heads())]));
    add("Unfold all", () => shelf.set("folded", []));
    add("Sort by device", () => shelf.set("order", []));
    return row;
  }
  group(group, entries) {
    const box = document.createElement("fieldset"), title = document.createElement("legend");
    const shown = entries.filter((e) => !this.shelf.has("hidden", e.key)).length;
    title.append(this.check(group, shown === entries.length, entries.map((e) => e.key)));
    title.querySelector("input").indeterminate = shown > 0 && shown < entries.length;
    box.append(...(group ? [title] : []), ...entries.map((e) => this.check((group && e.name) || e.label, !this.shelf.has("hidden", e.key), [e.key])));
    return box;
  }
  check(text, checked, keys) {
    const label = document.createElement("label"), box = Object.assign(document.createElement("input"), { type: "checkbox", checked });
    box.keys = keys;
    label.append(box, text);
    return label;
  }
  onChange(box) {
    if (!box.keys) return;
    const rest = (this.shelf.model.get("hidden") || []).filter((key) => !box.keys.includes(key));
    this.shelf.set("hidden", box.checked ? rest : [...rest, ...box.keys]);
  }
}
