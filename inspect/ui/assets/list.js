// The list of locks. Only the rows that are seen exist, however many locks there are.

import { $, candidates, count, duration, el, notKnown, owner, setAttribute, setText, shown, titleOf, waits } from "./text.js";
import { showCircles } from "./circles.js";
import { gap, note } from "./timeline.js";

const overscan = 6; // rows above and below those that are seen

// Each column has what it is sorted by. Numbers begin with the greatest, texts with the first.
const columns = {
  name: { key: (l) => l.name, text: true },
  kind: { key: (l) => l.kind, text: true },
  holder: { key: (l) => l.owner, text: true },
  held: { key: (l) => (l.since ? -l.since : -Infinity) },
  lease: { key: (l) => l.until || Infinity, text: true },
  waiting: { key: (l) => l.waiting },
  waited: { key: (l) => (l.waited ? -l.waited : -Infinity) },
};
const ofQueues = ["waiting", "waited"]; // which a quorum has none of

export class List {
  // open is called with the name of the lock that is to be shown, changed when filter or order has changed.
  constructor(open, changed) {
    this.open = open;
    this.changed = changed;
    this.report = null; // the latest answer, once a look has ended
    this.locks = new Map(); // by name, and for another lock of the same name something like it
    this.quorum = false; // it is not known who waits
    this.offset = 0; // of the server's clock to this browser's, in ms
    this.grid = $("grid");
    this.rows = $("rows");
    this.filter = $("filter");
    this.sort = "name";
    this.down = false; // against the natural order
    this.which = "all";
    this.words = [];
    this.view = []; // the locks that match, in order
    this.active = ""; // id of the lock that the keyboard is at
    this.lines = []; // the rows that exist
    this.frame = 0;
    this.move = this.move.bind(this);
    this.listen();
  }

  listen() {
    this.filter.addEventListener("input", () => this.choose());
    for (const radio of document.getElementsByName("show")) {
      radio.addEventListener("change", () => {
        this.which = radio.value;
        this.choose();
      });
    }
    for (const header of this.grid.querySelectorAll("[data-column]")) {
      header.firstElementChild.addEventListener("click", () => this.sortBy(header.dataset.column));
    }
    this.grid.addEventListener("scroll", () => this.draw(), { passive: true });
    this.rows.addEventListener("click", (e) => {
      const line = e.target.closest("[role=row]");
      if (!line || e.ctrlKey || e.metaKey || e.shiftKey || e.button !== 0) return;
      e.preventDefault();
      this.active = line.dataset.id;
      this.openActive();
    });
    new ResizeObserver(() => this.draw()).observe(this.grid);
  }

  get source() {
    return this.report ? `list?seen=${this.report.id}` : "list";
  }

  // show takes what is known now. A first look may be under way.
  show(answer) {
    this.quorum = answer.about.quorum ?? false;
    this.offset = answer.t - Date.now();
    const before = this.locks;
    const follows = this.report && answer.t - this.report.t < gap; // else more has happened than can be told
    if (answer.seen || answer.error) this.report = answer;
    showCircles(answer.circles);
    this.locks = new Map();
    for (const values of answer.locks) {
      const lock = { kind: "", owner: "", host: "", notes: "", grant: "", used: 0, limit: 0, since: 0, until: 0, waited: 0, ...values };
      for (lock.id = lock.name; this.locks.has(lock.id); ) lock.id += "'";
      lock.text = `${lock.name}\n${lock.owner}\n${lock.host}\n${lock.kind}\n${lock.notes}`.toLowerCase();
      this.locks.set(lock.id, Object.assign(lock, candidates(lock)));
    }
    if (follows) for (const id of new Set([...before.keys(), ...this.locks.keys()])) compare(before.get(id), this.locks.get(id), answer.t);
    this.arrange();
  }

  // choose takes what the tools say.
  choose() {
    this.words = this.filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    this.grid.scrollTop = 0;
    this.changed();
    this.arrange();
  }

  // clear empties the filter, or else takes the focus to the list.
  clear() {
    if (this.filter.value === "") return this.grid.focus();
    this.filter.value = "";
    this.choose();
  }

  sortBy(column) {
    this.down = this.sort === column && !this.down;
    this.sort = column;
    this.changed();
    this.arrange();
  }

