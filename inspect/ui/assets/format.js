// How values are written for people.

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

// What is said where a number of waiters would be. A quorum's nodes keep no queue.
export const notKnown = "It is not known who waits for a lock of a quorum.";

// owner names a holder or waiter.
export function owner(h) {
  if (h.foreign) return "another program";
  return h.owner === "" || h.owner === undefined ? "unknown" : shown(h.owner);
}
