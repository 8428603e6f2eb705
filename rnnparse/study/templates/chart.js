"use strict";

const MARGIN = { left: 58, right: 12, top: 10, bottom: 36 };
const HEIGHT = 270;

/** A linear or logarithmic scale from values to pixels. */
function scale(low, high, from, to, logarithmic) {
  const shape = logarithmic ? Math.log10 : (value) => value;
  const [a, b] = [shape(low), shape(high)];
  const position = (value) => from + ((shape(value) - a) / (b - a || 1)) * (to - from);
  return { low, high, logarithmic, position };
}

/** Round values within a scale, about `count` of them. */
function ticks({ low, high, logarithmic }, count) {
  if (logarithmic) {
    const decades = Math.log10(high / low);
    const factors = decades < 1.2 ? [1, 1.5, 2, 3, 5, 7] : decades < 3 ? [1, 2, 5] : [1];
    const every = Math.ceil(decades / count);
    const found = [];
    for (let e = Math.floor(Math.log10(low)); e <= Math.log10(high); e += 1) {
      if (e % every === 0) found.push(...factors.map((factor) => factor * 10 ** e));
    }
    const inside = found.filter((value) => value >= low * 0.999 && value <= high * 1.001);
    if (inside.length > 1) return inside;
  }
  const rough = (high - low) / count || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough);
  const found = [];
  for (let i = Math.ceil(low / step); i * step <= high * (1 + 1e-9); i += 1) found.push(i * step);
  return found.map((value) => Number(value.toPrecision(12)));
}

/** What is cut off: the way of diverging lines beyond ten times the start. */
function ceiling(lines) {
  const starts = lines.map((line) => line.mean[0]).filter((value) => value > 0);
  return lines.some((line) => line.broke) && starts.length ? 10 * Math.max(...starts) : Infinity;
}

/** The least and the greatest value to draw, with some room; null where there is none. */
function range(values, logarithmic, limit) {
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) {
    if (value == null || (logarithmic && value <= 0)) continue;
    if (value < low) low = value;
    if (value > high) high = Math.min(value, limit);
  }
  if (low > high) return null;
  if (logarithmic) return low === high ? [low / 2, high * 2] : [low / 1.05, high * 1.05];
  const room = (high - low) * 0.04 || Math.abs(high) * 0.1 || 1;
  return [low - room, high + room];
}

/** Everything that the y axis must show: means whole, bands as far as they are drawable. */
function* heights(lines) {
  for (const line of lines) {
    yield* line.mean;
    if (line.low) yield* line.low;
    if (line.high) yield* line.high;
    if (line.bound) yield* line.bound.mean;
  }
}

/**
 * Draw lines with their bands into a box, with axes and, under the pointer, their values.
 *
 * Args: lines of {name, color, dash, x, mean, low, high, bound}; options of {logX, logY, xTitle,
 * yTitle}.
 */
function drawChart(box, lines, { logX, logY, xTitle, yTitle }) {
  const width = Math.max(280, box.clientWidth || 560);
  const yRange = range(heights(lines), logY, ceiling(lines));
  const last = Math.max(1, ...lines.map((line) => line.x.at(-1) ?? 1));
  const readout = make("div", { class: "readout", "aria-hidden": "true" });
  if (yRange === null) {
    const why = logY ? "No value above 0 to draw on a logarithmic axis." : "No value to draw.";
    box.replaceChildren(make("p", { class: "nothing" }, why));
    return;
  }
  const clip = `clip-${yTitle}-${xTitle}`.replace(/\W+/g, "-");
  const x = scale(1, last === 1 ? 2 : last, MARGIN.left, width - MARGIN.right, logX);
  const y = scale(...yRange, HEIGHT - MARGIN.bottom, MARGIN.top, logY);
  const picture = draw(
    "svg",
    { viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, role: "img" },
    draw("title", {}, `${yTitle} by ${xTitle}: ${lines.map((line) => line.name).join("; ")}`),
    axes(x, y, width, xTitle, yTitle),
    draw(
      "clipPath",
      { id: clip },
      draw("rect", {
        x: MARGIN.left - 4,
        y: MARGIN.top - 4,
        width: width - MARGIN.left,
        height: HEIGHT - MARGIN.top - MARGIN.bottom + 8,
      }),
    ),
    draw(
      "g",
      { "clip-path": `url(#${clip})` },
      lines.map((line) => shade(line, x, y)),
      lines.map((line) => stroke(line, x, y)),
    ),
  );
  follow(picture, readout, lines, x, xTitle);
  box.replaceChildren(picture, readout);
}

