// A row per layer, sorted by the column whose title is chosen; a second time the other way round, a third time as executed.

const sorting = { column: null, down: true };

/** Text as it is, numbers with their units; "–" where there is no value. */
function layerCell(value, unit) {
  if (value === null) return "–";
  return typeof value === "number" && unit !== null ? quantity(value, unit) : String(value);
}

/** The rows in the chosen order; those without a value are last. */
function sortedLayers(rows) {
  const { column, down } = sorting;
  if (column === null) return rows;
  const compare = (a, b) => (typeof a === "number" ? a - b : a.localeCompare(b, "en", { numeric: true })) * (down ? -1 : 1);
  return [...rows].sort((a, b) => (a[column] === null) - (b[column] === null) || (a[column] === null ? 0 : compare(a[column], b[column])));
}

function sortLayers(column, numeric) {
  const turned = sorting.column === column && sorting.down !== numeric;
  Object.assign(sorting, turned ? { column: null, down: true } : { column, down: sorting.column === column ? !sorting.down : numeric });
  drawLayers();
}

function drawLayers() {
  const { columns, rows } = state.view.layers;
  const used = columns.map((_, i) => i).filter((i) => i === 0 || rows.some((row) => row[i]));
  if (!used.includes(sorting.column)) sorting.column = null;
  const title = (i) => {
    const numeric = columns[i][1] !== null;
    const order = sorting.column !== i ? "none" : sorting.down ? "descending" : "ascending";
    const sign = { none: "", descending: " ▼", ascending: " ▲" }[order];
    return el("th", { scope: "col", class: numeric ? "" : "text", "aria-sort": order }, el("button", { type: "button", onclick: () => sortLayers(i, numeric) }, columns[i][0] + sign));
  };
  const cell = (row, i) => {
    const text = layerCell(row[i], columns[i][1]);
    return i === 0 ? el("th", { scope: "row" }, text) : el("td", { class: columns[i][1] === null ? "name" : "" }, text);
  };
  byId("layers").replaceChildren(el("thead", {}, el("tr", {}, ...used.map(title))),
    el("tbody", {}, ...sortedLayers(rows).map((row) => el("tr", {}, ...used.map((i) => cell(row, i))))));
}
