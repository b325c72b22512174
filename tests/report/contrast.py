"""Contrasts of a page's texts with what is under them, and scripts that gather both in a browser."""

from __future__ import annotations

READABLE = 4.5
"""The contrast that WCAG asks for at level AA."""


def luminance(color: str) -> float:
    parts = [float(x) / 255 for x in color[color.index("(") + 1 : -1].split(",")[:3]]
    linear = [x / 12.92 if x <= 0.03928 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


TEXTS = """() => {
    const found = new Set();
    const under = (node) => {
        for (let n = node; n; n = n.parentElement) {
            const color = getComputedStyle(n).backgroundColor;
            if (color !== "rgba(0, 0, 0, 0)") return color;
        }
        return "rgb(255, 255, 255)";
    };
    for (const node of document.querySelectorAll("body *")) {
        const own = [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim());
        if (!own || !node.getClientRects().length || node.closest("script, style, [data-chart=busy] .infolayer")) continue;
        const style = getComputedStyle(node);
        const color = node.namespaceURI.endsWith("svg") ? style.fill : style.color;
        found.add(JSON.stringify([color, under(node), node.tagName + "." + node.getAttribute("class")]));
    }
    return [...found];
}"""

HEAT = """() => {
    const cells = [];
    const plot = document.querySelector("[data-chart=busy] .plot");
    const [low, high] = plot.data[0].colorscale.map(([, color]) => color.match(/\\w\\w/g).map((x) => parseInt(x, 16)));
    for (const note of plot.layout.annotations) {
        const value = plot.data[0].z[note.y][note.x];
        if (value === null || !note.text) continue;
        const mixed = low.map((a, i) => a + (high[i] - a) * value);
        const own = note.font.color.match(/\\w\\w/g).map((x) => parseInt(x, 16));
        cells.push([`rgb(${own.join(",")})`, `rgb(${mixed.join(",")})`, value]);
    }
    return cells;
}"""
