// The page of one lock: who holds it, who waits, and what has happened to it.

import { $, el, setText } from "./dom.js";
import { clock, count, dayAndClock, duration, notKnown, owner, plural, shown } from "./format.js";
import { titleOf } from "./list.js";
import { candidates } from "./store.js";

export class LockPage {
  // hello is what the inspector says of itself; null before it has.
  constructor(name, hello) {
    this.name = name;
    this.quorum = hello?.quorum ?? false; // it is not known who waits
    this.offset = 0;
    this.report = null; // the latest without an error
    this.problem = ""; // the error of the latest
    this.drawn = {}; // what each part shows, as text
    this.ticking = {}; // of each part, what changes once a second
    this.until = []; // when the holders' leases end
    this.most = []; // how long they were at most, in ms
    this.root = $("lock");
    this.parts = {
      badges: el("div", { class: "badges" }),
      facts: el("dl", { class: "facts" }),
      problem: el("p", { class: "problem", role: "alert", hidden: true }),
      holders: el("div", { class: "holders" }),
      waiters: el("ol", { class: "waiters" }),
      waitersMore: el("p", { class: "more" }),
      timeline: el("ol", { class: "timeline" }),
      holdersTitle: el("h2", {}, "Holder"),
      waitersTitle: el("h2", {}, "Waiting"),
    };
    const p = this.parts;
    this.root.replaceChildren(
      el("div", { class: "lock-head" },
        el("a", { href: "./", class: "back", "data-view": "back" }, "← All locks"),
        el("div", { class: "title" }, el("h1", { id: "lock-name" }, shown(name)), p.badges, copyButton(name, "Copy name")),
        p.facts, p.problem),
      el("div", { class: "columns" },
        el("div", {},
          el("section", { class: "panel", "aria-label": "Holders" }, p.holdersTitle, p.holders),
          el("section", { class: "panel", "aria-label": "Waiters" }, p.waitersTitle, p.waiters, p.waitersMore)),
        el("div", {},
          el("section", { class: "panel", "aria-label": "Timeline" }, el("h2", {}, "Timeline"), p.timeline),
          hello?.breaks ? this.breakForm(hello.user) : null)));
  }

  now() {
    return Date.now() + this.offset;
  }

  // show takes what is known now.
  show(report) {
    const p = this.parts;
    this.problem = report.error ?? "";
    p.problem.hidden = this.problem === "";
    if (report.error) {
      setText(p.problem, `${titleOf(report.why, this.quorum)}: ${report.error}` + (this.report ? `. This is as of ${clock(this.seen)}.` : ""));
      this.showTimeline(report.timeline);
      return;
    }
    this.report = report;
    this.hear(report.t);
    this.until = report.holders.map((h) => h.until);
    const holders = report.holders.map((h) => ({ ...h, until: h.until > 0 }));
    this.part("head", [report.kind, report.fence, report.limit, report.count, holders, report.waiting, report.key], () => this.showHead(report));
    this.part("holders", [report.kind, holders, report.waiting > 0], () => this.showHolders(report));
    this.part("waiters", [report.waiting, report.waiters, report.kind, report.holders.length], () => this.showWaiters(report));
    this.showTimeline(report.timeline);
    this.tick();
  }

  // part draws a part of the page anew only if it has changed: what somebody has marked, to copy it, stays marked.
  part(name, values, draw) {
    const text = JSON.stringify(values);
    if (this.drawn[name] === text) return;
    this.drawn[name] = text;
    this.drawing = this.ticking[name] = [];
    draw();
  }

  // hear takes the server's time, at which all was as it is shown.
  hear(t) {
    if (this.problem || !t) return;
    this.seen = Date.now();
    this.offset = t - this.seen;
  }

  tick() {
    const now = this.now();
    for (const part of Object.values(this.ticking)) for (const f of part) f(now);
  }

  // live is a text that changes with time.
  live(f, properties = {}) {
    const e = el("span", properties);
    this.drawing.push((now) => setText(e, f(now)));
    return e;
  }

  showHead(r) {
    const held = r.holders.length > 0;
    const badges = [el("span", { class: `badge ${held ? "held" : "idle"}` }, r.kind !== "election" ? (held ? "held" : "free") : held ? "led" : "no leader")];
    const { waiting, standby } = candidates({ ...r, holders: r.holders.length });
    if (waiting) badges.push(el("span", { class: "badge waiting" }, plural(waiting, "process waits", "processes wait")));
    if (standby) badges.push(el("span", { class: "badge plain" }, plural(standby, "process stands by", "processes stand by")));
    if (r.kind) badges.push(el("span", { class: "badge plain" }, r.kind));
    this.parts.badges.replaceChildren(...badges);
    const facts = [];
    const fact = (name, value) => facts.push(el("div", {}, el("dt", {}, name), el("dd", {}, value)));
    if (r.fence && r.holders.every((h) => h.fence !== r.fence)) fact("Latest fence", r.fence);
    if (r.kind === "semaphore") fact("Permits", `${r.holders.reduce((n, h) => n + h.permits, 0)} of ${r.limit} taken`);
    if (r.kind === "latch") fact("Parties", `${r.count} of ${r.limit} have not counted down`);
    if (r.kind === "barrier") fact("Parties", `${r.holders.length} of ${r.limit} have arrived`);
    fact("Key", shown(r.key));
    this.parts.facts.replaceChildren(...facts);
  }

