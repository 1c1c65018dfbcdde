"use strict";

const WIDTH = 300;
const HEIGHT = 60;
const SVG = "http://www.w3.org/2000/svg";

/**
 * A figure with a number of now and lines of the last minutes, which break where nothing is known.
 * `lines` are {values, className}; all share one scale from 0 to `top`, or to their maximum.
 */
function drawChart(figure, { title, now, detail, detailClass = "", lines, top, format }) {
  const known = lines.flatMap((line) => line.values).filter((value) => value !== null);
  const scale = top ?? Math.max(...known, 0);
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", `${title}: ${now} now. ${detail}`);
  svg.append(axis());
  for (const { values, className } of lines) {
    for (const points of runs(values, scale)) svg.append(polyline(points, className));
  }
  figure.replaceChildren(
    element("figcaption", {}, element("span", {}, title), element("strong", {}, now)),
    svg,
    element("div", { class: "range" }, element("span", { class: detailClass }, detail),
      element("span", {}, known.length ? `top ${format(scale)}` : "")),
  );
}

/** Coordinates of each stretch without gaps. */
function runs(values, scale) {
  const found = [];
  let current = [];
  const step = WIDTH / Math.max(1, values.length - 1);
  values.forEach((value, i) => {
    if (value === null) {
      if (current.length) found.push(current);
      current = [];
      return;
    }
    const y = HEIGHT - 2 - (scale > 0 ? value / scale : 0) * (HEIGHT - 4);
    current.push(`${(i * step).toFixed(1)},${y.toFixed(1)}`);
  });
  if (current.length) found.push(current);
  // A line of one point would not be seen.
  return found.map((points) => (points.length > 1 ? points : [points[0], points[0].replace(/^[^,]+/, (x) => `${Number(x) + 1.5}`)]));
}

function polyline(points, className) {
  const line = document.createElementNS(SVG, "polyline");
  line.setAttribute("points", points.join(" "));
  if (className) line.setAttribute("class", className);
  return line;
}

function axis() {
  const line = document.createElementNS(SVG, "line");
  const at = { x1: 0, x2: WIDTH, y1: HEIGHT - 1, y2: HEIGHT - 1, class: "axis" };
  for (const [name, value] of Object.entries(at)) line.setAttribute(name, String(value));
  return line;
}
