// What is chosen, as chips: a click on one removes it. Esc anywhere in the panel removes all, unless
// a text or a choice is being entered there.

function render({ model, el }) {
  const box = document.createElement("div");
  box.className = "wb-chips";
  box.setAttribute("role", "group");
  box.setAttribute("aria-label", "What is selected");
  const live = document.createElement("span");
  live.className = "wb-hidden";
  live.setAttribute("role", "status");
  el.append(box, live);

  const remove = (key) => model.send({ type: "remove", key });
  const button = (text, title, does) => {
    const made = document.createElement("button");
    Object.assign(made, { type: "button", title });
    made.append(...text);
    made.addEventListener("click", does);
    return made;
  };
  const chip = ({ key, text }) => {
    const cross = document.createElement("span");
    cross.textContent = "×";
    cross.setAttribute("aria-hidden", "true");
    const made = button([text, cross], `Remove: ${text}`, () => remove(key));
    made.className = "wb-chip";
    return made;
  };
  const show = () => {
    const chips = model.get("chips");
    const label = document.createElement("span");
    label.textContent = "Selected:";
    const all = button(["clear all"], "Remove everything that is selected (Esc)", () => remove(""));
    all.className = "wb-clear";
    box.replaceChildren(...(chips.length ? [label, ...chips.map(chip), all] : []));
    live.textContent = chips.length ? `Selected: ${chips.map((c) => c.text).join(", ")}` : "Nothing selected";
  };
  let panel = null;
  const onKey = (e) => {
    if (e.key !== "Escape" || e.defaultPrevented || !model.get("chips").length) return;
    if (e.target.closest("input, select, textarea")) return;
    remove("");
  };
  // the panel is known once the widget stands in the page
  const placed = requestAnimationFrame(() => {
    panel = el.closest(".wb-panel");
    panel?.addEventListener("keydown", onKey, true);   // before the timeline, which keeps Esc to itself
  });
  model.on("change:chips", show);
  show();
  return () => {
    cancelAnimationFrame(placed);
    panel?.removeEventListener("keydown", onKey, true);
    model.off("change:chips", show);
  };
}

export default { render };