  // restore takes filter and order from an address.
  restore(query) {
    this.filter.value = query.get("q") ?? "";
    this.words = this.filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const sort = query.get("sort") ?? "name";
    this.down = sort.startsWith("-");
    this.sort = columns[sort.replace("-", "")] ? sort.replace("-", "") : "name";
    this.which = ["held", "waiting"].includes(query.get("show")) ? query.get("show") : "all";
    for (const radio of document.getElementsByName("show")) radio.checked = radio.value === this.which;
    this.arrange();
  }

  // query returns them as an address has them.
  query() {
    const query = new URLSearchParams();
    if (this.filter.value) query.set("q", this.filter.value);
    if (this.sort !== "name" || this.down) query.set("sort", (this.down ? "-" : "") + this.sort);
    if (this.which !== "all") query.set("show", this.which);
    return query;
  }

  // arrange finds the locks that match, sorts them, and draws.
  arrange() {
    const { quorum } = this;
    const figures = { held: 0, waiting: 0, longest: 0 };
    const found = [];
    const sort = quorum && ofQueues.includes(this.sort) ? "name" : this.sort;
    for (const lock of this.locks.values()) {
      if (lock.holders > 0) figures.held++;
      figures.waiting += lock.waiting;
      if (lock.waited && (!figures.longest || lock.waited < figures.longest)) figures.longest = lock.waited;
      if (this.which === "held" && lock.holders === 0) continue;
      if (this.which === "waiting" && lock.waiting === 0) continue;
      if (this.words.every((word) => lock.text.includes(word) || word === lock.grant.toLowerCase())) found.push([columns[sort].key(lock), lock]);
    }
    this.figures = figures;
    const natural = columns[sort].text ? 1 : -1;
    const direction = this.down && sort === this.sort ? -natural : natural;
    found.sort(([a, l], [b, m]) => {
      if (a < b) return -direction;
      if (a > b) return direction;
      return l.id < m.id ? -1 : 1;
    });
    this.view = found.map(([, lock]) => lock);
    for (const header of this.grid.querySelectorAll("[data-column]")) {
      const sorted = header.dataset.column === sort;
      if (sorted) header.setAttribute("aria-sort", direction > 0 ? "ascending" : "descending");
      else header.removeAttribute("aria-sort");
    }
    for (const control of document.querySelectorAll("[data-column^=wait] button, input[value=waiting]")) {
      control.disabled = quorum;
      setAttribute(control.parentElement, "title", quorum ? notKnown : "");
    }
    setText($("found"), this.words.length > 0 || this.which !== "all" ? `${count(this.view.length)} of ${count(this.locks.size)}` : "");
    this.draw();
  }

  tick() {
    if (!document.hidden) this.draw();
  }

