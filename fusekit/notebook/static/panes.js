// The parts around the picture, built of text nodes only: no text of a user is ever read as HTML.

/** An element: `h("li.fk-row", {onclick, "aria-label"}, child, "text")`. */
function h(spec, attributes, ...children) {
  const [tag, ...classes] = spec.split(".");
  const e = document.createElement(tag);
  if (classes.length) e.className = classes.join(" ");
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") e.addEventListener(name.slice(2), value);
    else e.setAttribute(name, value === true ? "" : value);
  }
  e.append(...children.flat().filter((c) => c !== null && c !== undefined && c !== ""));
  return e;
}

const button = (label, attributes, ...children) => h("button", { type: "button", ...attributes }, ...(children.length ? children : [label]));

function duration(seconds) {
  if (seconds < 1e-3) return `${(seconds * 1e6).toFixed(0)} µs`;
  return seconds < 1 ? `${(seconds * 1e3).toFixed(seconds < 0.01 ? 1 : 0)} ms` : `${seconds.toFixed(1)} s`;
}

function railPane(doc, state, act) {
  const shown = railOf(state, doc), still = doc.steps.filter((_, k) => !isChange(doc, k)).length;
  const rows = shown.map((k) => {
    const step = doc.steps[k], current = k === state.step;
    return h("li", {}, h(`button.fk-step${isChange(doc, k) ? "" : ".fk-same"}`, {
      type: "button", "data-step": k, "aria-current": current && "step", tabindex: current ? 0 : -1,
      onclick: () => act("go", k),
    }, h("span.fk-n", {}, String(k + 1)), h("span.fk-name", {}, step.name), h("small", {}, duration(step.seconds)),
    h("span.fk-delta", {}, step.delta)));
  });
  const parts = [h("h2", {}, "Steps"), h("ol", {}, rows)];
  if (still) {
    const box = h("input", { type: "checkbox", onchange: (e) => act("hideUnchanged", e.target.checked) });
    box.checked = state.quiet;
    parts.push(h("label.fk-quiet", {}, box, ` hide unchanged (${still})`));
  }
  return parts;
}

function saidRow(said, lit, attributes, label) {
  const kind = said.kind ? `.fk-${said.kind}` : "", mark = said.verdict === "declined" ? "declined: " : "";
  return h(`li.fk-said${kind}${lit ? ".fk-lit" : ""}`, {}, h("button", { type: "button", "aria-pressed": lit ? "true" : "false", ...attributes },
    h("b", {}, mark, said.title), h("span", {}, said.sentence), label ? h("small", {}, label) : null));
}

const MOST_SAID = 300;

/** What the step's pass said, in order. */
function whyPane(doc, state, act, peek) {
  const said = doc.steps[state.step].said;
  const rows = said.slice(0, MOST_SAID).map((one, k) => saidRow(one, k === state.event, {
    onclick: () => act("event", k - state.event), onmouseenter: () => peek(one.subject), onmouseleave: () => peek(null),
  }));
  if (said.length > MOST_SAID) rows.push(h("li.fk-muted", {}, `${said.length - MOST_SAID} more: select a node to see what was said of it`));
  return rows.length ? h("ol.fk-list", {}, rows) : h("p.fk-muted", {}, state.step ? "This pass said nothing." : "The function as it was recorded.");
}

const nameOf = (doc, segment) => doc.segments.find((s) => s.id === segment)?.title || segment;

/** The race record of a segment's kernel. */
function raceRows(segment, act) {
  if (!segment || !segment.races.length) return [];
  const rows = segment.races.map((one) => h("li.fk-said.fk-hazard", {}, button("", { onclick: () => act("select", one.subject) },
    h("span", {}, one.verdict === "declined" ? "not taken: " : "", one.sentence))));
  return [h("h3.fk-small", {}, `Race record of ${segment.title}`), h("ol.fk-list.fk-races", {}, rows)];
}

