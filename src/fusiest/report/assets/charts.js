// Charts: plain descriptions (see chart.py) turned into Plotly's traces and layouts.

const ROW = 26; // pixels per horizontal bar
const THIN_ROW = 17; // where there are many
const MANY = 24;
const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif";

/** Plotly reads some HTML in texts; a name must stay a name. */
const plain = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

function themeColor(name) {
  return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
}

/** The colour and hatching of `weight:9` or `found`. */
function paint(name) {
  const [palette, number] = name.split(":");
  if (number === undefined) {
    const [color, hatch] = DATA.palette.plain[palette];
    return { color, hatch };
  }
  const colors = DATA.palette[palette];
  const { hatches } = DATA.palette;
  const color = colors[number % colors.length];
  return { color: palette === "component" && onDark() ? lighter(color) : color, hatch: hatches[Math.floor(number / colors.length) % hatches.length] };
}

/** The darkest components would not be seen on a dark page. */
const onDark = () => ink(channels(themeColor("surface"))) === "#ffffff";
const lighter = (color) => "#" + mix(color, "#ffffff", 0.3).map((value) => Math.round(value).toString(16).padStart(2, "0")).join("");

function marker(name) {
  const { color, hatch } = paint(name);
  const pattern = hatch ? { shape: hatch, size: 6, solidity: 0.35, fgcolor: themeColor("surface"), bgcolor: color, fillmode: "replace" } : undefined;
  return { color, pattern, line: { width: 1, color: themeColor("surface") } };
}

/** A small square in a series' colour, for legends in the page; without a name, a dashed line; for null, nothing. */
function swatch(name, shape = "") {
  if (name === null) return "";
  if (!name) return el("span", { class: `swatch ${shape || "dash"} plain`, "aria-hidden": "true" });
  const { color, hatch } = paint(name);
  const kinds = { "": "", "/": "slash", x: "crossed", ".": "dots" };
  const node = el("span", { class: `swatch ${kinds[hatch]} ${shape}`, "aria-hidden": "true" });
  node.style.setProperty("--color", color);
  return node;
}

/** An axis; of one that lies flat, `room` is its length in pixels. */
function axis(unit, title, range, log = false, room = Infinity) {
  const common = {
    title: { text: plain(title), standoff: 8, font: { size: 12 } }, gridcolor: themeColor("grid"), zeroline: !log,
    zerolinecolor: themeColor("line"), linecolor: themeColor("line"), tickcolor: themeColor("line"), automargin: true, fixedrange: true,
  };
  if (log) return { ...common, type: "log", range, ...thinned(logTicks(range, unit), range, Math.log10, room) };
  return { ...common, range, ...thinned(ticks(range, unit), range, (value) => value, room) };
}

const LETTER = 6.8; // pixels of a letter of 12 pixels, on average

/** As many of the ticks, evenly spread, as have room for their texts beside each other. */
function thinned({ tickvals, ticktext }, [low, high], place, room) {
  const half = (i) => (ticktext[i].length * LETTER + 10) / 2;
  const at = (i) => ((place(tickvals[i]) - low) / (high - low)) * room;
  for (let every = 1; ; every += 1) {
    const kept = tickvals.map((_, i) => i).filter((i) => i % every === 0);
    if (room === Infinity || kept.every((i, k) => k === 0 || at(i) - at(kept[k - 1]) >= half(i) + half(kept[k - 1]))) {
      return { tickvals: kept.map((i) => tickvals[i]), ticktext: kept.map((i) => ticktext[i]) };
    }
  }
}

/** The least round number (1, 2 or 5 times a power of ten) that is not below this one. */
function roundUp(value) {
  const size = 10 ** Math.floor(Math.log10(value));
  return size * [1, 2, 5, 10].find((factor) => factor * size >= value * (1 - 1e-9));
}

