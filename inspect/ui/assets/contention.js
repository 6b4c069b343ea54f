// The locks with the most waiters, the locks with the longest waits, and the locks held longest.

import { $, el } from "./dom.js";
import { count, duration, notKnown, owner, plural, shown } from "./format.js";

const most = 20;

export function drawContention(store) {
  const now = store.now();
  const locks = [...store.locks.values()];
  const processes = (l) => plural(l.waiting, "process waits", "processes wait");
  // Leaders hold their lock for as long as all is well, and parties hold theirs until the others arrive.
  const held = locks.filter((l) => l.since && !["election", "latch", "barrier"].includes(l.kind));
  rank($("by-hold"), "Nobody holds a lock.", held, (l) => now - l.since, (l) => duration(now - l.since), (l) => (l.waiting ? processes(l) : ""));
  const nobody = store.quorum ? notKnown : "Nobody waits.";
  rank($("by-waiters"), nobody, locks.filter((l) => l.waiting), (l) => l.waiting, (l) => count(l.waiting), (l) => `longest ${l.waited ? duration(now - l.waited) : "–"}`);
  rank($("by-wait"), nobody, locks.filter((l) => l.waited), (l) => now - l.waited, (l) => duration(now - l.waited), processes);
}

function rank(list, nobody, locks, value, text, more) {
  const first = locks.map((lock) => [value(lock), lock]).sort(([a, l], [b, m]) => b - a || (l.name < m.name ? -1 : 1)).slice(0, most);
  if (first.length === 0) {
    if (list.textContent !== nobody) list.replaceChildren(el("li", { class: "nobody" }, nobody));
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
    detail.textContent = [holdersOf(lock), more(lock)].filter(Boolean).join(" · ");
    bar.value = n / (first[0][0] || 1);
  });
}

function holdersOf(lock) {
  if (lock.holders === 0) return lock.kind === "election" ? "nobody leads" : "nobody holds it";
  return `held by ${owner(lock)}` + (lock.holders > 1 ? ` and ${count(lock.holders - 1)} more` : "");
}
