// A finished SVG in the page: its ids made this page's own, its own styles left out, and nodes lit in it.

/** The element of an SVG text. Nothing in it can run: no script, no handler, no foreign content, no outside link. */
function svgElement(text, prefix) {
  const root = document.importNode(new DOMParser().parseFromString(text, "image/svg+xml").documentElement, true);
  if (root.localName !== "svg") return null;
  root.querySelectorAll("script, style, foreignObject, iframe, image, use").forEach((e) => e.remove());
  for (const e of [root, ...root.querySelectorAll("*")]) {
    for (const { name } of [...e.attributes])
      if (/^on/i.test(name) || (/href$/i.test(name) && !e.getAttribute(name).startsWith("#"))) e.removeAttribute(name);
    if (e.id) e.id = prefix + e.id;
  }
  root.removeAttribute("aria-label");
  root.setAttribute("role", "presentation");
  const name = root.querySelector(":scope > title");
  if (name) name.remove(); // else the browser shows it as a tooltip everywhere
  return root;
}

const byName = (svg, name) => [...svg.querySelectorAll("g.node")].find((e) => e.id.endsWith(`-${name}`));
const dataNodes = (svg) => svg.querySelectorAll("[data-op]");

/** Nodes of the picture that stand for `node`: itself, or what its card says is near. */
function standsFor(svg, doc, node, step) {
  const own = [...dataNodes(svg)].filter((e) => e.dataset.op === node);
  if (own.length) return own;
  const card = cardOf(doc, node, step);
  const near = new Set(card ? card.near : []);
  return [...dataNodes(svg)].filter((e) => near.has(e.dataset.op));
}

/** Light the nodes and quiet the rest; answers with the elements that are lit. */
function lightPicture(svg, doc, nodes, step, found) {
  const lit = nodes.flatMap((node) => standsFor(svg, doc, node, step));
  const names = new Set(lit.map((e) => e.dataset.op));
  svg.toggleAttribute("data-quiet", lit.length > 0);
  for (const e of svg.querySelectorAll(".fk-lit, .fk-holds, .fk-hit"))
    e.classList.remove("fk-lit", "fk-holds", "fk-hit");
  for (const e of lit) {
    e.classList.add("fk-lit");
    const holder = e.parentElement.closest("g.node");
    if (holder) holder.classList.add("fk-holds");
  }
  const inside = new Set(nodes.flatMap((node) => cardOf(doc, node, step)?.leads.find(([word]) => word === "holds")?.[1] || []));
  for (const e of dataNodes(svg)) if (inside.has(e.dataset.op)) e.classList.add("fk-holds");
  for (const e of svg.querySelectorAll("g.edge")) {
    if (!names.has(e.dataset.from) && !names.has(e.dataset.to)) continue;
    e.classList.add("fk-lit");
    for (const end of [e.dataset.from, e.dataset.to]) // words on an edge, such as a hazard, belong to it
      if (!Object.hasOwn(doc.nodes, end)) byName(svg, end)?.classList.add("fk-holds");
  }
  if (found.size) for (const e of dataNodes(svg)) if (found.has(e.dataset.op)) e.classList.add("fk-hit");
  return lit;
}