/** Round numbers in a range, with their units: powers of two for bytes. */
function ticks([low, high], unit) {
  const rough = (high - low) / 5;
  const step = unit === "B" ? 2 ** Math.ceil(Math.log2(rough)) : unit === "%" ? 25 : roundUp(rough);
  const tickvals = [];
  for (let k = Math.ceil(low / step); k * step <= high; k += 1) tickvals.push(k * step);
  return { tickvals, ticktext: tickvals.map((value) => quantity(value, unit)) };
}

/** Round numbers between powers of ten `low` and `high`: powers of ten, with their halves and fifths where there is room, or
 * evenly spaced numbers where the range is too small for these. Never more than eight, never less than two. */
function logTicks([low, high], unit) {
  const span = high - low;
  if (unit === "B") return binaryTicks(Math.ceil(low * Math.log2(10)), Math.floor(high * Math.log2(10)));
  if (span < 1) return ticks([10 ** low, 10 ** high], unit);
  const step = Math.ceil(span / 7);
  const factors = span < 2.5 ? [1, 2, 5] : [1];
  const tickvals = [];
  for (let k = Math.ceil(low - 1); k <= high; k += 1) {
    if (k % step === 0) tickvals.push(...factors.map((factor) => factor * 10 ** k).filter((value) => Math.log10(value) >= low && Math.log10(value) <= high));
  }
  return { tickvals, ticktext: tickvals.map((value) => quantity(value, unit)) };
}

/** Powers of two, at most eight. */
function binaryTicks(first, last) {
  const step = Math.ceil((last - first + 1) / 8);
  const tickvals = [];
  for (let k = first; k <= last; k += 1) if (k % step === 0) tickvals.push(2 ** k);
  return { tickvals, ticktext: tickvals.map((value) => quantity(value, "B")) };
}

function baseLayout(chart, width) {
  return {
    width, showlegend: false, dragmode: false, hovermode: "closest",
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: FONT, size: 12, color: themeColor("text") },
    margin: { l: 8, r: 12, t: 6, b: 8 },
    hoverlabel: { bgcolor: themeColor("raised"), bordercolor: themeColor("line"), font: { color: themeColor("text"), family: FONT }, align: "left", namelength: -1 },
    legend: { orientation: "h", yanchor: "bottom", y: 1.02, x: 0, traceorder: "normal" },
  };
}

const sum = (values) => values.reduce((total, value) => total + (value || 0), 0);
const totals = (chart) => chart.categories.map((_, i) => sum(chart.series.map((s) => s.values[i])));

function bars(chart, width, options) {
  return chart.vertical ? columns(chart, width, options) : rows(chart, width);
}

function hover(chart, series, i, total) {
  const share = chart.stacked && !chart.starts.length && chart.series.length > 1 ? total : 0;
  const value = series.values[i];
  const part = share && value ? ` (${digits((100 * value) / share, 3)} %)` : "";
  const end = chart.ends[i] ? `<br>${plain(chart.ends[i])}` : "";
  return `<b>${plain(chart.categories[i])}</b><br>${plain(series.name)}: ${quantity(value, chart.unit)}${part}${end}`;
}

/** From the least to the most that bars show, with room for the texts at their ends. */
function barRange(chart) {
  const values = (chart.starts.length ? totals(chart).map((value, i) => Math.max(value, 0) + chart.starts[i]) : chart.stacked ? totals(chart) : chart.series.flatMap((s) => s.values)).filter((v) => v > 0).concat(chart.level || []);
  const named = chart.ends.some(Boolean);
  if (chart.unit === "%") return [0, 104];
  if (!chart.log) return [0, Math.max(...values, 0) * (named || chart.starts.length ? 1.45 : chart.stacked ? 1.22 : 1.05) || 1];
  const low = Math.floor(Math.log10(Math.min(...values, 1)));
  const high = Math.log10(Math.max(...values, 10));
  return [low, high + (high - low) * (named ? 0.35 : 0.06)];
}

