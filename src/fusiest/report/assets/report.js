// The page: figures, charts and tree of the chosen mapping; choosing another one changes all of them.

const state = { shown: DATA.best, view: null, timed: false, tree: null, pinned: undefined, language: "pseudocode" };
const unpacked = new Map();

async function unpack(number) {
  if (!unpacked.has(number)) unpacked.set(number, JSON.parse(await inflated(DATA.views[DATA.kept.indexOf(number)])));
  return unpacked.get(number);
}

// What cards.js asks for.

function chartOf(name) {
  return DATA.charts[name] || (state.view && state.view.charts[name]);
}

function optionsFor(name) {
  return name.startsWith("front") ? { selected: state.shown } : { timed: state.timed };
}

// ---- 1. what was found

/** Objectives by name: powers of energy and latency, unit, title, short name. */
const OBJECTIVES = Object.entries(DATA.objectives).map(([name, [powers, unit, title, short]]) => ({ name, powers, unit, title, short }));
const AIM = OBJECTIVES.find(({ name }) => name === DATA.aim);
const PRODUCTS = OBJECTIVES.filter(({ powers }) => powers[0] && powers[1]);

function figure(label, value, ...notes) {
  return el("div", { class: "figurebox" }, el("div", { class: "name" }, label), el("div", { class: "value" }, value), ...notes.filter(Boolean).map((note) => el("div", { class: "muted" }, note)));
}

function drawFound() {
  const { view } = state;
  const { roofline } = DATA;
  const other = unfusedFor(state.shown);
  const speed = roofline.operations && view.latency ? quantity(roofline.operations / view.latency, "op/s") : "";
  const efficiency = roofline.operations && view.energy ? `${digits(roofline.operations / view.energy / 1e12)} TOPS/W` : "";
  const none = DATA.unfused && (DATA.unfused.missing ? "no unfused mapping exists" : "no unfused mapping needs so little");
  const against = (name, unit) => (!DATA.unfused ? "" : !other ? none : `${change(view[name], other[name])} against ${quantity(other[name], unit)} unfused`);
  byId("figures").replaceChildren(
    ...DATA.caution ? [el("p", { class: "caution" }, DATA.caution)] : [],
    figure("Energy", quantity(view.energy, "J"), against("energy", "J"), efficiency, view.leak ? `${quantity(view.leak, "J")} of it leakage` : ""),
    figure("Latency", quantity(view.latency, "s"), against("latency", "s"), [speed, roofline.seconds ? `${digits((100 * roofline.seconds) / view.latency, 4)} % of the roofline` : ""].filter(Boolean).join(", ")),
    ...PRODUCTS.map(({ name, unit, title }) => figure(title[0].toUpperCase() + title.slice(1), quantity(view[name], unit), against(name, unit))),
    !DATA.searched ? figure("Mapping", "given", "it was not searched for") : figure(DATA.optimal ? "Optimal" : "Not proven", DATA.optimal ? "proven" : DATA.gap ? `gap ≤ ${digits(Math.max(100 * DATA.gap, 1e-4), 3)} %` : "gap 0 %",
      DATA.optimal ? (sized() ? "no mapping is better at its size" : "no mapping is better") : "at most so much better is possible", `found in ${quantity(DATA.stats.wall_seconds, "s")}`),
  );
  const facts = [
    ...!DATA.searched ? [] : [["Objective", objectiveWords()], ["Shown", shownWords()], [DATA.optimal ? "Optimal among" : "Searched", DATA.domain.join("; ")]],
    ...DATA.advice.map((text) => ["Worth a try", text]),
    ...view.warnings.map((text) => ["Warning", text]),
    ["Order of Einsums", shortened(view.order).join(" → ")],
    ...unfusedWords(other),
    ["Roofline", rooflineWords()],
    ["Peak use", view.peaks.map(([name, bytes, size]) => `${name} ${bytes === null ? "unused" : quantity(bytes, "B")}${size === null ? "" : " of " + quantity(size, "B")}`).join(", ")],
  ];
  byId("facts").replaceChildren(...facts.flatMap(([name, text]) => [el("dt", {}, name), el("dd", {}, text)]));
}

/** A long list: how it begins and ends. */
function shortened(names) {
  return names.length <= 24 ? names : [...names.slice(0, 10), `${names.length - 20} more`, ...names.slice(-10)];
}

const sized = () => DATA.usage !== null;
const costs = ([energy, latency, size]) => ({ energy, latency, size, ...Object.fromEntries(PRODUCTS.map(({ name, powers }) => [name, energy ** powers[0] * latency ** powers[1]])) });

