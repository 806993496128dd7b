// The card of one note, below the strip of notes: to read it, to write it, to remove it. All that it
// shows is set as text, never as HTML. What is typed stays until the kernel has said that it is kept.

const KERNEL_PATIENCE = 5000; // ms until the card says that nobody answers

class Card {
  constructor(notes) {
    this.notes = notes;
    this.timeline = notes.timeline;
    this.asked = 0;
    this.el = this.make("form", "wb-timeline-notecard");
    this.el.setAttribute("aria-label", "Note");
    this.el.hidden = true;
    this.about = this.el.appendChild(this.make("div", "wb-timeline-about"));
    this.name = this.field("input", "Name", { maxLength: 200, autocomplete: "off" });
    this.text = this.field("textarea", "What there is to say", { rows: 3, maxLength: 20000 });
    this.shown = this.el.appendChild(this.make("p", "wb-timeline-notetext"));
    const row = this.el.appendChild(this.make("div", "wb-timeline-does"));
    this.save = row.appendChild(this.make("button", "", { type: "submit", textContent: "Save", title: "Save (Ctrl+Enter)" }));
    this.remove = row.appendChild(this.make("button", "", { type: "button" }));
    this.close = row.appendChild(this.make("button", "", { type: "button", textContent: "Close", title: "Close (Esc)" }));
    this.said = row.appendChild(this.make("span", "wb-timeline-said"));
    this.said.setAttribute("role", "status");
  }
  make(tag, className, properties = {}) { return Object.assign(document.createElement(tag), { className, ...properties }); }
  field(tag, placeholder, properties) {
    const made = this.el.appendChild(this.make(tag, "", { placeholder, ...properties }));
    made.setAttribute("aria-label", placeholder);
    return made;
  }
  listen(on) {
    on(this.el, "submit", (e) => { e.preventDefault(); this.keep(); });
    on(this.remove, "click", () => this.drop());
    on(this.close, "click", () => this.leave());
    on(this.el, "keydown", (e) => {
      e.stopPropagation();     // letters typed here are no commands
      if (e.key === "Escape") this.leave();
      else if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) { e.preventDefault(); this.keep(); }
    });
  }
  get key() { return this.el.hidden || !this.note ? null : this.note.key; }
  // ---- showing ------------------------------------------------------------------------------
  read(note) {
    const { author, changed } = note, by = [author && `by ${author}`, changed && changed.replace("T", " ").slice(0, 16)].filter(Boolean);
    const both = note.conflict ? " · changed on two sides: keep one and remove the other, or keep both" : "";
    this.show(note, [this.notes.about(note), ...by].join(" · ") + both, Boolean(note.id && this.notes.keeping.editable));
  }
  write(about) { this.show({ name: "", text: "", ...about }, `New note: ${this.notes.about(about)}`, true); }
  tell(sentence) {             // without a note: only a sentence
    this.note = null;
    this.about.textContent = sentence;
    this.dress({ writing: false, removing: false, text: "" });
    this.timeline.say(sentence);
    this.close.focus({ preventScroll: true });
  }
  show(note, about, writing) {
    this.note = note;
    this.about.textContent = about;
    this.name.value = note.name;
    this.text.value = note.text || "";
    this.dress({ writing, removing: writing && Boolean(note.id), text: writing ? "" : [note.name, note.text].filter(Boolean).join("\n") });
    if (!writing) this.said.textContent = note.id ? this.notes.keeping.said || "" : "";
    this.timeline.hideTip();
    (writing ? this.name : this.close).focus({ preventScroll: true });
    this.timeline.draw();
  }
  dress({ writing, removing, text }) {
    this.el.hidden = false;
    for (const el of [this.name, this.text, this.save]) el.hidden = !writing;
    this.remove.hidden = !removing;
    this.remove.textContent = "Remove";
    this.shown.hidden = !text;
    this.shown.textContent = text;
    this.said.textContent = "";
  }
  leave() {
    const bar = this.note && this.notes.bars.get(this.note.key);
    this.el.hidden = true;
    this.note = null;
    (bar || this.timeline.canvas).focus({ preventScroll: true });
    this.timeline.draw();
  }
  // ---- asking the kernel --------------------------------------------------------------------
  keep() {
    if (this.save.hidden) return;
    const [name, text, note] = [this.name.value.trim(), this.text.value, this.note];
    if (!name) { this.said.textContent = "A note needs a name."; this.name.focus(); return; }
    if (note.id) this.send({ do: "edit", id: note.id, revision: note.revision, name, text }, `Note ${name} saved`, true);
    else {
      const span = note.kind === "event" ? null : [note.start, note.end].map((x) => String(x + this.timeline.origin));
      this.send({ do: "add", name, text, span }, `Note ${name} saved`, true);
    }
    this.said.textContent = "Saving …";
  }
  drop() {
    if (this.remove.textContent === "Remove") { this.remove.textContent = "Really remove"; return; }
    const { id, revision, name } = this.note;
    this.send({ do: "remove", id, revision }, `Note ${name} removed`, true);
    this.said.textContent = "Removing …";
  }
  send(what, done = "", closing = false) {
    this.waiting = { asked: ++this.asked, done, closing };
    const told = this.timeline.tell({ type: "note", view: this.timeline.id, asked: this.asked, ...what });
    clearTimeout(this.patience);
    if (!told) { this.refused(`Not kept: ${LOST}.`); return; }
    if (what.do !== "show") this.patience = setTimeout(() => this.refused("The kernel has not answered, so this is not kept yet."), KERNEL_PATIENCE);
  }
  answered(m) {
    const w = this.waiting;
    if (!w || m.asked !== w.asked) return;
    clearTimeout(this.patience);
    this.waiting = null;
    if (m.problem) { this.refused(m.problem); return; }
    if (w.done) this.timeline.say(w.done);
    if (w.closing) this.leave();
  }
  refused(sentence) {
    if (this.el.hidden) this.tell(sentence);
    else this.said.textContent = sentence;
    this.timeline.say(sentence);
    this.notes.read();         // an end that was dragged goes back
    this.timeline.draw();
  }
}