  // draw lays out the rows that are seen, with the next frame.
  draw() {
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      if (this.grid.offsetParent !== null) this.drawNow();
    });
  }

  drawNow() {
    const now = Date.now() + this.offset;
    const height = rowHeight();
    this.drawFigures(now);
    this.rows.style.height = `${this.view.length * height}px`;
    setAttribute(this.grid, "aria-rowcount", String(this.view.length + 1));
    const first = Math.max(0, Math.floor(this.grid.scrollTop / height) - overscan);
    const last = Math.min(this.view.length, Math.ceil((this.grid.scrollTop + this.grid.clientHeight) / height) + overscan);
    const seen = Math.max(0, last - first);
    while (this.lines.length > seen) this.lines.pop().root.remove();
    while (this.lines.length < seen) {
      this.lines.push(newLine());
      this.rows.append(this.lines.at(-1).root);
    }
    this.grid.removeAttribute("aria-activedescendant");
    this.lines.forEach((line, i) => {
      const lock = this.view[first + i];
      const active = lock.id === this.active;
      fill(line, lock, now, first + i, height, active, this.quorum);
      if (active) this.grid.setAttribute("aria-activedescendant", line.root.id);
    });
    this.drawEmpty();
  }

  drawFigures(now) {
    if (this.report === null) return;
    const { held, waiting, longest } = this.figures;
    setText($("n-locks"), count(this.locks.size));
    setText($("n-held"), count(held));
    setText($("n-waiting"), this.quorum ? "–" : count(waiting));
    setText($("n-longest"), longest ? duration(now - longest) : "–");
    for (const id of ["n-waiting", "n-longest"]) setAttribute($(id), "title", this.quorum ? notKnown : "");
  }

  // drawEmpty says why there is nothing to see. That the server does not answer looks different from that there are no locks.
  drawEmpty() {
    const empty = $("empty");
    empty.hidden = this.view.length > 0;
    if (empty.hidden) return;
    let [kind, title, text] = ["none", "No locks", "Nobody holds a lock or waits for one. They appear here as soon as somebody does."];
    if (this.which === "waiting" && this.quorum) [title, text] = [notKnown, "Show all locks, or those that are held."];
    else if (this.locks.size > 0) [title, text] = ["No lock matches", "Change the filter, or press Esc to clear it."];
    else if (this.report === null) [title, text] = ["Looking at the locks …", ""];
    else if (this.report.error) [kind, title, text] = ["down", titleOf(this.report.why, this.quorum), this.report.error];
    empty.className = `empty ${kind}`;
    setText(empty.firstElementChild, title);
    setText(empty.lastElementChild, text);
  }

  // move goes to another row, and takes the focus to the list.
  move(step) {
    if (this.view.length === 0) return;
    const at = this.view.findIndex((l) => l.id === this.active);
    const to = Math.min(this.view.length - 1, Math.max(0, (at < 0 && step < 0 ? 0 : at) + step));
    this.active = this.view[to].id;
    const height = rowHeight();
    const head = this.grid.firstElementChild.offsetHeight;
    const top = to * height;
    this.rows.style.height = `${this.view.length * height}px`; // keys may come before the frame that shows what was chosen
    if (top < this.grid.scrollTop) this.grid.scrollTop = top;
    else if (top + height + head > this.grid.scrollTop + this.grid.clientHeight) this.grid.scrollTop = top + height + head - this.grid.clientHeight;
    this.grid.focus({ preventScroll: true });
    this.draw();
  }

  openActive() {
    const lock = this.locks.get(this.active);
    if (lock) this.open(lock.name);
  }
}

// compare notes what has happened to a lock, unless it has several holders: of those, the list knows but one.
function compare(before, after, t) {
  if (before?.holders > 1 || after?.holders > 1) return;
  if (before?.grant === after?.grant && before?.owner === after?.owner && before?.since === after?.since) return;
  const report = (lock) => ({ t, waiting: lock ? lock.waiting + lock.standby : 0, holders: lock?.holders ? [holderOf(lock)] : [] });
  note((after ?? before).name, report(before), report(after));
}

const holderOf = ({ owner, host, mode, grant, since, until, foreign }) => ({ owner, host, mode, grant, since, until, foreign });

// rowHeight reads the style sheet: on a phone, a row has two lines.
function rowHeight() {
  return parseFloat(getComputedStyle(document.documentElement).getPropertyValue("--row")) || 44;
}

function newLine() {
  const cell = (name, ...children) => el("div", { role: "gridcell", class: name }, ...children);
  const link = el("a", { tabindex: "-1" });
  const badge = el("span");
  const line = { link, badge, name: cell("name", el("span", { class: "dot", "aria-hidden": "true" }), link), kind: cell("kind"), holder: cell("holder"), held: cell("held"), lease: cell("lease"), waiting: cell("waiting", badge), waited: cell("waited") };
  line.root = el("div", { role: "row", class: "line" }, line.name, line.kind, line.holder, line.held, line.lease, line.waiting, line.waited);
  return line;
}

function fill(line, lock, now, index, height, active, quorum) {
  const { root } = line;
  root.style.transform = `translateY(${index * height}px)`;
  root.dataset.id = lock.id;
  root.dataset.state = lock.waiting > 0 ? "waiting" : lock.holders > 0 ? "held" : "idle";
  root.id = `row-${index}`;
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
  const [style, text, title] = lock.waiting ? ["badge", count(lock.waiting), waits(lock.waiting) + (lock.waited ? `, the first for ${duration(now - lock.waited)}` : "")]
    : lock.standby ? ["standby", `${count(lock.standby)} standby`, "candidates of an election that has a leader"] : ["nobody", "–", quorum ? notKnown : ""];
  setText(line.badge, text);
  setAttribute(line.badge, "class", style);
  setAttribute(line.badge, "title", title);
  setText(line.waited, lock.waited ? duration(now - lock.waited) : "–");
}

// holderText says in a few words who holds a lock.
function holderText(lock) {
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
