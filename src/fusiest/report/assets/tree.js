// The LoopTree: a tree that folds, with the keys that trees have, a row per loop, held tensor, branch and compute.

const KEYS = { ArrowDown: 1, ArrowUp: -1 };

function loopWords(row) {
  const times = row.iterations === null ? "" : ` in 0..${row.iterations.toLocaleString("en-US")}`;
  return el("span", { class: "words" }, el("b", {}, row.kind === "spatial" ? "parallel-for " : "for "), row.variable + times,
    el("span", { class: "muted" }, ` tile ${row.tile.toLocaleString("en-US")}${row.on ? " on " + row.on : ""}`));
}

function chip(number) {
  return el("span", { class: "chip" }, swatch(DATA.tensors[number][1]), DATA.tensors[number][0]);
}

function rowWords(row) {
  if (row.kind === "loop" || row.kind === "spatial") return loopWords(row);
  if (row.kind === "holders") return el("span", { class: "words" }, el("b", {}, `${row.count} tensors`), el("span", { class: "where" }, (row.toll ? " through " : " in ") + row.component));
  if (row.kind === "branch") return el("span", { class: "words" }, el("b", {}, row.einsums.length > 1 ? "Einsums " : "Einsum "), row.einsums.join(", "));
  if (row.kind === "compute") return el("span", { class: "words" }, el("b", { class: "pill" }, row.einsum), el("span", { class: "muted" }, ` on ${row.component}, ${quantity(row.operations, "op")}`));
  const where = row.kind === "toll" ? " through " : " in ";
  return el("span", { class: "words" }, chip(row.tensor), el("span", { class: "where" }, where + row.component), row.persistent ? el("span", { class: "muted" }, " persistent") : null);
}

function figuresOf(row) {
  if (row.energy === undefined) return [];
  const bytes = (bits) => (bits === undefined ? "" : quantity(bits / 8, "B"));
  const cell = (label, text) => el("span", { class: "figure", "data-label": text ? label : "" }, text);
  return [cell("held ", bytes(row.held)), cell("traffic ", bytes(row.moved)), cell("energy ", quantity(row.energy, "J"))];
}

/** Fill the tree. Returns what the buttons need. */
function drawTree(list, rows, onTensor) {
  const items = rows.map((row, i) => {
    const parent = i + 1 < rows.length && rows[i + 1].depth > row.depth;
    const item = el("li", {
      role: "treeitem", class: "row " + row.kind, "aria-level": row.depth + 1, "aria-expanded": parent ? String(row.kind !== "holders") : null, tabindex: i ? "-1" : "0",
      "data-tensor": row.tensor === undefined ? null : row.tensor,
    }, el("span", { class: "label" }, el("span", { class: "fold", "aria-hidden": "true" }), rowWords(row)), ...figuresOf(row));
    item.style.setProperty("--depth", row.depth);
    return item;
  });
  const expandable = (i) => items[i].hasAttribute("aria-expanded");
  const expanded = (i) => items[i].getAttribute("aria-expanded") === "true";

  function show() {
    let hiddenBelow = Infinity;
    rows.forEach((row, i) => {
      if (row.depth <= hiddenBelow) hiddenBelow = Infinity;
      items[i].hidden = row.depth > hiddenBelow;
      if (hiddenBelow === Infinity && expandable(i) && !expanded(i)) hiddenBelow = row.depth;
    });
  }
  function fold(i, open) {
    if (expandable(i)) items[i].setAttribute("aria-expanded", String(open));
    show();
  }
  function focus(i) {
    items.forEach((item) => item.setAttribute("tabindex", "-1"));
    items[i].setAttribute("tabindex", "0");
    items[i].focus();
  }
  function step(i, by) {
    for (let j = i + by; j >= 0 && j < items.length; j += by) if (!items[j].hidden) return focus(j);
  }
  function outwards(i) {
    for (let j = i - 1; j >= 0; j -= 1) if (rows[j].depth < rows[i].depth) return focus(j);
  }
  list.onkeydown = (event) => {
    const i = items.indexOf(event.target);
    if (i < 0) return;
    if (event.key in KEYS) step(i, KEYS[event.key]);
    else if (event.key === "Home") focus(0);
    else if (event.key === "End") step(items.length, -1);
    else if (event.key === "ArrowRight") expandable(i) && !expanded(i) ? fold(i, true) : step(i, 1);
    else if (event.key === "ArrowLeft") expandable(i) && expanded(i) ? fold(i, false) : outwards(i);
    else if (event.key === "Enter" || event.key === " ") fold(i, !expanded(i));
    else return;
    event.preventDefault();
  };
  const rowAt = (event) => items.indexOf(event.target.closest("li"));
  list.onclick = (event) => { const i = rowAt(event); if (i >= 0) { fold(i, !expanded(i)); focus(i); } };
  list.onmouseover = (event) => { const i = rowAt(event); if (i >= 0) onTensor(rows[i].tensor); };
  list.onfocusin = list.onmouseover;
  list.onmouseleave = () => onTensor(undefined);
  list.onfocusout = list.onmouseleave;
  list.replaceChildren(...items);
  show();
  return {
    all(open) { items.forEach((_, i) => expandable(i) && (open || rows[i].kind === "branch" || rows[i].depth > 0) && items[i].setAttribute("aria-expanded", String(open))); show(); },
  };
}

/** Mark every row of a tensor; none if it is undefined. */
function markTensor(tensor) {
  for (const node of document.querySelectorAll("[data-tensor]")) node.classList.toggle("lit", tensor !== undefined && Number(node.dataset.tensor) === tensor);
}
