// What has happened to locks, as far as this tab saw it: to all on the list, and to one on its page.

import { owner } from "./text.js";

export const longest = 100; // lines of a lock's timeline
const most = 1000; // locks; those that changed longest ago are forgotten first
export const gap = 10000; // ms between two reports after which it is not known how somebody lost a lock

const timelines = new Map(); // by name, each with the latest last

export const timelineOf = (name) => timelines.get(name) ?? [];

// note adds what must have happened to a lock between two reports. What both the list and the page saw is there once.
export function note(name, before, after) {
  const known = timelineOf(name);
  const changes = changesBetween(before, after).filter((h) => !h.grant || !known.some((k) => k.grant === h.grant && isGrant(k) === isGrant(h)));
  if (changes.length === 0) return;
  timelines.delete(name);
  timelines.set(name, [...known, ...changes].slice(-longest));
  if (timelines.size > most) timelines.delete(timelines.keys().next().value);
}

const isGrant = (h) => h.what === "granted" || h.what === "handed over";

function changesBetween(before, after) {
  const id = (h) => JSON.stringify([h.owner, h.host, h.pid, h.mode, h.permits, h.grant, h.since, h.foreign]);
  const without = (all, others) => all.filter((h) => !others.some((o) => id(o) === id(h)));
  const gone = without(before.holders, after.holders);
  const came = without(after.holders, before.holders);
  const ended = came.length > 0 && came.length === after.holders.length && came[0].since ? Math.min(after.t, came[0].since) : after.t; // at the latest
  const age = (h) => (h.since ? Math.max(0, ended - h.since) : 0);
  const handed = gone.length > 0 && before.waiting > 0;
  const changes = [];
  for (const h of gone) {
    const over = h.until > 0 && h.until <= after.t; // unless it was renewed, and nobody looked
    const what = !over ? "released" : after.t - before.t < gap ? "expired" : "gone";
    if (what === "released" && handed && gone.length === 1 && came.length === 1) continue; // the hand-over says it all
    changes.push({ ...h, what, t: ended, held: age(h) });
  }
  for (const h of came) {
    changes.push({ ...h, t: h.since || after.t, ...(handed ? { what: "handed over", from: owner(gone[0]), held: age(gone[0]) } : { what: "granted" }) });
  }
  return changes;
}