function rows(chart, width) {
  const count = chart.categories.length;
  const place = chart.categories.map((_, i) => i);
  const falls = chart.starts.length > 0;
  const all = totals(chart);
  const reached = all.map((value, i) => value + (falls ? chart.starts[i] : 0));
  const data = chart.series.map((series) => ({
    type: "bar", orientation: "h", name: plain(series.name), y: place, x: series.values, marker: marker(series.color), ...(falls ? { base: chart.starts } : {}),
    hoverinfo: "text", hovertext: place.map((i) => hover(chart, series, i, all[i])),
  }));
  const layout = {
    ...baseLayout(chart, width),
    height: 76 + (count > MANY ? THIN_ROW : ROW) * Math.max(count, 2) * (chart.stacked ? 1 : 1.25),
    barmode: chart.stacked ? "stack" : "group", bargap: 0.28, bargroupgap: 0.08,
    xaxis: axis(chart.unit, chart.axis, barRange(chart), chart.log),
    yaxis: { tickvals: place, ticktext: chart.categories.map(plain), range: [count - 0.45, -0.55], automargin: true, fixedrange: true, showgrid: false, zeroline: false, ticks: "" },
    annotations: [], shapes: [],
  };
  place.forEach((i) => {
    const text = chart.stacked ? quantity(all[i], chart.unit).replace("-", "−") + (chart.ends[i] ? " · " + plain(chart.ends[i]) : "") : plain(chart.ends[i] || "");
    const tip = falls ? Math.max(chart.starts[i], reached[i]) : chart.stacked ? all[i] : Math.max(...chart.series.map((s) => s.values[i] || 0));
    if (!text) return;
    const x = chart.log ? (tip > 0 ? Math.log10(tip) : null) : tip;
    const at = x === null ? { xref: "paper", x: 0 } : { x };
    layout.annotations.push({ ...at, y: i, text, showarrow: false, xanchor: "left", xshift: 4, font: { size: 11, color: themeColor("muted") } });
  });
  if (falls) { // each bar begins where the one before ends
    reached.slice(0, -1).forEach((x, i) => layout.shapes.push({ type: "line", x0: x, x1: x, y0: i - 0.36, y1: i + 1.36, line: { color: themeColor("muted"), width: 1 } }));
  }
  if (chart.level) {
    layout.shapes.push({ type: "line", x0: chart.level, x1: chart.level, yref: "paper", y0: 0, y1: 1, line: { color: themeColor("text"), width: 1.5, dash: "dash" } });
  }
  return { data, layout };
}

/** Names under columns lie flat where they have room. */
function slant(names, width) {
  const room = (width - 120) / names.length;
  return names.every((name) => name.length * 7 + 6 < room) ? 0 : -45;
}

function columns(chart, width, options) {
  const count = chart.categories.length;
  const timed = options.timed && sum(chart.widths) > 0;
  const widths = timed ? chart.widths : chart.categories.map(() => 1);
  const edges = [0];
  widths.forEach((w) => edges.push(edges[edges.length - 1] + w));
  const middle = widths.map((w, i) => edges[i] + w / 2);
  const all = totals(chart);
  const data = chart.series.map((series) => ({
    type: "bar", name: plain(series.name), x: middle, y: series.values, width: widths, marker: marker(series.color),
    hoverinfo: "text", hovertext: middle.map((_, i) => hover(chart, series, i, all[i])),
  }));
  const limits = chart.limit.filter((v) => v !== null);
  if (limits.length) {
    const xs = [], ys = [];
    chart.limit.forEach((value, i) => { xs.push(edges[i], edges[i + 1]); ys.push(value, value); });
    data.push({
      type: "scatter", mode: "lines", name: plain(chart.limit_name), x: xs, y: ys, line: { color: themeColor("text"), width: 2, dash: "dash" },
      hoverinfo: "text", hovertext: ys.map((v) => `size: ${quantity(v, chart.unit)}`),
    });
  }
  const most = Math.max(...all, ...limits, 0);
  const room = edges[count] * (14 / (width - 80)); // what a slanted name takes
  let next = 0;
  const labels = chart.categories.map((name, i) => {
    if (edges[i] < next || widths[i] === 0) return "";
    next = edges[i] + room;
    return plain(name);
  });
  const layout = {
    ...baseLayout(chart, width), height: 260, barmode: "stack", bargap: 0,
    xaxis: { tickvals: middle, ticktext: labels, range: [0, edges[count]], tickangle: slant(labels, width), automargin: true, fixedrange: true, showgrid: false, zeroline: false, linecolor: themeColor("line"), ticks: "" },
    yaxis: axis(chart.unit, chart.axis, [0, most * 1.06 || 1]),
  };
  if (timed) layout.xaxis.title = { text: `time, ${quantity(edges[count], "s")} in all`, font: { size: 12 }, standoff: 8 };
  return { data, layout };
}

