/**
 * A client of Holdfast's protocol (docs/PROTOCOL.md): mutexes, read-write locks and semaphores on one server.
 *
 *     const client = await Client.connect({ host: "localhost" }, "docs/scripts");
 *     await client.mutex("orders").do(async (lease) => {
 *       await store(order, { fence: lease.fence, signal: lease.signal });
 *     });
 */

import { createHash, randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import { hostname } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import { Redis, type RedisOptions } from "ioredis";

export class HoldfastError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(`holdfast: ${message}`, options);
    this.name = new.target.name;
  }
}

/** Somebody else holds the lock. */
export class Held extends HoldfastError {
  constructor(lock: string, readonly holder: string, readonly leftMs: number) {
    super(`lock ${JSON.stringify(lock)} is held by ${holder}${leftMs < 0 ? "" : ` for another ${leftMs} ms`}`);
  }
}

/** The lease ended before it was released: others may hold the lock. */
export class Lost extends HoldfastError {
  constructor(lock: string, why: string) {
    super(`lock ${JSON.stringify(lock)} is lost: ${why}`);
  }
}

/** The server does not answer, or not now. `mayArrive`: it may still carry the request out. */
export class Unavailable extends HoldfastError {
  constructor(message: string, readonly mayArrive = false, options?: ErrorOptions) {
    super(message, options);
  }
}

/** The server answers with an error. `code` is its first word. */
export class Refused extends HoldfastError {
  constructor(message: string, readonly code: string) {
    super(message);
  }
}

export interface Options {
  prefix?: string;
  /** Who this is, for people who look at locks. */
  owner?: string;
}

export interface LockOptions {
  /** How long the lock outlives this process, in ms: 30 s by default. */
  ttl?: number;
}

export interface WaitOptions {
  signal?: AbortSignal;
}

const UNAVAILABLE =
  /^(LOADING|BUSY|READONLY|MASTERDOWN|CLUSTERDOWN|TRYAGAIN|ERR max number of clients|ERR Script attempted to access a non local key)\b/;
const TTL = 30_000; // ms
const ALL = 1_000_000_000; // a writer's weight
const SENDING = 2000; // ms after which a sending is given up
const SCRIPTS = ["acquire", "renew", "release", "share_acquire", "share_renew", "share_release"];
const COUNT_SUBSCRIBERS = `#!lua flags=allow-oom
return tostring(redis.call('PUBSUB', ARGV[1], ARGV[2])[2])`;

const randomId = () => randomBytes(16).toString("base64url");
const between = (low: number, high: number) => low + Math.random() * (high - low);
const clamp = (n: number, low: number, high: number) => Math.min(Math.max(n, low), high);
const drift = (ms: number) => ms / 100 + 2;

/** Settles as work does, or rejects when the signal is aborted. */
function abortable<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (!signal) return work;
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason);
    if (signal.aborted) abort();
    signal.addEventListener("abort", abort, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener("abort", abort));
  });
}

