// Graphs: boxes and edges as SVG, laid out by layout.js. Texts from specs are only ever set as text.

const arrangements = new Map(); // edges, boxes and width → a layout; mappings of one workload share it
let layoutEngine = null;

function svgEl(tag, attributes = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

async function layoutOf(chart, room) {
  if (!layoutEngine) {
    await loadLibrary("elk");
    layoutEngine = new window.ELK();
  }
  const key = JSON.stringify([room, chart.boxes.map((box) => [box.name, box.note]), chart.edges.map((edge) => [edge.source, edge.target])]);
  if (!arrangements.has(key)) arrangements.set(key, await arranged(layoutEngine, chart, room));
  return arrangements.get(key);
}

/** A line through points, its corners rounded. */
function roundedPath(points) {
  const towards = ([x, y], [a, b], most) => {
    const length = Math.hypot(a - x, b - y) || 1;
    const share = Math.min(most, length / 2) / length;
    return [x + (a - x) * share, y + (b - y) * share];
  };
  const inner = points.slice(1, -1).map((point, i) => `L${towards(point, points[i], 6)} Q${point} ${towards(point, points[i + 2], 6)}`);
  return `M${points[0]} ${inner.join(" ")} L${points[points.length - 1]}`;
}

function arrowHead([[x0, y0], [x1, y1]], color) {
  const angle = (Math.atan2(y1 - y0, x1 - x0) * 180) / Math.PI;
  return svgEl("path", { d: "M0 0 L-9 4 L-9 -4 Z", fill: color, transform: `translate(${x1} ${y1}) rotate(${angle})` });
}

function drawnEdge(edge, points) {
  const color = edge.color === "other" ? themeColor("muted") : paint(edge.color).color;
  const line = { d: roundedPath(points), fill: "none", stroke: color, "stroke-width": edge.strong ? 3 : 1.3, ...(edge.strong ? {} : { "stroke-dasharray": "2 3" }) };
  return svgEl("g", { class: "edge" }, svgEl("title", {}, edge.hover), svgEl("path", line), arrowHead(points.slice(-2), color));
}

function drawnBox(box, { x, y, width, height }) {
  const color = box.color === "other" ? themeColor("line") : paint(box.color).color;
  const fill = box.color === "other" ? themeColor("surface") : `rgb(${mix(rgbText(themeColor("surface")), color, 0.14).map(Math.round).join(",")})`;
  const word = (text, at, size, weight, shade) => svgEl("text", { x: x + width / 2, y: y + at, "text-anchor": "middle", "font-family": FONT, "font-size": size, "font-weight": weight, fill: themeColor(shade) }, text);
  const parts = [svgEl("title", {}, box.hover), svgEl("rect", { x, y, width, height, rx: 6, fill, stroke: color, "stroke-width": box.color === "other" ? 1.5 : 2 }), word(box.name, box.note ? 16 : 18, 12, 600, "text")];
  if (box.note) parts.push(word(box.note, 30, 10, 400, "muted"));
  if (box.tag) {
    const tagWidth = 9 + 6 * box.tag.length;
    parts.push(svgEl("rect", { x: x - 6, y: y - 7, width: tagWidth, height: 15, rx: 4, fill: color }),
      svgEl("text", { x: x - 6 + tagWidth / 2, y: y + 4, "text-anchor": "middle", "font-family": FONT, "font-size": 10, "font-weight": 700, fill: ink(channels(color)) }, box.tag));
  }
  return svgEl("g", { class: "box" }, ...parts);
}

const rgbText = (color) => (color.length === 4 ? "#" + [...color.slice(1)].map((c) => c + c).join("") : color);

/** The drawing, in the colours of the theme of now. */
function graphDrawing(chart, layout) {
  const { width, height } = layout;
  const svg = svgEl("svg", { viewBox: `0 0 ${width} ${height}`, width, height });
  const order = chart.edges.map((edge, i) => i).sort((a, b) => chart.edges[a].strong - chart.edges[b].strong);
  svg.append(...order.map((i) => drawnEdge(chart.edges[i], layout.edges[i])), ...chart.boxes.map((box, i) => drawnBox(box, layout.boxes[i])));
  return svg;
}

/** A graph with its title and legend, as it is saved. */
function graphPicture(chart, layout, ground) {
  const { width, height } = layout;
  const legend = legendOf(chart);
  const total = height + 40 + 18 * legend.length;
  const text = (content, x, y, size, weight) => svgEl("text", { x, y, "font-family": FONT, "font-size": size, "font-weight": weight, fill: themeColor("text") }, content);
  const keys = legend.flatMap(([color, name, shape], i) => {
    const y = height + 44 + 18 * i;
    const stroke = color ? paint(color).color : themeColor("muted");
    const line = { x1: 12, x2: 30, y1: y - 4, y2: y - 4, stroke, "stroke-width": shape === "line" ? 3 : 1.3, ...(shape === "line" ? {} : { "stroke-dasharray": "2 3" }) };
    return [shape ? svgEl("line", line) : svgEl("rect", { x: 15, y: y - 10, width: 12, height: 12, rx: 3, fill: stroke }), text(name, 38, y, 11, 400)];
  });
  const drawing = graphDrawing(chart, layout);
  drawing.setAttribute("y", 26);
  return svgEl("svg", { width, height: total, viewBox: `0 0 ${width} ${total}` }, svgEl("rect", { width, height: total, fill: ground }), text(chart.title, 12, 18, 14, 600), drawing, ...keys);
}

/** A drawing as the address of a file's content. */
async function pictureAddress(svg, format) {
  const address = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(new XMLSerializer().serializeToString(svg));
  if (format === "svg") return address;
  const [width, height] = ["width", "height"].map((name) => 3 * Number(svg.getAttribute(name)));
  const image = new Image();
  image.src = address;
  await image.decode();
  const canvas = el("canvas", { width, height });
  canvas.getContext("2d").drawImage(image, 0, 0, width, height);
  return canvas.toDataURL("image/png");
}