/** Two segments: why they are two, and the smallest change that would make one of them. */
function apartPane(doc, pair) {
  const one = doc.apart.find((a) => pair.includes(a.first) && pair.includes(a.second)), names = pair.map((s) => nameOf(doc, s));
  if (!one) return [h("p.fk-muted", {}, `Of so many segments not every pair is told here: x.why("${pair[0]}", "${pair[1]}") does.`)];
  return [h(`section.fk-apart${one.kind ? `.fk-${one.kind}` : ""}`, {}, h("h3", {}, `Why ${names[0]} and ${names[1]} are two`), h("p", {}, one.sentence),
    one.change ? h("p", {}, h("b", {}, "smallest change "), one.change) : null)];
}

const MOST_MERGES = 300, MOST_DULL = 6;

/** A pair that nobody was asked about and that would save nothing. */
const isDull = (one) => one.verdict === "refused" && !one.asked.length && one.saved === "0" && !one.kind;
const isLit = (one, state) => one.nodes.length > 0 && one.nodes.join() === state.selected.join();

/** One trial: the pair, what one kernel of both would save, the verdict; below it why, and who was asked. */
function mergeRow(one, lit, act, peek, opened) {
  const asked = one.asked.length ? h("details", { open: opened.has(one), onclick: (e) => e.stopPropagation(), ontoggle: (e) => (e.target.open ? opened.add(one) : opened.delete(one)) },
    h("summary", {}, "schedulers asked"), one.asked.map((line) => h("p", {}, line))) : null;
  return h(`tbody.fk-merge.fk-is-${one.verdict}${one.kind ? `.fk-${one.kind}` : ""}${lit ? ".fk-lit" : ""}`, {
    onclick: () => act("select", one.nodes), onmouseenter: () => peek(one.nodes), onmouseleave: () => peek(null),
  }, h("tr", {}, h("td", {}, button(one.title, { "aria-pressed": lit ? "true" : "false", onclick: (e) => { e.stopPropagation(); act("select", one.nodes); } })),
    h("td", {}, one.saved), h("td", {}, one.verdict)), h("tr", {}, h("td", { colspan: 3 }, one.because, asked)));
}

/** The merge log in its order; many pairs with nothing to save stand folded below. */
function mergesPane(merges, state, act, peek, opened) {
  const shown = merges.slice(0, MOST_MERGES), dull = shown.filter(isDull), folds = dull.length > MOST_DULL;
  const head = () => h("thead", {}, h("tr", {}, ["pair", "saves", "verdict"].map((t) => h("th", { scope: "col" }, t))));
  const table = (some) => h("table.fk-merges", {}, head(), some.map((one) => mergeRow(one, isLit(one, state), act, peek, opened)));
  const parts = [table(folds ? shown.filter((one) => !isDull(one)) : shown)];
  if (folds) parts.push(h("details.fk-more", { open: opened.has("dull") || dull.some((one) => isLit(one, state)), ontoggle: (e) => (e.target.open ? opened.add("dull") : opened.delete("dull")) },
    h("summary", {}, `${dull.length} pairs with nothing to save`), table(dull)));
  if (merges.length > MOST_MERGES) parts.push(h("p.fk-muted", {}, `${merges.length - MOST_MERGES} more: x.merges()`));
  return parts;
}

