// What was mapped: where it comes from, the architecture in figures, Einsums and tensors, and both specs to save.

function drawOrigin() {
  const { made } = DATA;
  const defines = Object.entries(made.defines).map(([name, value]) => `${name}=${value}`).join(", ");
  const rows = [
    ["Command", made.command.length ? el("code", {}, made.command.join(" ")) : ""], ["Files", made.files.join(", ")], ["Defines", defines],
    ["Options", made.options], ["Mapper", made.mapper === "fusiest" ? "" : made.mapper], ["Made", [made.created, made.version && `by fusiest ${made.version}`].filter(Boolean).join(" ")],
    ["SHA-256 of the spec", el("code", {}, DATA.spec_sha256)],
  ];
  byId("origin").replaceChildren(...rows.filter(([, content]) => content).flatMap(([name, content]) => [el("dt", {}, name), el("dd", {}, content)]));
  const save = (name, text) => el("button", { type: "button", "data-file": name, onclick: () => saveText(name + ".yaml", text) }, `Download ${name} as YAML`);
  byId("downloads").replaceChildren(...Object.entries(DATA.mapped.specs).map(([name, text]) => save(name, text)));
}

function saveText(name, text, type = "text/yaml") {
  download(name, URL.createObjectURL(new Blob([text], { type })));
}

/** A figure, or the least and the most where it differs from Einsum to Einsum; null stands for unlimited. */
function spanWords(span, write) {
  if (!span) return "";
  const [low, high] = span.map((value) => (value === null ? "unlimited" : write(value)));
  return low === high ? low : `${low} to ${high}`;
}

/** The same for each action: once if all are equal. */
function actionWords(row, which, write) {
  const texts = (row.actions || []).map((action) => spanWords(action[which], write));
  return new Set(texts).size <= 1 ? texts[0] || "" : texts.join(" / ");
}

const zeroAsNone = (text) => (/^0 /.test(text) ? "–" : text);
const squareMetres = (value) => (value >= 1e-8 ? `${digits(value * 1e6)} mm²` : `${digits(value * 1e12)} µm²`);

function componentCells(row) {
  const compute = row.kind === "Compute";
  const fanout = row.fanouts.map(([name, count]) => `${name} ${count.toLocaleString("en-US")}`).join(" × ");
  return [
    [row.kind, "text"], [row.count.toLocaleString("en-US")], [fanout, "text"],
    [row.size ? spanWords(row.size, (bytes) => quantity(bytes, "B")) : ""],
    [actionWords(row, 1, (rate) => (compute ? quantity(rate, "/s") : quantity(rate / 8, "B/s")))],
    [zeroAsNone(actionWords(row, 2, (joules) => (joules ? quantity(joules, compute ? "J" : "J/b") : "0 J")))],
    [row.peak ? quantity(row.peak, "op/s") : ""],
    [row.leak ? zeroAsNone(spanWords(row.leak, (watts) => quantity(watts, "W"))) : ""],
    [row.area ? zeroAsNone(spanWords(row.area, (area) => (area ? squareMetres(area) : "0 m²"))) : ""],
  ];
}

function drawComponents() {
  const rows = DATA.mapped.components;
  const head = [["component", "text"], ["kind", "text"], ["count"], ["fanout", "text"], ["size"], ["rate, read / write"], ["energy, read / write"], ["peak of all"], ["leakage"], ["area"]];
  const body = rows.map((row) => {
    const name = el("th", { scope: "row" }, row.name);
    name.style.setProperty("padding-left", `${row.depth * 14}px`);
    return [name, ...componentCells(row).map(([text, kind]) => el("td", { class: kind || "" }, text))];
  });
  const empty = (i) => i > 0 && body.every((cells) => !cells[i].textContent || cells[i].textContent === "–");
  const kept = (cells) => cells.filter((_, i) => !empty(i));
  byId("components").replaceChildren(el("thead", {}, el("tr", {}, ...kept(head.map(([text, kind]) => el("th", { scope: "col", class: kind || "" }, text))))),
    el("tbody", {}, ...body.map((cells) => el("tr", {}, ...kept(cells)))));
}

function fold(id, title, head, rows, open) {
  const cell = (text, i) => (i ? el("td", { class: head[i][1] || "" }, text) : el("th", { scope: "row" }, text));
  byId(id).open = open;
  byId(id).firstElementChild.textContent = title;
  byId(id).lastElementChild.replaceChildren(el("table", {}, el("thead", {}, el("tr", {}, ...head.map(([text, kind]) => el("th", { scope: "col", class: kind || "" }, text)))),
    el("tbody", {}, ...rows.map((row) => el("tr", {}, ...row.map(cell))))));
}

function drawWorkload() {
  const { einsums, tensors } = DATA.mapped;
  const sizes = (table) => Object.entries(table).map(([name, size]) => `${name} ${size.toLocaleString("en-US")}`).join(", ");
  const often = einsums.some(([, , , times]) => times > 1);
  fold("einsums", `${einsums.length} Einsum${einsums.length > 1 ? "s" : ""}, ${quantity(DATA.roofline.operations, "op")}`,
    [["Einsum", "text"], ["computes", "text"], ["operation", "text"], ["sizes", "text"], ...(often ? [["times"]] : []), ["operations"]],
    einsums.map(([name, text, bounds, times, operation, count]) => [name, text, operation, sizes(bounds), ...(often ? [times.toLocaleString("en-US")] : []), quantity(count, "op")]), einsums.length <= 20);
  fold("shapes", `${tensors.length} tensors`, [["tensor", "text"], ["role", "text"], ["shape", "text"], ["bits per value"], ["size"], ["", "text"]],
    tensors.map(([name, role, shape, bits, bytes, persistent]) => [name, role, sizes(shape), String(bits), quantity(bytes, "B"), persistent ? "persistent" : ""]), false);
}

function drawMapped() {
  drawOrigin();
  drawComponents();
  drawWorkload();
}
