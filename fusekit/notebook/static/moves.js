// Where the page stands and how it moves: the same pure functions as state.py, so that stepping needs no kernel.
// `doc` is the document that Python made; a state is never changed, only replaced.

/** The card of a node at a step, or null. */
function cardAt(doc, node, step) {
  const seen = Object.hasOwn(doc.nodes, node) ? doc.nodes[node] : [];
  for (let k = seen.length - 1; k >= 0; k--) if (seen[k].since <= step) return seen[k].card;
  return null;
}

/** The newest card up to a step; of a node that comes later, its first one. */
function cardOf(doc, node, step) {
  const seen = Object.hasOwn(doc.nodes, node) ? doc.nodes[node].filter((s) => s.card) : [];
  const known = seen.filter((s) => s.since <= step);
  return (known[known.length - 1] || seen[0] || { card: null }).card;
}

const clamp = (low, value, high) => Math.max(low, Math.min(high, value));

function viewOf(state, doc) {
  const step = doc.steps[state.step];
  return step.views.includes(state.view) ? state.view : step.best;
}

function pictureKey(state, doc) {
  return `${state.step}|${viewOf(state, doc)}|${state.since && state.step > 0 ? 1 : 0}`;
}

const isChange = (doc, step) => step === 0 || doc.steps[step].delta !== "no change";

function railOf(state, doc) {
  return doc.steps.map((_, k) => k).filter((k) => !state.quiet || k === state.step || isChange(doc, k));
}

function matches(word, texts) {
  const colon = word.indexOf(":");
  const name = word.slice(0, Math.max(0, colon)), rest = word.slice(colon + 1);
  if (colon >= 0 && texts.some(([known]) => known === name))
    return texts.some(([known, text]) => known === name && text && text.includes(rest));
  return texts.some(([known, text]) => known !== "changed" && text.includes(word));
}

/** Nodes of this step with every word of the query. */
function hits(state, doc) {
  const words = state.query.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return [];
  const marks = new Map(doc.steps[state.step].changes.filter((c) => c.nodes.length === 1).map((c) => [c.nodes[0], c.mark]));
  return Object.keys(doc.nodes).filter((node) => {
    const card = cardAt(doc, node, state.step);
    if (!card) return false;
    const texts = [["id", node], [card.kind, card.title], ...card.facts, ["changed", marks.get(node) || ""]]
      .map(([name, text]) => [name, text.toLowerCase()]);
    return words.every((word) => matches(word, texts));
  });
}

/** The segments, in launch order, that the selected nodes lie in. */
const segmentsOf = (state, doc) => doc.segments.filter((s) => state.selected.some((n) => n === s.id || s.nodes.includes(n))).map((s) => s.id);

/** The two segments of a selection of several nodes, or null. */
function pairOf(state, doc) {
  const found = state.selected.length < 2 ? [] : segmentsOf(state, doc);
  return found.length === 2 ? found : null;
}

const moves = {
  go(state, doc, step) {
    step = clamp(0, step, doc.steps.length - 1);
    return step === state.step ? state : { ...state, step, event: -1 };
  },
  forward(state, doc) {
    const later = railOf(state, doc).filter((k) => k > state.step);
    return later.length ? moves.go(state, doc, later[0]) : state;
  },
  back(state, doc) {
    const earlier = railOf(state, doc).filter((k) => k < state.step);
    return earlier.length ? moves.go(state, doc, earlier[earlier.length - 1]) : state;
  },
  event(state, doc, by) {
    const said = doc.steps[state.step].said;
    if (!said.length) return state;
    const place = clamp(0, state.event + by, said.length - 1);
    return { ...moves.select(state, doc, said[place].subject), event: place };
  },
  select(state, doc, nodes) {
    const selected = nodes.filter((n) => Object.hasOwn(doc.nodes, n));
    const holders = doc.segments.map((_, k) => k)
      .filter((k) => selected.some((n) => n === doc.segments[k].id || doc.segments[k].nodes.includes(n)));
    return { ...state, selected, event: -1, segment: holders.length === 1 ? holders[0] : state.segment };
  },
  toggle(state, doc, node) {
    const chosen = state.selected.filter((n) => n !== node);
    return moves.select(state, doc, state.selected.includes(node) ? chosen : [...chosen, node]);
  },
  walk(state, doc, by) {
    const ops = doc.steps[state.step].ops;
    if (!ops.length) return state;
    const found = ops.findIndex((op) => state.selected.includes(op));
    const at = found >= 0 ? found : by > 0 ? -1 : 0;
    return moves.select(state, doc, [ops[(at + by + ops.length) % ops.length]]);
  },
  clear: (state) => ({ ...state, selected: [], event: -1 }),
  markChanges: (state, doc, on) => ({ ...state, since: on }),
  chooseView: (state, doc, view) => (doc.steps[state.step].views.includes(view) ? { ...state, view } : state),
  chooseSegment: (state, doc, k) => ({ ...state, segment: clamp(0, k, Math.max(0, doc.segments.length - 1)) }),
  choosePane: (state, doc, pane) => (["kernel", "text"].includes(pane) ? { ...state, pane } : state),
  hideUnchanged: (state, doc, on) => ({ ...state, quiet: on }),
  search: (state, doc, query) => ({ ...state, query }),
};
