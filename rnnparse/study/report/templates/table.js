"use strict";

const PAGE = 50;

/** The table of settings: sorted by a column, filtered by words and by diagnosis, in pages. */
class SettingTable {
  constructor(head, body, foot, onPick) {
    Object.assign(this, { body, foot, onPick, page: 0, text: "", label: "", picked: new Set() });
    this.columns = tableColumns();
    this.open = new Set();
    this.headers = this.columns.map((column, i) => this.header(column, i));
    head.replaceChildren(make("tr", {}, make("th", { scope: "col" }, "curves"), this.headers));
    const first = study.metrics.length ? this.columns.findIndex((c) => c.metric === 0) : 0;
    this.sortBy(first, study.metrics[0]?.higher ? -1 : 1);
  }

  header(column, i) {
    const click = () => this.sortBy(i, this.sorted === i ? -this.direction : column.first);
    return make(
      "th",
      { scope: "col", class: column.kind },
      pushButton({ click, title: column.hint }, column.title),
    );
  }

  sortBy(column, direction) {
    Object.assign(this, { sorted: column, direction, page: 0 });
    this.headers.forEach((header, i) => {
      const words = direction > 0 ? "ascending" : "descending";
      header.setAttribute("aria-sort", i === column ? words : "none");
    });
    const keys = Float64Array.from(
      { length: settingCount },
      (_, s) => this.columns[column].key(s) ?? NaN,
    );
    this.order = Array.from(keys.keys()).sort((a, b) => {
      const [one, other] = [keys[a], keys[b]];
      if (Number.isNaN(one) || Number.isNaN(other))
        return Number.isNaN(one) - Number.isNaN(other) || a - b;
      return direction * (one - other) || a - b;
    });
    this.filter(this.text, this.label);
  }

  /** Show the settings with this diagnosis ("" for any) that match all words. */
  filter(text, label) {
    if (text !== this.text || label !== this.label) this.page = 0;
    Object.assign(this, { text, label });
    const wanted = text.toLowerCase().split(/\s+/).filter(Boolean).map(usual);
    if (wanted.length) this.texts ??= Array.from({ length: settingCount }, (_, s) => searchText(s));
    this.shown = this.order.filter(
      (setting) =>
        (!label || labelOf(setting) === label) &&
        wanted.every((word) => matches(this.texts[setting], word)),
    );
    this.render();
  }

  turn(page) {
    const before = page < this.page;
    this.page = page;
    this.render();
    const [previous, next] = this.foot.querySelectorAll("button");
    const [pressed, other] = before ? [previous, next] : [next, previous];
    (pressed.disabled ? other : pressed).focus();
  }

  render() {
    const pages = Math.max(1, Math.ceil(this.shown.length / PAGE));
    const from = this.page * PAGE;
    const part = this.shown.slice(from, from + PAGE);
    this.body.replaceChildren(...part.flatMap((setting) => this.row(setting)));
    const to = from + part.length;
    const count = this.shown.length === settingCount ? "" : ` (of ${settingCount})`;
    const text = part.length
      ? `${from + 1}–${to} of ${this.shown.length} configurations${count}`
      : `no configuration${count}`;
    const button = (name, page, possible) =>
      pushButton({ disabled: !possible, click: () => this.turn(page) }, name);
    const turn =
      pages > 1
        ? [
            button("previous", this.page - 1, this.page > 0),
            button("next", this.page + 1, this.page < pages - 1),
          ]
        : [];
    this.foot.replaceChildren(make("span", { role: "status" }, text), ...turn);
  }

  row(setting) {
    const change = () => this.onPick([setting], true);
    const checked = this.picked.has(setting);
    const labels = { "aria-label": `curves of ${nameOf(setting)}`, "data-setting": setting };
    const box = make("input", { type: "checkbox", ...labels, checked, change });
    const cells = this.columns.map((column) =>
      make(
        "td",
        { class: column.kind, title: column.full?.(setting) },
        column.cell(setting, () => this.toggle(setting), this.open.has(setting)),
      ),
    );
    const name = setting === study.best ? "best" : study.settings.alike[setting] ? "alike" : "";
    const rows = [make("tr", { class: name }, make("td", { class: "pick" }, box), cells)];
    if (this.open.has(setting)) {
      const cell = make("td", { colspan: this.columns.length + 1 }, settingDetail(setting));
      rows.push(make("tr", { class: "open" }, cell));
    }
    return rows;
  }

