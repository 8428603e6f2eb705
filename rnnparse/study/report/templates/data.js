"use strict";

// `study` has a column for each quantity of trials and settings; the curves and the evidence of
// trial i are line i of `details`, which is read only when it is looked at.
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

/** The name of an axis or a quantity as people read it. */
const title = (name) => study.titles[name] ?? words(name);

const trialsOf = Array.from({ length: settingCount }, () => []);
study.trials.setting.forEach((setting, trial) => trialsOf[setting].push(trial));

/** The first trial of a setting that has its diagnosis. */
const typicalTrial = (setting) =>
  trialsOf[setting].find((trial) => study.trials.label[trial] === study.settings.label[setting]);

const labelOf = (setting) => study.labels[study.settings.label[setting]];
const axisValue = (setting, axis) => study.axes[axis].values[study.settings.config[axis][setting]];
const metricOf = (setting, metric) => study.settings.metrics[metric].mean[setting];

/** Whether a value of a metric is better than another; no value is worse than any. */
function better(metric, one, other) {
  if (one == null || other == null) return one != null;
  return study.metrics[metric].higher ? one > other : one < other;
}

/** What tells a setting from others: a number with the name of its axis, a word without. */
function nameOf(setting, axes = varying) {
  const parts = axes.map((axis) => {
    const value = showValue(axisValue(setting, axis));
    return typeof axisValue(setting, axis) === "string"
      ? value
      : `${title(study.axes[axis].name)} ${value}`;
  });
  return parts.join(" · ") || "the only setting";
}

/** How a metric's mean is written, with half its interval where there are several seeds. */
function showMetric(setting, metric) {
  const { mean, half } = study.settings.metrics[metric];
  const { digits } = study.metrics[metric];
  if (mean[setting] == null || half[setting] == null) return showMean(setting, metric);
  return showWithHalf(mean[setting], half[setting], digits);
}

/** The mean alone, in the digits that one seed would have. */
function showMean(setting, metric) {
  const { mean } = study.settings.metrics[metric];
  const { digits } = study.metrics[metric];
  return digits == null || mean[setting] == null ? show(mean[setting]) : mean[setting].toFixed(digits);
}

/** A number and half its interval, with the digits that the interval makes worth while. */
function showWithHalf(mean, half, digits) {
  if (half === 0) return `${digits == null ? show(mean) : mean.toFixed(digits)} ± 0`;
  const magnitude = (value) => (value ? Math.floor(Math.log10(Math.abs(value))) : 0);
  const places = digits ?? Math.max(0, Math.min(1 - magnitude(half), 4 - magnitude(mean)));
  if (places > 5 || Math.max(Math.abs(mean), half) >= 1e5) return `${brief(mean)} ± ${brief(half)}`;
  return `${mean.toFixed(places)} ± ${half.toFixed(places)}`;
}

/** A great or small number in three digits. */
const brief = (value) => value.toExponential(2).replace(/\.?0*e\+?/, "e");

// 97.5 % quantiles of Student's t for 1, 2, ... degrees of freedom.
const STUDENT = [
  12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.16, 2.145,
  2.131, 2.12, 2.11, 2.101, 2.093, 2.086, 2.08, 2.074, 2.069, 2.064, 2.06, 2.056, 2.052, 2.048,
];

/** Where the values of a setting's curves stand: the middle of each stretch, from 1 on. */
function positions(kind, setting) {
  const edges = study.edges[study.settings[kind][setting]] ?? [0];
  return edges.slice(1).map((edge, i) => (edges[i] + 1 + edge) / 2);
}

/** So many seeds have a band; fewer are drawn themselves, as the interval of two says little. */
const FEWEST_BANDED = 5;

/**
 * A setting's curve of one quantity: {x, mean, low, high, seeds, reach, single}, or null.
 *
 * Of one seed, low and high are the least and greatest of each stretch, where stretches were drawn
 * together; of many, the 95 % interval of their mean, on the scale that is drawn. `seeds` are those
 * to draw, `reach` all values that an axis must show.
 */
function curveOf(setting, kind, quantity, logarithmic) {
  const found = trialsOf[setting].map((trial) => detail(trial)[kind][quantity]).filter(Boolean);
  if (!found.length) return null;
  const x = positions(kind, setting);
  if (found.length === 1) {
    const only = found[0];
    const drawn = Array.isArray(only) ? { mean: only, low: null, high: null } : only;
    const reach = Object.values(drawn).flatMap((values) => values ?? []);
    return { x, ...drawn, seeds: [], reach, single: true };
  }
  const means = found.map((one) => (Array.isArray(one) ? one : one.mean));
  const columns = x.map((_, i) => means.map((one) => one[i]).filter((value) => value != null));
  const positive = columns.every((values) => values.every((value) => value > 0));
  const bands = columns.map((values) => interval(values, logarithmic && positive));
  const [mean, low, high] = [0, 1, 2].map((i) => bands.map((band) => band[i]));
  const reach = [mean, ...means].flat();
  if (found.length < FEWEST_BANDED) return { x, mean, low: null, high: null, seeds: means, reach };
  return { x, mean, low, high, seeds: [], reach };
}

/** Mean and 95 % interval, if of many; of the logarithms where a logarithmic axis shows them. */
function interval(values, logarithmic) {
  const n = values.length;
  if (n === 0) return [null, null, null];
  const numbers = logarithmic ? values.map(Math.log) : values;
  const back = logarithmic ? Math.exp : (value) => value;
  const mean = numbers.reduce((a, b) => a + b, 0) / n;
  if (n < FEWEST_BANDED) return [back(mean), null, null];
  const variance = numbers.reduce((a, b) => a + (b - mean) ** 2, 0) / (n - 1);
  const half = (STUDENT[n - 2] ?? 1.96) * Math.sqrt(variance / n);
  return [back(mean), back(mean - half), back(mean + half)];
}