/** The unfused mapping to compare with: the best one, or the best that needs no more of the memory. */
function unfusedFor(number) {
  if (!DATA.unfused || DATA.unfused.missing) return null;
  const fitting = DATA.unfused.points.map(costs).filter((point) => !sized() || point.size <= DATA.points[number][2]);
  return fitting.length ? fitting.reduce((a, b) => (b[DATA.aim] < a[DATA.aim] ? b : a)) : null;
}

function unfusedWords(other) {
  if (!DATA.unfused) return [];
  if (DATA.unfused.missing) return [["Unfused optimum", `none: ${DATA.unfused.missing}`]];
  if (!other) return [["Unfused optimum", `none that needs so little of ${DATA.usage}`]];
  const size = sized() ? `, ${quantity(other.size, "B")} of ${DATA.usage}` : "";
  return [["Unfused optimum", `least ${AIM.title} with every intermediate in ${DATA.outermost}: ${quantity(other.energy, "J")}, ${quantity(other.latency, "s")}, ${PRODUCTS.map(({ name, unit }) => quantity(other[name], unit)).join(", ")}${size}`]];
}

function objectiveWords() {
  const cost = DATA.objective.length > 1 ? "the whole energy-latency front" : `least ${AIM.title}`;
  return sized() ? `${cost}, for every capacity of ${DATA.usage}` : cost;
}

function shownWords() {
  const count = DATA.points.length;
  const best = (state.shown === DATA.best ? `, the least ${AIM.title}` : "") + (sized() ? `, needs ${quantity(DATA.points[state.shown][2], "B")} of ${DATA.usage}` : "");
  if (count === 1) return DATA.optimal && DATA.objective.length > 1 ? "the only optimal mapping" : `the best mapping${DATA.optimal ? "" : " that was found"}`;
  return `mapping ${state.shown + 1} of ${count}${best}`;
}

function rooflineWords() {
  const { computes, bandwidth, memory_seconds: memory, convention } = DATA.roofline;
  const parts = computes.map(({ compute, operations, peak, seconds }) => `${quantity(operations, "op")} on ${compute} at a peak of ${quantity(peak, "op/s")} take ${quantity(seconds, "s")}`);
  if (bandwidth) parts.push(`reading inputs and writing outputs once at ${DATA.outermost}'s ${quantity(bandwidth, "B/s")} takes ${quantity(memory, "s")}`);
  return parts.length ? `${parts.join("; ")}. ${convention}` : "nothing limits the speed";
}

// ---- 2. the front

function frontWords() {
  const many = DATA.points.length > 1;
  const found = DATA.optimal ? "" : " that was found";
  if (!DATA.searched) return "The given mapping. fusiest map finds the best ones.";
  const click = "Click one, or choose it here, to see it everywhere in this report.";
  if (sized() && DATA.objective.length > 1) return `Each point is a mapping that no other${found} beats in energy, latency and capacity of ${DATA.usage} together. The steps are the least that each capacity allows. ${click}`;
  if (sized()) return many ? `Each point is a mapping: the least ${AIM.title}${found} with that capacity of ${DATA.usage}, and up to the next point. ${click}` : `One mapping has the least ${AIM.title} and needs the least of ${DATA.usage}.`;
  if (many) return `Each point is a mapping that no other${found} beats in both. ${click}`;
  return DATA.objective.length > 1 ? "A single mapping has both the least energy and the least latency." : `The mapping of least ${AIM.title}. The objective energy,latency gives the whole front.`;
}

/** A mapping in a line: its number, what it needs, what it costs. */
function pointWords(number) {
  const { energy, latency, size } = costs(DATA.points[number]);
  const best = number === DATA.best ? ` (best by ${AIM.short})` : "";
  return `${number + 1}: ${sized() ? quantity(size, "B") + ", " : ""}${quantity(energy, "J")}, ${quantity(latency, "s")}${best}`;
}

function drawPicker() {
  byId("h-front").textContent = sized() ? "Cost against capacity" : "Energy and latency";
  byId("front").dataset.name = sized() ? "Capacity" : "Front";
  byId("front-lead").textContent = frontWords();
  const names = Object.keys(DATA.charts).filter((name) => name.startsWith("front"));
  byId("fronts").classList.toggle("single", names.length === 1 && DATA.points.length > 1);
  for (const name of names) {
    const host = el("div", { "data-chart": name });
    byId("fronts").append(host);
    card(name, host);
  }
  if (DATA.points.length === 1) return;
  const select = el("select", { id: "chosen", onchange: (event) => choose(Number(event.target.value)) }, ...DATA.kept.map((i) => el("option", { value: i }, pointWords(i))));
  const move = (by) => choose(DATA.kept[(DATA.kept.indexOf(state.shown) + by + DATA.kept.length) % DATA.kept.length]);
  byId("picker").replaceChildren(el("label", { for: "chosen" }, "Mapping"), select,
    el("button", { type: "button", onclick: () => move(-1) }, "Previous"), el("button", { type: "button", onclick: () => move(1) }, "Next"));
}

