// Elements, and how values are written for people. Text from servers only ever becomes text nodes.

export const $ = (id) => document.getElementById(id);

// el makes an element. Properties that begin with "on" are listeners; null, undefined and false are left out.
export function el(tag, properties = {}, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) e.addEventListener(name.slice(2), value);
    else e.setAttribute(name, value === true ? "" : value);
  }
  e.append(...children.filter((c) => c !== null && c !== undefined));
  return e;
}

// setText and setAttribute change only what differs, so that nothing is laid out in vain.
export function setText(e, text) {
  if (e.textContent !== text) e.textContent = text;
}

export function setAttribute(e, name, value) {
  if (e.getAttribute(name) !== value) e.setAttribute(name, value);
}

const unseen = /[\p{C}\p{Zl}\p{Zp}\u00a0\u115f\u1160\u2000-\u200f\u3164\ufeff]/gu;

// shown makes visible what could make one text pass for another, such as characters that turn the direction of writing.
export function shown(text) {
  return text.replace(unseen, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);
}

// duration writes milliseconds: 7s, 4m 12s, 2h 05m, 3d 4h.
export function duration(ms) {
  const s = Math.max(0, Math.floor(ms / 1000));
  if (s < 60) return `${s}s`;
  if (s < 3600) return `${Math.floor(s / 60)}m ${two(s % 60)}s`;
  if (s < 86400) return `${Math.floor(s / 3600)}h ${two(Math.floor(s / 60) % 60)}m`;
  return `${Math.floor(s / 86400)}d ${Math.floor(s / 3600) % 24}h`;
}

const two = (n) => String(n).padStart(2, "0");

const numbers = new Intl.NumberFormat("en");
export const count = (n) => numbers.format(n);

const clocks = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
const days = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium", hour12: false });

export const clock = (ms) => clocks.format(new Date(ms));
export const dayAndClock = (ms) => days.format(new Date(ms));

export const plural = (n, one, many) => `${count(n)} ${n === 1 ? one : many}`;
export const waits = (n) => plural(n, "process waits", "processes wait");

// What is said where a number of waiters would be. A quorum's nodes keep no queue.
export const notKnown = "It is not known who waits for a lock of a quorum.";

// owner names a holder or waiter.
export function owner(h) {
  if (h.foreign) return "another program";
  return h.owner ? shown(h.owner) : "unknown";
}

// titleOf says what is the matter.
export function titleOf(why, quorum) {
  return { silent: quorum ? "Too few nodes of the quorum answer" : "The server does not answer", denied: "The server refuses to show this" }[why] ?? "This cannot be looked at";
}

// candidates returns how many processes wait, and how many stand by: while an election has a leader, its candidates do not wait. It
// returns no time for an election, because it is not known since when nobody leads.
export function candidates({ kind, holders, waiting, waited }) {
  if (kind !== "election") return { waiting, waited, standby: 0 };
  return holders > 0 ? { waiting: 0, waited: 0, standby: waiting } : { waiting, waited: 0, standby: 0 };
}
