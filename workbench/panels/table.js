// A table as a widget: the kernel writes its HTML (every text escaped there), this sorts by the
// headings, keeps the selected row in sight, and tells the kernel which row was clicked.

function value(row, column) {
  const text = row.cells[column].dataset.v;
  const number = Number(text);
  return text === "" ? null : Number.isNaN(number) ? text : number;
}

function compare(a, b) {
  if (a === null || b === null) return (a === null) - (b === null);   // unknown goes last
  return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
}

function render({ model, el }) {
  const box = document.createElement("div");
  box.className = "wb-table-box";
  box.tabIndex = 0;
  el.append(box);

  const sort = () => {
    const body = box.querySelector("tbody");
    const sorted = model.get("order");
    if (!sorted.column || !body) return;
    const heads = [...box.querySelectorAll("th")];
    const column = heads.findIndex((h) => h.dataset.name === sorted.column);
    if (column < 0) return;
    heads.forEach((h) => h.setAttribute("aria-sort", "none"));
    heads[column].setAttribute("aria-sort", sorted.down ? "descending" : "ascending");
    const known = (r) => value(r, column) !== null;
    const rows = [...body.rows].sort((a, b) => {
      const order = compare(value(a, column), value(b, column));
      return sorted.down && known(a) && known(b) ? -order : order;
    });
    body.append(...rows);
  };
  const reorder = () => { if (model.get("order").column) sort(); else fill(); };
  const mark = () => {
    const wanted = String(model.get("selected"));
    for (const row of box.querySelectorAll("tbody tr")) {
      const on = row.dataset.row === wanted;
      row.classList.toggle("wb-selected", on);
      row.setAttribute("aria-selected", String(on));
      if (on) reveal(row);
    }
  };
  const reveal = (row) => {   // inside the box only: the page stays where it is
    const head = box.querySelector("thead")?.offsetHeight ?? 0;
    const top = row.offsetTop - head, bottom = row.offsetTop + row.offsetHeight;
    if (top < box.scrollTop) box.scrollTop = top;
    else if (bottom > box.scrollTop + box.clientHeight) box.scrollTop = bottom - box.clientHeight;
  };
  const fill = () => {
    const at = box.scrollTop;
    box.innerHTML = model.get("html");
    sort();
    box.scrollTop = at;
    mark();
  };
  const act = (target) => {
    const head = target.closest("th");
    if (head) {
      const column = head.dataset.name;
      const first = !head.classList.contains("wb-text");
      const sorted = model.get("order");
      model.set("order", { column, down: sorted.column === column ? !sorted.down : first });
      model.save_changes();
      return;
    }
    const row = target.closest("tbody tr");
    if (!row) return;
    const number = Number(row.dataset.row);
    model.set("selected", number === model.get("selected") ? -1 : number);
    model.save_changes();
    mark();
  };
  box.addEventListener("click", (e) => { if (!String(getSelection())) act(e.target); });
  box.addEventListener("keydown", (e) => {
    if ((e.key === "Enter" || e.key === " ") && e.target.closest("th")) {
      e.preventDefault(); e.stopPropagation(); act(e.target);
    }
  });
  model.on("change:html", fill);
  model.on("change:order", reorder);
  model.on("change:selected", mark);
  fill();
  const shown = new ResizeObserver(() => {    // a tab that was hidden has no heights to scroll by
    const row = box.querySelector("tr.wb-selected");
    if (row) reveal(row);
  });
  shown.observe(box);
  return () => {
    shown.disconnect();
    model.off("change:html", fill);
    model.off("change:order", reorder);
    model.off("change:selected", mark);
  };
}

export default { render };
