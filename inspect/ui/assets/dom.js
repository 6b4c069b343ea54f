// Elements. Text from servers only ever becomes text nodes.

export const $ = (id) => document.getElementById(id);

// el makes an element. Properties that begin with "on" are listeners; null and undefined are left out.
export function el(tag, properties = {}, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) e.addEventListener(name.slice(2), value);
    else if (name === "class") e.className = value;
    else e.setAttribute(name, value === true ? "" : value);
  }
  e.append(...children.filter((c) => c !== null && c !== undefined));
  return e;
}

// setText changes a text only if it differs, so that nothing is laid out in vain.
export function setText(e, text) {
  if (e.textContent !== text) e.textContent = text;
}

export function setAttribute(e, name, value) {
  if (e.getAttribute(name) !== value) e.setAttribute(name, value);
}
