// Numbers and elements. Texts from specs are only ever set as text, never as HTML.

const PREFIXES = [[1e18, "E"], [1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""], [1e-3, "m"], [1e-6, "µ"], [1e-9, "n"], [1e-12, "p"], [1e-15, "f"], [1e-18, "a"]];
const BINARY = [[2 ** 40, "Ti"], [2 ** 30, "Gi"], [2 ** 20, "Mi"], [2 ** 10, "Ki"], [1, ""]];

function digits(value, count = 4) {
  return String(Number(value.toPrecision(count)));
}

/** A number with its unit and a prefix: 3.19 ms, 24 KiB, 97.5 %. */
function quantity(value, unit) {
  if (value === null || value === undefined) return "–";
  if (unit === "") return Math.abs(value) < 1000 ? digits(value) : Math.round(value).toLocaleString("en-US");
  if (unit === "%") return digits(value, 3) + " %";
  if (value === 0) return "0 " + unit;
  if (unit === "B" && Math.abs(value) < 1024 && value % 1) return digits(8 * value, 6) + " bits";
  if (unit === "op/B" && value < 1e6) return value.toLocaleString("en-US", { maximumSignificantDigits: 4 }) + " " + unit;
  const table = unit === "B" ? BINARY : PREFIXES;
  const [factor, prefix] = table.find(([f]) => Math.abs(value) >= f) || table[table.length - 1];
  return digits(value / factor) + " " + prefix + unit;
}

/** How one number compares with another: −32.1 %, or 2.1× where it is far off. */
function change(value, reference) {
  if (!reference) return "–";
  const ratio = value / reference;
  if (ratio > 2) return digits(ratio, 3) + "×";
  const percent = (ratio - 1) * 100;
  if (Math.abs(percent) < 0.005) return "±0 %";
  return (percent < 0 ? "−" : "+") + Math.abs(percent).toFixed(Math.abs(percent) < 1 ? 2 : 1) + " %";
}

function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== null && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null));
  return node;
}

const byId = (id) => document.getElementById(id);

/** Give the browser a file to save. */
function download(name, href) {
  const link = el("a", { href, download: name });
  document.body.append(link);
  link.click();
  link.remove();
}

/** What base64 and gzip hide, as text. */
async function inflated(text) {
  if (!window.DecompressionStream) {
    document.body.prepend(el("p", { class: "message" }, "This browser is too old to unpack this page: use one from 2023 or later."));
    throw new Error("no DecompressionStream");
  }
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
}

/** Run a script of others that the page carries; it leaves its name in `window`. */
async function loadLibrary(name) {
  const code = await inflated(byId(name).textContent);
  document.head.append(el("script", {}, code));
}
