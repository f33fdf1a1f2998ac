// The stepper itself: puts the parts together, listens, and asks Python for what only Python has.

let widgets = 0;

/** "dark" or "light": what the notebook says, else what the reader's system prefers. */
function themeOf() {
  const body = document.body, root = document.documentElement, asked = /theme=(dark|light)/.exec(location.hash);
  if (body.classList.contains("fk-page") && asked) return asked[1];
  if (body.dataset.jpThemeLight) return body.dataset.jpThemeLight === "false" ? "dark" : "light";
  if (body.dataset.vscodeThemeKind) return /dark|high-contrast$/.test(body.dataset.vscodeThemeKind) ? "dark" : "light";
  if (body.classList.contains("vscode-dark") || root.getAttribute("theme") === "dark") return "dark";
  if (body.classList.contains("vscode-light") || root.getAttribute("theme") === "light") return "light";
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

function watchTheme(root) {
  const set = () => (root.dataset.theme = themeOf());
  const seen = new MutationObserver(set), system = matchMedia("(prefers-color-scheme: dark)");
  const attributeFilter = ["class", "theme", "data-jp-theme-light", "data-jp-theme-name", "data-vscode-theme-kind"];
  for (const e of [document.body, document.documentElement]) seen.observe(e, { attributes: true, attributeFilter });
  system.addEventListener("change", set);
  addEventListener("hashchange", set);
  set();
  return () => {
    seen.disconnect();
    system.removeEventListener("change", set);
    removeEventListener("hashchange", set);
  };
}

/** The frame, once; `at` has its parts by name. */
function frame(doc, prefix, live) {
  const at = {};
  const part = (name, e) => (at[name] = e);
  const key = (k) => h("kbd", {}, k);
  const root = h("div.fk-stepper", { id: prefix + "root", role: "region", "aria-label": `fusekit stepper of ${doc.program}`, "data-lm-suppress-shortcuts": "true" },
    h("header.fk-head", {}, h("b.fk-brand", {}, "fusekit"), h("span.fk-mono.fk-signature", { title: doc.signature }, doc.signature),
      h("span.fk-tools", {}, part("back", button("←", { "aria-label": "step before", title: "step before (←)" })), part("forward", button("→", { "aria-label": "next step", title: "next step (→)" })),
        part("since", button("", { "aria-pressed": "false", title: "mark what changed (D)" })), part("link", button("link", { title: "copy what leads back here" })), part("save", button("svg", { title: "save this picture" }))),
      h("span.fk-keys.fk-muted", { "aria-hidden": "true" }, key("←"), key("→"), " step ", key("⇧→"), " reason ", key("↑"), key("↓"), " op ", key("D"), " changes ", key("Esc"), " clear")),
    part("rail", h("nav.fk-rail", { "aria-label": "steps" })),
    h("div.fk-view", {},
      h("div.fk-bar-top", {}, part("views", h("span.fk-tools", { role: "group", "aria-label": "view" })), h("span.fk-grow"),
        part("search", h("input", { type: "search", placeholder: "find: exp …", title: "words, or name:word with op, type, line, takes, gives, memory, changed; Enter goes on", "aria-label": "find nodes" })), part("count", h("span.fk-muted.fk-count"))),
      part("stage", h("div.fk-stage", { tabindex: 0, role: "application", "aria-roledescription": "diagram" },
        part("canvas", h("div.fk-picture")), part("map", h("div.fk-map", { hidden: true, "aria-hidden": "true" }, h("span"))), part("hint", h("div.fk-hint", { hidden: true }, "Ctrl + wheel zooms, drag moves")), part("wait", h("div.fk-wait", { hidden: true })),
        h("span.fk-tools.fk-zoom", {}, part("minus", button("−", { "aria-label": "zoom out" })), part("fit", button("fit", { title: "everything in view (0)" })), part("plus", button("+", { "aria-label": "zoom in" })))))),
    h("aside.fk-side", { "aria-label": "reasons and sources" },
      h("section.fk-pane.fk-why", {}, part("whyHead", h("div.fk-tabs")), part("why", h("div.fk-scroll", { tabindex: 0, role: "group", "aria-label": "reasons" }))),
      h("section.fk-pane.fk-source", {}, h("div.fk-tabs", {}, h("h2", {}, "Source"), part("sourceNote", h("span.fk-muted"))), part("source", h("div.fk-scroll", { tabindex: 0, role: "group", "aria-label": "source" }))),
      h("section.fk-pane.fk-kernel", {}, part("codeHead", h("div.fk-tabs")), part("code", h("div.fk-scroll", { tabindex: 0, role: "group", "aria-label": "kernel or text" })))),
    part("wish", h("div.fk-wish", { hidden: !live, role: "group", "aria-label": "what if" })),
    part("details", h("div.fk-details", { hidden: true, tabindex: 0, role: "region", "aria-label": "what came of it" })),
    part("strip", h("footer.fk-strip")),
    part("live", h("div.fk-live", { role: "status", "aria-live": "polite" })));
  root.dataset.live = live;
  return [root, at];
}

/** What a selection is about, in words of lines: ops, and the ops that make or hold what is selected. */
function related(doc, nodes, step) {
  const found = new Set(nodes);
  for (const node of nodes) {
    const card = cardOf(doc, node, step);
    if (!card) continue;
    if (card.kind === "tensor") card.near.forEach((n) => found.add(n));
    if (card.kind === "memory block") card.near.forEach((t) => (cardOf(doc, t, step)?.near || []).forEach((n) => found.add(n)));
    if (card.kind === "segment") card.leads.filter(([word]) => word === "holds").forEach(([, ops]) => ops.forEach((n) => found.add(n)));
  }
  return found;
}

/** `host` is what the page talks to: getters of data, where it stands, and (with a kernel) a way to ask. */
function mount(el, host) {
  const doc = host.document, prefix = `fk${++widgets}-${Math.random().toString(36).slice(2, 7)}-`;
  const [root, at] = frame(doc, prefix, Boolean(host.ask));
  const cache = host.pictures, asked = new Map();
  let state = host.where(), peeked = null, shown = "", svg = null, tab = "why", open = "", built = {}, bare = null;
  const opened = new Set();
  const stage = makeStage(at.stage, at.canvas, at.map);

  const act = (name, value, row) => {
    bare = name === "select" && row && !value.length ? row : null;
    if (name === "select" && value.length && value.join() === state.selected.join()) [name, value] = ["clear"];
    set(moves[name](state, doc, value));
  };
  function set(next) {
    state = next;
    host.moved(state);
    draw();
  }
  function peek(nodes, row) {
    peeked = nodes && nodes.length && !state.selected.length ? nodes : null;
    light(row);
  }

  // ---- drawing

  function draw() {
    const step = doc.steps[state.step], view = viewOf(state, doc);
    const keep = at.rail.contains(document.activeElement);
    at.rail.replaceChildren(...railPane(doc, state, act));
    const current = at.rail.querySelector("[aria-current]");
    if (keep) current.focus();
    current.scrollIntoView?.({ block: "nearest", inline: "nearest" });
    at.back.disabled = state.step === 0;
    at.forward.disabled = state.step === doc.steps.length - 1;
    at.since.hidden = state.step === 0;
    at.since.textContent = state.step ? `changes since ${doc.steps[state.step - 1].name}` : "";
    at.since.setAttribute("aria-pressed", state.since);
    at.views.replaceChildren(...step.views.map((v) => button(v, { "aria-pressed": v === view ? "true" : "false", "data-view": v, onclick: () => act("chooseView", v) })));
    at.stage.setAttribute("aria-label", `diagram of ${step.name}, ${view}: arrows up and down move over its ${step.ops.length} ops`);
    drawWhy();
    drawCode();
    drawStrip();
    drawWish();
    drawPicture();
    const count = hits(state, doc).length;
    at.count.textContent = state.query.trim() ? `${count} found` : "";
    if (document.activeElement !== at.search) at.search.value = state.query;
    const chosen = state.selected.length ? `; selected ${state.selected.map((n) => `${cardOf(doc, n, state.step).title} ${n}`).join(", ")}` : "";
    at.live.textContent = `step ${state.step + 1} of ${doc.steps.length}: ${step.name}, ${step.delta}, ${step.said.length} reasons${chosen}`;
  }

  /** The merge log of this step, else of the one before that has one. */
  const mergesHere = () => doc.steps.slice(0, state.step + 1).findLast((s) => s.merges.length)?.merges || [];

  function drawWhy() {
    const step = doc.steps[state.step], merges = mergesHere(), now = tab === "merges" && !merges.length ? "why" : tab;
    const held = now === "merges" && merges.some((one) => isLit(one, state)); // a row of the log stays in sight
    const picked = state.selected.length > 0 && state.event < 0 && !held;
    const choose = (name, words) => button(words, { class: "fk-tab", "data-tab": name, "aria-pressed": !picked && now === name ? "true" : "false", onclick: () => {
      tab = name;
      bare = null;
      state.selected.length && !held ? act("clear") : draw();
    } });
    at.whyHead.replaceChildren(choose("why", `Why ${step.said.length}`), choose("changes", `Changes ${step.changes.length}`), merges.length ? choose("merges", `Merges ${merges.length}`) : "",
      picked ? h("span.fk-muted", {}, "Esc clears") : h("span.fk-muted", {}, step.name));
    const made = picked ? cardPane(doc, state, act, peek) : now === "why" ? whyPane(doc, state, act, peek)
      : now === "changes" ? changesPane(doc, state, act, peek) : mergesPane(merges, state, act, peek, opened);
    at.why.replaceChildren(...[made].flat());
    const lit = at.why.querySelector(".fk-said.fk-lit, .fk-merge.fk-lit");
    if (lit) lit.scrollIntoView?.({ block: "nearest" });
  }

  function drawCode() {
    if (!built.source) {
      built.source = true;
      at.source.replaceChildren(...doc.sources.flatMap((s) => [h("p.fk-path", {}, s.path), codeList(s.lines, s.first, act, peek, `source in ${s.path}`)]));
      if (!doc.sources.length) at.source.replaceChildren(h("p.fk-muted", {}, "The source was not found."));
    }
    const segment = doc.segments[state.segment], key = state.pane === "text" ? `text ${state.step}` : `kernel ${state.segment}`;
    const pick = h("select", { "aria-label": "segment", onchange: (e) => act("chooseSegment", +e.target.value) },
      doc.segments.map((s, k) => h("option", { value: k, selected: k === state.segment }, `${s.title} ${s.name}`)));
    const choose = (name, words) => button(words, { class: "fk-tab", "aria-pressed": state.pane === name ? "true" : "false", onclick: () => act("choosePane", name) });
    at.codeHead.replaceChildren(choose("kernel", "Kernel"), choose("text", "Text"), state.pane === "kernel" && segment ? pick : h("span.fk-muted", {}, state.pane === "text" ? doc.steps[state.step].name : ""),
      built.note || (built.note = h("span.fk-muted.fk-note")));
    if (built.code === key) return;
    built.code = key;
    if (state.pane === "text") at.code.replaceChildren(codeList(doc.steps[state.step].text, 1, act, peek, "the step as text"));
    else if (!segment) at.code.replaceChildren(h("p.fk-muted", {}, "There is no segment yet."));
    else at.code.replaceChildren(h("p.fk-muted", {}, segment.note), ...(segment.lines.length ? [codeList(segment.lines, 1, act, peek, `kernel ${segment.name}`)] : []),
      ...raceRows(segment, act));
    requestAnimationFrame(pastImports);
  }

  function pastImports() {
    if (at.code.querySelector("li.fk-lit")) return;
    const def = [...at.code.querySelectorAll("li")].find((row) => row.textContent.match(/^\d+def /));
    at.code.scrollTop = def ? def.offsetTop - at.code.offsetTop - 4 : 0;
  }

  function drawStrip() {
    const results = host.results();
    at.strip.replaceChildren(...stripPane(doc, results, host.ask && ((what) => host.ask({ ask: what })), open));
    const result = results[open];
    at.details.hidden = !(result && (result.rows.length || result.detail));
    if (!at.details.hidden) at.details.replaceChildren(...detailsPane(result));
  }

  function drawWish() {
    if (host.ask) at.wish.replaceChildren(...wishPane(doc, state, host.told(), host.ask));
  }

  function drawPicture() {
    const key = pictureKey(state, doc);
    if (key === shown) {
      at.wait.hidden = true; // it may have been asked for and left again
      return light();
    }
    if (!cache.has(key)) return ask(key);
    const old = svg && state.selected.flatMap((n) => standsFor(svg, doc, n, state.step))[0];
    const held = old ? stage.place(old) : null;
    svg = svgElement(cache.get(key), prefix) || h("p", {}, "This picture is not readable.");
    shown = key;
    at.wait.hidden = true;
    const now = state.selected.flatMap((n) => standsFor(svg, doc, n, state.step))[0] || null;
    stage.put(svg, now, held);
    at.stage.dataset.ready = key;
    light();
    ahead();
  }

  function ask(key) {
    at.wait.hidden = false;
    at.wait.textContent = host.ask ? "drawing …" : "This picture is not part of the page.";
    request(key);
    light();
  }

  function request(key) {
    if (!host.ask || asked.has(key) || cache.has(key)) return;
    const [step, view, since] = key.split("|");
    asked.set(key, setTimeout(() => {
      asked.delete(key);
      if (key === pictureKey(state, doc) && !cache.has(key)) at.wait.textContent = "waiting for the kernel; pictures that were shown before still are there";
    }, 10000));
    host.ask({ ask: "picture", step: +step, view, since: since === "1" });
  }

  /** What may be shown next is fetched while nothing is asked for; of a small program, all of it: then no kernel is needed. */
  function ahead() {
    if (!host.ask || asked.size) return;
    const small = doc.steps.every((s) => s.ops.length <= 200);
    const near = small ? doc.steps.map((_, k) => k) : [state.step + 1, state.step - 1].filter((k) => k >= 0 && k < doc.steps.length);
    const keys = near.flatMap((step) => [false, true].map((since) => pictureKey({ ...state, step, since }, doc)));
    const next = keys.find((key) => !cache.has(key));
    if (next) setTimeout(() => request(next), 30);
  }

  function light(row) {
    const nodes = peeked || state.selected, about = related(doc, nodes, state.step);
    const found = new Set(hits(state, doc));
    if (svg && svg.querySelectorAll) {
      const lit = lightPicture(svg, doc, nodes, state.step, found);
      if (lit[0] && !peeked) stage.reveal(lit[0]);
    }
    const inSource = lightLines(at.source, about), inCode = lightLines(at.code, about, state.pane === "text");
    const none = bare || (row && row.fkNodes && !row.fkNodes.length ? row : null);
    at.sourceNote.textContent = none && at.source.contains(none) ? "no mapped op" : nodes.length ? (inSource ? "" : "no line") : "";
    if (built.note) built.note.textContent = none && at.code.contains(none) ? "no mapped op" : nodes.length && !inCode ? "not in here" : "";
  }

  // ---- listening

  at.back.onclick = () => act("back");
  at.forward.onclick = () => act("forward");
  at.since.onclick = () => act("markChanges", !state.since);
  at.minus.onclick = () => stage.zoom(1 / 1.25);
  at.plus.onclick = () => stage.zoom(1.25);
  at.fit.onclick = () => stage.fit();
  at.link.onclick = async () => {
    const text = host.link(state);
    try { await navigator.clipboard.writeText(text); at.link.textContent = "copied"; } catch { at.link.textContent = "link"; prompt("copy this", text); }
    setTimeout(() => (at.link.textContent = "link"), 1500);
  };
  at.save.onclick = () => {
    if (!cache.has(shown)) return;
    const address = URL.createObjectURL(new Blob([cache.get(shown)], { type: "image/svg+xml" }));
    h("a", { href: address, download: `${doc.program.replace(/\W+/g, "_")}.${doc.steps[state.step].name}.svg` }).click();
    setTimeout(() => URL.revokeObjectURL(address), 10000);
  };
  at.strip.addEventListener("click", (e) => {
    const what = e.target.closest("[data-open]")?.dataset.open;
    if (what) { open = open === what ? "" : what; drawStrip(); }
  });
  at.search.addEventListener("input", () => act("search", at.search.value));
  at.stage.addEventListener("click", (e) => {
    if (stage.wasDrag() || e.target.closest(".fk-map, .fk-zoom")) return;
    const node = e.target.closest("[data-op]")?.dataset.op;
    if (node && (e.shiftKey || e.ctrlKey || e.metaKey)) act("toggle", node);
    else node ? act("select", [node]) : state.selected.length && act("clear");
    at.stage.focus({ preventScroll: true });
  });
  at.stage.addEventListener("dblclick", () => stage.fit());
  let hinted = 0;
  at.stage.addEventListener("fk-hint", () => {
    if (hinted++ > 2) return;
    at.hint.hidden = false;
    setTimeout(() => (at.hint.hidden = true), 1500);
  });

  function nextHit(by) {
    const found = hits(state, doc), at_ = found.findIndex((n) => state.selected.includes(n));
    if (found.length) set(moves.select(state, doc, [found[(at_ + by + found.length) % found.length]]));
  }

  const keys = {
    ArrowLeft: (e) => (e.shiftKey ? act("event", -1) : act("back")), ArrowRight: (e) => (e.shiftKey ? act("event", 1) : act("forward")),
    ArrowUp: () => act("walk", -1), ArrowDown: () => act("walk", 1), Home: () => act("go", 0), End: () => act("go", doc.steps.length - 1),
    d: () => state.step && act("markChanges", !state.since), Escape: () => act("clear"), "0": () => stage.fit(), "+": () => stage.zoom(1.25),
    "=": () => stage.zoom(1.25), "-": () => stage.zoom(1 / 1.25), "/": () => at.search.focus(), t: () => act("choosePane", state.pane === "text" ? "kernel" : "text"),
  };
  function key(e) {
    e.stopPropagation(); // none of these may move the notebook's cells
    if (e.target === at.search) {
      if (e.key === "Enter") nextHit(e.shiftKey ? -1 : 1);
      if (e.key === "Escape") { act("search", ""); at.search.value = ""; at.stage.focus(); }
      return;
    }
    const inList = e.target.closest(".fk-scroll, .fk-details, select") && /^(Arrow(Up|Down)|Home|End)$/.test(e.key);
    const does = keys[e.key.length === 1 ? e.key.toLowerCase() : e.key];
    if (!does || e.ctrlKey || e.metaKey || e.altKey || inList || e.target.localName === "select") return;
    e.preventDefault();
    does(e);
  }
  root.addEventListener("keydown", key);

  const quiet = watchTheme(root);
  const size = new ResizeObserver(() => {
    const width = root.clientWidth;
    root.dataset.size = width < 720 ? "narrow" : width < 1080 ? "middle" : "wide";
    stage.refit();
  });
  size.observe(root);
  size.observe(at.stage);
  el.append(root);
  draw();
  return {
    picture(key, text) {
      clearTimeout(asked.get(key));
      asked.delete(key);
      cache.set(key, text);
      key === pictureKey(state, doc) ? drawPicture() : ahead();
    },
    results: drawStrip,
    told: drawWish,
    focus: () => at.stage.focus({ preventScroll: true }),
    key,
    go(next) {
      if (JSON.stringify(next) === JSON.stringify(state)) return;
      state = next;
      draw();
    },
    end() {
      quiet();
      size.disconnect();
    },
  };
}

const python = (text) => JSON.stringify(text);

/** Pictures of the document that is shown; another document begins with none but its first. */
function picturesOf(model) {
  if (model.fkDocument !== model.get("document")) {
    model.fkDocument = model.get("document");
    model.fkPictures = new Map(Object.entries(model.get("first")));
  }
  return model.fkPictures;
}

function mountModel(model, el) {
  const doc = model.get("document"), more = (doc.decisions || []).map((one) => `.what_if(${one})`).join("");
  return mount(el, {
    document: doc,
    pictures: picturesOf(model),
    where: () => model.get("where"),
    results: () => model.get("results"),
    told: () => model.get("told"),
    moved(state) { model.set("where", state); model.save_changes(); },
    ask(message) {
      try { Promise.resolve(model.send(message)).catch(() => {}); } catch { /* the kernel is gone: what is here still steps */ }
    },
    link: (s) => `x${more}.stepper(step=${python(doc.steps[s.step].name)}, view=${python(viewOf(s, doc))}` +
      `${s.since ? ", since=True" : ""}${s.selected.length ? `, node=${python(s.selected[0])}` : ""})`,
  });
}

/** anywidget's entry: one call for each place where the widget is shown. */
function render({ model, el }) {
  // The picture that was put out before the widget is for places where no widget lives. Here one does.
  const stills = [...document.querySelectorAll(`[data-fk-still="${model.get("still")}"]`)];
  const showStills = (shown) => stills.forEach((still) => (still.hidden = !shown));
  showStills(false);
  let page = mountModel(model, el);
  const onMessage = (message) => { if (message && message.picture) page.picture(message.picture, message.svg); };
  const onWhere = () => page.go(model.get("where")), onResults = () => page.results(), onTold = () => page.told();
  const onDocument = () => {
    const focused = el.contains(document.activeElement);
    page.end();
    el.replaceChildren();
    page = mountModel(model, el);
    if (focused) page.focus();
  };
  const heard = [["msg:custom", onMessage], ["change:document", onDocument], ["change:where", onWhere], ["change:results", onResults], ["change:told", onTold]];
  for (const [what, does] of heard) model.on(what, does);
  return () => {
    for (const [what, does] of heard) model.off(what, does);
    page.end();
    showStills(true);
  };
}

/** The state that `#step=2&node=%5E1&view=aliases&since` asks for; a step by number (from 1) or by name. */
function fromHash(state, doc, hash) {
  const asked = new URLSearchParams(hash.replace(/^#/, ""));
  const name = asked.get("step"), named = doc.steps.findIndex((s) => s.name === name);
  if (name !== null) state = moves.go(state, doc, named >= 0 ? named : (parseInt(name, 10) || 1) - 1);
  if (asked.has("view")) state = moves.chooseView(state, doc, asked.get("view"));
  if (asked.has("since")) state = moves.markChanges(state, doc, asked.get("since") !== "0");
  if (asked.has("pane")) state = moves.choosePane(state, doc, asked.get("pane"));
  return asked.has("node") ? moves.select(state, doc, asked.getAll("node")) : state;
}

function toHash(state, doc) {
  const parts = new URLSearchParams({ step: state.step + 1, view: viewOf(state, doc) });
  if (state.since) parts.set("since", "1");
  if (state.pane !== "kernel") parts.set("pane", state.pane);
  state.selected.forEach((node) => parts.append("node", node));
  const theme = /theme=(dark|light)/.exec(location.hash);
  if (theme) parts.set("theme", theme[1]);
  return `#${parts}`;
}

/** The one-file page: the same stepper without a kernel; the address says where it stands. */
function showPage(el, data) {
  const doc = data.document, first = fromHash(data.where, doc, location.hash);
  const page = mount(el, {
    document: doc,
    pictures: new Map(Object.entries(data.pictures)),
    where: () => first,
    results: () => data.results,
    moved: (state) => history.replaceState(null, "", toHash(state, doc)),
    ask: null,
    link: (state) => location.href.split("#")[0] + toHash(state, doc),
  });
  document.body.addEventListener("keydown", (e) => { if (e.target === document.body) page.key(e); });
  addEventListener("hashchange", () => page.go(fromHash({ ...data.where, selected: [], since: false }, doc, location.hash)));
}

export { hits, moves };
export default { render };
