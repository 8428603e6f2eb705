"use strict";

const BEST = "best of all";
const SIDE_BY_SIDE = "side by side";
const MOST_CELLS = 160;
const beyond = new Set(study.beyond);
const inGrid = study.settings.label.map((_, s) => s).filter((s) => !beyond.has(s));
/** The axes that tell the settings of the map apart. */
const laidOut = study.map.axes;
const MOST_WIDE = 14; // columns with values in their cells

// From the worst value to the best, in RGB. Lightness alone distinguishes them.
const RAMPS = {
  light: [
    [246, 243, 233],
    [205, 222, 213],
    [138, 186, 190],
    [66, 141, 165],
    [24, 92, 130],
    [11, 53, 92],
  ],
  dark: [
    [44, 47, 54],
    [38, 70, 92],
    [32, 103, 128],
    [46, 143, 152],
    [112, 186, 165],
    [222, 231, 170],
  ],
};
const darkness = window.matchMedia("(prefers-color-scheme: dark)");

/** The heat map and its controls; calls `onPick(settings, add)` when settings are picked. */
class HeatMap {
  constructor(controls, box, onPick) {
    Object.assign(this, { controls, box, onPick, metric: 0, label: "", picked: new Set() });
    this.columns = study.map.columns;
    this.rows = study.map.rows;
    this.others = new Map();
    this.chooseOthers();
    darkness.addEventListener("change", () => this.render());
    window.addEventListener("beforeprint", () => this.render("light"));
    window.addEventListener("afterprint", () => this.render());
  }

  /** Show other axes side by side as long as there are few cells. */
  chooseOthers() {
    const size = (axis) => (axis < 0 ? 1 : study.axes[axis].values.length);
    const cells = size(this.rows) * size(this.columns);
    const rest = laidOut.filter((axis) => axis !== this.rows && axis !== this.columns);
    const aside = [];
    for (const axis of rest) {
      const keys = new Set(inGrid.map((s) => panelKey([...aside, axis], s)));
      if (cells * keys.size <= MOST_CELLS) aside.push(axis);
    }
    this.others = new Map(rest.map((axis) => [axis, aside.includes(axis) ? SIDE_BY_SIDE : BEST]));
  }

  turn(rows, columns) {
    const place = [...this.controls.querySelectorAll("select")].indexOf(document.activeElement);
    Object.assign(this, { rows, columns });
    this.chooseOthers();
    this.renderControls();
    this.render();
    this.controls.querySelectorAll("select")[place]?.focus();
  }

  renderControls() {
    const names = laidOut.map((axis) => [String(axis), title(study.axes[axis].name)]);
    const metrics = study.metrics.map((metric, i) => [String(i), metric.title]);
    const parts = [
      choice("colour", metrics, String(this.metric), (value) => {
        this.metric = Number(value);
        this.render();
      }),
    ];
    if (laidOut.length > 1) {
      const swap = (now, other) => (now === other ? null : now);
      parts.push(
        choice("rows", names, String(this.rows), (value) =>
          this.turn(Number(value), swap(this.columns, Number(value)) ?? this.rows),
        ),
        choice("columns", names, String(this.columns), (value) =>
          this.turn(swap(this.rows, Number(value)) ?? this.columns, Number(value)),
        ),
      );
    }
    for (const [axis, chosen] of this.others) parts.push(this.selector(axis, chosen));
    parts.push(saveButton(() => "map", () => [this.box]));
    this.controls.replaceChildren(...parts);
  }

  selector(axis, chosen) {
    const { name, values } = study.axes[axis];
    const single = values.map((value, i) => [String(i), showValue(value)]);
    const options = [[BEST, BEST], [SIDE_BY_SIDE, SIDE_BY_SIDE], ...single];
    return choice(title(name), options, chosen, (value) => {
      this.others.set(axis, value);
      this.render();
    });
  }

  /** The settings of each cell, by panel, row and column. */
  panels() {
    const aside = [...this.others]
      .filter(([, chosen]) => chosen === SIDE_BY_SIDE)
      .map(([axis]) => axis);
    aside.sort((a, b) => spread(a) - spread(b));
    const panels = new Map();
    for (const setting of inGrid.filter((s) => this.chosen(s))) {
      const key = panelKey(aside, setting);
      if (!panels.has(key)) panels.set(key, { name: nameOf(setting, aside), cells: new Map() });
      const place = `${this.at(this.rows, setting)},${this.at(this.columns, setting)}`;
      const { cells } = panels.get(key);
      if (!cells.has(place)) cells.set(place, []);
      cells.get(place).push(setting);
    }
    const order = (key) => key.split(",").map(Number);
    const compare = ([a], [b]) => order(a).reduce((sign, x, i) => sign || x - order(b)[i], 0);
    const perRow = aside.length ? study.axes[aside.at(-1)].values.length : 1;
    return { perRow, list: [...panels].sort(compare).map(([, panel]) => panel) };
  }

