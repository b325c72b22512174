// The comparison page: figures, charts, fused sets and differences of two results, A and B.

const chartOf = (name) => DATA.charts[name];
const optionsFor = () => ({});

function drawFigures() {
  const boxes = DATA.totals.map(([name, unit, a, b]) => el("div", { class: "figurebox" },
    el("div", { class: "name" }, name), el("div", { class: "value" }, change(b, a)),
    el("div", { class: "muted" }, `A ${quantity(a, unit)}`), el("div", { class: "muted" }, `B ${quantity(b, unit)}`)));
  byId("figures").replaceChildren(...boxes);
  byId("facts").replaceChildren(...DATA.facts.flatMap(([name, text]) => [el("dt", {}, name), el("dd", {}, text)]));
}

/** A table: the columns whose numbers are in `text` are left-aligned, each row starts with its heading. */
function fill(id, head, rows, text) {
  const name = (i) => (text.includes(i) ? "text" : "");
  const cell = (content, i) => (i === 0 ? el("th", { scope: "row", class: "text" }, content) : el("td", { class: name(i) }, content));
  byId(id).replaceChildren(
    el("thead", {}, el("tr", {}, ...head.map((title, i) => el("th", { scope: "col", class: i === 0 ? "text" : name(i) }, title)))),
    el("tbody", {}, ...rows.map((row) => el("tr", {}, ...row.map(cell)))));
}

function drawTables() {
  const figures = ([name, energyA, energyB, latencyA, latencyB, limits]) => [name,
    quantity(energyA, "J"), quantity(energyB, "J"), change(energyB, energyA),
    quantity(latencyA, "s"), quantity(latencyB, "s"), change(latencyB, latencyA), limits];
  fill("einsums", ["Einsum", "energy A", "energy B", "B against A", "latency A", "latency B", "B against A", "limited by"], DATA.einsums.map(figures), [7]);
  fill("sets", ["", "Einsums", "kept on chip"], DATA.sets, [1, 2]);
  byId("moved").hidden = !DATA.moved.length;
  fill("moved", ["tensor that moved", "outermost memory in A", "in B"], DATA.moved, [1, 2]);
}

function drawDifference(id, lines) {
  const kinds = { "+": "added", "-": "removed" };
  const row = ([mark, text]) => el("span", { class: "line " + (kinds[mark] || "") }, `${mark === "-" ? "−" : mark} ${text}\n`);
  byId(id).replaceChildren(...(lines.length ? lines.map(row) : ["no difference"]));
}

await loadLibrary("plotly");
startPage();
drawFigures();
drawTables();
drawDifference("tree", DATA.tree);
drawDifference("specs", DATA.specs);
await drawCharts();
document.documentElement.dataset.ready = "true";
