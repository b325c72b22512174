// What each component costs, and where the figures come from. Without estimates, area and leakage there is no such section.

/** One figure below the other, a line for each action. */
const stacked = (texts) => texts.map((text) => el("div", {}, text));

function timesCount(row, one, total, write) {
  if (one === null) return "not given";
  return row.count === 1 || !one ? write(one) : `${write(one)} × ${row.count.toLocaleString("en-US")} = ${write(total)}`;
}

const areaWords = (area) => (area ? squareMetres(area) : "–");
const leakWords = (watts) => (watts ? quantity(watts, "W") : "–");

function costCells(row) {
  const actions = Object.values(row.actions);
  return [
    [[row.class || ""], "text"], [[row.count.toLocaleString("en-US")]], [stacked(Object.keys(row.actions)), "text"],
    [stacked(actions.map((action) => quantity(action.energy, "J")))],
    [stacked(actions.map((action) => (action.energy_per_bit === null ? "" : quantity(action.energy_per_bit, "J/b"))))],
    [stacked(actions.map((action) => (action.throughput === "inf" ? "unlimited" : quantity(action.throughput, "/s"))))],
    [[timesCount(row, row.area, row.total_area, areaWords)]], [[timesCount(row, row.leak_power, row.total_leak_power, leakWords)]],
    [[row.source], "text"],
  ];
}

function drawComponentCosts() {
  const costs = DATA.component_costs;
  const section = byId("component-costs");
  section.hidden = !costs;
  if (!costs) return;
  section.dataset.name = "Component costs";
  const head = [["component", "text"], ["class", "text"], ["count"], ["action", "text"], ["energy"], ["per bit"], ["throughput"], ["area"], ["leakage"], ["source", "text"]];
  const body = costs.rows.map((row) => el("tr", {}, el("th", { scope: "row" }, row.name), ...costCells(row).map(([content, kind]) => el("td", { class: kind || "" }, ...content))));
  const unknown = costs.area_unknown.length ? "more than " : "";
  const total = el("tr", {}, el("th", { scope: "row", colspan: "7" }, "Total"), el("td", {}, unknown + areaWords(costs.area)), el("td", {}, leakWords(costs.leak_power)), el("td", { class: "text" }));
  byId("cost-table").replaceChildren(el("thead", {}, el("tr", {}, ...head.map(([text, kind]) => el("th", { scope: "col", class: kind || "" }, text)))),
    el("tbody", {}, ...body, total));
  byId("cost-sources").replaceChildren(...costs.sources.flatMap(([name, texts]) => [el("dt", {}, name), el("dd", {}, ...stacked(texts))]));
}
