// What changes of the architecture do (`--advise`): what binds, each change alone, and what each fused set saved.

const shares = (byName) => Object.entries(byName).sort((a, b) => b[1] - a[1]).map(([name, share]) => `${name} ${percent(share)}`).join(", ") || "none";
const percent = (share) => `${(100 * share).toFixed(1)} %`;

/** A table whose first column is text. */
function plainTable(id, head, rows) {
  const cell = (tag, text, i) => el(tag, { class: i === 0 ? "text" : "", ...(tag === "th" ? { scope: i === 0 ? "row" : "col" } : {}) }, text);
  byId(id).hidden = !rows.length;
  byId(id).replaceChildren(el("thead", {}, el("tr", {}, ...head.map((text, i) => el("th", { scope: "col", class: i === 0 ? "text" : "" }, text)))),
    el("tbody", {}, ...rows.map((row) => el("tr", {}, ...row.map((text, i) => cell(i === 0 ? "th" : "td", text, i))))));
}

function drawChanges() {
  const changes = DATA.changes;
  byId("changes").hidden = !changes;
  if (!changes) return;
  byId("changes").dataset.name = "Changes";
  const facts = [["Full memories", shares(changes.full)], ["Limiting, of the latency", shares(changes.limiting)], ["Idle: busy for", shares(changes.idle)]];
  byId("changes-facts").replaceChildren(...facts.flatMap(([name, text]) => [el("dt", {}, name), el("dd", {}, text)]));
  for (const name of Object.keys(DATA.charts).filter((name) => name.startsWith("waterfall")).sort()) {
    const host = el("div", { "data-chart": name });
    byId("waterfalls").append(host);
    card(name, host);
  }
  const ratio = (value) => (value === null ? "–" : digits(value));
  const aim = DATA.objectives[changes.aim][3];
  plainTable("changes-table", ["change", aim, "energy", "latency", ""],
    changes.changes.map(([name, factor, score, energy, latency, how]) => [`${name} × ${factor}`, ratio(score), ratio(energy), ratio(latency), how]));
  const signed = (value, unit, i) => (i && value ? (value < 0 ? "−" : "+") : "") + quantity(Math.abs(value), unit);
  plainTable("changes-steps", ["fused set", "energy", "latency"],
    [...changes.steps, ...changes.steps.length ? [["this mapping", sum(changes.steps.map((step) => step[1])), sum(changes.steps.map((step) => step[2]))]] : []]
      .map(([name, energy, latency], i) => [name, signed(energy, "J", i % changes.steps.length), signed(latency, "s", i % changes.steps.length)]));
}
