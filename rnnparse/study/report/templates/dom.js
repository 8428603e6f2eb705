"use strict";

const SVG = "http://www.w3.org/2000/svg";

/** An element. Children are elements or text; text is never read as HTML. */
function make(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** An SVG element. */
function draw(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children.flat(Infinity).filter((child) => child != null));
  return element;
}

/** A button. */
const pushButton = (attributes, ...children) =>
  make("button", { type: "button", ...attributes }, ...children);

const byId = (id) => document.getElementById(id);

/** The icon of a diagnosis: a miniature curve. */
function icon(label) {
  const use = draw("use", { href: `#icon-${label.replaceAll(" ", "-")}` });
  return draw("svg", { class: `icon ${label.replaceAll(" ", "-")}`, "aria-hidden": "true" }, use);
}

/** A number in at most four digits; – where there is none. */
function show(value) {
  if (value == null) return "–";
  if (typeof value !== "number") return String(value);
  const size = Math.abs(value);
  if (size >= 1e6 || (size > 0 && size < 1e-4))
    return value.toExponential(2).replace(/\.?0*e\+?/, "e");
  if (Number.isInteger(value)) return String(value);
  return String(Number(value.toPrecision(4)));
}

/** A value of an axis, which may be any JSON; numbers are written as in Python. */
function showValue(value) {
  if (typeof value === "string") return value;
  if (typeof value !== "number") return JSON.stringify(value);
  const size = Math.abs(value);
  if (size === 0 || (size >= 1e-4 && size < 1e16)) return String(value);
  return value.toExponential().replace(/e([+-])(\d)$/, "e$10$2");
}

const words = (name) => name.replaceAll("_", " ");

/** A select element with [value, text] pairs. */
function choice(label, options, chosen, onChange) {
  const select = make("select", { change: (event) => onChange(event.target.value) });
  for (const [value, text] of options) {
    select.append(make("option", { value, selected: value === chosen }, text));
  }
  return make("label", { class: "choice" }, make("span", {}, label), select);
}

/** A check box with a label. */
function tick(label, checked, onChange) {
  const change = (event) => onChange(event.target.checked);
  return make(
    "label",
    { class: "tick" },
    make("input", { type: "checkbox", checked, change }),
    label,
  );
}
