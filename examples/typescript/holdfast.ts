/**
 * A client of Holdfast's protocol (docs/PROTOCOL.md) for one server: mutexes, read-write locks and semaphores.
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
  override readonly name = this.constructor.name;
}

/** Somebody else holds the lock. `holder` is what the lock's value says about the holder, as JSON. */
export class Held extends HoldfastError {
  constructor(lock: string, readonly holder: string) { super(`${lock} is held by ${holder || "another program"}`); }
}

/** The lease ended before it was released. Others may hold the lock. */
export class Lost extends HoldfastError {}

/** The server gives no answer, or none for now. If `mayArrive`, it may still carry the request out. */
export class Unavailable extends HoldfastError {
  constructor(message: string, readonly mayArrive = false, options?: ErrorOptions) { super(message, options); }
}

/** The server answers with an error, whose first word is `code`. */
export class Refused extends HoldfastError {
  constructor(message: string, readonly code: string) { super(message); }
}

const UNAVAILABLE =
  /^(LOADING|BUSY|READONLY|MASTERDOWN|CLUSTERDOWN|TRYAGAIN|ERR max number of clients|ERR Script attempted to access a non local key)\b/;
const SENDING_MS = 2000; // then a sending is given up
const RETRYING_MS = 3000; // then a request that has no answer is not sent again
const ALL = 1_000_000_000; // the weight of a writer
const SCRIPTS = ["acquire", "renew", "release", "share_acquire", "share_renew", "share_release"];

const randomId = () => randomBytes(16).toString("base64url");
const between = (low: number, high: number) => low + Math.random() * (high - low);
const clamp = (n: number, low: number, high: number) => Math.min(Math.max(n, low), high);
const drift = (ms: number) => ms / 100 + 2;

const passes = (e: unknown) => e instanceof Unavailable || (e instanceof Refused && /^(OOM|NOREPLICAS|MISCONF)$/.test(e.code));

function unlessPassing(e: unknown): undefined {
  if (!passes(e)) throw e;
}

/** Settles as work does, but rejects when the signal is aborted, or after ms. */
function bounded<T>(work: Promise<T>, signal: AbortSignal | undefined, ms?: number): Promise<T> {
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal?.reason);
    if (signal?.aborted) abort();
    signal?.addEventListener("abort", abort, { once: true });
    const timer = ms === undefined ? undefined : setTimeout(() => reject(new Unavailable(`no answer within ${ms} ms`, true)), ms);
    work.then(resolve, reject).finally(() => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", abort);
    });
  });
}

function deferred() {
  let resolve = () => {};
  const promise = new Promise<void>((r) => (resolve = r));
  return { promise, resolve };
}

/**
 * A point in local time. The monotonic clock may stop while the machine is suspended, and the wall clock can be set back, so the
 * longer of the two elapsed times counts.
 */
class Instant {
  readonly #monotonic = performance.now();
  readonly #wall = Date.now();

