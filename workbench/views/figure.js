// A Bokeh picture as a widget: asks the kernel for it, with the page's theme and width.

const RESIZE_SETTLES = 150;   // ms; a drag of the window's edge asks once
const PATIENCE = 20000;       // ms to wait for BokehJS before the next picture may ask again
const NOTICEABLE = 8;         // px of width that are worth a new picture

function bokeh(model) {       // once a page, whoever asks first
  if (window.Bokeh?.embed) return Promise.resolve(window.Bokeh);
  window.workbenchBokeh ??= new Promise((resolve, reject) => {
    const arrived = (message, buffers) => {
      if (message.type !== "bokehjs") return;
      model.off("msg:custom", arrived);
      const script = document.createElement("script");
      script.textContent = new TextDecoder().decode(buffers[0]);
      document.head.append(script);
      if (window.Bokeh) { window.Bokeh.set_log_level("warn"); resolve(window.Bokeh); }
      else reject(new Error("BokehJS did not load"));
    };
    model.on("msg:custom", arrived);
    tell(model, { type: "bokehjs" });
    // a kernel that is busy answers later; one whose widget is gone never does, so others may ask
    setTimeout(() => { if (!window.Bokeh) window.workbenchBokeh = undefined; }, PATIENCE);
  });
  return window.workbenchBokeh;
}

function watchClicks(model, views) {   // a mark whose source has a column `row` can be picked
  const sources = new Set();
  for (const view of views.roots) {
    for (const part of view.model.references()) if (part.data && part.selected) sources.add(part);
  }
  for (const source of sources) {
    const { data } = source;
    const rows = data instanceof Map ? data.get("row") : data.row;
    if (!rows) continue;
    source.selected.change.connect(() => {
      const [first] = source.selected.indices;
      if (first !== undefined) tell(model, { type: "pick", row: Number(rows[first]) });
    });
  }
}

function tell(model, message) {   // after a restart nobody listens, and the picture stays as it is
  try { model.send(message); return true; } catch { return false; }
}

function theme() {
  const light = document.body.dataset.jpThemeLight;
  if (light !== undefined) return light === "true" ? "light" : "dark";
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

function render({ model, el }) {
  const id = Math.random().toString(36).slice(2);
  const box = document.createElement("div");
  box.className = "wb-figure";
  box.style.minHeight = `${model.get("height")}px`;
  el.append(box);
  let seq = 0, width = 0, asked = "", shown = null, timer = null;

  const ask = (force) => {
    if (!box.clientWidth) return;           // in a hidden tab: the observer calls again
    if (Math.abs(box.clientWidth - width) >= NOTICEABLE) width = box.clientWidth;
    const wanted = `${theme()} ${width}`;
    if (!force && wanted === asked) return;
    asked = wanted;
    box.dataset.busy = String(tell(model, { type: "draw", view: id, seq: ++seq, theme: theme(), width }));
  };
  const miss = (sentence) => {              // one notice a page: tables go on without pictures
    window.workbenchNoticed ??= id;
    const said = document.createElement("p");
    said.className = "wb-caption";
    said.textContent = window.workbenchNoticed === id ? sentence : "";
    box.replaceChildren(said);
    box.style.minHeight = "0";
    box.dataset.busy = "false";
  };
  const receive = async (message) => {
    if (message.type === "missing" && message.view === id) { miss(message.said); return; }
    if (message.type !== "item" || message.view !== id || message.seq !== seq) return;
    const Bokeh = await bokeh(model);
    if (message.seq !== seq) return;        // a newer one is on its way
    const holder = document.createElement("div");
    const old = [...box.childNodes];
    box.append(holder);
    let views;
    try {
      views = await Bokeh.embed.embed_item(message.item, holder);
    } catch (error) {
      holder.remove();
      if (box.isConnected) throw error;
      asked = "";                           // taken off the page: shown again, it asks again
      return;
    }
    for (const node of old) node.remove();
    box.style.minHeight = "0";              // the picture itself holds its room from now on
    shown?.clear?.();
    shown = views;
    watchClicks(model, views);
    box.dataset.busy = String(message.seq !== seq);
  };
  const onVersion = () => ask(true);
  model.on("msg:custom", receive);
  model.on("change:version", onVersion);
  const resized = new ResizeObserver(() => {
    clearTimeout(timer);
    timer = setTimeout(ask, width ? RESIZE_SETTLES : 0);
  });
  resized.observe(box);
  const themed = new MutationObserver(() => ask());
  themed.observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-light"] });
  bokeh(model);

  return () => {
    resized.disconnect();
    themed.disconnect();
    model.off("msg:custom", receive);
    model.off("change:version", onVersion);
    shown?.clear?.();
  };
}

export default { render };
