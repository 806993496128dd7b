// A button that asks the kernel for code and puts it on the clipboard. Where the page may not write
// there (plain http to another machine), the code stands below the button, selected, to be copied.

function render({ model, el }) {
  el.classList.add("wb-copy");
  const button = document.createElement("button");
  button.className = "jupyter-button";
  button.textContent = "copy as code";
  button.title = "the cell that reproduces what is in sight";
  const said = document.createElement("span");
  said.setAttribute("role", "status");
  const code = document.createElement("textarea");
  code.readOnly = true;
  code.hidden = true;
  code.setAttribute("aria-label", "the cell that reproduces what is in sight");
  el.append(button, said, code);

  const receive = async (message) => {
    if (message.type === "error") { said.textContent = message.said; return; }
    if (message.type !== "code") return;
    const lines = message.code.trimEnd().split("\n").length;
    try {
      await navigator.clipboard.writeText(message.code);
      code.hidden = true;
      said.textContent = `copied ${lines} lines`;
    } catch {
      code.value = message.code;
      code.rows = lines;
      code.hidden = false;
      code.select();
      said.textContent = document.execCommand("copy")
        ? `copied ${lines} lines` : "press Ctrl+C (or ⌘C) to copy";
    }
  };
  button.addEventListener("click", () => {
    said.textContent = "";
    model.send({ type: "code" });
  });
  code.addEventListener("keydown", (e) => {
    e.stopPropagation();                    // the notebook has its own keys
    if (e.key === "Escape") { code.hidden = true; button.focus(); }
  });
  model.on("msg:custom", receive);
  return () => model.off("msg:custom", receive);
}

export default { render };