async function within<T>(ms: number, work: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${ms} ms`)), ms);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}

/**
 * A point in local time. The monotonic clock may stop while the machine is suspended, and the wall clock can be set back, so the
 * longer of the two elapsed times counts.
 */
class Instant {
  readonly #monotonic = performance.now();
  readonly #wall = Date.now();

  /** ms since then. */
  get elapsed(): number {
    return Math.max(performance.now() - this.#monotonic, Date.now() - this.#wall);
  }
}

class Reply {
  readonly word: string;
  /** Server time, in µs. */
  readonly now: number;
  readonly fields: string[];

  constructor(readonly text: string, readonly sent: Instant) {
    const [word = "", now, ...fields] = text.split(" ");
    this.word = word;
    this.now = Number(now);
    this.fields = fields;
  }

  number(field: number): number {
    return Number(this.fields[field]);
  }
}

/** A connection that ends when it fails: ioredis sends nothing twice. */
function newConnection(options: RedisOptions): Redis {
  const redis = new Redis({
    ...options, lazyConnect: true, protocol: 2, replyMapping: "legacy", maxRetriesPerRequest: 0, retryStrategy: () => null,
    enableOfflineQueue: false, enableReadyCheck: false, autoResubscribe: false, autoResendUnfulfilledCommands: false,
  });
  return redis.on("error", () => {}); // the requests say so
}

function address(options: RedisOptions): string {
  return options.path ?? `${options.host ?? "localhost"}:${options.port ?? 6379}`;
}

interface Script {
  text: string;
  digest: string;
}

const script = (text: string): Script => ({ text, digest: createHash("sha1").update(text).digest("hex") });

/** The server, over one connection, which is opened anew after a failure. */
class Server {
  roundTrip = 0; // ms, of the latest answered request
  #connection: { redis: Redis; ready: Promise<Redis> } | undefined;
  #latest: { sent: Instant; now: number } | undefined;
  readonly #check = script(COUNT_SUBSCRIBERS);

  constructor(readonly options: RedisOptions, readonly scripts: ReadonlyMap<string, Script>) {}

  /** Server time in µs, as reckoned from the latest reply. */
  get time(): number {
    return this.#latest ? Math.round(this.#latest.now + this.#latest.sent.elapsed * 1000) : 0;
  }

  async run(name: string, keys: string[], args: (string | number)[]): Promise<Reply> {
    for (;;) {
      const { text, sent } = await this.#evaluate(this.scripts.get(name)!, keys, args);
      if (text.startsWith("error AGAIN")) continue;
      if (text.startsWith("error ")) throw this.#failure(text.slice(6), keys[0]);
      const reply = new Reply(text, sent);
      this.#reckon(reply);
      return reply;
    }
  }

  /** The number of connections that the server sends the channel's messages to. */
  async subscribers(channel: string): Promise<number> {
    return Number((await this.#evaluate(this.#check, [], ["NUMSUB", channel])).text);
  }

  /** Connects, unless that was done. */
  async open(): Promise<Redis> {
    if (!this.#connection) {
      const redis = newConnection(this.options);
      const connection = { redis, ready: this.#greet(redis) };
      this.#connection = connection;
      redis.once("end", () => this.#drop(redis));
      connection.ready.catch(() => this.#drop(redis));
    }
    return this.#connection.ready;
  }

  close(): void {
    if (this.#connection) this.#drop(this.#connection.redis);
  }

  async #greet(redis: Redis): Promise<Redis> {
    await redis.connect();
    const sent = new Instant();
    const [hello, time] = (await Promise.all([redis.call("HELLO"), redis.time()])) as [string[], number[]];
    const is = (name: string) => String(hello[hello.indexOf(name) + 1]);
    const [major = 0, minor = 0] = is("version").split(".").map(Number);
    if (is("server") === "valkey" ? major < 7 || (major === 7 && minor < 2) : major < 7) {
      throw new Refused(`${is("server")} ${is("version")} at ${address(this.options)} is too old`, "VERSION");
    }
    if (is("mode") !== "standalone") throw new Refused(`${address(this.options)} is in ${is("mode")} mode`, "MODE");
    if (is("role") !== "master") throw new Unavailable(`${address(this.options)} is a replica`);
    this.#reckon({ sent, now: Number(time[0]) * 1e6 + Number(time[1]) });
    return redis;
  }

  #reckon({ sent, now }: { sent: Instant; now: number }): void {
    this.roundTrip = sent.elapsed;
    if (!this.#latest || this.#latest.sent.elapsed > this.roundTrip) this.#latest = { sent, now };
  }

  async #evaluate(script: Script, keys: string[], args: (string | number)[]): Promise<{ text: string; sent: Instant }> {
    const rest = [keys.length, ...keys, ...args];
    try {
      return await this.#send(keys[0], "EVALSHA", script.digest, ...rest);
    } catch (e) {
      if (!(e instanceof Refused && e.code === "NOSCRIPT")) throw e;
    }
    return this.#send(keys[0], "EVAL", script.text, ...rest);
  }

  async #send(key: string | undefined, command: string, ...args: (string | number)[]): Promise<{ text: string; sent: Instant }> {
    let sent: Instant | undefined;
    const connection = this.open();
    const answer = connection.then((redis) => {
      sent = new Instant();
      return redis.call(command, ...args);
    });
    try {
      const text = String(await within(SENDING, answer));
      return { text, sent: sent! };
    } catch (e) {
      if (e instanceof HoldfastError) throw e;
      if (e instanceof Error && e.name === "ReplyError") throw this.#failure(e.message, key);
      // A later request must not take the reply of this one, nor wait behind it.
      this.close();
      throw new Unavailable(`${key ?? "a request"} on ${address(this.options)}: ${e}`, sent !== undefined, { cause: e });
    }
  }

  #failure(text: string, key: string | undefined): HoldfastError {
    const message = `${key ?? "a request"} on ${address(this.options)}: ${text}`;
    if (text.startsWith("READONLY")) this.close();
    return UNAVAILABLE.test(text) ? new Unavailable(message) : new Refused(message, text.split(" ", 1)[0]!);
  }

  #drop(redis: Redis): void {
    redis.disconnect();
    if (this.#connection?.redis === redis) this.#connection = undefined;
  }
}

/** The client's channel, which it hears from the first wait on. */
class Subscription {
  readonly channel: string;
  #confirmed: Instant | undefined;
  #redis: Redis | undefined;
  #running = false;
  #closed = false;
  readonly #waiting = new Set<() => void>();

  constructor(
    readonly server: Server,
    prefix: string,
    readonly heard: (message: string) => void,
    readonly confirmed: () => void,
  ) {
    this.channel = `${prefix}c:${randomId()}`;
  }

  /** When the latest subscription was confirmed; undefined while there is none. */
  get since(): Instant | undefined {
    return this.#confirmed;
  }

  /** Waits for a subscription, for a second at most. */
  async ready(signal: AbortSignal | undefined): Promise<void> {
    if (!this.#running) void this.#run();
    if (this.#confirmed) return;
    let wake = () => {};
    const woken = new Promise<void>((resolve) => (wake = resolve));
    this.#waiting.add(wake);
    const timer = setTimeout(wake, 1000);
    try {
      await abortable(woken, signal);
    } finally {
      clearTimeout(timer);
      this.#waiting.delete(wake);
    }
  }

  renew(): void {
    this.#confirmed = undefined;
    this.#redis?.disconnect();
  }

  close(): void {
    this.#closed = true;
    this.renew();
  }

  async #run(): Promise<void> {
    this.#running = true;
    for (let pause = 10; !this.#closed; pause = Math.min(2 * pause, 1000)) {
      try {
        const redis = (this.#redis = newConnection(this.server.options));
        await within(5000, redis.connect());
        redis.on("message", (_, message) => this.heard(message));
        await within(5000, redis.subscribe(this.channel));
        this.#confirmed = new Instant();
        pause = 10;
        for (const wake of this.#waiting) wake();
        this.confirmed();
        await this.#watch(redis);
      } catch {
        // It is tried again; who waits looks then.
      }
      this.renew();
      await sleep(pause);
    }
  }

  /** Returns when the subscription is lost. */
  async #watch(redis: Redis): Promise<void> {
    const ended = new Promise((resolve) => redis.once("end", resolve));
    while (redis.status === "ready") {
      const timer = new AbortController();
      await Promise.race([ended, sleep(5000, undefined, { signal: timer.signal })]);
      timer.abort();
      const count = this.server.subscribers(this.channel).catch(() => undefined);
      await within(5000, redis.ping());
      if ((await count) === 0) return;
    }
  }
}

type Grant = { kind: "grant"; now: number; claim: number; fence: number };
type News =
  | Grant
  | { kind: "standby"; now: number; due: number; came: Instant }
  | { kind: "subscribed" };

class Inbox {
  readonly #news: News[] = [];
  #wake = () => {};

  push(news: News): void {
    this.#news.push(news);
    this.#wake();
  }

  /** The next news, or undefined if there is none for this long. */
  async next(ms: number, signal: AbortSignal | undefined): Promise<News | undefined> {
    if (this.#news.length === 0) {
      let timer: NodeJS.Timeout | undefined;
      const woken = new Promise<void>((resolve) => {
        this.#wake = resolve;
        timer = setTimeout(resolve, ms);
      });
      try {
        await abortable(woken, signal);
      } finally {
        clearTimeout(timer);
      }
    }
    return this.#news.shift();
  }
}

/** What the locks of a client share. */
class Session {
  readonly subscription: Subscription;
  readonly bids = new Map<string, Bid>();
  /** The leases of mutexes, by key. */
  readonly leases = new Map<string, Lease>();
  readonly #lines = new Map<string, Promise<void>>();
  readonly #background = new Set<Promise<unknown>>();

  constructor(readonly server: Server, readonly prefix: string, readonly info: string) {
    this.subscription = new Subscription(
      server,
      prefix,
      (message) => this.#heard(message),
      () => this.bids.forEach((bid) => bid.inbox.push({ kind: "subscribed" })),
    );
  }

  /** Waits for a turn among the callers of this process: only one of them is in the lock's queue. Returns what ends the turn. */
  async turn(line: string, signal: AbortSignal | undefined): Promise<() => void> {
    const before = this.#lines.get(line);
    let end = () => {};
    const ended = new Promise<void>((resolve) => (end = resolve));
    const all = before ? before.then(() => ended) : ended;
    this.#lines.set(line, all);
    void all.then(() => this.#lines.get(line) === all && this.#lines.delete(line));
    try {
      await abortable(before ?? Promise.resolve(), signal);
    } catch (e) {
      end();
      throw e;
    }
    return end;
  }

  inBackground(work: Promise<unknown>): void {
    const done = work.catch(() => {}).finally(() => this.#background.delete(done));
    this.#background.add(done);
  }

  async close(): Promise<void> {
    this.subscription.close();
    await Promise.race([Promise.all(this.#background), sleep(SENDING, undefined, { ref: false })]);
    this.server.close();
  }

  #heard(message: string): void {
    const [hf2, kind, token = "", ...rest] = message.split(" ");
    const bid = this.bids.get(token);
    const [now = NaN, second = NaN, fence = NaN] = rest.slice(0, 3).map(Number);
    if (hf2 !== "hf2" || !bid || Number.isNaN(now + second)) return;
    if (kind === "standby") {
      bid.inbox.push({ kind, now, due: second, came: new Instant() });
    } else if (["grant", "rw", "sem"].includes(kind!) && fence >= 0 && rest.slice(3).join(" ") === bid.lock.key) {
      if (bid.state === "waits") bid.inbox.push({ kind: "grant", now, claim: second, fence });
      if (bid.state === "ended") this.inBackground(bid.release());
    }
  }
}

/** A token: what is asked for with it, and what must be sent when it ends. */
class Bid {
  readonly token = randomId();
  readonly inbox = new Inbox();
  readonly claim: number;
  state: "waits" | "holds" | "ended" = "waits";
  /** The latest answer to a request to acquire. */
  anchor: Reply | undefined;
  #member = ""; // empty unless the token may be in the queue
  #tombstone = 0; // the not-after of the latest request that may still arrive

  /** `score`: of the token's place in the queue, or of the place that it asks for. */
  constructor(readonly session: Session, readonly lock: Lock, public score = "") {
    this.claim = Math.ceil(Math.min(Math.max(1500, 4 * session.server.roundTrip), lock.ttl));
    session.bids.set(this.token, this);
  }

  /** Sends `t` or `w` until it is answered, for a few seconds; or `l` once. */
  async ask(mode: "t" | "w" | "l"): Promise<Reply> {
    const { server, subscription, info } = this.session;
    const begun = new Instant();
    const place = this.score;
    for (let pause = 10, late = 0; ; ) {
      const args = [this.claim, subscription.channel, place];
      const unanswered = this.#tombstone;
      const notAfter = server.time + 6e6;
      if (mode === "w") this.#member = [this.token, this.claim, subscription.channel, ...this.lock.weightLine, info].join("\n");
      if (mode !== "l") this.#tombstone = notAfter;
      try {
        const reply = await server.run(this.lock.family + "acquire", this.lock.keys, [
          mode, this.token, this.lock.ttl, notAfter, 1, info, ...this.lock.shape, ...(mode === "t" ? [] : args),
        ]);
        this.#tombstone = unanswered;
        if (reply.word !== "late") {
          this.anchor = reply;
          if (mode === "w" && reply.word === "granted") this.#member = "";
          return reply;
        }
        late++;
      } catch (e) {
        if (!(e instanceof Unavailable && e.mayArrive)) this.#tombstone = unanswered;
        if (!(e instanceof Unavailable) || mode === "l" || begun.elapsed > 3000) throw e;
        await sleep(pause * between(0.5, 1));
        pause = Math.min(2 * pause, 500);
      }
      if (late === 3) throw new Unavailable(`the clock of ${address(server.options)} jumps`);
      if (this.state === "ended") throw new Unavailable("the caller has gone");
    }
  }

  /** Ends the token, and gives up what it has or may get. */
  giveUp(): void {
    const has = this.#member !== "" || this.#tombstone > 0 || this.anchor?.word === "granted";
    this.state = "ended";
    if (has) this.session.inBackground(this.release());
    else this.session.bids.delete(this.token);
  }

  /** Sends `release` until it is answered. `again`: an earlier copy may have been carried out. */
  async release(): Promise<{ reply: Reply; again: boolean }> {
    const { server, bids } = this.session;
    const begun = new Instant();
    const limit = Math.max(this.lock.ttl, (this.#tombstone - server.time) / 1000);
    this.state = "ended";
    try {
      for (let pause = 250, again = false; ; pause = Math.min(2 * pause, 5000)) {
        try {
          const args = ["", this.token, this.#member, this.#tombstone];
          return { reply: await server.run(this.lock.family + "release", this.lock.keys, args), again };
        } catch (e) {
          again ||= e instanceof Unavailable && e.mayArrive;
          if ((e instanceof Refused && /^(WRONGTYPE|BADKIND)$/.test(e.code)) || begun.elapsed > limit) throw e;
        }
        await sleep(pause * between(0.8, 1.2));
      }
    } finally {
      bids.delete(this.token);
    }
  }
}

/** The right to hold a lock until it is released or lost. It renews itself. */
export class Lease {
  readonly #bid: Bid;
  readonly #lost = new AbortController();
  #deadline: { from: Instant; ms: number };
  #state: "held" | "lost" | "released" = "held";
  #underWay = 0;
  #renewal: NodeJS.Timeout | undefined;
  #expiry: NodeJS.Timeout | undefined;

  /** @internal */
  constructor(bid: Bid, readonly fence: number, from: Instant, ms: number, renewIn: number) {
    this.#bid = bid;
    this.#deadline = { from, ms };
    bid.state = "holds";
    if (!bid.lock.family) bid.session.leases.set(bid.lock.key, this);
    this.#renewal = setTimeout(() => void this.#renew(), renewIn);
    this.#watch();
  }

  /** Whether the lock is held, as far as can be known without asking the server. */
  get held(): boolean {
    return this.#state === "held" && this.#left > 0;
  }

  /** Aborted, for the reason Lost, when the lease ends before it is released. */
  get signal(): AbortSignal {
    return this.#lost.signal;
  }

  /** Releases the lock. Throws Lost if that was lost; Unavailable if the server does not answer: this goes on asking it. */
  async release(): Promise<void> {
    if (this.#state === "released") return;
    if (!this.held) this.#lose("its deadline has passed");
    this.signal.throwIfAborted();
    this.#end("released");
    const released = this.#bid.release();
    this.#bid.session.inBackground(released);
    const answer = await within(5000, released).catch((e: unknown) => {
      throw e instanceof HoldfastError ? e : new Unavailable(`${this.#bid.lock.key} may not be released: ${e}`, true);
    });
    const { word } = answer.reply;
    if (word !== "released" && !answer.again) throw new Lost(this.#bid.lock.name, `its release is answered ${word}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release();
  }

  get #left(): number {
    return this.#deadline.ms - this.#deadline.from.elapsed;
  }

  #watch(): void {
    clearTimeout(this.#expiry);
    if (this.#left <= 0) this.#lose("it was not renewed in time");
    else this.#expiry = setTimeout(() => this.#watch(), Math.min(this.#left, 2 ** 30));
  }

  #lose(why: string): void {
    if (this.#state !== "held") return;
    this.#end("lost");
    this.#lost.abort(new Lost(this.#bid.lock.name, why));
    this.#bid.giveUp();
  }

  #end(state: "lost" | "released"): void {
    const { session, lock } = this.#bid;
    this.#state = state;
    clearTimeout(this.#renewal);
    clearTimeout(this.#expiry);
    if (session.leases.get(lock.key) === this) session.leases.delete(lock.key);
  }

  #renewIn(ms: number): void {
    clearTimeout(this.#renewal);
    if (this.#state === "held") this.#renewal = setTimeout(() => void this.#renew(), ms);
  }

  async #renew(): Promise<void> {
    const { session, lock, token } = this.#bid;
    this.#renewIn(clamp(this.#left / 3, 50, 2000));
    if (this.#underWay === 8) return;
    this.#underWay++;
    try {
      const reply = await session.server.run(lock.family + "renew", lock.renewKeys, ["", token, lock.ttl, 0, this.fence]);
      if (reply.word !== "renewed") return this.#lose(`a renewal is answered ${reply.word}`);
      const pttl = reply.number(0);
      const ms = pttl - drift(pttl);
      if (this.#state !== "held" || ms - reply.sent.elapsed < this.#left) return;
      this.#deadline = { from: reply.sent, ms };
      this.#watch();
      this.#renewIn(lock.ttl / 3);
    } catch {
      this.#renewIn(clamp(this.#left / 8, 25, 1000));
    } finally {
      this.#underWay--;
    }
  }
}

/** What the attempts of one acquire know of each other. */
interface Wait {
  signal: AbortSignal | undefined;
  begun: Instant;
  answered: boolean; // the server has answered, not by an error
  deaf: number; // looks in a row that found no subscription
  previous: Bid | undefined; // a token that lost its place
}

/** A mutex, one side of a read-write lock, or permits of a semaphore. */
export class Lock {
  /** @internal */ readonly key: string;
  /** @internal */ readonly family: "" | "share_";
  /** @internal */ readonly keys: string[];
  /** @internal */ readonly renewKeys: string[];
  /** @internal */ readonly weightLine: number[];
  readonly #session: Session;

  /** @internal */
  constructor(session: Session, readonly name: string, readonly ttl: number, readonly shape: [] | [kind: string, limit: number, weight: number]) {
    if (!Number.isInteger(ttl) || ttl < 5) throw new RangeError(`holdfast: a TTL is a whole number of ms, at least 5, not ${ttl}`);
    checkName(name);
    const [kind, , weight] = shape;
    const { prefix } = session;
    this.#session = session;
    this.key = `${prefix}{${name}}`;
    this.family = kind ? "share_" : "";
    const queue = `${this.key}:${kind ?? "q"}`;
    const index = kind ? [`${queue}:e`] : [];
    this.keys = [this.key, queue, `${prefix}fences`, ...index];
    this.renewKeys = [this.key, ...index];
    this.weightLine = weight === undefined ? [] : [weight];
  }

  /** Acquires the lock, or throws Held at once. */
  async tryAcquire(): Promise<Lease> {
    const lease = await this.#try(undefined);
    if (lease instanceof Lease) return lease;
    throw new Held(this.name, holderOf(lease.fields.slice(2).join(" ")), lease.number(0));
  }

  /** Waits for the lock, for as long as the signal allows. */
  async acquire({ signal }: WaitOptions = {}): Promise<Lease> {
    const [kind, , weight] = this.shape;
    const end = await this.#session.turn(kind === "rw" ? `${this.key} ${weight}` : this.key, signal);
    try {
      return await this.#wait({ signal, begun: new Instant(), answered: false, deaf: 0, previous: undefined });
    } finally {
      end();
    }
  }

  /** Runs f while the lock is held. */
  async do<T>(f: (lease: Lease) => Promise<T>, options: WaitOptions = {}): Promise<T> {
    const lease = await this.acquire(options);
    let result: T;
    try {
      result = await f(lease);
    } catch (e) {
      await lease.release().catch(() => {}); // f's error says more
      throw e;
    }
    await lease.release();
    return result;
  }

  async #try(signal: AbortSignal | undefined): Promise<Lease | Reply> {
    const bid = new Bid(this.#session, this);
    try {
      const reply = await abortable(bid.ask("t"), signal);
      if (reply.word === "held") return reply;
      const lease = reply.word === "granted" && this.#granted(bid, reply);
      if (!lease) throw new Unavailable(`${this.key}: the answer ${reply.word} came too late`);
      return lease;
    } finally {
      if (bid.state === "waits") bid.giveUp();
    }
  }

  async #wait(wait: Wait): Promise<Lease> {
    const { subscription } = this.#session;
    if (!subscription.since) {
      const lease = await this.#try(wait.signal);
      if (lease instanceof Lease) return lease;
      wait.answered = true;
      await subscription.ready(wait.signal);
    }
    try {
      for (let score = ""; ; ) {
        const bid = new Bid(this.#session, this, score);
        try {
          const lease = await this.#queue(bid, wait);
          if (lease) return lease;
        } finally {
          if (bid.state === "waits") {
            wait.previous?.giveUp();
            wait.previous = bid;
          }
        }
        const lost = bid.anchor?.word === "gone"; // its place, which the next token takes
        if (wait.deaf > 3) {
          bid.giveUp();
          const lease = await this.#poll(wait);
          if (lease) return lease;
        } else if (!lost || bid.score === score) {
          await abortable(sleep(between(250, 750)), wait.signal);
        }
        score = lost ? bid.score : "";
      }
    } finally {
      wait.previous?.giveUp();
    }
  }

  /** Waits with one token. Returns undefined if that has ended. */
  async #queue(bid: Bid, wait: Wait): Promise<Lease | undefined> {
    const { subscription } = this.#session;
    for (let mode: "w" | "l" = "w"; ; ) {
      let pause: number;
      try {
        const reply = await abortable(bid.ask(mode), wait.signal);
        wait.answered = true;
        wait.previous?.giveUp();
        wait.previous = undefined;
        if (reply.word === "granted") return this.#granted(bid, reply);
        if (reply.word !== "queued") return undefined;
        mode = "l";
        bid.score = reply.fields[1]!;
        pause = untilLook(reply, wait.begun);
        wait.deaf = reply.number(3) > 0 ? 0 : wait.deaf + 1;
        if (wait.deaf > 3) return undefined;
        if (wait.deaf > 0) {
          if (subscription.since && subscription.since.elapsed > reply.sent.elapsed) subscription.renew();
          await subscription.ready(wait.signal);
          pause = 0;
        }
      } catch (e) {
        if (!wait.answered || !passes(e)) throw e;
        pause = between(250, 750);
      }
      const lease = await this.#sleep(bid, pause, wait.signal);
      if (lease) return lease;
    }
  }

  /** Sleeps until a look is due, or a message grants the lock. */
  async #sleep(bid: Bid, ms: number, signal: AbortSignal | undefined): Promise<Lease | undefined> {
    for (const asleep = new Instant(); ; ) {
      const news = await bid.inbox.next(Math.max(ms - asleep.elapsed, 0), signal);
      if (news?.kind === "grant") return this.#claimed(bid, news);
      if (news?.kind !== "standby") return undefined;
      const due = [(news.due - news.now) / 1000 - news.came.elapsed];
      if (bid.anchor) due.push((news.due - bid.anchor.now) / 1000 - bid.anchor.sent.elapsed);
      ms = Math.min(ms, asleep.elapsed + Math.min(...due) + between(0, 20));
    }
  }

  /** The lease of a grant by message; undefined if the server has to confirm it. */
  #claimed(bid: Bid, grant: Grant): Lease | undefined {
    if (!bid.anchor || this.#session.leases.get(this.key)?.held) return undefined;
    const { sent, now } = bid.anchor;
    const claim = Math.min(grant.claim, bid.claim);
    const since = sent.elapsed;
    const age = since - (grant.now - now) / 1000;
    const left = claim - Math.max(age, 0) - drift(since + claim);
    const likely = grant.fence >= now - (now % 1000) && grant.fence <= this.#session.server.time + 2e6;
    return likely && left >= claim / 4 ? new Lease(bid, grant.fence, sent, since + left, 5) : undefined;
  }

  #granted(bid: Bid, reply: Reply): Lease | undefined {
    const pttl = reply.number(0);
    const ms = pttl - drift(pttl);
    return reply.sent.elapsed < ms ? new Lease(bid, reply.number(1), reply.sent, ms, this.ttl / 3) : undefined;
  }

  /** Tries again and again, while the server does not know of the subscription. */
  async #poll({ signal }: Wait): Promise<Lease | undefined> {
    const { subscription } = this.#session;
    const { since } = subscription;
    for (const begun = new Instant(); begun.elapsed < 30_000 && subscription.since === since; ) {
      const lease = await this.#try(signal).catch((e: unknown) => {
        if (!passes(e)) throw e;
      });
      if (lease instanceof Lease) return lease;
      await abortable(sleep(between(50, 150)), signal);
    }
    return undefined;
  }
}

