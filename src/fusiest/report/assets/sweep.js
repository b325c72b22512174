// The page of a sweep: the best designs, fronts, curves, parallel coordinates, and all designs as a table.

const chartOf = (name) => DATA.charts[name];
const optionsFor = () => ({});

const SVG = "http://www.w3.org/2000/svg";

/** A table: the first column is the row's heading; numbers are on the right. */
function fill(id, head, rows) {
  const kind = (i) => (i === 0 ? "text" : "");
  const cell = (content, i) => el(i === 0 ? "th" : "td", { class: kind(i), ...(i === 0 ? { scope: "row" } : {}) }, content);
  byId(id).hidden = !rows.length;
  byId(id).replaceChildren(
    el("thead", {}, el("tr", {}, ...head.map((title, i) => el("th", { scope: "col", class: kind(i) }, title)))),
    el("tbody", {}, ...rows.map((row) => el("tr", {}, ...row.map(cell)))));
}

const area = (value) => (value ? `${digits(value * 1e6)} mm²` : "–");

/** Links to the reports of a design's mappings, one per workload. */
function links(number) {
  const found = Object.entries(DATA.reports[number] || {}).map(([label, href]) => el("a", { href, target: "_blank" }, label));
  return el("span", {}, ...found.flatMap((link, i) => (i ? [" ", link] : [link])));
}

const KNOWN = new Map([...DATA.designs, ...DATA.best].map((design) => [design.number, design]));

/** Show a design; if there is one report of its mapping, open it. */
function choose(number) {
  const design = KNOWN.get(number), reports = Object.values(DATA.reports[number] || {});
  const facts = design ? [...DATA.parameters.map((name, i) => [name, String(design.values[i])]), ...DATA.costs.map(([name, head, unit]) => [head, quantity(design[name], unit)]), ["area", area(design.area)]] : [];
  byId("chosen").hidden = false;
  byId("chosen").replaceChildren(
    el("h3", {}, `Design ${number}`),
    el("dl", { class: "facts" }, ...facts.flatMap(([name, text]) => [el("dt", {}, name), el("dd", {}, text)])),
    el("p", {}, ...(reports.length ? ["Reports: ", links(number)] : ["No report of its mappings was written; ", el("code", {}, "--reports all"), " writes those of all designs."])));
  byId("chosen").scrollIntoView({ block: "nearest" });
  if (reports.length === 1) window.open(reports[0], "_blank");
}

/** A design's cells: its parameters, its figures, and links to the reports of its mappings. */
function cells(design) {
  const button = el("button", { type: "button", onclick: () => choose(design.number) }, String(design.number));
  return [button, ...design.values.map(String), ...DATA.costs.map(([name, , unit]) => quantity(design[name], unit)), area(design.area), links(design.number)];
}

function drawTables() {
  const head = ["design", ...DATA.parameters, ...DATA.costs.map(([, head]) => head), "area", "reports"];
  byId("facts").replaceChildren(...DATA.facts.flatMap(([name, text]) => [el("dt", {}, name), el("dd", {}, text)]));
  fill("best", head, DATA.best.map(cells));
  fill("workloads", ["workload", "its best design", ...DATA.parameters, "energy", "latency"],
    DATA.workloads.map((one) => [one.label, String(one.number), ...one.values.map(String), quantity(one.energy, "J"), quantity(one.latency, "s")]));
  byId("shown").textContent = `${DATA.designs.length} of ${DATA.count}, the best first.`;
  fill("designs", head, DATA.designs.map(cells));
  fill("failures", ["failed", "runs", "reason"], DATA.failures);
}

function node(tag, attributes, ...children) {
  const made = document.createElementNS(SVG, tag);
  Object.entries(attributes).forEach(([name, value]) => made.setAttribute(name, value));
  made.append(...children);
  return made;
}

/** Parallel coordinates: an axis per parameter and figure, a line per design; as wide as the page, however many axes. */
function drawParallel() {
  const axes = DATA.parallel.map((axis) => ({ ...axis, words: axis.name.split(/(?<=\.)/) }));
  const longest = (axis) => Math.max(...[...axis.words, axis.low, axis.high].map((text) => text.length));
  const room = Math.max(90, ...axes.map((axis) => 7 * longest(axis) + 12)), rows = Math.max(...axes.map((axis) => axis.words.length));
  const width = Math.max(byId("parallel").clientWidth, room * axes.length), top = 22 + 14 * rows, bottom = top + 196, height = bottom + 30;
  const at = (i) => room / 2 + (i * (width - room)) / Math.max(1, axes.length - 1);
  const y = (share) => bottom - share * (bottom - top);
  const lines = DATA.lines.map((line, rank) => node("polyline", {
    points: line.shares.map((share, i) => `${at(i)},${y(share)}`).join(" "), fill: "none", class: "design",
    stroke: rank === 0 ? themeColor("accent") || "currentColor" : "currentColor", "stroke-width": rank === 0 ? 3 : 1,
    "stroke-opacity": rank === 0 ? 1 : Math.max(0.08, 0.6 * (1 - rank / DATA.lines.length)),
  }, node("title", {}, line.name))).reverse();
  lines.forEach((line, i) => line.addEventListener("click", () => choose(DATA.lines[lines.length - 1 - i].number)));
  const posts = axes.flatMap((axis, i) => [
    node("line", { x1: at(i), x2: at(i), y1: top, y2: bottom, stroke: "currentColor", "stroke-opacity": 0.4 }),
    ...axis.words.map((text, line) => node("text", { x: at(i), y: top - 20 - 14 * (axis.words.length - 1 - line), "text-anchor": "middle",
      fill: "currentColor", "font-size": 12 }, text)),
    node("text", { x: at(i), y: top - 6, "text-anchor": "middle", fill: "currentColor", "font-size": 11 }, axis.high),
    node("text", { x: at(i), y: bottom + 16, "text-anchor": "middle", fill: "currentColor", "font-size": 11 }, axis.low)]);
  byId("parallel").replaceChildren(node("svg", {
    viewBox: `0 0 ${width} ${height}`, style: "width: 100%; height: auto", role: "img", "aria-label": "Parallel coordinates of the designs",
  }, ...lines, ...posts));
}

await loadLibrary("plotly");
startPage();
drawTables();
drawParallel();
await drawCharts();
for (const { plot } of cards.values()) {
  plot.on?.("plotly_click", (event) => {
    const point = event.points.find((p) => p.customdata !== undefined);
    if (point) choose(point.customdata);
  });
}
document.documentElement.dataset.ready = "true";
