// The locks that most wait for, and those that somebody has waited for longest.

import { $, el } from "./dom.js";
import { count, duration, notKnown, owner, plural, shown } from "./format.js";

const most = 20;

export function drawContention(store) {
  const now = store.now();
  if (store.quorum) {
    for (const id of ["by-waiters", "by-wait"]) {
      if ($(id).textContent !== notKnown) $(id).replaceChildren(el("li", { class: "nobody" }, notKnown));
    }
    return;
  }
  const waited = [...store.locks.values()].filter((lock) => lock.waiting > 0);
  rank($("by-waiters"), waited, (l) => l.waiting, (l) => count(l.waiting), (l) => `longest ${l.waited ? duration(now - l.waited) : "–"}`);
  rank($("by-wait"), waited.filter((l) => l.waited), (l) => now - l.waited, (l) => duration(now - l.waited), (l) => plural(l.waiting, "waiter", "waiters"));
}

function rank(list, locks, value, text, more) {
  const first = locks.map((lock) => [value(lock), lock]).sort(([a, l], [b, m]) => b - a || (l.name < m.name ? -1 : 1)).slice(0, most);
  if (first.length === 0) {
    list.replaceChildren(el("li", { class: "nobody" }, "Nobody waits."));
    return;
  }
  // The rows are kept: focus and clicks survive the next second.
  while (list.children.length > first.length || list.querySelector(".nobody")) list.lastElementChild.remove();
  first.forEach(([n, lock], i) => {
    let item = list.children[i];
    if (!item) {
      item = el("li", {}, el("a", {}), el("span", { class: "value" }), el("span", { class: "more" }), el("progress", { max: "1", "aria-hidden": "true" }));
      list.append(item);
    }
    const [link, number, detail, bar] = item.children;
    link.textContent = shown(lock.name);
    link.href = `?lock=${encodeURIComponent(lock.name)}`;
    link.dataset.lock = lock.name;
    number.textContent = text(lock);
    detail.textContent = `${lock.holders ? `held by ${owner(lock)}${lock.holders > 1 ? ` and ${count(lock.holders - 1)} more` : ""}` : lock.kind === "election" ? "nobody leads" : "nobody holds it"} · ${more(lock)}`;
    bar.value = n / (first[0][0] || 1);
  });
}