const SYMBOLS = { circle: "circle", square: "square", triangle: "triangle-up", cross: "x", diamond: "diamond-open", right: "triangle-right", small: "circle" };
const SIZES = { diamond: 13, small: 6 };

/** What stands for zero on a logarithmic axis is zero. */
const xWords = (chart, value) => quantity(value === chart.zero_x ? 0 : value, chart.x_unit);

function pointTexts(chart, cloud, i) {
  const product = chart.x_unit === "s" && chart.y_unit === "J" ? `<br>EDP ${quantity(cloud.xs[i] * cloud.ys[i], "Js")}` : "";
  const x = cloud.marker === "right" ? "" : `<br>${plain(chart.x_axis)} ${xWords(chart, cloud.xs[i])}`;
  return `<b>${plain(cloud.labels[i])}</b><br>${plain(chart.y_axis)} ${quantity(cloud.ys[i], chart.y_unit)}${x}${product}`;
}

/** From the least to the most, with some room; logarithms where the axis is logarithmic. */
function padded(values, log) {
  const shown = log ? values.map(Math.log10) : values;
  const low = Math.min(...shown), high = Math.max(...shown);
  const room = high > low ? (high - low) * 0.08 : log ? 0.5 : Math.abs(high) * 0.1 || 1;
  return high === 0 && !log ? [-room / 10, room] : [low - room, high + room];
}

const ANCHORS = { "-1": "right", 0: "center", 1: "left" };

/** A text beside a point. */
function noted(note, chart) {
  return {
    x: chart.log_x ? Math.log10(note.x) : note.x, y: chart.log_y ? Math.log10(note.y) : note.y, text: plain(note.text), showarrow: false,
    xanchor: ANCHORS[note.right], xshift: 7 * note.right, yanchor: { "-1": "top", 0: "middle", 1: "bottom" }[note.up], yshift: 5 * note.up,
    font: { size: 11, color: themeColor("text") }, borderpad: 0,
  };
}

/** The notes that have room where they are, in a plane of so many pixels: none covers one before it. */
function withRoom(chart, layout, wide, high) {
  const boxes = [];
  const pixel = (axis, value, log, length) => (((log ? Math.log10(value) : value) - axis.range[0]) / (axis.range[1] - axis.range[0])) * length;
  return chart.notes.filter((note) => {
    const half = (note.text.length * LETTER) / 2;
    const x = pixel(layout.xaxis, note.x, chart.log_x, wide) + note.right * (half + 7);
    const y = pixel(layout.yaxis, note.y, chart.log_y, high) + note.up * 12;
    const free = boxes.every((box) => Math.abs(box.x - x) >= box.half + half || Math.abs(box.y - y) >= 14);
    if (free) boxes.push({ x, y, half });
    return free;
  });
}

/** A plain line is drawn in the page's own grey. */
const lineColor = (name) => (name === "other" ? themeColor("muted") : paint(name).color);

