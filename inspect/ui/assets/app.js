// The pages, their addresses, and the keyboard.

import { $, setText } from "./dom.js";
import { clock, plural, shown } from "./format.js";
import { drawContention } from "./contention.js";
import { List, titleOf } from "./list.js";
import { LockPage } from "./lock.js";
import { Store } from "./store.js";
import { Stream } from "./stream.js";

const store = new Store();
const list = new List(store, (name) => go(`?lock=${encodeURIComponent(name)}`), remember);
let hello = null;
let connected = null; // null before the first answer
let stream = null;
let page = null; // of one lock
let listAddress = "./"; // where Esc leads
let view = "";

function go(address) {
  history.pushState(null, "", address);
  route();
}

// remember keeps filter and order in the address.
function remember() {
  const query = new URLSearchParams();
  list.save(query);
  const text = query.toString();
  history.replaceState(null, "", text ? `?${text}` : "./");
  listAddress = text ? `?${text}` : "./";
}

function route() {
  const query = new URLSearchParams(location.search);
  const name = query.get("lock");
  const next = name !== null ? "lock" : query.get("view") === "contention" ? "contention" : "locks";
  const needs = next === "lock" ? `events?lock=${encodeURIComponent(name)}` : "events";
  const came = view;
  view = next;
  for (const id of ["locks", "contention", "lock"]) $(id).hidden = id !== view;
  for (const a of document.querySelectorAll(".tabs a")) {
    if (a.dataset.view === view) a.setAttribute("aria-current", "page");
    else a.removeAttribute("aria-current");
  }
  if (view === "locks") {
    listAddress = location.search || "./";
    list.restore(query);
  }
  document.title = name !== null ? `${shown(name)} – Holdfast` : view === "contention" ? "Contention – Holdfast" : "Locks – Holdfast";
  page = null;
  if (view === "lock") {
    page = new LockPage(name, hello);
    if (came) $("main").focus();
  } else if (came === "lock") {
    (view === "locks" ? $("grid") : $("main")).focus();
  }
  if (stream?.url !== needs || view === "lock") follow(needs);
  draw();
}

// follow listens to what a page needs.
function follow(url) {
  stream?.close();
  stream = new Stream(url, {
    hello: (value) => {
      const first = hello === null || hello.breaks !== value.breaks || hello.quorum !== value.quorum;
      hello = value;
      store.quorum = value.quorum ?? false;
      if (first) list.update("order");
      store.tell(value.now); // until the server's own time is known
      setText($("label"), value.label);
      if (first && page) page = new LockPage(page.name, value);
    },
    reset: () => store.reset(),
    changes: (value) => {
      list.update(store.apply(value));
      draw();
    },
    beat: (value) => page?.hear(value.t),
    lock: (value) => {
      page?.show(value);
      draw();
    },
  }, (is) => {
    if (connected === is) return;
    connected = is;
    draw();
  });
}

// draw says how things are, and draws what does not draw itself.
function draw() {
  const error = page ? page.problem : (store.state?.error ?? "");
  const live = $("live");
  const [state, text] = connected === false ? ["down", "No connection"] : error ? ["down", !page && store.state.partly ? "Not all" : "No answer"] : connected === null ? ["wait", "Connecting"] : ["live", "Live"];
  live.dataset.state = state;
  setText(live.querySelector(".text"), text);
  const banner = $("banner");
  let words = "";
  if (connected === false) words = "The connection to the inspector is lost. It is tried again every few seconds; what you see may be out of date.";
  else if (!page && error && store.locks.size > 0) {
    words = `${asOf(store.state)}: ${error}`;
  } else if (!error) words = notes(page ? page.report : store.state);
  setText(banner, words);
  banner.hidden = words === "";
  banner.dataset.kind = connected === false || error ? "down" : "note";
  document.body.classList.toggle("outdated", connected === false || error !== "");
  if (view === "contention") drawContention(store);
}

// asOf says what is seen although the latest look has failed.
function asOf(state) {
  const earlier = state.seen ? clock(state.seen) : "an earlier look";
  if (!state.partly) return `${titleOf(state.why, store.quorum)}. What you see is as of ${earlier}`;
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

setInterval(() => {
  if (document.hidden) return;
  if (view === "locks") list.update("");
  else if (view === "contention") drawContention(store);
  else page?.tick();
}, 1000);

// Colours.

const dark = matchMedia("(prefers-color-scheme: dark)");

const isDark = () => (document.documentElement.dataset.theme ?? (dark.matches ? "dark" : "light")) === "dark";

function nameTheme() {
  $("theme").setAttribute("aria-label", isDark() ? "Switch to light colours" : "Switch to dark colours");
}

function switchTheme() {
  const next = isDark() ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  try { localStorage.setItem("holdfast.theme", next); } catch { /* storage is forbidden: it lasts as long as the page */ }
  nameTheme();
}

$("theme").addEventListener("click", switchTheme);
dark.addEventListener("change", nameTheme);
nameTheme();

// Links within the inspector, and the keyboard.

document.addEventListener("click", (e) => {
  const a = e.target.closest("a[data-view], a[data-lock]");
  if (!a || e.defaultPrevented || e.ctrlKey || e.metaKey || e.shiftKey || e.button !== 0) return;
  e.preventDefault();
  go(a.dataset.view === "back" ? listAddress : a.getAttribute("href"));
});
addEventListener("popstate", route);

const help = $("help");
$("keys").addEventListener("click", () => help.showModal());
$("help-close").addEventListener("click", () => help.close());

document.addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || help.open) return;
  const typing = e.target.matches("input, textarea, select") && e.target.type !== "radio";
  if (e.key === "Escape") return escape();
  if (typing) {
    if (e.target === $("filter") && (e.key === "ArrowDown" || e.key === "Enter")) {
      e.preventDefault();
      list.move(1);
    }
    return;
  }
  const act = {
    "/": () => { if (view === "locks") $("filter").select(); },
    "?": () => help.showModal(),
    t: switchTheme,
    c: () => go(view === "contention" ? "./" : "?view=contention"),
    j: () => { if (view === "locks") list.move(1); },
    k: () => { if (view === "locks") list.move(-1); },
  }[e.key];
  if (act) {
    e.preventDefault();
    act();
  } else if (view === "locks" && /^[1-6]$/.test(e.key)) {
    list.sortByNumber(Number(e.key));
  }
});

function escape() {
  if (view === "lock") go(listAddress);
  else if (view === "contention") go("./");
  else if ($("filter").value !== "") {
    $("filter").value = "";
    list.choose();
  } else $("grid").focus();
}

route();
