"use strict";

// Colours of Okabe & Ito (2008), which colour-blind readers can tell apart.
const COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"];
const DASHES = ["", "6 3"];
const MOST_LINES = COLOURS.length * DASHES.length;

/** The name of the x axis by kind. */
const KINDS = { updates: "update", epochs: "epoch" };

/** The charts of the picked settings, and a list of them with their diagnoses. */
class Curves {
  constructor(box, list, onChange) {
    Object.assign(this, { box, list, onChange, picked: [] });
    const kinds = Object.keys(KINDS).filter((kind) => study[kind].length);
    this.charts = kinds.map((kind) => this.chart(kind));
    box.replaceChildren(...this.charts.map((chart) => chart.figure));
    let width = 0;
    new ResizeObserver(() => {
      if (box.clientWidth !== width) this.render();
      width = box.clientWidth;
    }).observe(box);
  }

  chart(kind) {
    const chart = {
      kind,
      quantity: study[kind][0],
      logX: null,
      logY: null,
      plot: make("div", { class: "plot" }),
    };
    const titles = study[kind].map((name) => [name, title(name)]);
    const redraw = () => this.renderChart(chart);
    chart.boxes = {
      logX: tick("log x", false, (on) => redraw(Object.assign(chart, { logX: on }))),
      logY: tick("log y", false, (on) => redraw(Object.assign(chart, { logY: on }))),
    };
    const controls = make(
      "div",
      { class: "controls" },
      choice("curve", titles, chart.quantity, (name) =>
        redraw(Object.assign(chart, { quantity: name, logY: null })),
      ),
      make("span", { class: "ticks" }, chart.boxes.logX, chart.boxes.logY),
      saveButton(
        () => title(chart.quantity),
        () => [chart.plot, ...this.list.children],
      ),
    );
    chart.figure = make("figure", { "data-kind": kind }, controls, chart.plot);
    return chart;
  }

  /** Draw these settings, or add them to those drawn. Adding what is drawn removes it. */
  pick(settings, add) {
    this.left = 0;
    if (!add) {
      this.picked = thin(settings);
      this.left = settings.length - this.picked.length;
    } else if (settings.every((setting) => this.picked.includes(setting))) {
      this.picked = this.picked.filter((setting) => !settings.includes(setting));
    } else {
      const all = [...new Set([...this.picked, ...settings])];
      this.picked = all.slice(0, MOST_LINES);
      this.left = all.length - this.picked.length;
    }
    this.render();
    this.onChange(new Set(this.picked));
  }

  remove(setting, i) {
    this.pick([setting], true);
    const rest = this.list.querySelectorAll(".remove");
    rest[Math.min(i, rest.length - 1)]?.focus();
  }

  style(i) {
    return { color: COLOURS[i % COLOURS.length], dash: DASHES[Math.floor(i / COLOURS.length)] };
  }

  line(chart, setting, i, logY) {
    const curve = curveOf(setting, chart.kind, chart.quantity, logY);
    if (curve === null) return null;
    const bound = study.bounds[chart.quantity];
    return {
      ...curve,
      ...this.style(i),
      name: nameOf(setting),
      bound: bound ? curveOf(setting, chart.kind, bound, logY) : null,
      broke: labelOf(setting) === "diverged",
      grows: diverges(setting) && !study.higher.includes(chart.quantity),
    };
  }

  renderChart(chart) {
    const lines = (logY) => this.picked.map((s, i) => this.line(chart, s, i, logY)).filter(Boolean);
    const plain = lines(false);
    const logX = chart.logX ?? differInLength(plain);
    const logY = chart.logY ?? spreads(plain);
    for (const [name, on] of Object.entries({ logX, logY }))
      chart.boxes[name].querySelector("input").checked = on;
    const titles = { xTitle: KINDS[chart.kind], yTitle: title(chart.quantity) };
    drawChart(chart.plot, logY ? lines(true) : plain, { logX, logY, ...titles });
  }

  render() {
    this.charts.forEach((chart) => this.renderChart(chart));
    this.list.replaceChildren(...this.picked.map((setting, i) => this.entry(setting, i)));
    if (!this.picked.length)
      this.list.append(make("li", {}, "Click a cell of the map or tick a row of the table."));
    if (this.left)
      this.list.append(make("li", { class: "facts" }, `${this.left} more are not drawn.`));
  }

  entry(setting, i) {
    const { color, dash } = this.style(i);
    const style = { stroke: color, "stroke-dasharray": dash, class: "line" };
    const line = draw("path", { d: "M0 6h28", ...style });
    const label = labelOf(setting);
    const metrics = study.metrics
      .slice(0, 2)
      .map((metric, m) => `${metric.title} ${showMetric(setting, m)}`);
    const { advice } = detail(typicalTrial(setting));
    const parts = [
      make("b", {}, nameOf(setting)),
      " ",
      make("span", { class: "label" }, icon(label), label),
      " ",
      make("span", { class: "facts" }, metrics.join(", ")),
    ];
    const hint = `remove ${nameOf(setting)}`;
    const click = () => this.remove(setting, i);
    return make(
      "li",
      {},
      draw("svg", { class: "swatch", viewBox: "0 0 28 12", "aria-hidden": "true" }, line),
      make("div", {}, make("p", {}, parts), make("p", { class: "advice" }, advice)),
      pushButton({ class: "remove", title: hint, "aria-label": hint, click }, "×"),
    );
  }
}

/** Whether a trial of a setting diverged. */
const diverges = (setting) =>
  trialsOf[setting].some((trial) => study.labels[study.trials.label[trial]] === "diverged");

/** As many settings as can be drawn, evenly spaced. */
function thin(settings) {
  if (settings.length <= MOST_LINES) return settings;
  const step = (settings.length - 1) / (MOST_LINES - 1);
  return Array.from({ length: MOST_LINES }, (_, i) => settings[Math.round(i * step)]);
}

/** Whether a line is five times as long as another; a linear axis would squeeze that one. */
function differInLength(lines) {
  const ends = lines.map((line) => line.x.at(-1) ?? 1);
  return Math.max(...ends) >= 5 * Math.min(...ends);
}

/** Whether a logarithmic axis suits: all values are positive and span a factor of 20. */
function spreads(lines) {
  let [low, high] = [Infinity, 0];
  for (const value of heights(lines)) {
    if (value == null) continue;
    if (value <= 0) return false;
    [low, high] = [Math.min(low, value), Math.max(high, value)];
  }
  return high > 20 * low;
}