function points(chart, width, options) {
  const lines = chart.lines.map((line) => ({
    type: "scatter", mode: "lines", name: plain(line.name), x: line.xs, y: line.ys, line: { width: 2, dash: line.dashed ? "dash" : "solid", color: lineColor(line.color) }, hoverinfo: "name",
  }));
  const clouds = chart.clouds.map((cloud, number) => {
    const order = cloud.xs.map((_, i) => i).sort((a, b) => cloud.xs[a] - cloud.xs[b]);
    const { color } = paint(cloud.color);
    return {
      type: "scatter", mode: cloud.steps && order.length > 1 ? "lines+markers" : "markers", name: plain(cloud.name), meta: number, customdata: order.map((i) => cloud.numbers[i]),
      x: order.map((i) => cloud.xs[i]), y: order.map((i) => cloud.ys[i]), line: { shape: "hv", width: 1.5, color },
      marker: { size: SIZES[cloud.marker] || 10, symbol: SYMBOLS[cloud.marker], color, line: { width: cloud.marker === "diamond" ? 2 : 1, color: cloud.marker === "diamond" ? color : themeColor("surface") } },
      hoverinfo: "text", hovertext: order.map((i) => pointTexts(chart, cloud, i)),
    };
  });
  const below = (trace) => chart.clouds[trace.meta].marker === "diamond"; // so that what was found is never hidden
  const data = [...lines, ...clouds.filter(below), ...clouds.filter((trace) => !below(trace))];
  if (options.selected !== undefined) {
    const selected = chart.clouds.find((cloud) => cloud.numbers.includes(options.selected));
    const at = selected.numbers.indexOf(options.selected);
    data.push({
      type: "scatter", mode: "markers", name: "shown", x: [selected.xs[at]], y: [selected.ys[at]],
      marker: { size: 20, symbol: "circle-open", color: themeColor("text"), line: { width: 2.5 } }, hoverinfo: "skip",
    });
  }
  const range = (key, log) => padded([...chart.clouds, ...chart.lines].flatMap((part) => part[key]), log);
  const layout = {
    ...baseLayout(chart, width), height: chart.lines.length ? 330 : sum(chart.clouds.map((cloud) => cloud.xs.length)) > 3 ? 380 : 260,
    xaxis: { ...axis(chart.x_unit, chart.x_axis, range("xs", chart.log_x), chart.log_x, width - 110), zeroline: false },
    yaxis: { ...axis(chart.y_unit, chart.y_axis, range("ys", chart.log_y), chart.log_y), zeroline: false },
  };
  layout.annotations = withRoom(chart, layout, width - 110, layout.height - 70).map((note) => noted(note, chart));
  if (chart.zero_x !== null) {
    const tickvals = [chart.zero_x, ...layout.xaxis.tickvals.filter((value) => value > chart.zero_x * 1.5)];
    Object.assign(layout.xaxis, { tickvals, ticktext: tickvals.map((value) => xWords(chart, value)) });
  }
  return { data, layout };
}

const channels = (color) => color.match(/\w\w/g).map((pair) => parseInt(pair, 16));

function mix(low, high, share) {
  const [a, b] = [channels(low), channels(high)];
  return a.map((value, i) => value + (b[i] - value) * share);
}

