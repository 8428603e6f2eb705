"use strict";

/** Evidence with its meaning, and a column for each trial. */
function evidenceTable(trials) {
  const columns = trials.map((trial) => detail(trial).evidence);
  const names = Object.keys(study.meanings).filter((name) =>
    columns.some((column) => name in column),
  );
  const row = (name, values, meaning) =>
    make(
      "tr",
      {},
      make("th", { scope: "row" }, name),
      values.map((value) => make("td", {}, show(value))),
      make("td", { class: "meaning" }, meaning),
    );
  const several = trials.length > 1 ? study.metrics : [];
  const rows = [
    ...several.map((metric, i) =>
      row(metric.title, trials.map((trial) => detail(trial).metrics[i]), "of each seed"),
    ),
    ...names.map((name) =>
      row(words(name), columns.map((column) => column[name]), study.meanings[name]),
    ),
  ];
  const heads = trials.map((trial) =>
    make("th", { scope: "col" }, `seed ${study.trials.seed[trial]}`),
  );
  const head = trials.length > 1 ? make("thead", {}, make("tr", {}, make("td"), heads)) : null;
  return make("table", { class: "evidence" }, head, make("tbody", {}, rows));
}

/** The outcome of one trial of a setting. */
function trialDetail(trial) {
  const { id, seed, status, label, seconds } = study.trials;
  const name = study.labels[label[trial]];
  const facts = [`trial ${id[trial]}`, study.statuses[status[trial]], `${show(seconds[trial])} s`];
  return make(
    "section",
    { class: "trial" },
    make(
      "p",
      {},
      icon(name),
      make("b", {}, ` seed ${seed[trial]}: ${name}. `),
      detail(trial).advice,
      " ",
      make("span", { class: "facts" }, facts.join(" · ")),
    ),
    study.errors[trial] ? make("pre", { class: "error" }, study.errors[trial]) : null,
  );
}

/** All details of a setting: its trials, axes, evidence, and the command that trains it. */
function settingDetail(setting) {
  const trials = trialsOf[setting];
  const label = labelOf(setting);
  const all = study.axes.map((axis, i) => `${axis.name} = ${showValue(axisValue(setting, i))}`);
  const { command } = detail(trials[0]);
  return make(
    "div",
    { class: "detail" },
    make("p", {}, make("b", {}, `The rule of “${label}”: `), study.rules[label]),
    trials.map(trialDetail),
    make("p", { class: "facts" }, all.join(" · ")),
    command ? copyable(command) : null,
    evidenceTable(trials),
  );
}

/** A command with a button that copies it. */
function copyable(command) {
  const text = command.split(" ").flatMap((word) => [make("span", {}, word), " "]);
  return make(
    "div",
    { class: "command" },
    make("code", {}, text),
    copyButton(() => command),
  );
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
  return pushButton({ class: "copy", click }, "copy");
}
