// The page of one lock: who holds it, who waits, and what has happened to it.

import { $, candidates, clock, count, dayAndClock, duration, el, notKnown, owner, plural, setText, shown, titleOf, waits } from "./text.js";
import { longest, note, timelineOf } from "./timeline.js";

export class LockPage {
  constructor(name) {
    this.source = `lock?name=${encodeURIComponent(name)}`;
    this.name = name;
    this.report = null; // the latest answer
    this.good = { holders: [], waiting: 0, record: [] }; // the latest without an error
    this.seen = 0; // when that came
    this.drawn = {}; // what each part shows, as text
    this.ticking = {}; // of each part, what changes once a second
    const part = (tag, style) => el(tag, { class: style });
    const p = (this.parts = {
      badges: part("div", "badges"), facts: part("dl", "facts"), problem: el("p", { class: "problem", role: "alert", hidden: true }),
      holdersTitle: el("h2", {}, "Holder"), holders: part("div", "holders"),
      waitersTitle: el("h2", {}, "Waiting"), waiters: part("ol", "waiters"), waitersMore: part("p", "more"),
      timeline: part("ol", "timeline"), breaks: part("div", "breaks"),
    });
    const panel = (label, ...children) => el("section", { class: "panel", "aria-label": label }, ...children);
    $("lock").replaceChildren(
      el("div", { class: "lock-head" },
        el("a", { href: "./", class: "back", "data-list": "back" }, "← All locks"),
        el("div", { class: "title" }, el("h1", { id: "lock-name" }, shown(name)), p.badges),
        p.facts, p.problem),
      el("div", { class: "columns" },
        el("div", {}, panel("Holders", p.holdersTitle, p.holders), panel("Waiters", p.waitersTitle, p.waiters, p.waitersMore)),
        el("div", {}, panel("Timeline", el("h2", {}, "Timeline"), p.timeline), p.breaks)));
  }