  /** Whether a setting has the values chosen in the controls. */
  chosen(setting) {
    return [...this.others].every(
      ([axis, value]) =>
        [BEST, SIDE_BY_SIDE].includes(value) || this.at(axis, setting) === Number(value),
    );
  }

  at(axis, setting) {
    return axis < 0 ? 0 : study.settings.config[axis][setting];
  }

  /** The setting shown in a cell: the best by the metric shown. */
  bestOf(settings) {
    return settings.reduce((a, b) =>
      better(this.metric, metricOf(b, this.metric), metricOf(a, this.metric)) ? b : a,
    );
  }

  render(scheme = darkness.matches ? "dark" : "light") {
    const { perRow, list } = this.panels();
    const further = study.beyond.filter((setting) => this.chosen(setting));
    const shown = list.flatMap((panel) =>
      [...panel.cells.values()].map((cell) => this.bestOf(cell)),
    );
    this.colours = new Colours(this.metric, [...shown, ...further], RAMPS[scheme]);
    const panels = list.map((panel) => this.table(panel, list.length > 1));
    const grid = make("div", { class: "panels", style: `--per-row:${perRow}` }, panels);
    this.box.replaceChildren(grid, this.further(further), this.legend());
    this.mark(this.picked);
    this.dim(this.label);
  }

  table({ name, cells }, named) {
    const { rows, columns } = this;
    const values = (axis) => (axis < 0 ? [null] : study.axes[axis].values);
    const head = (axis, value, i, scope) => {
      if (axis < 0) return make("th", { scope });
      const place = (key) => Number(key.split(",")[scope === "col" ? 1 : 0]) === i;
      const pick = (event) => {
        const own = [...cells].filter(([key]) => place(key)).map(([, cell]) => this.bestOf(cell));
        const order = (setting) => this.at(scope === "col" ? rows : columns, setting);
        own.sort((a, b) => order(a) - order(b));
        this.onPick(own, event.shiftKey || event.ctrlKey || event.metaKey);
      };
      const hint = `draw all curves with ${title(study.axes[axis].name)} ${showValue(value)}`;
      return make(
        "th",
        { scope },
        pushButton({ title: hint, click: pick }, showValue(value)),
      );
    };
    const top = values(columns).map((value, j) => head(columns, value, j, "col"));
    const body = values(rows).map((value, i) =>
      make(
        "tr",
        {},
        head(rows, value, i, "row"),
        values(columns).map((_, j) => this.cell(cells.get(`${i},${j}`))),
      ),
    );
    const corner = [rows, columns]
      .filter((axis) => axis >= 0)
      .map((axis) => title(study.axes[axis].name))
      .join(" \\ ");
    const compact = values(columns).length > MOST_WIDE;
    return make(
      "table",
      { class: compact ? "heat compact" : "heat" },
      named ? make("caption", {}, name) : null,
      make("thead", {}, make("tr", {}, make("td", { class: "corner" }, named ? "" : corner), top)),
      make("tbody", {}, body),
    );
  }

  /** A list of the few settings beyond the grid. */
  further(settings) {
    if (!settings.length) return "";
    const row = (setting) =>
      make("tr", {}, this.cell([setting]), make("th", { scope: "row" }, nameOf(setting)));
    return make(
      "table",
      { class: "heat further" },
      make("caption", {}, "Beyond the grid"),
      make("tbody", {}, settings.map(row)),
    );
  }

  cell(settings) {
    if (settings === undefined) return make("td", { class: "absent", title: "no trial" }, "·");
    const setting = this.bestOf(settings);
    const value = metricOf(setting, this.metric);
    const [background, ink] = this.colours.of(value);
    const best = setting === study.best;
    const alike = !best && study.settings.alike[setting];
    const note = best ? "; the best configuration" : alike ? "; within noise of the best" : "";
    const told = value == null ? "no value" : showMetric(setting, this.metric);
    const shown = `${study.metrics[this.metric].title} ${told}`;
    const label = `${nameOf(setting)}: ${shown}, ${labelOf(setting)}${note}`;
    const button = pushButton(
      {
        class: best ? "best" : alike ? "alike" : "",
        style: `background:${background};color:${ink}`,
        "data-setting": setting,
        "aria-label": label,
        title: label,
        click: (event) => this.onPick([setting], event.shiftKey || event.ctrlKey || event.metaKey),
      },
      icon(labelOf(setting)),
      make("span", {}, showMean(setting, this.metric)),
    );
    return make("td", {}, button);
  }

