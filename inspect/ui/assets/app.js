// The pages, what they are told, and the keyboard.

import { $, clock, plural, setText, shown, titleOf } from "./text.js";
import { List } from "./list.js";
import { LockPage } from "./lock.js";

const list = new List((name) => go(`?lock=${encodeURIComponent(name)}`), remember);
let page = null; // what is shown: list, or the page of a lock
let connected = null; // null before the first answer
let listAddress = "./"; // where Esc leads

function go(address) {
  history.pushState(null, "", address);
  route();
}

// remember keeps filter and order in the address.
function remember() {
  const text = list.query().toString();
  listAddress = text ? `?${text}` : "./";
  history.replaceState(null, "", listAddress);
}

function route() {
  const query = new URLSearchParams(location.search);
  const name = query.get("lock");
  const before = page;
  if (name === null) {
    listAddress = location.search || "./";
    list.restore(query);
    page = list;
  } else {
    page = new LockPage(name);
  }
  $("locks").hidden = page !== list;
  $("lock").hidden = page === list;
  document.title = name === null ? "Locks – Holdfast" : `${shown(name)} – Holdfast`;
  if (before && page !== before) (page === list ? $("grid") : $("main")).focus();
  poll();
  draw();
}

// What the pages are told.

const again = 1000; // ms from an answer to the next question
const retry = 3000; // ms from a failure
const silence = 25000; // ms without an answer that count as a failure
let asking = null; // ends the question that is under way
let timer = 0;

// poll asks for what the page shows, again and again while it is seen.
async function poll() {
  clearTimeout(timer);
  asking?.abort();
  asking = null;
  if (document.hidden) return;
  const own = (asking = new AbortController());
  const of = page;
  const limit = setTimeout(() => own.abort(), silence);
  let wait = again;
  try {
    // Not relative: if the page's address has a password in it, fetch refuses what is made of that.
    const response = await fetch(new URL(of.source, location.origin + location.pathname), { signal: own.signal });
    if (!response.ok) throw new Error(response.statusText);
    const answer = response.status === 204 ? null : await response.json(); // null: nothing is new
    if (own !== asking) return;
    connected = true;
    if (answer) {
      setText($("label"), answer.about.label ?? "");
      of.show(answer);
    }
  } catch {
    if (own !== asking) return;
    connected = false;
    wait = retry;
  } finally {
    clearTimeout(limit);
  }
  draw();
  timer = setTimeout(poll, wait);
}
document.addEventListener("visibilitychange", poll);

// draw says how things are.
function draw() {
  const error = page.report?.error ?? "";
  const live = $("live");
  const [state, text] = connected === false ? ["down", "No connection"] : error ? ["down", page.report.partly ? "Not all" : "No answer"] : connected === null ? ["wait", "Connecting"] : ["live", "Live"];
  live.dataset.state = state;
  setText(live.querySelector(".text"), text);
  const banner = $("banner");
  let words = "";
  if (connected === false) words = "The connection to the inspector is lost. It is tried again every few seconds; what you see may be out of date.";
  else if (error && page === list && list.locks.size > 0) words = `${asOf(list.report)}: ${error}`;
  else if (!error) words = notes(page.report);
  setText(banner, words);
  banner.hidden = words === "";
  banner.dataset.kind = connected === false || error ? "down" : "note";
  document.body.classList.toggle("outdated", connected === false || error !== "");
}

// asOf says what is seen although the latest look has failed.
function asOf(state) {
  const earlier = state.seen ? clock(state.seen) : "an earlier look";
  if (!state.partly) return `${titleOf(state.why, state.about.quorum)}. What you see is as of ${earlier}`;
  return state.seen ? `Only some of the locks can be looked at. What you see of the others is as of ${earlier}` : "Only some of the locks can be looked at. The others are not listed";
}

// notes say what is missing although the latest look went well.
function notes(state) {
  const parts = [];
  if (state?.absent) {
    parts.push(`${plural(state.absent.length, "node", "nodes")} of the quorum did not answer. The others are a majority, and know who holds which lock. (${state.absent.join("; ")})`);
  }
  if (state?.hidden) parts.push(`${plural(state.hidden, "lock is", "locks are")} not shown: the server does not let this user see them.`);
  if (state?.open) parts.push(`${plural(state.open, "lock is", "locks are")} not shown: too few nodes of the quorum said who holds ${state.open === 1 ? "it" : "them"}.`);
  return parts.join(" ");
}

setInterval(() => page.tick(), 1000);

// Links within the inspector, and the keyboard.

document.addEventListener("click", (e) => {
  const a = e.target.closest("a[data-list]");
  if (!a || e.ctrlKey || e.metaKey || e.shiftKey || e.button !== 0) return;
  e.preventDefault();
  go(a.dataset.list === "back" ? listAddress : "./");
});
addEventListener("popstate", route);

const help = $("help");
$("keys").addEventListener("click", () => help.showModal());
$("help-close").addEventListener("click", () => help.close());

document.addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || help.open) return;
  const act = keys(e)[e.key];
  if (!act) return;
  e.preventDefault();
  act();
});

// keys returns what keys do where one was pressed. Radio buttons take the arrows themselves.
function keys(e) {
  const { move } = list;
  if (page !== list) return e.target.matches("input") ? { Escape: () => go(listAddress) } : { Escape: () => go(listAddress), "?": () => help.showModal() };
  if (e.target === $("filter")) return { Escape: () => list.clear(), ArrowDown: () => move(1), Enter: () => move(1) };
  const all = { Escape: () => list.clear(), "/": () => $("filter").select(), "?": () => help.showModal(), j: () => move(1), k: () => move(-1) };
  document.querySelectorAll("[data-column] button").forEach((button, i) => { all[i + 1] = () => button.click(); });
  if (e.target !== $("grid")) return all;
  return { ...all, ArrowDown: () => move(1), ArrowUp: () => move(-1), Home: () => move(-Infinity), End: () => move(Infinity), Enter: () => list.openActive() };
}

route();
