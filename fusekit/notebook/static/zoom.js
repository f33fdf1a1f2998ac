// Pan and zoom of one picture. A gesture moves the whole drawing by a CSS transform, which costs the same for 20 and
// for 2,000 nodes; at rest the browser draws it sharp again.

const READABLE = 0.64; // below this, names are smaller than 7 px

function makeStage(stage, canvas, map) {
  let scale = 1, x = 0, y = 0, width = 1, height = 1, fitted = true, whole = false, rest = 0;
  const inner = () => [stage.clientWidth || 600, stage.clientHeight || 400];

  function apply(moving) {
    canvas.style.transform = `translate(${x}px,${y}px) scale(${scale})`;
    canvas.toggleAttribute("data-far", scale < 0.4);
    if (moving) {
      canvas.style.willChange = "transform";
      clearTimeout(rest);
      rest = setTimeout(() => (canvas.style.willChange = ""), 160);
    }
    drawMap();
  }

  function drawMap() {
    const [w, h] = inner();
    const outside = width * scale > w + 2 || height * scale > h + 2;
    map.hidden = !outside;
    if (!outside) return;
    const size = Math.min(132 / width, 110 / height), box = map.lastElementChild;
    const across = Math.max(28, width * size), down = Math.max(20, height * size); // a long graph is drawn wider there
    map.style.width = `${across}px`;
    map.style.height = `${down}px`;
    const left = clamp(0, -x / scale, width), top = clamp(0, -y / scale, height);
    const right = clamp(0, (w - x) / scale, width), bottom = clamp(0, (h - y) / scale, height);
    const [sx, sy] = [across / width, down / height];
    box.style.cssText = `left:${left * sx}px;top:${top * sy}px;width:${(right - left) * sx}px;` +
      `height:${Math.max(4, (bottom - top) * sy)}px`;
  }

  const wholeScale = () => {
    const [w, full] = inner();
    return Math.min((w - 16) / width, (Math.max(120, full - 36) - 16) / height, 1.25);
  };

  /** Everything in view; unasked, where that would be unreadable, the width, from `element` or the top on. */
  function fit(element) {
    const [w, full] = inner(), h = Math.max(120, full - 36); // the buttons below stay free
    fitted = true;
    scale = wholeScale();
    if (scale < READABLE && !whole) scale = clamp(READABLE, (w - 16) / width, 1);
    x = Math.max(8, (w - width * scale) / 2); // what is wider than the window begins at its left edge: names stand there
    y = height * scale <= h ? Math.max(8, Math.min(28, (h - height * scale) / 2)) : 8;
    apply(false);
    if (element && !isVisible(element)) centre(element, false);
  }

  function zoomAt(factor, px, py) {
    const next = clamp(0.08, scale * factor, 6);
    x = px - ((px - x) * next) / scale;
    y = py - ((py - y) * next) / scale;
    scale = next;
    fitted = whole = false;
    apply(true);
  }

  const rectIn = (element) => {
    const a = element.getBoundingClientRect(), b = stage.getBoundingClientRect();
    return { left: a.left - b.left, top: a.top - b.top, width: a.width, height: a.height };
  };
  const middle = (r) => [r.left + r.width / 2, r.top + r.height / 2];

  function isVisible(element) {
    const r = rectIn(element), [w, h] = inner();
    return r.left < w - 12 && r.top < h - 12 && r.left + r.width > 12 && r.top + r.height > 12;
  }

  function centre(element) {
    const [cx, cy] = middle(rectIn(element)), [w, h] = inner();
    x += w / 2 - cx;
    y += h / 2 - cy;
    apply(false);
  }

  stage.addEventListener("wheel", (e) => {
    if (!e.ctrlKey && !e.metaKey) return stage.dispatchEvent(new CustomEvent("fk-hint"));
    e.preventDefault();
    const r = stage.getBoundingClientRect();
    zoomAt(Math.exp(-e.deltaY * (e.deltaMode ? 0.05 : 0.0022)), e.clientX - r.left, e.clientY - r.top);
  }, { passive: false });

  let from = null, dragged = false;
  stage.addEventListener("pointerdown", (e) => {
    if (e.button === 0 && !e.target.closest("button, input, .fk-map")) from = [e.clientX, e.clientY, x, y];
    dragged = false;
  });
  stage.addEventListener("pointermove", (e) => {
    if (!from) return;
    const dx = e.clientX - from[0], dy = e.clientY - from[1];
    if (!dragged && Math.hypot(dx, dy) < 5) return;
    if (!dragged) stage.setPointerCapture(e.pointerId);
    dragged = true;
    fitted = whole = false;
    [x, y] = [from[2] + dx, from[3] + dy];
    apply(true);
  });
  for (const end of ["pointerup", "pointercancel"]) stage.addEventListener(end, () => (from = null));
  map.addEventListener("pointerdown", (e) => {
    const r = map.getBoundingClientRect(), [w, h] = inner();
    x = w / 2 - ((e.clientX - r.left) / r.width) * width * scale;
    y = h / 2 - ((e.clientY - r.top) / r.height) * height * scale;
    fitted = false;
    apply(false);
  });

  return {
    /** Another drawing; `held` = [x, y] keeps `element` there on the screen. */
    put(svg, element, held) {
      [width, height] = ["width", "height"].map((side) => parseFloat(svg.getAttribute(side)) || 1);
      canvas.replaceChildren(svg);
      const small = svg.cloneNode(true);
      small.querySelectorAll("[id], title, text").forEach((e) => (e.localName === "g" ? e.removeAttribute("id") : e.remove()));
      small.removeAttribute("id");
      small.setAttribute("preserveAspectRatio", "none");
      small.setAttribute("width", "100%");
      small.setAttribute("height", "100%");
      map.replaceChildren(small, map.lastElementChild);
      if (element && held) {
        apply(false);
        const [cx, cy] = middle(rectIn(element));
        [x, y] = [x + held[0] - cx, y + held[1] - cy];
        apply(false);
      } else if (fitted) {
        whole &&= wholeScale() >= READABLE; // all of the last picture was asked for, not all of this one
        fit(element);
      }
      else apply(false);
    },
    place: (element) => (isVisible(element) ? middle(rectIn(element)) : null),
    reveal: (element) => isVisible(element) || centre(element),
    fit() {
      whole = true;
      fit();
    },
    refit: () => (fitted ? fit() : apply(false)),
    zoom: (factor) => zoomAt(factor, inner()[0] / 2, inner()[1] / 2),
    wasDrag: () => dragged,
  };
}