  showHolders(r) {
    const title = { latch: "Parties that have counted down", barrier: "Parties that wait", election: "Leader" }[r.kind] ?? (r.holders.length > 1 ? "Holders" : "Holder");
    setText(this.parts.holdersTitle, r.holders.length > 1 ? `${title} (${count(r.holders.length)})` : title);
    if (r.holders.length === 0) {
      const nobody = r.kind === "election" ? "Nobody leads at the moment." : r.waiting ? "Nobody holds it at the moment." : "Nobody holds it. It is free.";
      this.parts.holders.replaceChildren(el("p", { class: "nobody" }, nobody));
      return;
    }
    this.most = [];
    this.parts.holders.replaceChildren(...r.holders.map((h, i) => this.holder(h, i)));
  }

  holder(h, i) {
    const facts = el("dl", { class: "facts" });
    const fact = (name, ...value) => facts.append(el("div", {}, el("dt", {}, name), el("dd", {}, ...value)));
    if (h.grant) fact("Grant", el("code", { class: "grant" }, h.grant), copyButton(h.grant, "Copy", "Copy the grant id"));
    if (h.fence) fact("Fence", el("code", {}, h.fence));
    if (h.since) fact("Held for", this.live((now) => duration(now - h.since), { title: `since ${dayAndClock(h.since)}` }));
    fact("Lease left", ...(h.until ? this.lease(i) : ["no expiry"]));
    if (h.permits) fact("Permits", count(h.permits));
    return el("article", { class: "person" },
      el("div", { class: "who" },
        el("strong", {}, owner(h)),
        h.mode && h.mode !== "exclusive" && h.mode !== "permits" ? el("span", { class: "badge plain" }, h.mode) : null,
        el("span", { class: "where" }, where(h))),
      facts, notes(h.meta));
  }

  // lease shows how much of the lease of a holder is left, beside the most of it that was seen.
  lease(i) {
    const bar = el("progress", { class: "lease", max: "1", "aria-hidden": "true" });
    this.drawing.push((now) => {
      const left = Math.max(0, this.until[i] - now);
      this.most[i] = Math.max(this.most[i] ?? 1, left);
      bar.value = left / this.most[i];
    });
    return [this.live((now) => (this.until[i] < now ? "over" : duration(this.until[i] - now + 999))), bar];
  }

  showWaiters(r) {
    const { standby } = candidates({ ...r, holders: r.holders.length });
    const title = standby ? "Standing by" : "Waiting";
    this.parts.waiters.classList.toggle("calm", standby > 0);
    setText(this.parts.waitersTitle, r.waiting ? `${title} (${plural(r.waiting, "process", "processes")})` : title);
    if (r.waiting === 0) {
      this.parts.waiters.replaceChildren(el("li", { class: "nobody" }, this.quorum ? notKnown : "Nobody waits."));
    } else {
      this.parts.waiters.replaceChildren(...r.waiters.map((w) => el("li", { class: "person" },
        el("div", { class: "who" },
          el("strong", {}, owner(w)),
          w.mode && w.mode !== "exclusive" ? el("span", { class: "badge plain" }, w.permits ? plural(w.permits, "permit", "permits") : w.mode) : null,
          el("span", { class: "where" }, where(w)),
          this.live((now) => duration(now - w.since), { class: "time", title: `since ${dayAndClock(w.since)}` })),
        notes(w.meta))));
    }
    const left = r.waiting - r.waiters.length;
    setText(this.parts.waitersMore, left > 0 ? `and ${count(left)} more` : "");
  }

  showTimeline(timeline) {
    this.part("timeline", timeline, () => this.drawTimeline(timeline));
  }

  drawTimeline(timeline) {
    if (timeline.length === 0) {
      this.parts.timeline.replaceChildren(el("li", { class: "nobody" }, "Nothing has been seen to happen yet. What happens while somebody looks is kept here."));
      return;
    }
    this.parts.timeline.replaceChildren(...timeline.map((h) => el("li", { "data-what": h.what },
      el("span", { class: "dot", "aria-hidden": "true" }),
      el("time", { title: dayAndClock(h.t) + (h.grant ? `, grant ${h.grant}` : "") + (h.fence ? `, fence ${h.fence}` : "") }, clock(h.t)),
      el("span", { class: "what" }, words[h.what]?.(h) ?? h.what, " ", el("b", {}, owner(h)), el("span", { class: "more" }, said(h))))));
  }

