// The comparison page: figures, charts, fused sets and differences of results: A, and others against A.

const chartOf = (name) => DATA.charts[name];
const optionsFor = () => ({});

const [FIRST, ...OTHERS] = DATA.names;

function drawFigures() {
  const boxes = DATA.totals.map(([name, unit, values]) => el("div", { class: "figurebox" },
    el("div", { class: "name" }, name),
    ...(OTHERS.length === 1 ? [el("div", { class: "value" }, change(values[1], values[0]))] : []),
    ...values.map((value, i) => el("div", { class: "muted" }, `${DATA.names[i]} ${quantity(value, unit)}`
      + (i > 0 && OTHERS.length > 1 ? ` (${change(value, values[0])})` : "")))));
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
  const titles = (what) => DATA.names.flatMap((name, i) => [`${what} ${name}`, ...(i ? [`${name} against ${FIRST}`] : [])]);
  const cells = (values, unit) => values.flatMap((value, i) => [quantity(value, unit), ...(i ? [change(value, values[0])] : [])]);
  const head = ["Einsum", ...titles("energy"), ...titles("latency"), "limited by"];
  fill("einsums", head, DATA.einsums.map(([name, energy, latency, limits]) =>
    [name, ...cells(energy, "J"), ...cells(latency, "s"), limits]), [head.length - 1]);
  fill("sets", ["", "Einsums", "kept on chip"], DATA.sets, [1, 2]);
  byId("moved").hidden = !DATA.moved.length;
  fill("moved", ["tensor that moved", ...DATA.names.map((name, i) => (i ? `in ${name}` : `outermost memory in ${name}`))],
    DATA.moved, DATA.names.map((_, i) => i + 1));
}

/** Why two mappings of one workload differ; nothing for any others. */
function drawReasons() {
  byId("reasons").hidden = !DATA.reasons;
  if (!DATA.reasons) return;
  const signed = (value, unit) => (value > 0 ? "+" : value < 0 ? "−" : "") + quantity(Math.abs(value), unit);
  for (const [field, title, unit] of [["energy", "energy of", "J"], ["seconds", "busy time of", "s"]]) {
    fill(`reasons-${field}`, [title, ...DATA.names, `${DATA.names[1]} − ${FIRST}`],
      DATA.reasons[field].map(([name, a, b, more]) => [name, quantity(a, unit), quantity(b, unit), signed(more, unit)]), []);
  }
  const times = (count) => (count ? `${digits(count)}×` : "–");
  fill("reasons-fetches", ["tensor", ...DATA.names.flatMap((name) => [`${name} in`, `${name} read`, `${name} written`])],
    DATA.reasons.fetches.map(([name, ...cells]) => [name, ...cells.map((cell) => (typeof cell === "number" ? times(cell) : cell))]), [1, 4]);
}

/** What the others have and the first has not, and the other way round, one below the other. */
function drawDifferences(id, field) {
  const kinds = { "+": "added", "-": "removed" };
  const row = ([mark, text]) => el("span", { class: "line " + (kinds[mark] || "") }, `${mark === "-" ? "−" : mark} ${text}\n`);
  byId(id).replaceChildren(...DATA.differences.flatMap((other) => [
    ...(OTHERS.length > 1 ? [el("h3", {}, `${FIRST} and ${other.name}`)] : []),
    el("pre", { class: "scroll code diff", tabindex: "0" },
      ...(other[field].length ? other[field].map(row) : ["no difference"]))]));
}

await loadLibrary("plotly");
startPage();
drawFigures();
drawTables();
drawReasons();
drawDifferences("tree", "tree");
drawDifferences("specs", "specs");
await drawCharts();
document.documentElement.dataset.ready = "true";