  /** ms since then. */
  get elapsed(): number { return Math.max(performance.now() - this.#monotonic, Date.now() - this.#wall); }
}

type Moment = { now: number; sent: Instant }; // NOW of a reply, in µs, and when its request was sent
type Reply = Moment & { word: string; fields: string[] };
type Argument = string | number;

const script = (text: string) => ({ text, digest: createHash("sha1").update(text).digest("hex") });
type Script = ReturnType<typeof script>;
const COUNT = script("#!lua flags=allow-oom\nreturn tostring(redis.call('PUBSUB', ARGV[1], ARGV[2])[2])");

const address = ({ path, host = "localhost", port = 6379 }: RedisOptions) => path ?? `${host}:${port}`;

/** A connection that is not opened again when it ends, and sends nothing twice. */
function newConnection(options: RedisOptions): Redis {
  const redis = new Redis({
    ...options, lazyConnect: true, protocol: 2, replyMapping: "legacy", maxRetriesPerRequest: 0, retryStrategy: () => null,
    enableOfflineQueue: false, enableReadyCheck: false, autoResubscribe: false, autoResendUnfulfilledCommands: false,
  });
  return redis.on("error", () => {}); // requests fail, too
}

/** The server, over one connection. The request after a failure opens another one. */
class Server {
  roundTripMs = 0;
  #connection: { redis: Redis; ready: Promise<Redis> } | undefined;
  #latest: Moment = { now: 0, sent: new Instant() };

  constructor(readonly options: RedisOptions, readonly scripts: ReadonlyMap<string, Script>) {}

  /** Server time in µs, as reckoned from the latest reply. */
  get time(): number { return Math.round(this.#latest.now + this.#latest.sent.elapsed * 1000); }

  async run(name: string, keys: string[], args: Argument[]): Promise<Reply> {
    for (;;) {
      const { text, sent } = await this.#evaluate(this.scripts.get(name)!, keys, args);
      if (text.startsWith("error AGAIN")) continue;
      if (text.startsWith("error ")) throw this.#failure(text.slice("error ".length), keys[0]);
      const [word = "", now, ...fields] = text.split(" ");
      const reply = { word, now: Number(now), fields, sent };
      this.#reckon(reply);
      return reply;
    }
  }

  /** How many connections hear the channel. */
  async subscribers(channel: string): Promise<number> {
    return Number((await this.#evaluate(COUNT, [], ["NUMSUB", channel])).text);
  }

  open(): Promise<Redis> {
    if (!this.#connection) {
      const redis = newConnection(this.options);
      this.#connection = { redis, ready: this.#greet(redis) };
      this.#connection.ready.catch(() => this.close(redis));
      redis.once("end", () => this.close(redis));
    }
    return this.#connection.ready;
  }

  close(redis = this.#connection?.redis): void {
    redis?.disconnect();
    if (this.#connection?.redis === redis) this.#connection = undefined;
  }

  async #greet(redis: Redis): Promise<Redis> {
    await redis.connect();
    const sent = new Instant();
    const [hello, time] = (await Promise.all([redis.call("HELLO"), redis.time()])) as [string[], number[]];
    const is = (field: string) => String(hello[hello.indexOf(field) + 1]);
    const [major = 0, minor = 0] = is("version").split(".").map(Number);
    const server = `${is("server")} ${is("version")} at ${address(this.options)}`;
    if (major < 7 || (is("server") === "valkey" && major === 7 && minor < 2)) throw new HoldfastError(`${server} is too old`);
    if (is("mode") !== "standalone") throw new HoldfastError(`${server} is in ${is("mode")} mode, which this client does not know`);
    if (is("role") !== "master") throw new Unavailable(`${server} is a replica`);
    this.#reckon({ sent, now: Number(time[0]) * 1e6 + Number(time[1]) });
    return redis;
  }

  #reckon(reply: Moment): void {
    this.roundTripMs = reply.sent.elapsed;
    if (this.#latest.sent.elapsed > this.roundTripMs) this.#latest = reply;
  }

  async #evaluate({ text, digest }: Script, keys: string[], args: Argument[]): Promise<{ text: string; sent: Instant }> {
    let sent: Instant | undefined;
    const answer = this.open().then(async (redis) => {
      sent = new Instant();
      const reply = redis.evalsha(digest, keys.length, ...keys, ...args).catch((e: Error) => {
        if (!e.message.startsWith("NOSCRIPT")) throw e;
        return redis.eval(text, keys.length, ...keys, ...args);
      });
      return { text: String(await reply), sent };
    });
    try {
      return await bounded(answer, undefined, SENDING_MS);
    } catch (e) {
      if (e instanceof Error && e.name === "ReplyError") throw this.#failure(e.message, keys[0]);
      this.close(); // a late reply must not delay the next request, nor be taken for its reply
      if (e instanceof HoldfastError && !sent) throw e;
      throw new Unavailable(`${keys[0] ?? "the server"} at ${address(this.options)}: ${e}`, sent !== undefined, { cause: e });
    }
  }

  #failure(text: string, key: string | undefined): HoldfastError {
    const message = `${key ?? "the server"} at ${address(this.options)}: ${text}`;
    if (text.startsWith("READONLY")) this.close();
    return UNAVAILABLE.test(text) ? new Unavailable(message) : new Refused(message, text.split(" ", 1)[0]!);
  }
}

/** The client's channel, which is subscribed from the first wait on. */
class Subscription {
  readonly channel: string;
  /** When it was confirmed; undefined while there is none. */
  since: Instant | undefined;
  #redis: Redis | undefined;
  #closed = false;
  #confirmation = deferred();

  constructor(readonly server: Server, prefix: string, readonly heard: (message: string) => void, readonly confirmed: () => void) {
    this.channel = `${prefix}c:${randomId()}`;
  }

  /** Waits for the confirmation, for a second at most. */
  async ready(signal: AbortSignal | undefined): Promise<void> {
    if (!this.#redis) void this.#run();
    if (!this.since) await bounded(this.#confirmation.promise, signal, 1000).catch(unlessPassing);
  }

  /** Gives the subscription up, for another one. */
  renew(): void {
    this.since = undefined;
    this.#redis?.disconnect();
  }

  close(): void {
    this.#closed = true;
    this.renew();
  }

  async #run(): Promise<void> {
    for (let pause = 10; !this.#closed; pause = Math.min(2 * pause, 1000)) {
      const redis = (this.#redis = newConnection(this.server.options));
      const end = new Promise((resolve) => redis.once("end", resolve));
      redis.on("message", (_, message) => this.heard(message));
      const checks = setInterval(async () => {
        const count = this.server.subscribers(this.channel).catch(() => 1);
        const answers = await bounded(redis.ping(), undefined, 5000).then(() => true, () => false);
        if (!answers || (await count) === 0) redis.disconnect();
      }, 5000);
      try {
        await bounded(redis.connect().then(() => redis.subscribe(this.channel)), undefined, 5000);
        pause = 10;
        this.since = new Instant();
        this.#confirmation.resolve();
        this.#confirmation = deferred();
        this.confirmed();
        await end;
      } catch {
        // Waiters look once the next one is confirmed.
      }
      clearInterval(checks);
      this.renew();
      await sleep(pause);
    }
  }
}

type Grant = { kind: "grant"; now: number; claim: number; fence: number };
type News = Grant | { kind: "standby"; now: number; due: number; came: Instant } | { kind: "subscribed" };

/** What is asked for with one token, and what must be sent when the token ends. */
class Bid {
  readonly token = randomId();
  readonly claim: number;
  state: "waits" | "holds" | "ended" = "waits";
  /** The latest answer to a request that could acquire or looked. */
  anchor: Reply | undefined;
  #member = ""; // if the token may be in the queue
  #tombstone = 0; // not-after of the latest request that may still arrive
  readonly #news: News[] = [];
  #arrival = deferred();

  /** score is that of an earlier entry whose place the token takes, then its own. */
  constructor(readonly client: Client, readonly lock: Lock, public score = "") {
    this.claim = Math.ceil(Math.min(Math.max(1500, 4 * client.server.roundTripMs), lock.ttl));
    client.bids.set(this.token, this);
  }

  /** Sends `t` or `w` until it is answered, for a few seconds; or `l` once. */
  async ask(mode: "t" | "w" | "l"): Promise<Reply> {
    const { token, claim, lock } = this;
    const { server, subscription: { channel }, info } = this.client;
    const place = mode === "t" ? [] : [claim, channel, this.score];
    const begun = new Instant();
    if (mode === "w") this.#member = [token, claim, channel, ...lock.weightLine, info].join("\n");
    for (let pause = 10, late = 0; this.state !== "ended" && late < 3; ) {
      const unanswered = this.#tombstone;
      const notAfter = server.time + 6e6;
      if (mode !== "l") this.#tombstone = notAfter;
      try {
        const args = [mode, token, lock.ttl, notAfter, 1, info, ...lock.shape, ...place];
        const reply = await server.run(`${lock.family}acquire`, lock.keys, args);
        this.#tombstone = unanswered;
        if (reply.word === "granted" && mode === "w") this.#member = "";
        if (reply.word !== "late") return (this.anchor = reply);
        late++;
      } catch (e) {
        if (!(e instanceof Unavailable && e.mayArrive)) this.#tombstone = unanswered;
        if (!(e instanceof Unavailable) || mode === "l" || begun.elapsed > RETRYING_MS) throw e;
        await sleep(pause * between(0.5, 1));
        pause = Math.min(2 * pause, 500);
      }
    }
    throw new Unavailable(`the clock of ${address(server.options)} jumps`);
  }

  tell(news: News): void {
    if (this.state === "ended" && news.kind === "grant") this.release().catch(() => {});
    if (this.state !== "waits") return;
    this.#news.push(news);
    this.#arrival.resolve();
  }

  /** The next news, or undefined if there is none for ms. */
  async hear(ms: number, signal: AbortSignal | undefined): Promise<News | undefined> {
    this.#arrival = deferred();
    if (this.#news.length === 0) await bounded(this.#arrival.promise, signal, ms).catch(unlessPassing);
    return this.#news.shift();
  }

  /** Ends a token that waits, and gives up what it may get. */
  giveUp(): void {
    if (this.state !== "waits") return;
    this.state = "ended";
    if (this.#member || this.#tombstone || this.anchor?.word === "granted") this.release().catch(() => {});
    else this.client.bids.delete(this.token);
  }

  /** Sends `release` until it is answered. If `again`, an earlier copy may have been carried out. */
  async release(): Promise<{ word: string; again: boolean }> {
    const { server, bids } = this.client;
    const begun = new Instant();
    const limit = Math.max(this.lock.ttl, (this.#tombstone - server.time) / 1000);
    this.state = "ended";
    try {
      for (let pause = 250, again = false; ; pause = Math.min(2 * pause, 5000)) {
        try {
          const args = ["", this.token, this.#member, this.#tombstone];
          return { word: (await server.run(`${this.lock.family}release`, this.lock.keys, args)).word, again };
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

/** A lock that is held until it is released or lost. It renews itself. */
export class Lease {
  readonly #bid: Bid;
  readonly #loss = new AbortController();
  #deadline: { from: Instant; ms: number };
  #state: "held" | "lost" | "released" = "held";
  #underWay = 0;
  #renewal: NodeJS.Timeout | undefined;

  /** @internal */
  constructor(bid: Bid, readonly fence: number, from: Instant, ms: number, renewAfter: number) {
    this.#bid = bid;
    this.#deadline = { from, ms };
    bid.state = "holds";
    if (!bid.lock.family) bid.client.leases.set(bid.lock.key, this);
    this.#renewAfter(renewAfter);
  }

  /** Whether the lock is held, as far as this process knows. */
  get held(): boolean { return this.#state === "held" && this.#left > 0; }

  /** Aborted, with the reason Lost, if the lease ends before it is released. */
  get signal(): AbortSignal { return this.#loss.signal; }

  /** Throws Lost if the lock was lost before. After Unavailable, further attempts follow until the lock must have expired. */
  async release(): Promise<void> {
    if (this.#state === "released") return;
    if (!this.held) this.#lose("its deadline has passed");
    this.signal.throwIfAborted();
    this.#end("released");
    const { word, again } = await bounded(this.#bid.release(), undefined, SENDING_MS + RETRYING_MS);
    if (word !== "released" && !again) throw new Lost(`${this.#bid.lock.name}: the release is answered ${word}`);
  }

  async [Symbol.asyncDispose](): Promise<void> { await this.release(); }

  get #left(): number { return this.#deadline.ms - this.#deadline.from.elapsed; }

  #lose(why: string): void {
    if (this.#state !== "held") return;
    this.#end("lost");
    this.#bid.release().catch(() => {});
    this.#loss.abort(new Lost(`${this.#bid.lock.name}: ${why}`));
  }

  #end(state: "lost" | "released"): void {
    const { client, lock } = this.#bid;
    this.#state = state;
    clearTimeout(this.#renewal);
    if (client.leases.get(lock.key) === this) client.leases.delete(lock.key);
  }

  #renewAfter(ms: number): void {
    clearTimeout(this.#renewal);
    if (this.#state === "held") this.#renewal = setTimeout(() => void this.#renew(), Math.min(ms, this.#left));
  }

  async #renew(): Promise<void> {
    const { client, lock, token } = this.#bid;
    if (this.#left <= 0) return this.#lose("it was not renewed in time");
    this.#renewAfter(clamp(this.#left / 3, 50, 2000)); // unless there is an answer
    if (this.#underWay === 8) return;
    this.#underWay++;
    try {
      const { word, fields, sent } = await client.server.run(`${lock.family}renew`, lock.renewKeys, ["", token, lock.ttl, 0, this.fence]);
      if (word !== "renewed") return this.#lose(`a renewal is answered ${word}`);
      const ms = Number(fields[0]) - drift(Number(fields[0]));
      if (this.#state !== "held" || ms - sent.elapsed < this.#left) return;
      this.#deadline = { from: sent, ms };
      this.#renewAfter(lock.ttl / 3);
    } catch {
      this.#renewAfter(clamp(this.#left / 8, 25, 1000));
    } finally {
      this.#underWay--;
    }
  }
}

export type WaitOptions = { signal?: AbortSignal | undefined };

/** What a call of acquire knows: whether it has an answer other than an error, and how many in a row said that nobody hears the channel. */
type Wait = WaitOptions & { begun: Instant; answered: boolean; deaf: number };

/** A mutex, a side of a read-write lock, or permits of a semaphore. */
export class Lock {
  /** @internal */ readonly key: string;
  /** @internal */ readonly family: "" | "share_";
  /** @internal */ readonly keys: string[];
  /** @internal */ readonly renewKeys: string[];
  /** @internal */ readonly weightLine: number[];
  readonly #client: Client;

  /** @internal */
  constructor(client: Client, readonly name: string, readonly ttl: number, readonly shape: [] | [kind: string, limit: number, weight: number]) {
    if (!Number.isInteger(ttl) || ttl < 5) throw new RangeError(`holdfast: a TTL of ${ttl} is not a whole number of ms from 5 on`);
    const [kind, , weight] = shape;
    this.#client = client;
    this.key = `${client.prefix}{${checked(name)}}`;
    const queue = `${this.key}:${kind ?? "q"}`;
    const index = kind ? [`${queue}:e`] : [];
    this.family = kind ? "share_" : "";
    this.keys = [this.key, queue, `${client.prefix}fences`, ...index];
    this.renewKeys = [this.key, ...index];
    this.weightLine = weight === undefined ? [] : [weight];
  }

  /** Acquires the lock, or throws Held if it is not free. */
  async tryAcquire(): Promise<Lease> {
    const lease = await this.#try(undefined);
    if (lease instanceof Lease) return lease;
    const value = lease.fields.slice(2).join(" ").replace(/\+$/, "");
    throw new Held(this.name, value.split(":").slice(5).join(":"));
  }

  /** Waits for the lock until the signal is aborted, and then throws its reason. */
  async acquire({ signal }: WaitOptions = {}): Promise<Lease> {
    const [kind, , weight] = this.shape;
    const wait = { signal, begun: new Instant(), answered: false, deaf: 0 };
    return this.#client.inTurn(kind === "rw" ? `${this.key} ${weight}` : this.key, signal, () => this.#wait(wait));
  }

  /** Runs f while the lock is held. If f throws, its error is thrown. */
  async do<T>(f: (lease: Lease) => Promise<T>, options: WaitOptions = {}): Promise<T> {
    const lease = await this.acquire(options);
    const result = await f(lease).catch(async (e: unknown) => {
      await lease.release().catch(() => {});
      throw e;
    });
    await lease.release();
    return result;
  }

  async #try(signal: AbortSignal | undefined): Promise<Lease | Reply> {
    const bid = new Bid(this.#client, this);
    try {
      const reply = await bounded(bid.ask("t"), signal);
      if (reply.word === "held") return reply;
      const lease = reply.word === "granted" && this.#granted(bid, reply);
      if (lease) return lease;
      throw new Unavailable(`${this.key}: the answer ${reply.word} came too late`);
    } finally {
      bid.giveUp();
    }
  }

  async #wait(wait: Wait): Promise<Lease> {
    const { subscription } = this.#client;
    if (!subscription.since) {
      const lease = await this.#try(wait.signal);
      if (lease instanceof Lease) return lease;
      wait.answered = true;
      await subscription.ready(wait.signal);
    }
    let previous: Bid | undefined;
    try {
      for (let score = ""; ; ) {
        const bid = new Bid(this.#client, this, score);
        const lease = (await this.#queue(bid, wait, previous).finally(() => {
          previous?.giveUp();
          previous = bid;
        })) ?? (wait.deaf > 3 ? await this.#poll(bid, wait) : undefined);
        if (lease) return lease;
        const place = bid.anchor?.word === "gone" ? bid.score : "";
        if (place === score) await bounded(sleep(between(250, 750)), wait.signal);
        score = place;
      }
    } finally {
      previous?.giveUp();
    }
  }

  /** Waits with one token. Returns undefined if it takes another one. */
  async #queue(bid: Bid, wait: Wait, previous: Bid | undefined): Promise<Lease | undefined> {
    for (let mode: "w" | "l" = "w"; ; ) {
      let pause = between(250, 750);
      try {
        const reply = await bounded(bid.ask(mode), wait.signal);
        wait.answered = true;
        previous?.giveUp();
        if (reply.word === "granted") return this.#granted(bid, reply);
        if (reply.word !== "queued") return undefined;
        mode = "l";
        bid.score = reply.fields[1]!;
        pause = await this.#untilLook(reply, wait);
        if (wait.deaf > 3) return undefined;
      } catch (e) {
        if (!wait.answered || !passes(e)) throw e;
      }
      const lease = await this.#sleep(bid, pause, wait.signal);
      if (lease) return lease;
    }
  }

  /** How long to sleep after a `queued`, in ms. */
  async #untilLook({ fields, sent }: Reply, wait: Wait): Promise<number> {
    const [pttl = 0, , rank = 1, receivers = 0] = fields.map(Number);
    const { subscription } = this.#client;
    wait.deaf = receivers > 0 ? 0 : wait.deaf + 1;
    if (wait.deaf > 0) {
      if (subscription.since && subscription.since.elapsed > sent.elapsed) subscription.renew();
      await subscription.ready(wait.signal);
      return 0;
    }
    const spread = between(0.8, 1.2);
    if (rank > 1) return Math.min(2000 * rank * spread, 10_000 * spread, pttl < 0 ? Infinity : Math.max(pttl, 500) + between(100, 500));
    if (fields[4] === "foreign") return Math.min(clamp(wait.begun.elapsed / 8, 10, 250), pttl < 0 ? Infinity : pttl) * spread;
    return pttl < 0 ? 30_000 * spread : Math.min(pttl + between(1, 11), 30_000);
  }

  /** Sleeps until a look is due, or a message grants the lock. */
  async #sleep(bid: Bid, ms: number, signal: AbortSignal | undefined): Promise<Lease | undefined> {
    for (const asleep = new Instant(); ; ) {
      const news = await bid.hear(Math.max(ms - asleep.elapsed, 0), signal);
      if (news?.kind === "grant") return this.#claimed(bid, news);
      if (news?.kind !== "standby") return undefined;
      const { anchor } = bid;
      const due = (news.due - news.now) / 1000 - news.came.elapsed;
      const dueByAnchor = anchor ? (news.due - anchor.now) / 1000 - anchor.sent.elapsed : due;
      ms = Math.min(ms, asleep.elapsed + Math.min(due, dueByAnchor) + between(0, 20));
    }
  }

  /** The lease of a grant by message, or undefined if a look has to confirm it. */
  #claimed(bid: Bid, grant: Grant): Lease | undefined {
    const { server, leases } = this.#client;
    if (!bid.anchor || leases.get(this.key)?.held) return undefined;
    const { sent, now } = bid.anchor;
    const since = sent.elapsed;
    const claim = Math.min(grant.claim, bid.claim);
    const age = since - (grant.now - now) / 1000;
    const left = claim - Math.max(age, 0) - drift(since + claim);
    const credible = grant.fence >= now - (now % 1000) && grant.fence <= server.time + 2e6;
    return credible && left >= claim / 4 ? new Lease(bid, grant.fence, sent, since + left, 5) : undefined;
  }

  /** The lease of a reply, or undefined if that came after its deadline. */
  #granted(bid: Bid, { fields, sent }: Reply): Lease | undefined {
    const [pttl = 0, fence = 0] = fields.map(Number);
    const ms = pttl - drift(pttl);
    return sent.elapsed < ms ? new Lease(bid, fence, sent, ms, this.ttl / 3) : undefined;
  }

  /** Tries again and again, for a while, until there is a new subscription. */
  async #poll(bid: Bid, wait: Wait): Promise<Lease | undefined> {
    const { subscription } = this.#client;
    const { since } = subscription;
    bid.giveUp();
    for (const begun = new Instant(); begun.elapsed < 30_000 && subscription.since === since; ) {
      await bounded(sleep(between(50, 150)), wait.signal);
      const lease = await this.#try(wait.signal).catch(unlessPassing);
      if (lease instanceof Lease) return lease;
    }
    wait.deaf = 0;
    return undefined;
  }
}

function checked(name: string): string {
  if (name.isWellFormed() && /^[^}\p{Cc}]\P{Cc}*$/u.test(name) && Buffer.byteLength(name) <= 512) return name;
  throw new RangeError(`holdfast: a lock cannot be named ${JSON.stringify(name)}`);
}

/** ttl: for how many ms the lock outlives this process, by default 30,000. */
export type LockOptions = { ttl?: number };

/** Makes the locks of one server. */
export class Client {
  /** @internal */ readonly subscription: Subscription;
  /** @internal */ readonly bids = new Map<string, Bid>(); // by token
  /** @internal */ readonly leases = new Map<string, Lease>(); // of mutexes, by key
  readonly #turns = new Map<string, Promise<void>>();

  private constructor(/** @internal */ readonly server: Server, readonly prefix: string, /** @internal */ readonly info: string) {
    const look = () => this.bids.forEach((bid) => bid.tell({ kind: "subscribed" }));
    this.subscription = new Subscription(server, prefix, (message) => this.#heard(message), look);
  }

  /** Connects to a server. `scripts` is the folder docs/scripts, and `owner` who this is, for people who look at locks. */
  static async connect(redis: RedisOptions, scripts: string, { prefix = "holdfast:", owner = `${hostname()}-${process.pid}` } = {}): Promise<Client> {
    const info = JSON.stringify({ o: owner, h: hostname(), p: process.pid });
    if (Buffer.byteLength(info) > 1024) throw new RangeError("holdfast: the owner's name is too long");
    if (/[{}]/.test(checked(prefix))) throw new RangeError("holdfast: a prefix has no braces");
    const texts = SCRIPTS.map(async (name) => [name, script(await readFile(join(scripts, `${name}.lua`), "utf8"))] as const);
    const server = new Server(redis, new Map(await Promise.all(texts)));
    await server.open();
    return new Client(server, prefix, info);
  }

  mutex(name: string, { ttl = 30_000 }: LockOptions = {}): Lock { return new Lock(this, name, ttl, []); }

  rwMutex(name: string, { ttl = 30_000 }: LockOptions = {}): { reader: Lock; writer: Lock } {
    const side = (weight: number) => new Lock(this, name, ttl, ["rw", ALL, weight]);
    return { reader: side(1), writer: side(ALL) };
  }

  /** A lock of one permit, or as many as are wanted, of a semaphore that has `permits`. */
  semaphore(name: string, permits: number, { ttl = 30_000, wanted = 1 }: LockOptions & { wanted?: number } = {}): Lock {
    if (!(wanted >= 1 && wanted <= permits && permits <= 1e6)) throw new RangeError(`holdfast: ${wanted} of ${permits} permits`);
    return new Lock(this, name, ttl, ["sem", permits, wanted]);
  }

  /** Disconnects. Release all leases before: they are not renewed any more. */
  async close(): Promise<void> {
    this.subscription.close();
    const releases = () => [...this.bids.values()].some((bid) => bid.state === "ended");
    for (const begun = new Instant(); releases() && begun.elapsed < SENDING_MS; ) await sleep(10);
    this.server.close();
  }

  /** Runs f when those before have ended, so that only one of this process's callers is in the lock's queue. @internal */
  async inTurn<T>(line: string, signal: AbortSignal | undefined, f: () => Promise<T>): Promise<T> {
    const before = this.#turns.get(line) ?? Promise.resolve();
    const turn = deferred();
    const all = before.then(() => turn.promise);
    this.#turns.set(line, all);
    void all.then(() => this.#turns.get(line) === all && this.#turns.delete(line));
    try {
      await bounded(before, signal);
      return await f();
    } finally {
      turn.resolve();
    }
  }

  #heard(message: string): void {
    const [, token = "", ...grant] = /^hf2 (?:grant|rw|sem) (\S+) (\d+) (\d+) (\d+) (.+)$/s.exec(message) ?? [];
    const [, first = "", ...standby] = /^hf2 standby (\S+) (\d+) (\d+)$/.exec(message) ?? [];
    const [now = 0, second = 0, fence = 0] = [...grant, ...standby].map(Number);
    const bid = this.bids.get(token);
    if (bid?.lock.key === grant[3]) bid?.tell({ kind: "grant", now, claim: second, fence });
    this.bids.get(first)?.tell({ kind: "standby", now, due: second, came: new Instant() });
  }
}
