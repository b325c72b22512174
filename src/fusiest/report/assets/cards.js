// What every page has: its data, a card per chart with legend, numbers and buttons to save it, the theme, printing.
// A page says which charts there are: chartOf(name), and how each is drawn: optionsFor(name).

const DATA = JSON.parse(byId("data").textContent);
const cards = new Map(); // chart name → its card in the page
const THEMES = ["auto", "light", "dark"];

function card(name, host) {
  const plot = el("div", { class: "plot", role: "img" });
  const title = el("h3");
  const legend = el("div", { class: "legend" });
  const numbers = el("details", { class: "numbers" }, el("summary", {}, "Numbers"), el("div", { class: "wide" }));
  const save = (format) => el("button", { type: "button", onclick: () => saveChart(name, format) }, format.toUpperCase());
  const buttons = el("span", { class: "save" }, save("svg"), save("png"));
  host.classList.add("card");
  host.replaceChildren(el("div", { class: "bar" }, title, buttons), legend, plot, numbers);
  cards.set(name, { host, plot, title, legend, numbers, buttons });
}

/** Draw a chart anew. What is laid out first is there once the promise is kept. */
async function drawChart(name) {
  const chart = chartOf(name);
  const { host, plot, title, legend, numbers, buttons } = cards.get(name);
  host.hidden = !chart;
  if (!chart) return;
  title.textContent = chart.title;
  plot.setAttribute("aria-label", chart.title + "; the numbers are in the table below");
  for (const button of buttons.children) button.setAttribute("aria-label", `Save ${chart.title} as ${button.textContent}`);
  legend.replaceChildren(...legendOf(chart).map(([color, text, shape]) => el("span", { class: "key" }, swatch(color, shape), text)));
  numbers.lastChild.replaceChildren(numbersOf(chart));
  const room = Math.max(plot.clientWidth, 240);
  if (chart.kind === "graph") {
    const layout = await layoutOf(chart, room);
    return plot.replaceChildren(graphDrawing(chart, layout));
  }
  const { data, layout } = describe(chart, room, optionsFor(name));
  return Plotly.react(plot, data, layout, { displayModeBar: false, responsive: false });
}

function drawCharts() {
  return Promise.all([...cards.keys()].map(drawChart));
}

/** Charts are saved in the colours of paper, whatever the theme. */
async function saveChart(name, format) {
  const width = 900;
  const root = document.documentElement;
  const arrangement = chartOf(name).kind === "graph" ? await layoutOf(chartOf(name), width) : null;
  root.classList.add("printing");
  if (arrangement) {
    const picture = graphPicture(chartOf(name), arrangement, format === "png" ? themeColor("surface") : "none");
    root.classList.remove("printing");
    return download(`${name}.${format}`, await pictureAddress(picture, format));
  }
  const { data, layout } = describe(chartOf(name), width, optionsFor(name));
  const paper = format === "png" ? themeColor("surface") : layout.paper_bgcolor;
  root.classList.remove("printing");
  const named = { ...layout, paper_bgcolor: paper, showlegend: data.length > 1, margin: { l: 60, r: 20, t: 60, b: 50 } };
  const href = await Plotly.toImage({ data, layout: named }, { format, width, height: layout.height + 80, scale: format === "png" ? 3 : 1 });
  download(`${name}.${format}`, href);
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  byId("theme").textContent = "Theme: " + theme;
  if (document.documentElement.dataset.ready) drawCharts();
}

/** Paper is white and narrow: charts are drawn again for it. */
function printing(on) {
  document.documentElement.classList.toggle("printing", on);
  drawCharts();
}

function startPage() {
  byId("title").textContent = DATA.title;
  byId("note").textContent = DATA.note;
  byId("footer").textContent = `This page was made by fusiest ${DATA.version} with ${DATA.tools.join(", ")}. Charts by Plotly.js (MIT licence)${byId("elk") ? ", graph laid out by elkjs (EPL-2.0)" : ""}.`;
  for (const host of document.querySelectorAll("[data-chart]")) card(host.dataset.chart, host);
  setTheme("auto");
  byId("theme").onclick = () => setTheme(THEMES[(THEMES.indexOf(document.documentElement.dataset.theme) + 1) % THEMES.length]);
  byId("print").onclick = () => window.print();
  window.addEventListener("beforeprint", () => printing(true));
  window.addEventListener("afterprint", () => printing(false));
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawCharts());
  let width = window.innerWidth;
  window.addEventListener("resize", () => {
    if (window.innerWidth !== width) { width = window.innerWidth; drawCharts(); }
  });
}
