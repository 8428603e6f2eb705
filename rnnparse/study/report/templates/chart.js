"use strict";

const MARGIN = { right: 12, top: 10, bottom: 36 };
const HEIGHT = 270;
const BOTTOM = HEIGHT - MARGIN.bottom;

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
    const marks = [];
    for (let e = Math.floor(Math.log10(low)); e <= Math.log10(high); e += 1) {
      if (e % every === 0) marks.push(...factors.map((factor) => factor * 10 ** e));
    }
    const inside = marks.filter((value) => value >= low * 0.999 && value <= high * 1.001);
    if (inside.length > 1) return inside;
  }
  const rough = (high - low) / count || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough);
  const marks = [];
  for (let i = Math.ceil(low / step); i * step <= high * (1 + 1e-9); i += 1) marks.push(i * step);
  return marks.map((value) => Number(value.toPrecision(12)));
}

/** Where the y axis ends at most: diverging lines may leave it far beyond all others. */
function ceiling(lines, logarithmic) {
  const calm = lines.filter((line) => !line.grows);
  if (calm.length === lines.length) return Infinity;
  const firsts = (calm.length ? calm : lines).map((line) => line.mean.find((v) => v != null) ?? 0);
  const far = (logarithmic ? 100 : 10) * Math.max(...firsts);
  const others = range(heights(calm), logarithmic, Infinity);
  return Math.max(far > 0 ? far : -Infinity, others?.[1] ?? -Infinity);
}

/** The range of an axis with some room, but none beyond 0, 1 or 100; null without values. */
function range(values, logarithmic, limit) {
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) {
    if (value == null || (logarithmic && value <= 0)) continue;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  if (low > high) return null;
  if (limit > low && limit < high) high = limit;
  if (logarithmic && low === high) return [low / 2, high * 2];
  const room = (high - low) * 0.04 || Math.abs(high) * 0.1 || 1;
  const [down, up] = logarithmic ? [low / 1.05, high * 1.05] : [low - room, high + room];
  const ends = [0, 1, 100];
  return [
    ends.find((end) => down < end && end <= low) ?? down,
    ends.find((end) => high <= end && end < up && end > low) ?? up,
  ];
}

/** All values that the y axis must show. */
function* heights(lines) {
  for (const line of lines) {
    yield* line.reach;
    if (line.bound) yield* line.bound.mean;
  }
}

/** Draw lines of {name, color, dash, bound, broke, grows, ...curveOf} and their axes into a box. */
function drawChart(box, lines, { logX, logY, xTitle, yTitle }) {
  const width = Math.max(280, box.clientWidth || 560);
  const yRange = range(heights(lines), logY, ceiling(lines, logY));
  const last = Math.max(1, ...lines.map((line) => line.x.at(-1) ?? 1));
  const readout = make("div", { class: "readout", "aria-hidden": "true" });
  if (yRange === null) {
    const why = logY ? "No value above 0 to draw on a logarithmic axis." : "No value to draw.";
    box.replaceChildren(make("p", { class: "nothing" }, why));
    return;
  }
  const clip = `clip-${yTitle}-${xTitle}`.replace(/\W+/g, "-");
  const y = scale(...yRange, BOTTOM, MARGIN.top, logY);
  const marks = ticks(y, 6);
  const left = 28 + 7 * Math.max(3, ...marks.map((value) => show(value).length));
  const right = width - MARGIN.right;
  const x = scale(1, last === 1 ? 2 : last, left, right, logX);
  const picture = draw(
    "svg",
    { viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, role: "img" },
    draw("title", {}, `${yTitle} by ${xTitle}: ${lines.map((line) => line.name).join("; ")}`),
    axes(x, y, [left, right], marks, xTitle, yTitle),
    draw(
      "clipPath",
      { id: clip },
      draw("rect", {
        x: left - 4,
        y: MARGIN.top - 4,
        width: right - left + 8,
        height: BOTTOM - MARGIN.top + 8,
      }),
    ),
    draw(
      "g",
      { "clip-path": `url(#${clip})` },
      lines.map((line) => shade(line, x, y)),
      lines.map((line) => stroke(line, x, y)),
    ),
    exits(lines, x, y, right),
  );
  follow(picture, readout, lines, x, xTitle);
  box.replaceChildren(picture, readout);
}

