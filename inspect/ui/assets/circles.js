// Circles of programs that hold locks and wait for each other's, as pictures.

import { $, el, owner, shown } from "./text.js";

const [width, height, radius] = [520, 300, 96];

function svg(tag, properties, ...children) {
  const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(properties)) e.setAttribute(name, value);
  e.append(...children);
  return e;
}

const short = (text) => (text.length > 22 ? `${text.slice(0, 21)}…` : text);

// picture draws the holders on a ring. An arrow leads from each to the holder of the lock that it waits for, and has that lock's name.
function picture(circle) {
  const n = circle.length;
  const at = (i, r = radius) => {
    const angle = (2 * Math.PI * i) / n - Math.PI / 2;
    return [width / 2 + 1.6 * r * Math.cos(angle), height / 2 + r * Math.sin(angle)];
  };
  const text = ([x, y], words, style) => svg("text", { x, y, class: style, "text-anchor": "middle", "dominant-baseline": "middle" }, words);
  const parts = [];
  circle.forEach((holder, i) => {
    const [x, y] = at(i + 0.16);
    const [toX, toY] = at(i + 0.84);
    const [viaX, viaY] = at(i + 0.5, radius * (n === 2 ? 1.1 : 1.25));
    parts.push(svg("path", { d: `M${x} ${y}Q${viaX} ${viaY} ${toX} ${toY}`, class: "wait", "marker-end": "url(#arrow)" }));
    parts.push(text(at(i + 0.5, radius * (n === 2 ? 0.72 : 1.32)), short(shown(circle[(i + 1) % n].name)), "wanted"));
    parts.push(text(at(i), short(owner(holder)), "holder"));
  });
  const arrow = svg("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 8, markerHeight: 8, orient: "auto-start-reverse" }, svg("path", { d: "M0 0 8 4 0 8z" }));
  return svg("svg", { viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" }, svg("defs", {}, arrow), ...parts);
}

let drawn = "";

// showCircles shows the circles, if there are any.
export function showCircles(circles = []) {
  const text = JSON.stringify(circles);
  if (text === drawn) return; // what somebody has marked stays marked
  drawn = text;
  const link = (name) => el("a", { href: `?lock=${encodeURIComponent(name)}` }, shown(name));
  $("circles").hidden = circles.length === 0;
  $("circles").replaceChildren(...circles.map((circle) => el("section", { class: "panel circle", "aria-label": "Deadlock" },
    el("div", {}, el("h2", {}, "Deadlock"),
      el("p", {}, "Each holds a lock and waits for the next one's. None can go on until one lets go or is broken."),
      el("ol", {}, ...circle.map((h, i) => el("li", {}, el("b", {}, owner(h)), " holds ", link(h.name), " and waits for ", link(circle[(i + 1) % circle.length].name))))),
    picture(circle))));
}
