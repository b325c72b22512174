// Where the boxes and edges of a graph go: ELK's layered layout, in rows of a given width. The page runs this, and so does
// layout.py for charts as files. Texts are measured by their length, so that both come to the same picture.

const NARROW = 560; // below this, layers go down instead of to the right
const BETWEEN_ROWS = 46;

function boxSize(box) {
  return { width: Math.round(Math.max(7.6 * box.name.length, 5.9 * box.note.length, 18) + 22), height: box.note ? 38 : 28 };
}

function elkInput(chart, down, more) {
  const side = down ? "SOUTH" : "EAST";
  const children = chart.boxes.map((box, i) => ({
    id: "b" + i, ...boxSize(box), ports: [{ id: `b${i}:out`, layoutOptions: { "elk.port.side": side } }], layoutOptions: { "elk.portConstraints": "FIXED_SIDE" },
  }));
  return {
    id: "graph",
    layoutOptions: {
      "elk.algorithm": "layered", "elk.direction": down ? "DOWN" : "RIGHT", "elk.edgeRouting": "ORTHOGONAL",
      "elk.padding": "[top=12,left=12,bottom=12,right=12]", "elk.spacing.nodeNode": "16", "elk.spacing.edgeNode": "12", "elk.spacing.edgeEdge": "8",
      "elk.layered.spacing.nodeNodeBetweenLayers": "32", "elk.layered.spacing.edgeNodeBetweenLayers": "12", "elk.layered.spacing.edgeEdgeBetweenLayers": "8",
      "elk.layered.considerModelOrder.strategy": "NODES_AND_EDGES", ...more,
    },
    children,
    edges: chart.edges.map((edge, i) => ({ id: "e" + i, sources: [`b${edge.source}:out`], targets: ["b" + edge.target] })),
  };
}

/** Pixels: boxes by their left upper corner, edges as points, and where edges of one tensor part. */
function placement(graph) {
  const points = ({ startPoint, bendPoints = [], endPoint }) => [startPoint, ...bendPoints, endPoint].map(({ x, y }) => [x, y]);
  return {
    width: graph.width, height: graph.height,
    boxes: graph.children.map(({ x, y, width, height }) => ({ x, y, width, height })),
    edges: graph.edges.map((edge) => edge.sections.flatMap(points)),
    junctions: graph.edges.flatMap((edge) => (edge.junctionPoints || []).map(({ x, y }) => [x, y])),
  };
}

/** The layout of a graph in this much room: in rows, as few as fit, if it is too long for one. */
async function arranged(elk, chart, room) {
  const down = room < NARROW;
  const line = await elk.layout(elkInput(chart, down, {}));
  if (down || line.width <= room) return placement(line);
  let rows = line;
  let aspect = (2.5 * room) / (Math.ceil(line.width / room) * (line.height + BETWEEN_ROWS));
  for (let tries = 0; rows.width > room && tries < 8; tries += 1, aspect *= 0.6) {
    rows = await elk.layout(elkInput(chart, down, { "elk.layered.wrapping.strategy": "MULTI_EDGE", "elk.aspectRatio": String(aspect), "elk.layered.wrapping.additionalEdgeSpacing": "12" }));
  }
  return placement(rows);
}