/** What would be otherwise: wishes for what is selected, and what came of the last one. */
function wishPane(doc, state, told, ask) {
  const segments = segmentsOf(state, doc), [node] = state.selected, step = doc.steps[state.step].name;
  const wish = (words, name, nodes, why) => button(words, { "data-wish": name, disabled: !nodes || told.status === "running", title: why, onclick: () => ask({ ask: "what if", wish: name, nodes }) });
  const several = state.selected.length > 1 && segments.length > 1, single = state.selected.length === 1;
  const card = single ? cardOf(doc, node, state.step) : null;
  const parts = [h("b", {}, "What if"), h("span.fk-tools", {},
    wish(several ? `merge ${segments.map((s) => nameOf(doc, s)).slice(0, 4).join(", ")}` : "merge", "merge", several && segments, "one kernel of the selected segments; Shift + click selects a second one"),
    wish(!single ? "split here" : node.startsWith("$") ? `split ${nameOf(doc, node)}` : `split after ${card.title}`, "split", single && [node], "a segment falls apart into its stores, or a boundary comes after the selected op"),
    wish(`without ${state.step ? step : "this pass"}`, "without", state.step > 0 && step !== "segment" && [step], "leave the pass of this step out"),
    wish("conservative aliasing", "conservative", !doc.decisions.includes("alias='conservative'") && [], "byte ranges that cross count as overlap"))];
  if (!told.is_first) parts.push(h("span.fk-tools", {}, button("back to the first", { "data-wish": "back", disabled: told.status === "running", onclick: () => ask({ ask: "back" }) })));
  if (told.status === "running") parts.push(h("span.fk-muted", {}, "exploring anew …"));
  else if (told.status === "ok") parts.push(h("span.fk-counts", {}, told.counts.length ? told.counts.flatMap(([name, was, now]) => [h("span", {}, `${name} `, h("s", {}, was), " → ", h("b", {}, now))]) : "the same kernels and bytes"));
  if (told.status === "failed") parts.push(h("dl.fk-error", { role: "alert" }, [["what", told.what], ["where", told.where], ["how to mend", told.fix]].flatMap(([name, text]) => (text ? [h("dt", {}, name), h("dd", {}, text)] : []))));
  return parts;
}

/** One node: its facts, where it leads, and what every step said of it. */
function cardPane(doc, state, act, peek) {
  const pair = pairOf(state, doc), cards = state.selected.slice(0, 4).map((node) => {
    const card = cardOf(doc, node, state.step), here = cardAt(doc, node, state.step);
    const goTo = (target) => button(target, {
      class: "fk-node", title: target, onclick: () => act("select", [target]), onmouseenter: () => peek([target]), onmouseleave: () => peek(null),
    }, `${(cardOf(doc, target, state.step) || { title: target }).title} `, h("i", {}, target));
    return h("section.fk-card", {}, h("h3", {}, card.title, " ", h("i", {}, node), h("small", {}, card.kind)),
      here ? null : h("p.fk-muted", {}, "not in this step"),
      h("dl", {}, card.facts.flatMap(([name, text]) => [h("dt", {}, name), h("dd", {}, text)]),
        card.leads.flatMap(([word, nodes]) => [h("dt", {}, word), h("dd", {}, nodes.map(goTo))])));
  });
  const parts = [...(pair ? apartPane(doc, pair) : []), ...cards];
  const alone = state.selected.length === 1 && doc.segments.find((s) => s.id === state.selected[0]);
  if (alone) parts.push(...raceRows(alone, act));
  if (alone && doc.segments.length > 1) parts.push(h("p.fk-muted", {}, "Shift + click another segment: why they are two."));
  if (state.selected.length > 4) parts.push(h("p.fk-muted", {}, `and ${state.selected.length - 4} more`));
  const wanted = new Set(state.selected);
  const rows = doc.steps.flatMap((step, k) => step.said
    .filter((one) => one.subject.some((n) => wanted.has(n)) || one.evidence.some((n) => wanted.has(n)))
    .map((one) => saidRow(one, k === state.step && step.said.indexOf(one) === state.event, { onclick: () => act("go", k) }, step.name)));
  parts.push(rows.length ? h("ol.fk-list", {}, rows) : h("p.fk-muted", {}, "No step said anything of it."));
  return parts;
}

const MARKS = { added: "+", removed: "×", changed: "△" };
const MOST_CHANGES = 400;