  // show takes what is known now.
  show(report) {
    const first = this.seen === 0;
    this.report = report;
    const { problem, breaks } = this.parts;
    if (report.about.breaks && !breaks.firstChild) breaks.append(this.breakForm(report.about));
    problem.hidden = !report.error;
    if (report.error) {
      setText(problem, `${titleOf(report.why, report.about.quorum)}: ${report.error}` + (first ? "" : `. This is as of ${clock(this.seen)}.`));
      return;
    }
    note(this.name, this.good, first ? { ...report, holders: report.holders.filter((h) => h.since) } : report);
    this.good = report;
    this.seen = Date.now();
    this.offset = report.t - this.seen;
    this.until = report.holders.map((h) => h.until); // renewals do not draw the page anew
    const holders = report.holders.map((h) => ({ ...h, until: h.until > 0 }));
    this.part("head", [report.kind, report.fence, report.limit, report.count, report.waiting, report.key, holders], () => this.showHead(report));
    this.part("holders", [report.kind, holders, report.waiting > 0], () => this.showHolders(report));
    this.part("waiters", [report.waiting, report.waiters, report.kind, report.holders.length], () => this.showWaiters(report));
    const happened = timelineOf(this.name);
    this.part("timeline", [happened, report.record], () => this.showTimeline(happened, report.record));
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

  tick() {
    const now = Date.now() + this.offset;
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
    const badges = [el("span", { class: `badge ${held ? "held" : "plain"}` }, r.kind !== "election" ? (held ? "held" : "free") : held ? "led" : "no leader")];
    const { waiting, standby } = candidates({ ...r, holders: r.holders.length });
    if (waiting) badges.push(el("span", { class: "badge waiting" }, waits(waiting)));
    if (standby) badges.push(el("span", { class: "badge plain" }, plural(standby, "process stands by", "processes stand by")));
    if (r.kind) badges.push(el("span", { class: "badge plain" }, r.kind));
    this.parts.badges.replaceChildren(...badges);
    const parties = { latch: `${r.count} of ${r.limit} have not counted down`, barrier: `${r.holders.length} of ${r.limit} have arrived` }[r.kind];
    this.parts.facts.replaceChildren(...facts({
      "Latest fence": r.holders.every((h) => h.fence !== r.fence) && r.fence,
      Permits: r.kind === "semaphore" && `${r.holders.reduce((n, h) => n + h.permits, 0)} of ${r.limit} taken`,
      Parties: parties,
      Key: shown(r.key),
    }));
  }

  showHolders(r) {
    const title = { latch: "Parties that have counted down", barrier: "Parties that wait", election: "Leader" }[r.kind] ?? (r.holders.length > 1 ? "Holders" : "Holder");
    setText(this.parts.holdersTitle, r.holders.length > 1 ? `${title} (${count(r.holders.length)})` : title);
    const nobody = r.kind === "election" ? "Nobody leads at the moment." : r.waiting ? "Nobody holds it at the moment." : "Nobody holds it. It is free.";
    const holders = r.holders.map((h, i) => this.person("article", h, h.mode !== "exclusive" && h.mode !== "permits" && h.mode, null, facts({
      Grant: h.grant && el("span", {}, el("code", { class: "grant" }, h.grant), copyButton(h.grant)),
      Fence: h.fence && el("code", {}, h.fence),
      "Held for": h.since && this.live((now) => duration(now - h.since), { title: `since ${dayAndClock(h.since)}` }),
      "Lease left": h.until ? this.live((now) => (this.until[i] < now ? "over" : duration(this.until[i] - now + 999))) : "no expiry",
      Permits: h.permits && count(h.permits),
    })));
    this.parts.holders.replaceChildren(...(holders.length > 0 ? holders : [el("p", { class: "nobody" }, nobody)]));
  }

  showWaiters(r) {
    const p = this.parts;
    const { standby } = candidates({ ...r, holders: r.holders.length });
    const title = standby ? "Standing by" : "Waiting";
    p.waiters.classList.toggle("calm", standby > 0);
    setText(p.waitersTitle, r.waiting ? `${title} (${plural(r.waiting, "process", "processes")})` : title);
    const waiters = r.waiters.map((w) => this.person("li", w, w.mode !== "exclusive" && (w.permits ? plural(w.permits, "permit", "permits") : w.mode),
      this.live((now) => duration(now - w.since), { class: "time", title: `since ${dayAndClock(w.since)}` })));
    p.waiters.replaceChildren(...(r.waiting > 0 ? waiters : [el("li", { class: "nobody" }, r.about.quorum ? notKnown : "Nobody waits.")]));
    const left = r.waiting - r.waiters.length;
    setText(p.waitersMore, left > 0 ? `and ${count(left)} more` : "");
  }

  person(tag, h, badge, time, more = []) {
    const notes = Object.entries(h.meta ?? {}).map(([key, value]) => el("div", {}, el("dt", {}, shown(key)), el("dd", {}, shown(value))));
    return el(tag, { class: "person" },
      el("div", { class: "who" }, el("strong", {}, owner(h)), badge ? el("span", { class: "badge plain" }, badge) : null, el("span", { class: "where" }, where(h)), time),
      more.length > 0 ? el("dl", { class: "facts" }, ...more) : null,
      notes.length > 0 ? el("dl", { class: "notes" }, ...notes) : null);
  }

  // showTimeline shows what has happened, with what is on record. A break replaces the release that it looked like.
  showTimeline(happened, record) {
    const seen = happened.filter((h) => h.what !== "released" || !record.some((b) => b.what === "broken" && b.grant === h.grant));
    const known = record.map((b) => {
      const by = happened.find((h) => h.grant === b.grant);
      return b.owner || !by ? b : { ...b, owner: by.owner, host: by.host, pid: by.pid }; // a revocation does not say whose it is
    });
    const all = [...seen, ...known].sort((a, b) => b.t - a.t).slice(0, longest);
    const lines = all.map((h) => el("li", { "data-what": h.what },
      el("span", { class: "dot", "aria-hidden": "true" }),
      el("time", { title: dayAndClock(h.t) + (h.grant ? `, grant ${h.grant}` : "") + (h.fence ? `, fence ${h.fence}` : "") }, clock(h.t)),
      el("span", { class: "what" }, words[h.what].replace("%", h.mode === "reader" || h.mode === "writer" ? ` (${h.mode})` : ""), " ", el("b", {}, owner(h)), el("span", { class: "more" }, said(h)))));
    const nothing = el("li", { class: "nobody" }, "Nothing has been seen to happen yet. What happens while these pages are open is shown here.");
    this.parts.timeline.replaceChildren(...(lines.length > 0 ? lines : [nothing]));
  }

  breakForm({ user, quorum }) {
    const grant = el("input", { id: "grant", autocomplete: "off", autocapitalize: "off", spellcheck: "false", required: true, pattern: "[\\w\\-]{8}", "aria-describedby": "break-hint" });
    const reason = el("input", { id: "reason", autocomplete: "off", required: true, maxlength: "400" });
    const answer = el("p", { class: "answer", role: "status" });
    const act = async (verb) => {
      if (!form.reportValidity()) return;
      answer.className = "answer";
      answer.textContent = verb === "break" ? "Breaking …" : "Asking …";
      const buttons = form.querySelectorAll("button");
      for (const b of buttons) b.disabled = true;
      const [failed, text] = await order(verb, quorum, { name: this.name, grant: grant.value.trim(), reason: reason.value.trim() });
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

// copyButton returns a button that copies a grant id. Browsers allow this only on pages from this machine or over TLS.
function copyButton(grant) {
  const button = el("button", { type: "button", class: "button quiet", "aria-label": "Copy the grant id", onclick: async () => {
    button.textContent = (await navigator.clipboard?.writeText(grant).then(() => "Copied", () => "")) || "Not allowed";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  } }, "Copy");
  return button;
}

// order asks for a break or a revocation, and returns whether that failed and what to say of it. Of a quorum, where each node
// counts fences for itself, it names none: that of the next holder may be below it.
async function order(verb, quorum, body) {
  try {
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
  granted: "Granted% to",
  "handed over": "Handed over% to", // to a waiter, when the holder before let go
  released: "Released by",
  expired: "The lease ran out of", // the holder died, hung, or could not renew it
  gone: "Not held any more by", // while nobody looked
  broken: "Broken, and taken from",
  revoked: "Asked to let go:",
};

// said is what else is to say of what happened.
function said(h) {
  const parts = [where(h)];
  if (h.from) parts.push(`from ${h.from}, who had it for ${duration(h.held)}`);
  else if (h.held) parts.push(`after ${duration(h.held)}`);
  if (h.by) parts.push(`by ${shown(h.by)}`);
  if (h.reason) parts.push(shown(h.reason));
  return parts.filter(Boolean).join(" · ");
}

function where(h) {
  return h.foreign ? "" : [h.host && shown(h.host), h.pid && `pid ${h.pid}`].filter(Boolean).join(" · ");
}

// facts returns the entries of a list of terms, without those that have no value.
function facts(values) {
  return Object.entries(values).filter(([, value]) => value).map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value)));
}
