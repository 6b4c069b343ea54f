/**
 * A client of Holdfast's protocol (docs/PROTOCOL.md) for one server: mutexes, read-write locks and semaphores.
 *
 *     const client = await Client.connect({ host: "localhost" }, "docs/scripts");
 *     await client.mutex("orders").do(async ({ fence, signal }) => store(order, fence, signal));
 */
import { createHash, randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import { hostname } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Redis, type RedisOptions } from "ioredis";

export class HoldfastError extends Error { override readonly name = this.constructor.name; }

/** Somebody else holds the lock. `holder` is what the lock's value says about the holder, as JSON. */
export class Held extends HoldfastError {
  constructor(lock: string, readonly holder: string) { super(`${lock} is held by ${holder || "another program"}`); }
}

/** The lease ended before it was released: others may hold the lock. */
export class Lost extends HoldfastError {}

/** The server gives no answer, or none for now. If `mayArrive`, it may still carry the request out. */
export class Unavailable extends HoldfastError {
  constructor(message: string, readonly mayArrive = false, options?: ErrorOptions) { super(message, options); }
}

/** The server answers with an error, whose first word is `code`. */
export class Refused extends HoldfastError {
  constructor(message: string, readonly code: string) { super(message); }
}

const UNAVAILABLE = /^(LOADING|BUSY|READONLY|MASTERDOWN|ERR max number of clients)\b/; // outside Cluster mode
const SENDING_MS = 2000; // then a sending is given up
const RETRYING_MS = 3000; // then a request without an answer is not sent again
const ALL = 1_000_000_000; // the weight of a writer
const SCRIPTS = ["acquire", "renew", "release", "share_acquire", "share_renew", "share_release"];
const randomId = () => randomBytes(16).toString("base64url");
const between = (low: number, high: number) => low + Math.random() * (high - low);
const clamp = (n: number, low: number, high: number) => Math.min(Math.max(n, low), high);
const drift = (ms: number) => ms / 100 + 2;
const passes = (e: unknown) => e instanceof Unavailable || (e instanceof Refused && /^(OOM|NOREPLICAS|MISCONF)$/.test(e.code));
function unlessPassing(e: unknown): undefined { if (!passes(e)) throw e; }

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

/** A point in local time. The monotonic clock may stop in a suspension, and the wall clock be set back: the longer time counts. */
class Instant {
  readonly #monotonic = performance.now();
  readonly #wall = Date.now();
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
  return new Redis({
    ...options, lazyConnect: true, protocol: 2, replyMapping: "legacy", maxRetriesPerRequest: 0, retryStrategy: () => null,
    enableOfflineQueue: false, enableReadyCheck: false, autoResubscribe: false, autoResendUnfulfilledCommands: false,
  }).on("error", () => {}); // requests fail, too
}

/** The server, over one connection. The request after a failure opens another one. */
class Server {
  roundTripMs = 0; // on average
  #connection: { redis: Redis; ready: Promise<Redis> } | undefined;
  closed = false;
  #latest: Moment = { now: 0, sent: new Instant() };
  constructor(readonly options: RedisOptions, readonly scripts: ReadonlyMap<string, Script>) {}