  breakForm(user) {
    const grant = el("input", { id: "grant", autocomplete: "off", autocapitalize: "off", spellcheck: "false", required: true, pattern: "[\\w\\-]{8}", "aria-describedby": "break-hint" });
    const reason = el("input", { id: "reason", autocomplete: "off", required: true, maxlength: "400" });
    const answer = el("p", { class: "answer", role: "status" });
    const act = async (verb) => {
      if (!form.reportValidity()) return;
      answer.className = "answer";
      answer.textContent = verb === "break" ? "Breaking …" : "Asking …";
      const buttons = form.querySelectorAll("button");
      for (const b of buttons) b.disabled = true;
      const [failed, text] = await order(verb, this.quorum, { name: this.name, grant: grant.value.trim(), reason: reason.value.trim() });
      for (const b of buttons) b.disabled = false;
      answer.className = failed ? "answer failed" : "answer done";
      answer.textContent = text;
      if (!failed && verb === "break") grant.value = reason.value = ""; // they are not for the next holder
    };
    const form = el("form", { class: "break", onsubmit: (e) => { e.preventDefault(); act("break"); } },
      el("p", { id: "break-hint" }, "Type the grant id of the holder that you mean: another holder is left alone. Its program is told at once, and the next waiter gets the lock. If it goes on working all the same, only resources that check fences refuse it." + (user ? ` It is recorded as done by ${shown(user)}.` : "")),
      el("label", { for: "grant" }, "Grant id of the holder"), grant,
      el("label", { for: "reason" }, "Reason, for the record"), reason,
      el("div", { class: "buttons" },
        el("button", { type: "submit", class: "button danger" }, "Break the lock"),
        el("button", { type: "button", class: "button", onclick: () => act("revoke") }, "Ask it to let go")),
      answer);
    return el("section", { class: "panel danger", "aria-label": "Break" }, el("h2", {}, "Take it away"), form);
  }
}

// copyButton returns a button that copies a text. Browsers allow this only on pages from this machine or over TLS.
function copyButton(text, words, label) {
  const button = el("button", { type: "button", class: "button quiet", "aria-label": label, onclick: async () => {
    const said = await navigator.clipboard?.writeText(text).then(() => "Copied", () => "Not allowed") ?? "Not allowed";
    button.textContent = said;
    setTimeout(() => { button.textContent = words; }, 1500);
  } }, words);
  return button;
}

// order asks for a break or a revocation, and returns whether that failed and what to say of it. Of a quorum, where each node
// counts fences for itself, it names none: that of the next holder may be below it.
async function order(verb, quorum, body) {
  try {
    // Not relative: if the page's address has a password in it, fetch refuses what is made of that.
    const response = await fetch(new URL(verb, location.origin + location.pathname), { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
    if (response.ok) {
      const { fence, warning } = await response.json();
      const taken = quorum ? "The lock was taken away." : `The lock was taken away. Its fence is ${fence} now.`;
      const done = verb === "break" ? taken : "The holder was asked to let go.";
      return [Boolean(warning), warning ? `${done} It could not be recorded: ${warning}` : done];
    }
    const { error } = await response.json().catch(() => ({ error: `the inspector answered ${response.status}` }));
    return [true, error];
  } catch {
    return [true, "The inspector does not answer. It is not known whether this was done."];
  }
}

const words = {
  granted: (h) => `Granted${modeOf(h)} to`,
  "handed over": (h) => `Handed over${modeOf(h)} to`,
  released: () => "Released by",
  expired: () => "The lease ran out of",
  broken: () => "Broken, and taken from",
  revoked: () => "Asked to let go:",
};

const modeOf = (h) => (h.mode === "reader" || h.mode === "writer" ? ` (${h.mode})` : "");

// said is what else is to say of what happened.
function said(h) {
  const parts = [where(h)];
  if (h.from) parts.push(`from ${shown(h.from)}, who had it for ${duration(h.held ?? 0)}`);
  else if (h.held) parts.push(`after ${duration(h.held)}`);
  if (h.by) parts.push(`by ${shown(h.by)}`);
  if (h.reason) parts.push(shown(h.reason));
  return parts.filter(Boolean).join(" · ");
}

function where(h) {
  if (h.foreign) return "";
  const parts = [];
  if (h.host) parts.push(shown(h.host));
  if (h.pid) parts.push(`pid ${h.pid}`);
  return parts.join(" · ");
}

function notes(meta) {
  if (!meta || meta.length === 0) return null;
  return el("dl", { class: "notes" }, ...meta.map(([key, value]) => el("div", {}, el("dt", {}, shown(key)), el("dd", {}, shown(value)))));
}
