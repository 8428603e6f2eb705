"use strict";

/** Evidence of one trial: what was measured, and what it means. */
function evidenceTable(trial) {
  const { evidence } = detail(trial);
  const rows = Object.entries(evidence).map(([name, value]) =>
    make("tr", {}, make("th", { scope: "row" }, words(name)), make("td", {}, show(value)),
      make("td", { class: "meaning" }, study.meanings[name] ?? "")));
  return rows.length ? make("table", { class: "evidence" }, make("tbody", {}, rows)) : null;
}

/** Everything about one trial of a setting. */
function trialDetail(trial, several) {
  const { advice } = detail(trial);
  const { id, seed, status, label, seconds } = study.trials;
  const name = study.labels[label[trial]];
  const ended = study.statuses[status[trial]];
  const facts = [`trial ${id[trial]}`, `seed ${seed[trial]}`, ended, `${show(seconds[trial])} s`];
  return make("section", { class: "trial" },
    several ? make("h4", {}, icon(name), ` seed ${seed[trial]}: ${name}`) : null,
    advice ? make("p", { class: "advice" }, advice) : null,
    study.errors[trial] ? make("pre", { class: "error" }, study.errors[trial]) : null,
    evidenceTable(trial),
    make("p", { class: "facts" }, facts.join(" · ")));
}

/** Everything about a setting: its trials, all its axes, and how to train it. */
function settingDetail(setting) {
  const trials = trialsOf[setting];
  const label = labelOf(setting);
  const all = study.axes.map((axis, i) => `${axis.name} = ${showValue(valueOf(setting, i))}`);
  const { command, note } = detail(trials[0]);
  return make("div", { class: "detail" },
    make("p", { class: "rule-of" }, make("b", {}, `${label}. `), study.rules[label]),
    note ? make("p", {}, note) : null,
    trials.map((trial) => trialDetail(trial, trials.length > 1)),
    make("p", { class: "facts" }, all.join(" · ")),
    command ? copyable(command) : null);
}

/** A command with a button that copies it. */
function copyable(command) {
  const text = command.split(" ").flatMap((word) => [make("span", {}, word), " "]);
  return make("div", { class: "command" }, make("code", {}, text), copyButton(() => command));
}

function copyButton(text) {
  const click = async (event) => {
    const button = event.currentTarget;
    try {
      await navigator.clipboard.writeText(text());
      button.textContent = "copied";
    } catch {
      button.textContent = "select and copy by hand";
    }
  };
  return make("button", { type: "button", class: "copy", click }, "copy");
}
