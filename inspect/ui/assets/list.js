// The list of locks. Only the rows that are seen exist, however many locks there are.

import { $, el, setAttribute, setText } from "./dom.js";
import { count, duration, notKnown, owner, plural, shown } from "./format.js";
import { stateOf } from "./store.js";

const overscan = 6; // rows above and below those that are seen

// Each column has what it is sorted by. Numbers begin with the greatest, texts with the first.
const columns = {
  name: { key: (l) => l.name, text: true },
  kind: { key: (l) => l.kind, text: true },
  holder: { key: (l) => l.owner, text: true },
  held: { key: (l) => (l.since ? -l.since : -Infinity) },
  lease: { key: (l) => l.until || Infinity, text: true },
  waiting: { key: (l) => l.waiting },
};
const order = Object.keys(columns);

export class List {
  // open is called with the name of the lock that is to be shown, changed when filter or order has changed.
  constructor(store, open, changed) {
    this.store = store;
    this.open = open;
    this.changed = changed;
    this.grid = $("grid");
    this.rows = $("rows");
    this.filter = $("filter");
    this.sort = "name";
    this.down = false; // against the natural order
    this.show = "all";
    this.words = [];
    this.view = []; // the locks that match, in order
    this.active = 0; // id of the lock that the keyboard is at
    this.pool = new Map(); // rows by the id of their lock
    this.free = [];
    this.stale = "order";
    this.frame = 0;
    this.height = rowHeight(); // of a row, in px
    this.listen();
  }

  listen() {
    this.filter.addEventListener("input", () => this.choose());
    for (const radio of document.getElementsByName("show")) {
      radio.addEventListener("change", () => {
        this.show = radio.value;
        this.choose();
      });
    }
    for (const header of this.grid.querySelectorAll("[data-column]")) {
      header.firstElementChild.addEventListener("click", () => this.sortBy(header.dataset.column));
    }
    this.grid.addEventListener("scroll", () => this.draw(), { passive: true });
    this.grid.addEventListener("keydown", (e) => this.onKey(e));
    this.rows.addEventListener("click", (e) => {
      const line = e.target.closest("[role=row]");
      if (!line || e.ctrlKey || e.metaKey || e.shiftKey || e.button !== 0) return;
      e.preventDefault();
      this.openLock(Number(line.dataset.id));
    });
    new ResizeObserver(() => {
      this.height = rowHeight();
      this.draw();
    }).observe(this.grid);
  }

  // choose takes what the tools say.
  choose() {
    this.words = this.filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    this.grid.scrollTop = 0;
    this.changed();
    this.update("order");
  }

  sortBy(column) {
    if (column === "waiting" && this.store.quorum) return;
    this.down = this.sort === column && !this.down;
    this.sort = column;
    this.changed();
    this.update("order");
  }

  sortByNumber(n) {
    if (order[n - 1]) this.sortBy(order[n - 1]);
  }

  // restore takes filter and order from an address.
  restore(query) {
    this.filter.value = query.get("q") ?? "";
    this.words = this.filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const sort = query.get("sort") ?? "name";
    this.down = sort.startsWith("-");
    this.sort = columns[sort.replace("-", "")] ? sort.replace("-", "") : "name";
    this.show = ["held", "waiting"].includes(query.get("show")) ? query.get("show") : "all";
    for (const radio of document.getElementsByName("show")) radio.checked = radio.value === this.show;
    this.update("order");
  }

  // save puts them into one.
  save(query) {
    if (this.filter.value) query.set("q", this.filter.value);
    if (this.sort !== "name" || this.down) query.set("sort", (this.down ? "-" : "") + this.sort);
    if (this.show !== "all") query.set("show", this.show);
  }