  /** Mark the settings that are drawn below. */
  mark(picked) {
    this.picked = picked;
    for (const button of this.box.querySelectorAll("button[data-setting]")) {
      button.setAttribute("aria-pressed", picked.has(Number(button.dataset.setting)));
    }
  }

  /** Fade settings with another diagnosis; "" fades none. */
  dim(label) {
    this.label = label;
    for (const button of this.box.querySelectorAll("button[data-setting]")) {
      button.classList.toggle(
        "dim",
        Boolean(label) && labelOf(Number(button.dataset.setting)) !== label,
      );
    }
  }

  legend() {
    const parts = [this.colours.legend(study.metrics[this.metric])];
    if (study.best != null) parts.push(make("span", { class: "key best" }, "best configuration"));
    if (study.settings.alike.some(Boolean)) {
      parts.push(make("span", { class: "key alike" }, "within noise of the best"));
    }
    return make("p", { class: "legend" }, parts);
  }
}

const panelKey = (axes, setting) =>
  axes.map((axis) => study.settings.config[axis][setting]).join(",");

/** The entropy of an axis's values. */
function spread(axis) {
  const counts = new Map();
  for (const value of study.settings.config[axis]) counts.set(value, (counts.get(value) ?? 0) + 1);
  const shares = [...counts.values()].map((count) => count / settingCount);
  return Number(-shares.reduce((sum, share) => sum + share * Math.log(share), 0).toFixed(6));
}

/** Colours for the values of a metric, from the worst to the best. */
class Colours {
  constructor(metric, settings, ramp) {
    this.ramp = ramp;
    const values = settings.map((s) => metricOf(s, metric)).filter((v) => v != null);
    values.sort((a, b) => a - b);
    if (study.metrics[metric].higher) values.reverse();
    this.logarithmic = !study.metrics[metric].higher && values.every((value) => value > 0);
    this.best = values[0];
    // Outliers must not take up all colours.
    const middle = this.shape(values[values.length >> 1]);
    const limit = this.shape(this.best) + 3 * (middle - this.shape(this.best));
    const worst = this.shape(values.at(-1));
    this.clamped =
      Math.abs(worst - this.shape(this.best)) > Math.abs(limit - this.shape(this.best)) &&
      limit !== middle;
    this.worst = this.clamped ? limit : worst;
  }

  shape(value) {
    return this.logarithmic ? Math.log(value) : value;
  }

  /** Background and ink for a value. */
  of(value) {
    if (value == null) return ["var(--absent)", "var(--ink)"];
    const best = this.shape(this.best);
    const share = this.worst === best ? 1 : (this.shape(value) - this.worst) / (best - this.worst);
    return this.shade(Math.min(1, Math.max(0, share)));
  }

  shade(share) {
    const place = share * (this.ramp.length - 1);
    const i = Math.min(Math.floor(place), this.ramp.length - 2);
    const mix = this.ramp[i].map((low, k) => low + (place - i) * (this.ramp[i + 1][k] - low));
    const linear = mix.map((c) =>
      c / 255 <= 0.04 ? c / 3294 : ((c / 255 + 0.055) / 1.055) ** 2.4,
    );
    const luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
    return [`rgb(${mix.map(Math.round).join(" ")})`, luminance > 0.18 ? "#000000" : "#ffffff"];
  }

  legend(metric) {
    if (this.best === undefined) return make("span", {}, `${metric.title}: no configuration has a value`);
    const stops = Array.from({ length: 60 }, (_, i) => this.shade(i / 59)[0]);
    const bar = draw(
      "svg",
      { class: "bar", viewBox: "0 0 60 1", preserveAspectRatio: "none" },
      stops.map((fill, x) => draw("rect", { x, width: 1.5, height: 1, fill })),
    );
    const end = this.logarithmic ? Math.exp(this.worst) : this.worst;
    const worst = `${this.clamped ? (metric.higher ? "≤ " : "≥ ") : ""}${show(end)}`;
    return make("span", { class: "scale" }, metric.title, " ", worst, bar, show(this.best));
  }
}