/** Whether an error goes away by itself, so that a waiter keeps its place. */
function passes(e: unknown): boolean {
  return e instanceof Unavailable || (e instanceof Refused && /^(OOM|NOREPLICAS|MISCONF)$/.test(e.code));
}

/** ms from a `queued` until the next look. */
function untilLook(reply: Reply, begun: Instant): number {
  const [pttl, rank, ours] = [reply.number(0), reply.number(2), reply.fields[4] === "ours"];
  if (rank === 1 && ours) return pttl < 0 ? 30_000 * between(0.8, 1.2) : Math.min(pttl + between(1, 11), 30_000);
  if (rank === 1) return Math.min(clamp(begun.elapsed / 8, 10, 250), pttl < 0 ? Infinity : pttl) * between(0.8, 1.2);
  const turn = Math.min(2000 * rank, 10_000) * between(0.8, 1.2);
  return pttl < 0 ? turn : Math.min(turn, Math.max(pttl, 500) + between(100, 500));
}

/** The owner in a lock's value. */
function holderOf(value: string): string {
  try {
    const info: unknown = JSON.parse(value.replace(/^hf2(:[^:]*){4}:|\+$/g, ""));
    if (info && typeof info === "object" && "o" in info) return String(info.o);
  } catch {
    // Other programs write other values.
  }
  return "another program";
}