/** A point of a long front may not have its mapping in the file: then the nearest that has. */
function nearestKept(number) {
  return DATA.kept.reduce((best, i) => (Math.abs(i - number) < Math.abs(best - number) ? i : best), DATA.kept[0]);
}

async function choose(number) {
  state.shown = nearestKept(number);
  state.view = await unpack(state.shown);
  if (byId("chosen")) byId("chosen").value = state.shown;
  saveState();
  await drawView();
}

// ---- 3. the mapping

function mark(tensor) {
  markTensor(tensor === undefined ? state.pinned : tensor);
}

function drawTensors() {
  const host = byId("tensors");
  const press = (i) => () => {
    state.pinned = state.pinned === i ? undefined : i;
    for (const node of host.querySelectorAll(".chip")) node.setAttribute("aria-pressed", String(Number(node.dataset.tensor) === state.pinned));
    mark();
  };
  const button = ([name, color], i) => el("button", {
    type: "button", class: "chip", "data-tensor": i, "aria-pressed": "false", onclick: press(i),
    onmouseenter: () => mark(i), onfocus: () => mark(i), onmouseleave: () => mark(), onblur: () => mark(),
  }, swatch(color), name);
  const roles = new Map();
  DATA.tensors.forEach((tensor, i) => roles.set(tensor[2], [...(roles.get(tensor[2]) || []), button(tensor, i)]));
  const groups = [...roles].map(([role, chips]) => el("div", { class: "chips" }, el("span", { class: "muted role" }, role), ...chips));
  if (DATA.tensors.length <= 60) return host.replaceChildren(...groups);
  host.replaceChildren(el("details", {}, el("summary", { class: "muted" }, `${DATA.tensors.length} tensors`), ...groups));
}

function drawCode() {
  byId("code").textContent = state.view[state.language];
}

function setLanguage(language) {
  state.language = language;
  for (const name of ["pseudocode", "c"]) byId("as-" + name).setAttribute("aria-pressed", String(name === language));
  drawCode();
}

async function copyCode() {
  const text = state.view[state.language];
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = el("textarea", {}, text);
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  byId("copy").textContent = "Copied";
  setTimeout(() => { byId("copy").textContent = "Copy"; }, 1500);
}

// ---- 4. fusion

function drawSets() {
  const { sets } = state.view;
  const fused = sets.filter((set) => set.name);
  const single = DATA.mapped.einsums.length === 1;
  byId("sets").hidden = single;
  byId("fusion-lead").textContent = single ? "There is one Einsum: nothing to fuse." : fused.length
    ? `${fused.length} fused set${fused.length > 1 ? "s" : ""}: Einsums that pass tensors to each other without ${DATA.outermost}. Thick edges stay on chip, dotted ones go through ${DATA.outermost}.`
    : `Nothing is fused: every intermediate goes through ${DATA.outermost}.`;
  const head = ["set", "Einsums", "kept on chip", "operations", DATA.outermost + " traffic", "op/B", "energy", "latency"];
  const body = sets.map((set) => el("tr", {},
    el("th", { scope: "row" }, el("span", { class: "key" }, swatch(set.color), set.name || "not fused")),
    el("td", { class: "text" }, set.einsums.join(", ")),
    el("td", { class: "text" }, ...(set.kept.length ? set.kept.map(([memory, tensors]) => el("span", { class: "kept" }, ...tensors.map(chip), el("span", { class: "muted" }, "in " + memory))) : ["–"])),
    ...[quantity(set.operations, "op"), quantity(set.moved / 8, "B"), set.intensity !== null ? digits(set.intensity) : set.operations ? "∞" : "–", quantity(set.energy, "J"), quantity(set.latency, "s")].map((text) => el("td", {}, text))));
  byId("sets").replaceChildren(el("thead", {}, el("tr", {}, ...head.map((text, i) => el("th", { scope: "col", class: i < 3 ? "text" : "" }, text)))), el("tbody", {}, ...body));
}

// ---- 5 to 7

function largest(chart) {
  const all = totals(chart);
  const i = all.indexOf(Math.max(...all));
  return [i, all[i] / sum(all)];
}