function axes(x, y, [left, right], marks, xTitle, yTitle) {
  const parts = [];
  for (const value of marks) {
    const at = y.position(value);
    parts.push(draw("line", { x1: left, x2: right, y1: at, y2: at, class: "grid" }));
    parts.push(draw("text", { x: left - 6, y: at + 4, "text-anchor": "end" }, show(value)));
  }
  const count = (right - left) / 80;
  for (const value of ticks(x, count).filter((v) => Number.isInteger(v) && v >= 1)) {
    const at = x.position(value);
    parts.push(draw("line", { x1: at, x2: at, y1: BOTTOM, y2: BOTTOM + 4, class: "axis" }));
    parts.push(draw("text", { x: at, y: BOTTOM + 17, "text-anchor": "middle" }, show(value)));
  }
  const middle = (MARGIN.top + BOTTOM) / 2;
  parts.push(
    draw("line", { x1: left, x2: right, y1: BOTTOM, y2: BOTTOM, class: "axis" }),
    draw("text", { x: (left + right) / 2, y: HEIGHT - 3, class: "title" }, xTitle),
    draw("text", { transform: `translate(11 ${middle}) rotate(-90)`, class: "title" }, yTitle),
  );
  return parts;
}

// Browsers draw with single precision.
const FAR = 1e5;

/** The points of a curve in pieces: it is cut where a value is missing or cannot be drawn. */
function pieces(xs, values, x, y) {
  const height = (value) => Math.min(Math.max(y.position(value), -FAR), FAR);
  const cut = [[]];
  values.forEach((value, i) => {
    const drawable = value != null && (value > 0 || !y.logarithmic);
    if (drawable) cut.at(-1).push([x.position(xs[i]), height(value)]);
    else if (cut.at(-1).length) cut.push([]);
  });
  return cut.filter((piece) => piece.length);
}

const path = (points) => points.map(([a, b]) => `${a.toFixed(1)} ${b.toFixed(1)}`).join("L");

function shade(line, x, y) {
  if (!line.low) return [];
  const within = (value) => (value == null ? null : Math.min(Math.max(value, y.low), y.high));
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
  for (const piece of line.seeds.flatMap((seed) => pieces(line.x, seed, x, y))) {
    parts.push(draw("path", { ...style, class: "seed", d: `M${path(piece)}` }));
  }
  const drawn = pieces(line.x, line.mean, x, y);
  for (const piece of drawn) {
    parts.push(draw("path", { ...style, d: `M${path(piece)}` }));
    if (piece.length === 1 || line.x.length <= 12) {
      parts.push(...piece.map(([cx, cy]) => draw("circle", { cx, cy, r: 2.5, fill: line.color })));
    }
  }
  if (line.broke && drawn.length) parts.push(cross(...lastSeen(drawn), line.color));
  if (line.bound) {
    for (const piece of pieces(line.bound.x, line.bound.mean, x, y)) {
      parts.push(draw("path", { d: `M${path(piece)}`, stroke: line.color, class: "bound" }));
    }
  }
  return parts;
}

/** The last visible point of a line: its end, or where it leaves the plot. */
function lastSeen(curve) {
  const points = curve.flat();
  const last = points.findLastIndex((point) => !above(point));
  return last === points.length - 1 ? points[last] : [leaves(points, last + 1), MARGIN.top];
}

const above = (point) => point[1] < MARGIN.top - 0.5;

/** Where a line crosses the upper edge before point i. */
function leaves(points, i) {
  const [x2, y2] = points[i];
  const [x1, y1] = points[i - 1] ?? [x2, MARGIN.top];
  return x1 + ((x2 - x1) * (MARGIN.top - y1)) / (y2 - y1 || 1);
}

/** Marks where lines leave the plot, with their greatest value: “↑ 12.3”. */
function exits(lines, x, y, right) {
  const leaving = lines.flatMap((line) => {
    for (const values of [line.mean, ...line.seeds]) {
      const points = pieces(line.x, values, x, y).flat();
      const i = points.findIndex(above);
      if (i < 0) continue;
      const far = line.single ? line.reach : values;
      const most = Math.max(...far.filter((value) => value != null));
      return [{ at: leaves(points, i), most, line }];
    }
    return [];
  });
  const rows = [];
  return leaving
    .sort((a, b) => a.at - b.at)
    .map(({ at, most, line }) => {
      const text = show(most);
      const wide = 24 + 7 * text.length;
      const start = Math.min(at, right - wide);
      const row = rows.findIndex((end) => end <= start);
      rows[row < 0 ? rows.length : row] = start + wide;
      const top = MARGIN.top + 14 * (row < 0 ? rows.length - 1 : row);
      const arrow = draw("tspan", { fill: line.color }, "↑ ");
      return draw("text", { x: start + 8, y: top + 11, class: "exit" }, arrow, text);
    });
}

/** The mark at the end of a diverged trial. */
function cross(cx, cy, color) {
  const d = `M${cx - 5} ${cy - 5}l10 10m0 -10l-10 10`;
  return draw("path", { d, stroke: color, class: "cross" });
}

/** Show the values of the lines below the pointer. */
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