function axes(x, y, width, xTitle, yTitle) {
  const [bottom, right] = [HEIGHT - MARGIN.bottom, width - MARGIN.right];
  const parts = [];
  for (const value of ticks(y, 6)) {
    const at = y.position(value);
    parts.push(draw("line", { x1: MARGIN.left, x2: right, y1: at, y2: at, class: "grid" }));
    parts.push(draw("text", { x: MARGIN.left - 6, y: at + 4, "text-anchor": "end" }, show(value)));
  }
  for (const value of ticks(x, width / 90).filter((v) => Number.isInteger(v) && v >= 1)) {
    const at = x.position(value);
    parts.push(draw("line", { x1: at, x2: at, y1: bottom, y2: bottom + 4, class: "axis" }));
    parts.push(draw("text", { x: at, y: bottom + 17, "text-anchor": "middle" }, show(value)));
  }
  const middle = (MARGIN.top + bottom) / 2;
  parts.push(
    draw("line", { x1: MARGIN.left, x2: right, y1: bottom, y2: bottom, class: "axis" }),
    draw("text", { x: (MARGIN.left + right) / 2, y: HEIGHT - 3, class: "title" }, xTitle),
    draw("text", { transform: `translate(11 ${middle}) rotate(-90)`, class: "title" }, yTitle),
  );
  return parts;
}

/** The points of a curve, cut into pieces where a value is missing or cannot be drawn. */
function pieces(xs, values, x, y) {
  const found = [[]];
  values.forEach((value, i) => {
    const drawable = value != null && (value > 0 || !y.logarithmic);
    if (drawable) found.at(-1).push([x.position(xs[i]), y.position(value)]);
    else if (found.at(-1).length) found.push([]);
  });
  return found.filter((piece) => piece.length);
}

const path = (points) => points.map(([a, b]) => `${a.toFixed(1)} ${b.toFixed(1)}`).join("L");

function shade(line, x, y) {
  if (!line.low) return [];
  const within = (value) => (y.logarithmic && value != null && value < y.low ? y.low : value);
  const [low, high] = [line.low, line.high].map((edge) => pieces(line.x, edge.map(within), x, y));
  return low.flatMap((piece, i) => {
    const edge = high[i];
    if (edge === undefined || piece.length < 2) return [];
    const outline = `M${path(piece)}L${path([...edge].reverse())}Z`;
    return [draw("path", { d: outline, fill: line.color, class: "band" })];
  });
}

function stroke(line, x, y) {
  const parts = [];
  const style = { stroke: line.color, "stroke-dasharray": line.dash, class: "line" };
  const found = pieces(line.x, line.mean, x, y);
  for (const piece of found) {
    parts.push(draw("path", { ...style, d: `M${path(piece)}` }));
    if (piece.length === 1 || line.x.length <= 12) {
      parts.push(...piece.map(([cx, cy]) => draw("circle", { cx, cy, r: 2.5, fill: line.color })));
    }
  }
  if (line.broke && found.length) parts.push(cross(...lastSeen(found), line.color));
  if (line.bound) {
    for (const piece of pieces(line.bound.x, line.bound.mean, x, y)) {
      parts.push(draw("path", { d: `M${path(piece)}`, stroke: line.color, class: "bound" }));
    }
  }
  return parts;
}

/** The last point that is seen of a line: its end, or where it leaves the plot. */
function lastSeen(found) {
  const points = found.flat();
  const last = points.findLastIndex((point) => point[1] >= MARGIN.top);
  if (last === points.length - 1) return points[last];
  const [x2, y2] = points[last + 1];
  const [x1, y1] = points[last] ?? [x2, MARGIN.top];
  return [x1 + ((x2 - x1) * (MARGIN.top - y1)) / (y2 - y1 || 1), MARGIN.top];
}

/** The mark at the end of a trial that diverged. */
function cross(cx, cy, color) {
  const d = `M${cx - 5} ${cy - 5}l10 10m0 -10l-10 10`;
  return draw("path", { d, stroke: color, class: "cross" });
}

/** Show the lines' values at the place of the pointer. */
function follow(picture, readout, lines, x, xTitle) {
  const rule = draw("line", { y1: MARGIN.top, y2: HEIGHT - MARGIN.bottom, class: "rule" });
  const hide = () => {
    rule.remove();
    readout.replaceChildren();
  };
  picture.addEventListener("pointerleave", hide);
  picture.addEventListener("pointermove", (event) => {
    const at = event.clientX - picture.getBoundingClientRect().left;
    const longest = lines.reduce((a, b) => (b.x.length > a.x.length ? b : a)).x;
    const nearest = nearestTo(longest, at, x);
    rule.setAttribute("x1", x.position(nearest));
    rule.setAttribute("x2", x.position(nearest));
    picture.append(rule);
    readout.replaceChildren(
      make("b", {}, `${xTitle} ${show(nearest)}`),
      ...lines.map((line) => {
        const place = line.x.indexOf(nearestTo(line.x, at, x));
        const near = Math.abs(line.x[place] - nearest) <= Math.max(1, nearest * 0.1);
        const swatch = make("i", {
          style: `border-top: 3px ${line.dash ? "dashed" : "solid"} ${line.color}`,
        });
        return make("span", {}, swatch, near ? show(line.mean[place]) : "–");
      }),
    );
  });
}

function nearestTo(xs, at, x) {
  const away = (value) => Math.abs(x.position(value) - at);
  return xs.reduce((a, b) => (away(b) < away(a) ? b : a), xs[0]);
}