/** Black or white, whichever is read more easily on this colour (relative luminance as in WCAG). */
function ink(rgb) {
  const [r, g, b] = rgb.map((value) => (value <= 10.3 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? "#000000" : "#ffffff";
}

/** A table of shares. Where its columns have no room for numbers, it lies on its side: a line for each. */
function heat(chart, width) {
  const flip = chart.columns.length > width / 32;
  const [across, down] = flip ? [chart.rows, chart.columns] : [chart.columns, chart.rows];
  const value = (r, c) => (flip ? chart.values[c][r] : chart.values[r][c]);
  const cells = (make) => down.map((_, r) => across.map((_, c) => make(value(r, c), r, c)));
  const said = (share, r, c) => `<b>${plain(flip ? down[r] : across[c])}</b><br>${plain(flip ? across[c] : down[r])} busy ${share === null ? "–" : quantity(100 * share, "%")}`;
  const data = [{
    type: "heatmap", z: cells((share) => share), x: across.map((_, i) => i), y: down.map((_, i) => i), zmin: 0, zmax: 1, xgap: 2, ygap: down.length > MANY ? 1 : 2, showscale: false,
    colorscale: [[0, themeColor("heat-low")], [1, themeColor("heat-high")]], hoverinfo: "text", hoverongaps: false, hovertext: cells(said),
  }];
  const annotations = [];
  cells((share, r, c) => {
    const text = share === null ? "" : share && share < 0.005 ? "<1" : String(Math.round(100 * share));
    annotations.push({ x: c, y: r, text: plain(text), showarrow: false, font: { size: 11, color: ink(mix(themeColor("heat-low"), themeColor("heat-high"), share)) } });
  });
  const layout = {
    ...baseLayout(chart, width), height: 110 + (down.length > MANY ? THIN_ROW : 30) * down.length, annotations,
    xaxis: { tickvals: across.map((_, i) => i), ticktext: across.map(plain), tickangle: slant(across, width), automargin: true, fixedrange: true, showgrid: false, zeroline: false, ticks: "" },
    yaxis: { tickvals: down.map((_, i) => i), ticktext: down.map(plain), autorange: "reversed", automargin: true, fixedrange: true, showgrid: false, zeroline: false, ticks: "" },
  };
  return { data, layout };
}

const KINDS = { bars, points, heat };

function describe(chart, width, options = {}) {
  return KINDS[chart.kind](chart, width, options);
}

/** What a chart's colours mean: colour, name and, of points, their shape. */
function legendOf(chart) {
  if (chart.kind === "graph") return chart.legend;
  if (chart.kind === "points") return [...chart.clouds.map((cloud) => [cloud.color, cloud.name, cloud.marker]), ...chart.lines.filter((line) => line.listed).map((line) => [line.color, line.name, line.dashed ? "dash" : "line"])];
  if (chart.kind === "heat") return [];
  const pairs = chart.series.map((s) => [s.color, s.name]);
  if (pairs.length > MANY) pairs.splice(MANY - 1, pairs.length, [null, `and ${pairs.length - MANY + 1} more`]);
  if (chart.level) pairs.push(["", `${chart.level_name} (${quantity(chart.level, chart.unit)})`]);
  if (chart.limit_name) pairs.push([chart.limit.length ? "" : null, chart.limit_name]);
  return pairs;
}

/** The chart's numbers as a table, for those who cannot or would not hover. */
function numbersOf(chart) {
  if (chart.kind === "bars") return table(["", ...chart.series.map((s) => s.name)], chart.categories.map((name, i) => [name, ...chart.series.map((s) => quantity(s.values[i], chart.unit))]));
  if (chart.kind === "heat") return table(["", ...chart.columns], chart.rows.map((name, r) => [name, ...chart.values[r].map((v) => (v === null ? "–" : quantity(100 * v, "%")))]));
  if (chart.kind === "points") return table(["", chart.y_axis, chart.x_axis], chart.clouds.flatMap((cloud) => cloud.labels.map((label, i) => [label, quantity(cloud.ys[i], chart.y_unit), cloud.marker === "right" ? "–" : xWords(chart, cloud.xs[i])])));
  return table(["tensor", "where"], chart.edges.map((edge) => [edge.name, edge.hover]));
}

function table(head, body) {
  return el("table", {}, el("thead", {}, el("tr", {}, ...head.map((text) => el("th", { scope: "col" }, text)))),
    el("tbody", {}, ...body.map((row) => el("tr", {}, ...row.map((text, i) => el(i ? "td" : "th", i ? {} : { scope: "row" }, text))))));
}
