"use strict";

const LEFT_OUT = ".controls, .readout, .remove, .advice";
const STYLES = [
  ...["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linecap", "stroke-linejoin"],
  ...["opacity", "paint-order", "font-size", "font-weight", "text-anchor"],
];
const PAD = 12;
const pen = document.createElement("canvas").getContext("2d");

/** A button that saves elements of the page as an SVG file, as they are shown. */
function saveButton(name, elements) {
  const click = () => {
    const file = new Blob([picture(elements())], { type: "image/svg+xml" });
    const href = URL.createObjectURL(file);
    make("a", { href, download: `${name().replace(/\W+/g, "-")}.svg` }).click();
    setTimeout(() => URL.revokeObjectURL(href), 10_000);
  };
  return pushButton({ class: "save", click }, "Save SVG");
}

/** Elements below each other as a self-contained SVG: boxes, texts, drawings, fonts, colours. */
function picture(elements) {
  const { fontFamily, backgroundColor } = getComputedStyle(document.body);
  const paper = draw("rect", { fill: backgroundColor });
  const svg = draw("svg", { xmlns: SVG, "font-family": fontFamily }, paper);
  let [right, bottom] = [0, 0];
  for (const element of elements) {
    const box = element.getBoundingClientRect();
    const [dx, dy] = [PAD - box.left + element.scrollLeft, bottom + PAD - box.top];
    const add = (parent, part, area) => {
      parent.append(part);
      right = Math.max(right, area.right + dx);
      bottom = Math.max(bottom, area.bottom + dy);
    };
    copy(element, svg.appendChild(draw("g", { transform: `translate(${dx} ${dy})` })), add);
  }
  const size = { width: Math.ceil(right + PAD), height: Math.ceil(bottom + PAD) };
  for (const part of [svg, paper]) fill(part, size, []);
  svg.setAttribute("viewBox", `0 0 ${size.width} ${size.height}`);
  return new XMLSerializer().serializeToString(svg);
}

/** Draw an element of the page into a group, at its place on the screen. */
function copy(element, group, add) {
  const style = getComputedStyle(element);
  const box = element.getBoundingClientRect();
  if (element.matches(LEFT_OUT) || style.visibility === "hidden" || !box.width) return;
  if (element instanceof SVGElement) {
    const { x, y, width, height } = box;
    return add(group, fill(styled(element), { x, y, width, height }, []), box);
  }
  if (style.opacity !== "1") group = group.appendChild(draw("g", { opacity: style.opacity }));
  const back = style.backgroundColor;
  const outline = style.outlineStyle === "none" ? 0 : parseFloat(style.outlineWidth);
  if (outline || !/^rgba\(.*, 0\)$/.test(back)) {
    const out = outline ? parseFloat(style.outlineOffset) + outline / 2 : 0;
    add(group, frame(box, out, style, outline), box);
  }
  for (const node of element.childNodes) {
    if (node instanceof Element) copy(node, group, add);
    else if (node instanceof Text) for (const [part, at] of written(node, style)) add(group, part, at);
  }
}

/** The background of a box with its outline. */
function frame({ x, y, width, height }, out, style, outline) {
  const place = { x: x - out, y: y - out, width: width + 2 * out, height: height + 2 * out };
  const dash = style.outlineStyle === "dotted" ? `${outline} ${outline}` : null;
  const stroke = { stroke: style.outlineColor, "stroke-width": outline, "stroke-dasharray": dash };
  const rect = { ...place, rx: style.borderRadius, fill: style.backgroundColor };
  return draw("rect", { ...rect, ...(outline ? stroke : {}) });
}

/** A copy of a drawing that needs neither the style sheet nor the symbols of the page. */
function styled(element) {
  const clone = element.cloneNode(false);
  const style = getComputedStyle(element);
  for (const name of STYLES) clone.setAttribute(name, style.getPropertyValue(name));
  clone.removeAttribute("class");
  if (element.localName !== "use") {
    for (const child of element.childNodes) {
      clone.append(child instanceof Element ? styled(child) : child.cloneNode());
    }
    return clone;
  }
  const symbol = document.querySelector(element.getAttribute("href"));
  const viewBox = symbol.getAttribute("viewBox");
  const shapes = [...symbol.children].map((child) => child.cloneNode());
  return draw("svg", { viewBox, width: "100%", height: "100%" }, shapes);
}

/** The lines of a text as they are wrapped: pairs of a text element and its box. */
function written(node, style) {
  const upright = style.writingMode.startsWith("vertical");
  const range = document.createRange();
  const rows = [];
  for (const { 0: word, index } of node.data.matchAll(/\S+/g)) {
    range.setStart(node, index);
    range.setEnd(node, index + word.length);
    const box = range.getBoundingClientRect();
    const last = rows.at(-1);
    const place = upright ? box.left : box.top;
    if (last && Math.abs(last.place - place) < 2) last.words.push(word);
    else if (box.width) rows.push({ box, place, words: [word] });
    if (rows.length) rows.at(-1).end = box;
  }
  pen.font = style.font;
  const { fontBoundingBoxAscent: up, fontBoundingBoxDescent: down } = pen.measureText("x");
  const { clientWidth: seen, scrollWidth: whole } = node.parentElement;
  return rows.map(({ box, end, words }) => {
    const full = words.join(" ");
    const cut = seen && seen < whole ? Math.max(1, Math.floor((full.length * seen) / whole) - 1) : 0;
    const gap = ((upright ? box.width : box.height) - up - down) / 2;
    const [x, y] = upright ? [box.left + gap + down, box.top] : [box.left, box.top + gap + up];
    const font = { "font-size": style.fontSize, "font-weight": style.fontWeight, fill: style.color };
    const turn = upright ? { transform: `rotate(90 ${x} ${y})` } : {};
    const part = draw("text", { x, y, ...font, ...turn }, cut ? `${full.slice(0, cut)}…` : full);
    const right = cut ? Math.min(end.right, node.parentElement.getBoundingClientRect().right) : end.right;
    return [part, { right, bottom: end.bottom }];
  });
}
