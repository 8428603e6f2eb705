"use strict";

/** Connect the parts of the page. */
function start() {
  const chips = [...document.querySelectorAll("button[data-label]")];
  const map = new HeatMap(byId("map-controls"), byId("map-box"), (settings, add) =>
    curves.pick(settings, add),
  );
  const curves = new Curves(byId("charts"), byId("picked"), (picked) => {
    map.mark(picked);
    table.mark(picked);
  });
  const table = new SettingTable(byId("head"), byId("body"), byId("pages"), (settings, add) =>
    curves.pick(settings, add),
  );
  const text = byId("filter");
  const label = byId("by-label");
  const filter = () => {
    table.filter(text.value, label.value);
    for (const chip of chips) chip.setAttribute("aria-pressed", chip.dataset.label === label.value);
    map.dim(label.value);
  };
  text.addEventListener("input", filter);
  label.addEventListener("change", filter);
  for (const chip of chips) {
    chip.addEventListener("click", () => {
      label.value = label.value === chip.dataset.label ? "" : chip.dataset.label;
      filter();
    });
  }
  for (const box of document.querySelectorAll(".best-setting .command")) {
    box.append(copyButton(() => box.querySelector("code").textContent.trim()));
  }
  map.renderControls();
  map.render();
  curves.pick(study.shown, false);
  document.documentElement.dataset.ready = Math.round(performance.now());
}

start();