  /** Server time in µs, as reckoned from the latest reply. */
  get time(): number { return Math.round(this.#latest.now + this.#latest.sent.elapsed * 1000); }

  async run(name: string, keys: string[], args: Argument[]): Promise<Reply> {
    for (;;) {
      const { text, sent } = await this.#evaluate(this.scripts.get(name)!, keys, args);
      if (text.startsWith("error AGAIN")) continue;
      if (text.startsWith("error ")) throw this.#refusal(text.slice("error ".length), keys[0]!);
      const [word = "", now, ...fields] = text.split(" ");
      return this.#reckon({ word, now: Number(now), fields, sent });
    }
  }

  async heardBy(channel: string): Promise<number> { return Number((await this.#evaluate(COUNT, [], ["NUMSUB", channel])).text); }

  async open(): Promise<Redis> {
    if (this.closed) throw new HoldfastError("the client is closed");
    if (!this.#connection) {
      const redis = newConnection(this.options);
      let cause: unknown; // without it, ioredis says only that the connection is closed
      redis.once("end", () => this.drop(redis)).on("error", (e) => (cause = e));
      const refused = (e: unknown) => { this.drop(redis); throw this.#failure(cause ?? e); };
      this.#connection = { redis, ready: this.#greet(redis).catch(refused) };
    }
    return this.#connection.ready;
  }

  drop(redis = this.#connection?.redis): void {
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

  #reckon<M extends Moment>(reply: M): M {
    this.roundTripMs += (reply.sent.elapsed - this.roundTripMs) / 8;
    if (this.#latest.sent.elapsed > reply.sent.elapsed) this.#latest = reply;
    return reply;
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
    return bounded(answer, undefined, SENDING_MS).catch((e: unknown) => { throw this.#failure(e, keys[0], sent !== undefined); });
  }

  #failure(e: unknown, key = "the server", mayArrive = false): HoldfastError {
    if (e instanceof Error && e.name === "ReplyError") return this.#refusal(e.message, key);
    this.drop(); // a late reply must not delay the next request, nor be taken for its reply
    if (e instanceof HoldfastError && !mayArrive) return e;
    return new Unavailable(`${key} at ${address(this.options)}: ${e}`, mayArrive, { cause: e });
  }

  #refusal(text: string, key: string): HoldfastError {
    const message = `${key} at ${address(this.options)}: ${text}`;
    if (text.startsWith("READONLY")) this.drop();
    return UNAVAILABLE.test(text) ? new Unavailable(message) : new Refused(message, text.split(" ", 1)[0]!);
  }
}

/** The client's channel, which is subscribed from the first wait on. */
class Subscription {
  since: Instant | undefined; // when it was confirmed
  #redis: Redis | undefined;
  #confirmation = deferred();
  constructor(readonly server: Server, readonly channel: string, readonly heard: (text: string) => void, readonly confirmed: () => void) {}

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

  async #run(): Promise<void> {
    for (let pause = 10; !this.server.closed; pause = Math.min(2 * pause, 1000)) {
      const redis = (this.#redis = newConnection(this.server.options));
      const end = new Promise((resolve) => redis.once("end", resolve));
      redis.on("message", (_, message) => this.heard(message));
      const checks = setInterval(async () => {
        const count = this.server.heardBy(this.channel).catch(() => 1);
        const answers = await bounded(redis.ping(), undefined, 5000).then(() => true, () => false);
        if (!answers || (await count) === 0) redis.disconnect();
      }, 5000);
      const subscribed = redis.connect().then(() => redis.subscribe(this.channel));
      if (await bounded(subscribed, undefined, 5000).then(() => true, () => false)) {
        pause = 10;
        this.since = new Instant();
        this.#confirmation.resolve();
        this.#confirmation = deferred();
        this.confirmed();
        await end;
      }
      clearInterval(checks);
      this.renew();
      await sleep(pause);
    }
  }
}

type Grant = { kind: "grant"; now: number; claim: number; fence: number };
type News = Grant | (Moment & { kind: "standby"; due: number }) | { kind: "subscribed" };

/** What is asked for with one token, and what must be sent when the token ends. */
class Bid {
  readonly token = randomId();
  readonly claim: number;
  state: "waits" | "holds" | "ended" = "waits";
  anchor: Reply | undefined; // of the latest request that could acquire or looked
  score = ""; // in the queue
  #member = ""; // if the token may be in the queue
  #tombstone = 0; // not-after of the latest request that may still arrive
  readonly news: News[] = []; // not heard yet
  #arrival = deferred();

  /** `place` is the score of an earlier entry whose place the token takes. */
  constructor(readonly client: Client, readonly lock: Lock, readonly place = "") {
    this.claim = Math.ceil(Math.min(Math.max(1500, 4 * client.server.roundTripMs), lock.ttl));
    client.bids.set(this.token, this);
  }

  /** Sends `t` or `w` until it is answered, for a few seconds; or `l` once. */
  async ask(mode: "t" | "w" | "l"): Promise<Reply> {
    const { token, claim, lock, client: { server, info, subscription: { channel } } } = this;
    const place = mode === "t" ? [] : [claim, channel, this.place];
    const begun = new Instant();
    if (mode === "w") this.#member = [token, claim, channel, ...lock.shape.slice(2), info].join("\n");
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
    this.news.push(news);
    this.#arrival.resolve();
  }

  /** The next news, or undefined if there is none for ms. */
  async hear(ms: number, signal: AbortSignal | undefined): Promise<News | undefined> {
    this.#arrival = deferred();
    if (this.news.length === 0) await bounded(this.#arrival.promise, signal, ms).catch(unlessPassing);
    return this.news.shift();
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
        const args = ["", this.token, this.#member, this.#tombstone];
        const reply = await server.run(`${this.lock.family}release`, this.lock.keys, args).catch((e: unknown) => {
          again ||= e instanceof Unavailable && e.mayArrive;
          if ((e instanceof Refused && /^(WRONGTYPE|BADKIND)$/.test(e.code)) || begun.elapsed > limit) throw e;
        });
        if (reply) return { word: reply.word, again };
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
  #underWay = 0;
  #renewal: NodeJS.Timeout | undefined;
  /** @internal */ constructor(bid: Bid, readonly fence: number, from: Instant, ms: number, renewAfter: number) {
    this.#bid = bid;
    this.#deadline = { from, ms };
    bid.state = "holds";
    this.#renewAfter(renewAfter);
  }

  /** Whether the lock is held, as far as this process knows. */
  get held(): boolean { return this.#bid.state === "holds" && this.#left > 0; }
  /** Aborted, with the reason Lost, if the lease ends before it is released. */
  get signal(): AbortSignal { return this.#loss.signal; }

  /** Throws Lost if the lock was lost before. After Unavailable, further attempts follow until the lock must have expired. */
  async release(): Promise<void> {
    if (!this.held) this.#lose("its deadline has passed");
    this.signal.throwIfAborted();
    if (this.#bid.state === "ended") return;
    clearTimeout(this.#renewal);
    const { word, again } = await bounded(this.#bid.release(), undefined, SENDING_MS + RETRYING_MS);
    if (word !== "released" && !again) throw new Lost(`${this.#bid.lock.name}: the release is answered ${word}`);
  }

  async [Symbol.asyncDispose](): Promise<void> { await this.release(); }
  get #left(): number { return this.#deadline.ms - this.#deadline.from.elapsed; }

  #lose(why: string): void {
    if (this.#bid.state !== "holds") return;
    clearTimeout(this.#renewal);
    this.#bid.release().catch(() => {});
    this.#loss.abort(new Lost(`${this.#bid.lock.name}: ${why}`));
  }

  #renewAfter(ms: number): void {
    clearTimeout(this.#renewal);
    if (this.#bid.state === "holds") this.#renewal = setTimeout(() => void this.#renew(), Math.min(ms, this.#left, 2 ** 31 - 1));
  }

  async #renew(): Promise<void> {
    const { client, lock, token } = this.#bid;
    if (this.#left <= 0) return this.#lose("it was not renewed in time");
    this.#renewAfter(clamp(this.#left / 3, 50, 2000)); // unless there is an answer
    if (this.#underWay === 8) return;
    this.#underWay++;
    try {
      const keys = [lock.key, ...lock.keys.slice(3)];
      const { word, fields, sent } = await client.server.run(`${lock.family}renew`, keys, ["", token, lock.ttl, 0, this.fence]);
      if (word !== "renewed") return this.#lose(`a renewal is answered ${word}`);
      const ms = Number(fields[0]) - drift(Number(fields[0]));
      if (this.#bid.state !== "holds" || ms - sent.elapsed < this.#left) return;
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
type Shape = [] | [kind: "rw" | "sem", limit: number, weight: number];
/** `answered`: by anything but an error. `deaf`: replies in a row that nobody hears the channel. */
type Wait = WaitOptions & { begun: Instant; answered: boolean; deaf: number };

/** A mutex, a side of a read-write lock, or permits of a semaphore. */
export class Lock {
  /** @internal */ readonly key: string;
  /** @internal */ readonly keys: string[];
  /** @internal */ readonly family: "" | "share_";
  readonly #client: Client;
  /** @internal */ constructor(client: Client, readonly name: string, readonly ttl: number, readonly shape: Shape) {
    if (!Number.isInteger(ttl) || ttl < 5) throw new RangeError(`holdfast: a TTL of ${ttl} is not a whole number of ms from 5 on`);
    const [kind] = shape;
    this.key = `${client.prefix}{${checked(name)}}`;
    const queue = `${this.key}:${kind ?? "q"}`;
    this.keys = [this.key, queue, `${client.prefix}fences`, ...(kind ? [`${queue}:e`] : [])];
    this.family = kind ? "share_" : "";
    this.#client = client;
  }

  /** Acquires the lock, or throws Held if it is not free. */
  async tryAcquire(): Promise<Lease> {
    const result = await this.#try(undefined);
    if (result instanceof Lease) return result;
    if (result.word !== "held") throw new Unavailable(`${this.key}: the answer ${result.word} came too late`);
    throw new Held(this.name, result.fields.slice(2).join(" ").replace(/\+$/, "").split(":").slice(5).join(":"));
  }

  /** Waits for the lock until the signal is aborted, and then throws its reason. */
  async acquire({ signal }: WaitOptions = {}): Promise<Lease> {
    const [kind, , weight] = this.shape;
    const wait = { signal, begun: new Instant(), answered: false, deaf: 0 };
    return this.#client.inTurn(kind === "rw" ? `${this.key} ${weight}` : this.key, signal, () => this.#wait(wait));
  }

  /** Runs f while the lock is held. Throws Lost, whatever f did, if the lock was lost meanwhile. */
  async do<T>(f: (lease: Lease) => Promise<T>, options: WaitOptions = {}): Promise<T> {
    const lease = await this.acquire(options);
    return Promise.resolve(lease).then(f).finally(() => lease.release());
  }

  /** Asks once. Returns the reply if that grants nothing. */
  #try(signal: AbortSignal | undefined): Promise<Lease | Reply> {
    const bid = new Bid(this.#client, this);
    const answer = bounded(bid.ask("t"), signal).then((reply) => this.#granted(bid, reply) ?? reply);
    return answer.finally(() => bid.giveUp());
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
      for (let place = ""; ; ) {
        const bid = new Bid(this.#client, this, place);
        const lease = (await this.#queue(bid, wait, previous).finally(() => {
          previous?.giveUp();
          previous = bid;
        })) ?? (wait.deaf > 3 ? await this.#poll(bid, wait) : undefined);
        if (lease) return lease;
        if (!bid.score || bid.anchor?.word !== "gone") await bounded(sleep(between(250, 750)), wait.signal);
        place = bid.anchor?.word === "gone" ? bid.score || place : "";
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
        if (reply.word !== "queued") return this.#granted(bid, reply);
        mode = "l";
        bid.score = reply.fields[1]!;
        pause = await this.#untilLook(reply, wait);
        if (wait.deaf > 3) return undefined;
      } catch (e) {
        if (!(wait.answered || bid.news.some(({ kind }) => kind === "grant")) || !passes(e)) throw e;
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
    const most = (ms: number) => (pttl < 0 ? Infinity : ms);
    if (rank > 1) return Math.min(2000 * rank * spread, 10_000 * spread, most(Math.max(pttl, 500) + between(100, 500)));
    if (fields[4] === "foreign") return Math.min(clamp(wait.begun.elapsed / 8, 10, 250), most(pttl)) * spread;
    return pttl < 0 ? 30_000 * spread : Math.min(pttl + between(1, 11), 30_000);
  }

  /** Sleeps until a look is due, or a message grants the lock. */
  async #sleep(bid: Bid, ms: number, signal: AbortSignal | undefined): Promise<Lease | undefined> {
    for (const asleep = new Instant(); ; ) {
      const news = await bid.hear(Math.max(ms - asleep.elapsed, 0), signal);
      if (news?.kind === "grant") return this.#claimed(bid, news);
      if (news?.kind !== "standby") return undefined;
      const times = [news, bid.anchor ?? news].map(({ now, sent }) => (news.due - now) / 1000 - sent.elapsed);
      ms = Math.min(ms, asleep.elapsed + Math.min(...times) + between(0, 20));
    }
  }

  /** The lease of a grant by message, or undefined if a look has to confirm it. */
  #claimed(bid: Bid, grant: Grant): Lease | undefined {
    const { server, bids } = this.#client;
    const holds = !this.family && [...bids.values()].some(({ state, lock }) => state === "holds" && lock.key === this.key);
    if (!bid.anchor || holds) return undefined;
    const { now, sent, sent: { elapsed: since } } = bid.anchor;
    const claim = Math.min(grant.claim, bid.claim);
    const left = claim - Math.max(since - (grant.now - now) / 1000, 0) - drift(since + claim);
    const credible = grant.fence >= now - (now % 1000) && grant.fence <= server.time + 2e6;
    return credible && left >= claim / 4 ? new Lease(bid, grant.fence, sent, since + left, 5) : undefined;
  }

  /** The lease that a reply grants, unless it came after the deadline. */
  #granted(bid: Bid, { word, fields, sent }: Reply): Lease | undefined {
    const [pttl = 0, fence = 0] = fields.map(Number);
    const ms = pttl - drift(pttl);
    return word === "granted" && sent.elapsed < ms ? new Lease(bid, fence, sent, ms, this.ttl / 3) : undefined;
  }

  /** Tries again and again, for a while, until there is a new subscription. */
  async #poll(bid: Bid, wait: Wait): Promise<Lease | undefined> {
    const { subscription, subscription: { since } } = this.#client;
    bid.giveUp();
    for (const begun = new Instant(); begun.elapsed < 30_000 && subscription.since === since; ) {
      await bounded(sleep(between(50, 150)), wait.signal);
      const lease = await this.#try(wait.signal).catch(unlessPassing);
      if (lease instanceof Lease) return lease;
    }
    wait.deaf = 0;
  }
}

function checked(name: string): string {
  if (name.isWellFormed() && /^[^}\p{Cc}]\P{Cc}*$/u.test(name) && Buffer.byteLength(name) <= 512) return name;
  throw new RangeError(`holdfast: a lock cannot be named ${JSON.stringify(name)}`);
}

/** Makes the locks of one server. `ttl` is for how many ms a lock outlives this process. */
export class Client {
  /** @internal */ readonly subscription: Subscription;
  /** @internal */ readonly bids = new Map<string, Bid>(); // by token
  readonly #turns = new Map<string, Promise<void>>();
  private constructor(/** @internal */ readonly server: Server, readonly prefix: string, /** @internal */ readonly info: string) {
    const look = () => this.bids.forEach((bid) => bid.tell({ kind: "subscribed" }));
    this.subscription = new Subscription(server, `${prefix}c:${randomId()}`, (message) => this.#heard(message), look);
  }

  /** Connects to a server. `scripts` is the folder docs/scripts, and `owner` who this is, for people who look at locks. */
  static async connect(redis: RedisOptions, scripts: string, { prefix = "holdfast:", owner = hostname() } = {}): Promise<Client> {
    const info = JSON.stringify({ o: owner, h: hostname(), p: process.pid });
    if (Buffer.byteLength(info) > 1024) throw new RangeError("holdfast: the owner's name is too long");
    if (/[{}]/.test(checked(prefix))) throw new RangeError("holdfast: a prefix has no braces");
    const texts = SCRIPTS.map(async (name) => [name, script(await readFile(join(scripts, `${name}.lua`), "utf8"))] as const);
    const server = new Server(redis, new Map(await Promise.all(texts)));
    await server.open();
    return new Client(server, prefix, info);
  }

  mutex(name: string, { ttl = 30_000 } = {}): Lock { return new Lock(this, name, ttl, []); }

  rwMutex(name: string, { ttl = 30_000 } = {}): { reader: Lock; writer: Lock } {
    return { reader: new Lock(this, name, ttl, ["rw", ALL, 1]), writer: new Lock(this, name, ttl, ["rw", ALL, ALL]) };
  }

  /** A lock of one permit, or as many as are wanted, of a semaphore that has `permits`. */
  semaphore(name: string, permits: number, { ttl = 30_000, wanted = 1 } = {}): Lock {
    if (!(wanted >= 1 && wanted <= permits && permits <= 1e6)) throw new RangeError(`holdfast: ${wanted} of ${permits} permits`);
    return new Lock(this, name, ttl, ["sem", permits, wanted]);
  }

  /** Disconnects. Release all leases before: they are not renewed any more. */
  async close(): Promise<void> {
    const releases = () => [...this.bids.values()].some((bid) => bid.state === "ended");
    for (const begun = new Instant(); releases() && begun.elapsed < SENDING_MS; ) await sleep(10);
    this.server.closed = true;
    this.server.drop();
    this.subscription.renew();
    this.subscription.confirmed(); // waiters learn that the client is closed
  }

  /** Runs f when those before have ended, so that only one of this process's callers is in the lock's queue. @internal */
  async inTurn<T>(line: string, signal: AbortSignal | undefined, f: () => Promise<T>): Promise<T> {
    const before = this.#turns.get(line) ?? Promise.resolve();
    const turn = deferred();
    const all = before.then(() => turn.promise);
    this.#turns.set(line, all);
    void all.then(() => this.#turns.get(line) === all && this.#turns.delete(line));
    return bounded(before, signal).then(f).finally(turn.resolve);
  }

  #heard(message: string): void {
    const [, token = "", ...grant] = /^hf2 (?:grant|rw|sem) (\S+) (\d+) (\d+) (\d+) (.+)$/s.exec(message) ?? [];
    const [, first = "", ...standby] = /^hf2 standby (\S+) (\d+) (\d+)$/.exec(message) ?? [];
    const [now = 0, second = 0, fence = 0] = [...grant, ...standby].map(Number);
    const bid = this.bids.get(token);
    if (bid?.lock.key === grant[3]) bid?.tell({ kind: "grant", now, claim: second, fence });
    this.bids.get(first)?.tell({ kind: "standby", now, due: second, sent: new Instant() });
  }
}
