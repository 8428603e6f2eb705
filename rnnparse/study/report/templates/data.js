"use strict";

// `study` has a column for each quantity of trials and settings. The curves and the evidence of
// trial i are line i of `details`, which is parsed only when it is needed.
const study = JSON.parse(byId("study").textContent);
const { varying } = study;
const settingCount = study.settings.label.length;

let lines = null;
const known = new Map();

/** Advice, evidence and curves of a trial. */
function detail(trial) {
  lines ??= byId("details").textContent.trim().split("\n");
  if (!known.has(trial)) known.set(trial, JSON.parse(lines[trial]));
  return known.get(trial);
}

/** The title of an axis or a quantity. */
const title = (name) => study.titles[name] ?? words(name);

const trialsOf = Array.from({ length: settingCount }, () => []);
study.trials.setting.forEach((setting, trial) => trialsOf[setting].push(trial));

/** The first trial of a setting that has its diagnosis. */
const typicalTrial = (setting) =>
  trialsOf[setting].find((trial) => study.trials.label[trial] === study.settings.label[setting]);

const labelOf = (setting) => study.labels[study.settings.label[setting]];
const axisValue = (setting, axis) => study.axes[axis].values[study.settings.config[axis][setting]];
const metricOf = (setting, metric) => study.settings.metrics[metric].mean[setting];

/** Whether a value of a metric is better than another; any is better than none. */
function better(metric, one, other) {
  if (one == null || other == null) return one != null;
  return study.metrics[metric].higher ? one > other : one < other;
}

/** The values that distinguish a setting: numbers with the title of their axis, words without. */
function nameOf(setting, axes = varying) {
  const parts = axes.map((axis) => {
    const value = showValue(axisValue(setting, axis));
    return typeof axisValue(setting, axis) === "string"
      ? value
      : `${title(study.axes[axis].name)} ${value}`;
  });
  return parts.join(" · ") || "the only configuration";
}

/** A metric of a setting, with half its interval where there are several seeds. */
const showMetric = (setting, metric) => study.settings.metrics[metric].text[setting];

/** The mean alone, in the digits that one seed would have. */
function showMean(setting, metric) {
  const { digits } = study.metrics[metric];
  const mean = metricOf(setting, metric);
  return digits == null || mean == null ? show(mean) : mean.toFixed(digits);
}

/** The x positions of a setting's curves: the middle of each bin, from 1 on. */
function positions(kind, setting) {
  const edges = study.edges[study.settings[kind][setting]] ?? [0];
  return edges.slice(1).map((edge, i) => (edges[i] + 1 + edge) / 2);
}

/** So many seeds have a band. Fewer are drawn one by one: an interval of two says little. */
const FEWEST_BANDED = 5;

/**
 * A setting's curve of one quantity: {x, mean, low, high, seeds, reach, single}, or null.
 *
 * With one seed, low and high are the minimum and maximum of each bin, if the curve is binned. With
 * many, they are the 95 % interval of the mean on the scale that is drawn. `seeds` are those to
 * draw, `reach` all values that an axis must show.
 */
function curveOf(setting, kind, quantity, logarithmic) {
  const curves = trialsOf[setting].map((trial) => detail(trial)[kind][quantity]).filter(Boolean);
  if (!curves.length) return null;
  const x = positions(kind, setting);
  if (curves.length === 1) {
    const [only] = curves;
    const drawn = Array.isArray(only) ? { mean: only, low: null, high: null } : only;
    const reach = Object.values(drawn).flatMap((values) => values ?? []);
    return { x, ...drawn, seeds: [], reach, single: true };
  }
  const means = curves.map((one) => (Array.isArray(one) ? one : one.mean));
  const columns = x.map((_, i) => means.map((one) => one[i]).filter((value) => value != null));
  const positive = columns.every((values) => values.every((value) => value > 0));
  const bands = columns.map((values) => interval(values, logarithmic && positive));
  const [mean, low, high] = [0, 1, 2].map((i) => bands.map((band) => band[i]));
  const reach = [mean, ...means].flat();
  if (curves.length < FEWEST_BANDED) return { x, mean, low: null, high: null, seeds: means, reach };
  return { x, mean, low, high, seeds: [], reach };
}

/** Mean and 95 % interval of enough values; of their logarithms for a logarithmic axis. */
function interval(values, logarithmic) {
  const n = values.length;
  if (n === 0) return [null, null, null];
  const numbers = logarithmic ? values.map(Math.log) : values;
  const back = logarithmic ? Math.exp : (value) => value;
  const mean = numbers.reduce((a, b) => a + b, 0) / n;
  if (n < FEWEST_BANDED) return [back(mean), null, null];
  const variance = numbers.reduce((a, b) => a + (b - mean) ** 2, 0) / (n - 1);
  const half = study.quantiles[n - 2] * Math.sqrt(variance / n);
  return [back(mean), back(mean - half), back(mean + half)];
}