function drawCostsLead() {
  const { charts } = state.view;
  const words = ["Nothing takes energy.", "Nothing takes time."];
  if (charts["energy-component"]) {
    const [i, share] = largest(charts["energy-component"]);
    words[0] = `${charts["energy-component"].categories[i]} takes ${digits(100 * share, 3)} % of the energy.`;
  }
  if (charts["latency-einsum"]) {
    const [i, share] = largest(charts["latency-einsum"]);
    words[1] = `${charts["latency-einsum"].categories[i]} takes ${digits(100 * share, 3)} % of the time, limited by ${charts["latency-einsum"].ends[i]}.`;
  }
  byId("costs-lead").textContent = words.join(" ");
}

function drawSearchLead() {
  const { stats } = DATA;
  const joined = stats.compatible && `Joining Einsum by Einsum brought together ${quantity(stats.compatible, "")} pairs of compatible groups.`;
  const fitting = !stats.compatible ? "" : stats.pairs
    ? `${quantity(stats.pairs, "")} of them fit the memories and could, by the bounds, still lead to something better; ${quantity(stats.partial, "")} partial mappings in up to ${quantity(stats.forms, "")} groups were dominated by no other.`
    : "The bounds ruled out all of them.";
  const proven = "In the end nothing was left that could beat what a first, coarse pass had found: that proves it.";
  const end = stats.evaluations !== null ? `A baseline mapper looked at them; it was charged for ${quantity(stats.evaluations, "")} evaluations.`
    : !DATA.optimal ? "The search was not finished." : stats.complete ? "" : proven;
  const joins = [joined, fitting, end].filter(Boolean).join(" ");
  const pmappings = `${quantity(stats.generated, "")} pmappings were generated and ${quantity(stats.pmappings, "")} kept: each of the rest is no better, in energy, latency and space, than another of its group.`;
  const effort = `Orders of Einsums: ${stats.orders}. ${quantity(stats.wall_seconds, "s")}, ${quantity(stats.cpu_seconds, "s")} of CPU time, ${quantity(stats.peak_rss_bytes, "B")} of memory at most.`;
  byId("search-lead").textContent = stats.generated ? `${pmappings} ${joins} ${effort}` : "Nothing is known about how this was found.";
}

function drawMemoryCards() {
  const names = Object.keys(state.view.charts).filter((name) => name.startsWith("memory-"));
  for (const name of names) {
    if (cards.has(name)) continue;
    const host = el("div", { "data-chart": name });
    byId("memories").append(host);
    card(name, host);
  }
}

// ---- all of it

async function drawView() {
  drawFound();
  state.tree = drawTree(byId("tree"), state.view.tree, mark);
  drawCode();
  drawSets();
  drawCostsLead();
  drawLayers();
  drawMemoryCards();
  await drawCharts();
  document.documentElement.dataset.shown = state.shown;
}

function setTimed(timed) {
  state.timed = timed;
  byId("timed").setAttribute("aria-pressed", String(timed));
  byId("even").setAttribute("aria-pressed", String(!timed));
  if (!state.view) return;
  saveState();
  for (const name of cards.keys()) if (name.startsWith("memory-")) drawChart(name);
}

function start() {
  startPage();
  drawPicker();
  drawComponentCosts();
  drawChanges();
  drawNav();
  drawTensors();
  drawMapped();
  drawSearchLead();
  byId("expand").onclick = () => state.tree.all(true);
  byId("collapse").onclick = () => state.tree.all(false);
  byId("as-pseudocode").onclick = () => setLanguage("pseudocode");
  byId("as-c").onclick = () => setLanguage("c");
  byId("copy").onclick = copyCode;
  byId("save-code").onclick = () => saveText(state.language === "c" ? "mapping.c" : "mapping.txt", state.view[state.language], "text/plain");
  byId("yaml").onclick = () => saveText("mapping.yaml", state.view.yaml);
  byId("even").onclick = () => setTimed(false);
  byId("timed").onclick = () => setTimed(true);
  // What is folded has no width yet: its charts are drawn when it opens.
  for (const details of document.querySelectorAll("details")) {
    details.addEventListener("toggle", () => { if (details.open) for (const host of details.querySelectorAll("[data-chart]")) drawChart(host.dataset.chart); });
  }
  window.addEventListener("hashchange", applyState);
  applyState().then(() => {
    for (const [name, { plot }] of cards) {
      if (name.startsWith("front")) plot.on("plotly_click", (event) => {
        const point = event.points.find((p) => p.customdata !== undefined);
        if (point) choose(point.customdata);
      });
    }
    document.documentElement.dataset.ready = "true";
  });
}

await loadLibrary("plotly");
start();