  // update draws anew with the next frame. what is what Store.apply returns.
  update(what) {
    if (what === "order" || (what === "lease" && this.sort === "lease")) this.stale = "order";
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      if (this.stale) this.arrange();
      this.draw();
    });
  }

  // arrange finds the locks that match, and sorts them.
  arrange() {
    this.stale = "";
    let held = 0;
    let waiting = 0;
    let longest = 0;
    const found = [];
    const { quorum } = this.store;
    const sort = quorum && this.sort === "waiting" ? "name" : this.sort;
    for (const lock of this.store.locks.values()) {
      if (lock.holders > 0) held++;
      waiting += lock.waiting;
      if (lock.waited && (!longest || lock.waited < longest)) longest = lock.waited;
      if (this.show === "held" && lock.holders === 0) continue;
      if (this.show === "waiting" && lock.waiting === 0) continue;
      if (this.words.every((word) => lock.text.includes(word) || word === lock.grant)) found.push([columns[sort].key(lock), lock]);
    }
    const natural = columns[sort].text ? 1 : -1;
    const direction = this.down && sort === this.sort ? -natural : natural;
    found.sort(([a, l], [b, m]) => {
      if (a < b) return -direction;
      if (a > b) return direction;
      return l.name < m.name ? -1 : 1;
    });
    this.view = found.map(([, lock]) => lock);
    this.figures = { locks: this.store.locks.size, held, waiting, longest };
    for (const header of this.grid.querySelectorAll("[data-column]")) {
      const sorted = header.dataset.column === sort;
      if (sorted) header.setAttribute("aria-sort", direction > 0 ? "ascending" : "descending");
      else header.removeAttribute("aria-sort");
    }
    for (const button of document.querySelectorAll("[data-column=waiting] button, input[value=waiting]")) {
      button.disabled = quorum;
      setAttribute(button.parentElement, "title", quorum ? notKnown : "");
    }
    const some = this.words.length > 0 || this.show !== "all";
    setText($("found"), some ? `${count(this.view.length)} of ${count(this.store.locks.size)}` : "");
  }

  // draw lays out the rows that are seen.
  draw() {
    if (this.grid.offsetParent === null) return;
    const now = this.store.now();
    this.drawFigures(now);
    const { height } = this;
    this.rows.style.height = `${this.view.length * height}px`;
    setAttribute(this.grid, "aria-rowcount", String(this.view.length + 1));
    const first = Math.max(0, Math.floor(this.grid.scrollTop / height) - overscan);
    const last = Math.min(this.view.length, Math.ceil((this.grid.scrollTop + this.grid.clientHeight) / height) + overscan);
    const needed = new Set();
    for (let i = first; i < last; i++) needed.add(this.view[i].id);
    for (const [id, line] of this.pool) {
      if (needed.has(id)) continue;
      this.pool.delete(id);
      this.free.push(line);
    }
    for (let i = first; i < last; i++) {
      const lock = this.view[i];
      let line = this.pool.get(lock.id);
      if (!line) {
        line = this.free.pop() ?? newLine();
        this.pool.set(lock.id, line);
        this.rows.append(line.root);
      }
      fill(line, lock, now, i, i * height, lock.id === this.active, this.store.quorum);
    }
    for (const line of this.free) line.root.remove();
    this.free.length = Math.min(this.free.length, 50);
    if (this.pool.has(this.active)) setAttribute(this.grid, "aria-activedescendant", `row-${this.active}`);
    else this.grid.removeAttribute("aria-activedescendant");
    this.drawEmpty();
  }

  drawFigures(now) {
    if (!this.figures || this.store.state === null) return;
    setText($("n-locks"), count(this.figures.locks));
    setText($("n-held"), count(this.figures.held));
    setText($("n-waiting"), this.store.quorum ? "–" : count(this.figures.waiting));
    for (const id of ["n-waiting", "n-longest"]) setAttribute($(id), "title", this.store.quorum ? notKnown : "");
    setText($("n-longest"), this.figures.longest ? duration(now - this.figures.longest) : "–");
  }

  // drawEmpty says why there is nothing to see. That the server does not answer looks different from that there are no locks.
  drawEmpty() {
    const empty = $("empty");
    empty.hidden = this.view.length > 0;
    if (!empty.hidden) {
      const state = this.store.state;
      const [kind, title, text] = this.show === "waiting" && this.store.quorum ? ["none", notKnown, "Show all locks, or those that are held."] : why(state, this.store.locks.size, this.store.quorum);
      if (empty.dataset.kind !== kind + text) {
        empty.dataset.kind = kind + text;
        empty.className = `empty ${kind}`;
        empty.replaceChildren(el("strong", {}, title), el("p", {}, text));
      }
    }
  }

  onKey(e) {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    const page = Math.max(1, Math.floor(this.grid.clientHeight / this.height) - 2);
    const steps = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (e.key in steps) this.move(steps[e.key]);
    else if (e.key === "Enter" && e.target === this.grid && this.active) this.openLock(this.active);
    else return;
    e.preventDefault();
    e.stopPropagation();
  }

  // move goes to another row, and takes the focus to the list.
  move(step) {
    if (this.stale) { // a key came before the frame that shows what was chosen
      this.arrange();
      this.draw();
    }
    if (this.view.length === 0) return;
    const at = this.view.findIndex((l) => l.id === this.active);
    const from = at < 0 && step > 0 ? -1 : at;
    const to = Math.min(this.view.length - 1, Math.max(0, from + step));
    this.active = this.view[to].id;
    const { height } = this;
    const head = this.grid.firstElementChild.offsetHeight;
    const top = to * height;
    if (top < this.grid.scrollTop) this.grid.scrollTop = top;
    else if (top + height + head > this.grid.scrollTop + this.grid.clientHeight) this.grid.scrollTop = top + height + head - this.grid.clientHeight;
    this.grid.focus({ preventScroll: true });
    this.draw();
  }

  openLock(id) {
    const lock = this.store.locks.get(id);
    if (!lock) return;
    this.active = id;
    this.open(lock.name);
  }
}

