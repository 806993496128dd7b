// A field for a path, completed as it is typed, and the drop target of the panel around it: files
// dropped there are sent to the kernel piece by piece, each after the one before has arrived.

const TYPING = 120;           // ms without a key until completions are asked for
const PIECE = 1 << 20;        // bytes of a message: a server refuses those beyond some megabytes

function render({ model, el }) {
  const box = document.createElement("div");
  box.className = "wb-opener";
  const list = document.createElement("datalist");
  list.id = `wb-paths-${crypto.getRandomValues(new Uint32Array(1))[0]}`;
  const field = document.createElement("input");
  Object.assign(field, { type: "text", spellcheck: false, autocomplete: "off",
    placeholder: "Open a path: run, trace or folder of ranks" });
  field.setAttribute("list", list.id);
  field.setAttribute("aria-label", "Path to open");
  const pick = document.createElement("input");
  Object.assign(pick, { type: "file", multiple: true, hidden: true });
  const browse = document.createElement("button");
  Object.assign(browse, { type: "button", textContent: "or drop files here",
    title: "Choose files of this computer; a drop anywhere on this panel does the same" });
  const said = document.createElement("span");
  said.setAttribute("role", "status");
  box.append(field, list, browse, pick, said);
  el.append(box);

  let typing = 0, arrived = null, panel = null;
  const open = () => { if (field.value.trim()) model.send({ type: "open", path: field.value.trim() }); };
  field.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => model.send({ type: "complete", text: field.value }), TYPING);
  });
  field.addEventListener("keydown", (e) => {
    e.stopPropagation();                       // letters are no shortcuts of the notebook here
    if (e.key === "Enter") { e.preventDefault(); open(); }
  });
  const onMessage = (message) => {
    if (message.type === "paths")
      list.replaceChildren(...message.paths.map((value) => Object.assign(document.createElement("option"), { value })));
    if (message.type === "arrived" && arrived) arrived(message.ok);
  };
  const sent = (message, buffers) => new Promise((resolve) => {
    arrived = resolve;
    model.send(message, undefined, buffers);
  });
  const size = (bytes) => `${Math.round(bytes / 1e6).toLocaleString("en")} MB`;
  const take = async (files) => {
    const limit = model.get("limit"), total = files.reduce((sum, f) => sum + f.size, 0);
    if (!files.length || arrived) return;
    if (total > limit) {
      said.textContent = `${size(total)} are more than the ${size(limit)} that can be dropped; type the path instead.`;
      return;
    }
    let done = 0;
    const ok = await sent({ type: "begin", files: files.map((f) => ({ name: f.name, size: f.size })) });
    for (const [number, file] of ok ? files.entries() : []) {
      for (let at = 0; at < file.size; at += PIECE) {
        const piece = await file.slice(at, at + PIECE).arrayBuffer();
        if (!(await sent({ type: "piece", file: number }, [piece]))) { arrived = null; said.textContent = ""; return; }
        done += piece.byteLength;
        said.textContent = `${Math.round((100 * done) / total)} % of ${size(total)}`;
      }
    }
    arrived = null;
    said.textContent = "";
    if (ok) model.send({ type: "end" });
  };
  browse.addEventListener("click", () => pick.click());
  pick.addEventListener("change", () => { take([...pick.files]); pick.value = ""; });

  const carries = (e) => [...(e.dataTransfer?.types ?? [])].includes("Files");
  const over = (e) => {
    if (!carries(e)) return;
    e.preventDefault(); e.stopPropagation();
    panel.classList.add("wb-drop");
  };
  const leave = (e) => { if (!panel.contains(e.relatedTarget)) panel.classList.remove("wb-drop"); };
  const drop = (e) => {
    if (!carries(e)) return;
    e.preventDefault(); e.stopPropagation();
    panel.classList.remove("wb-drop");
    take([...e.dataTransfer.files]);
  };
  const targets = [["dragenter", over], ["dragover", over], ["dragleave", leave], ["drop", drop]];
  const placed = requestAnimationFrame(() => {
    panel = el.closest(".wb-panel") || box;
    targets.forEach(([name, does]) => panel.addEventListener(name, does));
  });
  const onPath = () => { field.value = model.get("path"); };
  model.on("msg:custom", onMessage);
  model.on("change:path", onPath);
  onPath();
  return () => {
    cancelAnimationFrame(placed);
    clearTimeout(typing);
    targets.forEach(([name, does]) => panel?.removeEventListener(name, does));
    model.off("msg:custom", onMessage);
    model.off("change:path", onPath);
  };
}

export default { render };