/** What differs from the step before, a row a node. */
function changesPane(doc, state, act, peek) {
  const step = doc.steps[state.step];
  if (!step.changes.length) return h("p.fk-muted", {}, state.step ? "Nothing changed." : "There is no step before.");
  const { added, removed, changed } = step.counts;
  const orders = step.changes.filter((one) => one.nodes.length > 1).length;
  const rows = step.changes.slice(0, MOST_CHANGES).map((one) => h(`li.fk-change.fk-${one.mark}${one.nodes.every((n) => state.selected.includes(n)) ? ".fk-lit" : ""}`, {},
    button("", { onclick: () => act("select", one.nodes), onmouseenter: () => peek(one.nodes), onmouseleave: () => peek(null) },
      h("span.fk-mark", { "aria-label": one.mark, role: "img" }, MARKS[one.mark]), h("b", {}, one.title), " ", h("i", {}, one.nodes.join(" → ")))));
  const words = `${added} added, ${removed} removed, ${changed} changed${orders ? `, ${orders} orderings` : ""} since ${doc.steps[state.step - 1].name}`;
  return [h("p.fk-muted", {}, words), h("ol.fk-list", {}, rows)];
}

/** Lines of code; each carries its nodes, and a click selects them. */
function codeList(lines, first, act, peek, label) {
  const list = h("ol.fk-code", { "aria-label": label });
  lines.forEach((line, k) => {
    const row = h("li", {
      "data-line": first + k, onmouseenter: () => peek(line.nodes, row), onmouseleave: () => peek(null),
      onclick: () => String(getSelection()) || act("select", line.nodes, row),
    }, h("i", {}, String(first + k)), h("code", {}, line.runs.map(([look, text]) => (look ? h(`span.fk-t-${look}`, {}, text) : text))));
    row.fkNodes = line.nodes;
    list.append(row);
  });
  return list;
}

/** Light the lines that are about one of the nodes; answers with how many. */
function lightLines(root, nodes, firstOnly) {
  let count = 0;
  for (const row of root.querySelectorAll("ol.fk-code > li")) {
    const lit = firstOnly ? nodes.has(row.fkNodes[0]) : row.fkNodes.some((n) => nodes.has(n));
    row.classList.toggle("fk-lit", lit);
    count += lit;
  }
  const first = root.querySelector("ol.fk-code > li.fk-lit");
  if (first) {
    const box = root.getBoundingClientRect(), line = first.getBoundingClientRect();
    if (line.top < box.top || line.bottom > box.bottom) root.scrollTop += line.top - box.top - box.height / 3;
  }
  return count;
}

const SIGNS = { none: "", running: "…", ok: "✓", differs: "△", failed: "✗" };

function resultCell(what, word, result, ask, open) {
  const idle = result.status === "none";
  const text = result.status === "running" ? "running" : idle ? "not asked yet" : result.sentence;
  return h(`div.fk-result.fk-is-${result.status}`, { "data-result": what, "data-status": result.status },
    h("span", {}, word),
    h("b", { title: text }, `${SIGNS[result.status]} ${text}`.trim()),
    ask ? button(what, { "data-ask": what, disabled: result.status === "running", onclick: () => ask(what) }) : null,
    result.rows.length || result.detail ? button("details", { "aria-expanded": open === what ? "true" : "false", "data-open": what }) : null);
}

function stripPane(doc, results, ask, open) {
  const cells = doc.summary.map(([name, value, share]) => h("div", {}, h("span", {}, name), h("b", {}, value),
    share >= 0 ? h("i.fk-bar", { role: "img", "aria-label": `least is ${Math.round(share * 100)} % of moved` }, h("u", { style: `width:${share * 100}%` })) : null));
  if (doc.problem) cells.push(h("div.fk-problem", {}, h("span", {}, "not told"), h("b", {}, doc.problem)));
  cells.push(h("div.fk-grow"));
  if (ask || results.check.status !== "none") cells.push(resultCell("check", "check against eager", results.check, ask, open));
  if (ask || results.run.status !== "none") cells.push(resultCell("run", "run on clones", results.run, ask, open));
  return cells;
}

function detailsPane(result) {
  const parts = [];
  if (result.rows.length) parts.push(h("table", {}, h("thead", {}, h("tr", {}, ["", "fact", "eager", "fusekit"].map((t) => h("th", { scope: "col" }, t)))),
    h("tbody", {}, result.rows.map((row) => h(`tr${row[0] === "✓" ? "" : ".fk-wrong"}`, {}, row.map((cell) => h("td", {}, cell)))))));
  if (result.detail) parts.push(h("pre", {}, result.detail));
  return parts;
}