// titleOf says what is the matter.
export function titleOf(why, quorum) {
  return { silent: quorum ? "Too few nodes of the quorum answer" : "The server does not answer", denied: "The server refuses to show this" }[why] ?? "This cannot be looked at";
}

function why(state, locks, quorum) {
  if (state === null) return ["loading", "Looking at the locks …", ""];
  if (state.error && locks === 0) {
    return ["down", titleOf(state.why, quorum), state.error];
  }
  if (locks > 0) return ["none", "No lock matches", "Change the filter, or press Esc to clear it."];
  return ["none", "No locks", "Nobody holds a lock or waits for one. They appear here as soon as somebody does."];
}

// rowHeight reads the style sheet: on a phone, a row has two lines.
function rowHeight() {
  return parseFloat(getComputedStyle(document.documentElement).getPropertyValue("--row")) || 44;
}

function newLine() {
  const cell = (name, ...children) => el("div", { role: "gridcell", class: name }, ...children);
  const link = el("a", { tabindex: "-1" });
  const line = { link, name: cell("name", el("span", { class: "dot", "aria-hidden": "true" }), link), kind: cell("kind"), holder: cell("holder"), held: cell("held"), lease: cell("lease"), waiting: cell("waiting") };
  line.badge = el("span");
  line.waiting.append(line.badge);
  line.root = el("div", { role: "row", class: "line" }, line.name, line.kind, line.holder, line.held, line.lease, line.waiting);
  return line;
}

function fill(line, lock, now, index, top, active, quorum) {
  const { root } = line;
  root.style.transform = `translateY(${top}px)`;
  root.dataset.id = lock.id;
  root.dataset.state = stateOf(lock);
  setAttribute(root, "id", `row-${lock.id}`);
  setAttribute(root, "aria-rowindex", String(index + 2));
  setAttribute(root, "aria-selected", String(active));
  setText(line.link, shown(lock.name));
  setAttribute(line.link, "href", `?lock=${encodeURIComponent(lock.name)}`);
  setAttribute(line.link, "title", shown(lock.name));
  setText(line.kind, lock.kind);
  setText(line.holder, holderText(lock));
  setAttribute(line.holder, "title", shown(lock.notes.trimEnd().replaceAll("\n", ", ")));
  setText(line.held, lock.since ? duration(now - lock.since) : "–");
  setText(line.lease, leaseText(lock, now));
  line.lease.dataset.late = String(lock.until > 0 && lock.until < now);
  setText(line.badge, lock.waiting ? count(lock.waiting) : lock.standby ? `${count(lock.standby)} standby` : "–");
  setAttribute(line.badge, "class", lock.waiting ? "badge" : lock.standby ? "standby" : "nobody");
  setAttribute(line.badge, "title", lock.waiting ? plural(lock.waiting, "process waits", "processes wait") : lock.standby ? "candidates of an election that has a leader" : quorum ? notKnown : "");
}

// holderText says in a few words who holds a lock.
export function holderText(lock) {
  const more = lock.holders > 1 ? ` +${count(lock.holders - 1)}` : "";
  const who = lock.holders > 0 ? owner(lock) + more : "–";
  if (lock.kind === "semaphore") return `${lock.used} of ${lock.limit}` + (lock.holders ? ` · ${who}` : "");
  if (lock.kind === "latch") return `${lock.used} of ${lock.limit} left`;
  if (lock.kind === "barrier") return `${lock.holders} of ${lock.limit}` + (lock.holders ? ` · ${who}` : "");
  if (lock.kind === "election") return lock.holders > 0 ? `leader · ${who}` : "no leader";
  if (lock.kind === "rwmutex" && lock.holders > 0) return `${lock.mode} · ${who}`;
  return who;
}

function leaseText(lock, now) {
  if (lock.holders === 0) return "–";
  if (lock.until === 0) return lock.kind === "latch" || lock.kind === "barrier" ? "–" : "no expiry";
  return lock.until < now ? "over" : duration(lock.until - now + 999);
}