  toggle(setting) {
    if (!this.open.delete(setting)) this.open.add(setting);
    this.render();
    this.body
      .querySelector(`input[data-setting="${setting}"]`)
      .closest("tr")
      .querySelector(".unfold")
      .focus();
  }

  mark(picked) {
    this.picked = picked;
    for (const box of this.body.querySelectorAll("input[data-setting]")) {
      box.checked = picked.has(Number(box.dataset.setting));
    }
  }
}

/**
 * Columns: {title, hint, kind, key, cell, first, full}; `hint` tells what the title means, `first`
 * is the direction of the first click, `full` what is shown of a cell that is cut off.
 */
function tableColumns() {
  const unfold = (setting, click, open) =>
    pushButton(
      { class: "unfold", "aria-expanded": open, title: "evidence and advice", click },
      icon(labelOf(setting)),
      labelOf(setting),
      mixture(setting),
    );
  const columns = [
    {
      title: "diagnosis",
      kind: "label",
      first: 1,
      key: (s) => study.settings.label[s],
      cell: unfold,
    },
  ];
  for (const axis of varying) {
    const numeric = study.axes[axis].numeric;
    columns.push({
      title: title(study.axes[axis].name),
      kind: numeric ? "number" : "text",
      full: (s) => (numeric ? null : showValue(axisValue(s, axis))),
      first: 1,
      key: (s) => study.settings.config[axis][s],
      cell: (s) => showValue(axisValue(s, axis)),
    });
  }
  study.metrics.forEach((metric, i) =>
    columns.push({
      title: metric.title,
      kind: "number",
      metric: i,
      first: metric.higher ? -1 : 1,
      key: (s) => metricOf(s, i),
      hint: study.seeds.length > 1 ? "mean of the seeds ± half its 95 % interval" : null,
      cell: (s) => [showMetric(s, i), i === 0 ? mark(s) : null],
    }),
  );
  if (study.seeds.length > 1) {
    columns.push({
      title: "seeds",
      kind: "number",
      first: -1,
      key: (s) => trialsOf[s].length,
      cell: (s) => String(trialsOf[s].length),
    });
  }
  const seconds = (s) =>
    trialsOf[s].reduce((sum, t) => sum + study.trials.seconds[t], 0) / trialsOf[s].length;
  const each = study.seeds.length > 1 ? " (mean of the seeds)" : "";
  columns.push({
    title: "seconds",
    hint: `time of the epochs${each}, or of the whole trial if epochs are not timed`,
    kind: "number",
    first: -1,
    key: seconds,
    cell: (s) => show(seconds(s)),
  });
  return columns;
}

/** The number of seeds with the diagnosis of their setting, unless all have it. */
function mixture(setting) {
  const trials = trialsOf[setting];
  const same = trials.filter(
    (trial) => study.trials.label[trial] === study.settings.label[setting],
  ).length;
  return same === trials.length ? null : make("small", {}, ` ${same} of ${trials.length}`);
}

/** The mark of a setting; an empty one keeps the numbers of a column aligned. */
function mark(setting) {
  if (setting === study.best)
    return make("span", { class: "mark", title: "the best configuration" }, " ★");
  if (!study.settings.alike[setting]) return make("span", { class: "mark" });
  return make("span", { class: "mark", title: "within noise of the best" }, " ≈");
}

/** The text that the filter searches: `axis=value` for each axis, diagnosis, status, errors. */
function searchText(setting) {
  const axes = study.axes.map((axis, i) => `${axis.name}=${showValue(axisValue(setting, i))}`);
  const trials = trialsOf[setting].map(
    (t) =>
      `${study.trials.id[t]} ${study.statuses[study.trials.status[t]]} ${study.errors[t] ?? ""}`,
  );
  return ` ${[...axes, ...trials, labelOf(setting)].join(" ").toLowerCase()} `;
}

/** A word of the filter with its number as it is shown: rate=.1 and rate=1e-1 are rate=0.1. */
function usual(word) {
  const [, name, value] = word.match(/^(.*=)([^=]+)$/) ?? [];
  const number = Number(value);
  return Number.isFinite(number) ? name + showValue(number) : word;
}

/** Words with = match whole values, as in rate=0.1; others match parts. */
const matches = (text, word) => text.includes(/=./.test(word) ? `${word} ` : word);