function checkName(name: string): void {
  if (!name.isWellFormed() || !/^(?!\})[^\p{Cc}]{1,512}$/u.test(name) || Buffer.byteLength(name) > 512) {
    throw new RangeError(`holdfast: ${JSON.stringify(name)} cannot be the name of a lock`);
  }
}

/** Makes locks on one server. Close it when its leases are released. */
export class Client {
  readonly #session: Session;

  private constructor(session: Session) {
    this.#session = session;
  }

  /** Connects to a server. scripts is the folder docs/scripts. */
  static async connect(redis: RedisOptions, scripts: string, { prefix = "holdfast:", owner }: Options = {}): Promise<Client> {
    const info = JSON.stringify({ o: owner ?? `${hostname()}-${process.pid}`, h: hostname(), p: process.pid });
    if (Buffer.byteLength(info) > 1024) throw new RangeError("holdfast: the owner's name is too long");
    checkName(prefix);
    if (/[{}]/.test(prefix)) throw new RangeError("holdfast: a prefix has no braces");
    const texts = SCRIPTS.map(async (name) => [name, script(await readFile(join(scripts, `${name}.lua`), "utf8"))] as const);
    const server = new Server(redis, new Map(await Promise.all(texts)));
    await server.open();
    return new Client(new Session(server, prefix, info));
  }

  mutex(name: string, { ttl = TTL }: LockOptions = {}): Lock {
    return new Lock(this.#session, name, ttl, []);
  }

  rwMutex(name: string, { ttl = TTL }: LockOptions = {}): { reader: Lock; writer: Lock } {
    const side = (weight: number) => new Lock(this.#session, name, ttl, ["rw", ALL, weight]);
    return { reader: side(1), writer: side(ALL) };
  }

  /** A lock is `wanted` of the semaphore's permits. */
  semaphore(name: string, permits: number, { ttl = TTL, wanted = 1 }: LockOptions & { wanted?: number } = {}): Lock {
    if (!(wanted >= 1 && wanted <= permits && permits <= 1e6)) throw new RangeError(`holdfast: ${wanted} of ${permits} permits`);
    return new Lock(this.#session, name, ttl, ["sem", permits, wanted]);
  }

  async close(): Promise<void> {
    await this.#session.close();
  }
}
