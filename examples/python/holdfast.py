"""A client of Holdfast's protocol, written from docs/PROTOCOL.md: mutexes, read-write locks, semaphores and tickets on one server,
outside Cluster and Strict mode. It shows that the document is enough. It leaves out polling without messages, fences
for hand-overs within the process, and several locks in one call.

It is safe for threads. Times are in seconds of clock(), unless a name says otherwise.
"""

import base64
import hashlib
import json
import math
import os
import pathlib
import queue
import random
import socket
import threading
import time

import redis

PREFIX = "holdfast:"
EVERYTHING = 1_000_000_000  # the weight of a writer, and the limit of a read-write lock
COMMAND_TIMEOUT, RETRY_TIMEOUT = 2.0, 3.0
KEEPALIVE = 5.0
DAY_US = 86_400_000_000

UNAVAILABLE = (
    "no answer", "LOADING", "BUSY", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "ERR max number of clients",
    "ERR Script attempted to access a non local key",
)
# The replies that say that a lease is over.
LOST = ("gone", "absent", "superseded")
REFUSED = ("OOM", "NOREPLICAS", "MISCONF")
HOPELESS = ("WRONGTYPE", "BADKIND", "NOSTRICT")


class Held(Exception):
    """Another holder has the lock."""


class Lost(Exception):
    """The lease is over."""


class Failed(Exception):
    """An error of the server, or a missing answer. unanswered: a copy was carried out perhaps, or may be later."""

    def __init__(self, text, unanswered=False):
        super().__init__(text)
        self.text, self.unanswered = text, unanswered


def clock():
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def drift(seconds):
    return seconds / 100 + 0.002


def jitter(seconds):
    return seconds * random.uniform(0.8, 1.2)


def new_token():
    return base64.urlsafe_b64encode(os.urandom(16)).decode().rstrip("=")


def written(lock, token, fence, tombstone_us):
    """A ticket as text."""
    fields = " ".join(["name", token, str(fence), str(tombstone_us), lock.key])
    return "hf2t." + base64.urlsafe_b64encode(fields.encode()).decode().rstrip("=")


def read(text):
    """The name of a ticket's lock, its token, fence and tombstone."""
    fields = base64.urlsafe_b64decode(text.removeprefix("hf2t.") + "=" * (-len(text.removeprefix("hf2t.")) % 4)).decode()
    kind, token, fence, tombstone_us, place = fields.split(" ", 4)
    if not text.startswith("hf2t.") or kind != "name" or not place.startswith(PREFIX + "{") or not place.endswith("}"):
        raise ValueError("not a ticket for a name of this prefix")
    return place[len(PREFIX) + 1:-1], token, int(fence), int(tombstone_us)


def in_background(f, *args):
    threading.Thread(target=f, args=args, daemon=True).start()


class Reply:
    def __init__(self, text, sent):
        self.word, _, rest = text.partition(" ")
        now, _, self.rest = rest.partition(" ")
        self.now_us, self.sent, self.unanswered = int(now), sent, False

    def ints(self, n):
        *fields, self.rest = (self.rest + " ").split(" ", n)
        self.rest = self.rest.strip()
        return [int(f) for f in fields]


class Client:
    def __init__(self, host, port, scripts):
        self.address = {"host": host, "port": port, "decode_responses": True, "socket_connect_timeout": COMMAND_TIMEOUT}
        self.rdb = redis.Redis(**self.address, socket_timeout=COMMAND_TIMEOUT, retry=None)
        self.scripts = {file.stem: file.read_bytes() for file in pathlib.Path(scripts).glob("*.lua")}
        self.digests = {name: hashlib.sha1(source).hexdigest() for name, source in self.scripts.items()}
        self.channel = PREFIX + "c:" + new_token()
        self.info = json.dumps({"o": "py", "h": socket.gethostname(), "p": os.getpid()}, separators=(",", ":"))
        self.round_trip = 0.0
        self.subscribed = threading.Event()
        self.mutex = threading.Lock()  # guards what follows
        self.waiting = {}  # waiters by token
        self.over = {}  # the locks of tokens that have waited, and neither wait nor hold any more
        self.lines = {}  # where threads of this process wait
        self.contended = set()  # keys of mutexes that others held or awaited when last seen
        sent = clock()
        seconds, micros = self.rdb.time()
        self.anchor = (sent, seconds * 1_000_000 + micros)
        threading.Thread(target=self.listen, daemon=True).start()

    def mutex_lock(self, name, ttl):
        return Lock(self, name, ttl)

    def reader(self, name, ttl):
        return Lock(self, name, ttl, "rw", EVERYTHING, 1)

    def writer(self, name, ttl):
        return Lock(self, name, ttl, "rw", EVERYTHING, EVERYTHING)

    def permit(self, name, permits, ttl):
        """Returns the lock that takes one of a semaphore's permits."""
        return Lock(self, name, ttl, "sem", permits, 1)

    def adopt(self, text, ttl):
        """Takes over the lock of a ticket."""
        name, token, fence, tombstone_us = read(text)
        lock = self.mutex_lock(name, ttl)
        w = Waiter(lock)
        try:
            return lock.adopt(w, token, fence, tombstone_us).begin(lock.ttl_ms / 3000)
        except (Failed, Lost):
            lock.give_up(w)
            raise

    def server_time_us(self):
        sent, now_us = self.anchor
        return now_us + int((clock() - sent) * 1e6)

    def not_after_us(self):
        return self.server_time_us() + int((RETRY_TIMEOUT + COMMAND_TIMEOUT + 1) * 1e6)

    def send(self, script, keys, args):
        """Sends a script once, and repeats it while it has only removed what others have left."""
        while True:
            sent = clock()
            text = self.evaluate(script, keys, args)
            if text.startswith("error AGAIN"):
                continue
            if text.startswith("error "):
                raise Failed(text[len("error "):])
            reply = Reply(text, sent)
            self.round_trip += (clock() - sent - self.round_trip) / 8
            if sent > self.anchor[0]:
                self.anchor = (sent, reply.now_us)
            return reply

    def evaluate(self, script, keys, args):
        try:
            try:
                return self.rdb.evalsha(self.digests[script], len(keys), *keys, *args)
            except redis.exceptions.NoScriptError:
                return self.rdb.eval(self.scripts[script], len(keys), *keys, *args)
        except redis.exceptions.ReadOnlyError as e:  # redis-py takes the first word of some errors away
            raise Failed("READONLY %s" % e)
        except redis.exceptions.OutOfMemoryError as e:
            raise Failed("OOM %s" % e)
        except redis.exceptions.ResponseError as e:
            raise Failed(str(e))
        except redis.exceptions.RedisError as e:
            raise Failed("no answer: %r" % e, unanswered=True)

    def call(self, script, keys, args):
        """Sends a script until it is answered, while its failures look temporary."""
        end, pause, unanswered = clock() + RETRY_TIMEOUT, 0.010, False
        while True:
            try:
                reply = self.send(script, keys, args)
                reply.unanswered = unanswered
                return reply
            except Failed as e:
                unanswered = e.unanswered = unanswered or e.unanswered
                wait = pause * random.uniform(0.5, 1)
                if not e.text.startswith(UNAVAILABLE) or clock() + wait > end:
                    raise
                time.sleep(wait)
                pause = min(2 * pause, 0.5)

    def note_contended(self, key):
        if len(self.contended) >= 10_000:
            self.contended.clear()
        self.contended.add(key)

    def freed(self, key, token):
        """Deletes a mutex that the token has and nobody waits for. If it returns False, the release script is to be sent."""
        try:
            if self.evaluate("batch_release", [key], [f"hf2:{token}:"]) == "freed":
                return True
        except Failed:
            return False
        self.note_contended(key)
        return False

    def listen(self):
        """Keeps the subscription."""
        pause = 0.010
        while True:
            subscription = redis.Redis(**self.address, retry=None).pubsub()
            try:
                subscription.subscribe(self.channel)
                asked = False
                while True:
                    m = subscription.get_message(timeout=KEEPALIVE)
                    if m is None:
                        if asked or not self.has_subscription():
                            raise redis.exceptions.ConnectionError("silence")
                        subscription.ping()
                        asked = True
                        continue
                    asked = False
                    if m["type"] == "subscribe":
                        pause = 0.010
                        self.subscribed.set()
                        with self.mutex:
                            for w in self.waiting.values():
                                w.inbox.put(None)
                    elif m["type"] == "message":
                        self.notified(m["data"])
            except redis.exceptions.RedisError:
                self.subscribed.clear()
                subscription.close()
                time.sleep(pause)
                pause = min(2 * pause, 1)

    def has_subscription(self):
        """Whether the server that the scripts reach has it. A replica does not run this script."""
        numsub = "#!lua flags=allow-oom\nreturn redis.call('PUBSUB', 'NUMSUB', ARGV[1])[2]"
        try:
            return self.rdb.eval(numsub, 0, self.channel) > 0
        except redis.exceptions.RedisError:
            return True  # it does not tell

    def notified(self, text):
        try:
            version, kind, token, rest = text.split(" ", 3)
            if version != "hf2":
                return
            if kind == "standby":
                message = Standby(*map(int, rest.split(" ")))
            elif kind in ("grant", "rw", "sem"):
                now_us, claim_ms, fence, key = rest.split(" ", 3)
                message = Grant(int(now_us), int(claim_ms), int(fence), key)
            else:
                return
        except (ValueError, TypeError):
            return
        with self.mutex:
            w, lock = self.waiting.get(token), self.over.get(token)
        if w is not None:
            w.inbox.put(message)
        elif lock is not None and isinstance(message, Grant) and message.key == lock.key:
            in_background(lock.take_back, token, "", 0)


class Standby:
    def __init__(self, now_us, due_us):
        self.now_us, self.due_us = now_us, due_us


class Grant:
    def __init__(self, now_us, claim_ms, fence, key):
        self.now_us, self.claim_ms, self.fence, self.key = now_us, claim_ms, fence, key


class Waiter:
    """One token's way to a lock."""

    def __init__(self, lock, score=0):
        self.token, self.score = new_token(), score
        self.began = clock()
        self.claim_ms = min(int(max(1.5, 4 * lock.c.round_trip) * 1000), lock.ttl_ms)
        weight = [str(lock.weight)] if lock.kind else []
        self.member = "\n".join([self.token, str(self.claim_ms), lock.c.channel] + weight + [lock.c.info])
        self.inbox = queue.Queue()  # None: look
        self.placed = False  # the server said that it is queued
        self.owed = False  # the server may have something of it
        self.tombstone_us = 0
        self.anchor = None  # of the server's latest answer


class Lock:
    """A mutex or, with a kind, a weight of a lock that several may hold."""

    def __init__(self, client, name, ttl, kind=None, limit=None, weight=None):
        self.c, self.ttl_ms = client, int(ttl * 1000)
        self.kind, self.limit, self.weight = kind, limit, weight
        self.key = PREFIX + "{" + name + "}"
        line = self.key + ":" + (kind or "q")
        self.keys = [self.key, line, PREFIX + "fences"] + ([line + ":e"] if kind else [])
        self.least_keys = [self.key] + self.keys[3:]
        self.family = "share_" if kind else ""

    def ask(self, w, mode):
        """Sends an acquire, until it does not come late."""
        for _ in range(3):
            not_after_us = self.c.not_after_us()
            args = [mode, w.token, self.ttl_ms, not_after_us, 1, self.c.info]
            if self.kind:
                args += [self.kind, self.limit, self.weight]
            if mode != "t":
                w.owed = True
                args += [w.claim_ms, self.c.channel, w.score or ""]
            unanswered = True
            try:
                reply = self.c.call(self.family + "acquire", self.keys, args)
                unanswered = reply.unanswered
            except Failed as e:
                unanswered = e.unanswered
                raise
            finally:
                if unanswered and mode != "l":
                    w.owed, w.tombstone_us = True, max(w.tombstone_us, not_after_us)
            if reply.word != "late":
                return reply
        raise Failed("no answer: the server's clock jumps")

    def adopt(self, w, token, fence, tombstone_us):
        for _ in range(3):
            not_after_us, unanswered = self.c.not_after_us(), True
            try:
                args = ["", w.token, self.ttl_ms, not_after_us, self.c.info, token, fence, tombstone_us]
                reply = self.c.call("adopt", self.keys, args)
                unanswered = reply.unanswered
            except Failed as e:
                unanswered = e.unanswered
                raise
            finally:
                if unanswered:
                    w.owed, w.tombstone_us = True, max(w.tombstone_us, not_after_us)
            if reply.word == "adopted":
                return self.granted(w, reply)
            if reply.word in LOST:
                if tombstone_us > reply.now_us:
                    in_background(self.take_back, token, "", tombstone_us)
                raise Lost(reply.word)
        raise Failed("no answer: the server's clock jumps")

    def take_free(self):
        """Acquires a mutex that is free, by the server's own commands. Returns None if a script is to ask, with another token."""
        c, w = self.c, Waiter(self)
        if self.kind or self.key in c.contended:
            return None
        sent, now_ms = clock(), c.server_time_us() // 1000
        expiry_ms = now_ms + self.ttl_ms
        pipe = c.rdb.pipeline(transaction=True)
        pipe.set(self.key, f"hf2:{w.token}:0:{now_ms}:0:{c.info}", nx=True, pxat=expiry_ms)
        pipe.execute_command("XADD", self.keys[2], "MAXLEN", "~", 1, "*", "g", "")
        pipe.exists(self.keys[1])
        pipe.time()
        try:
            took, entry, queues, (seconds, micros) = pipe.execute()
        except redis.exceptions.ResponseError:
            return self.end(w, expiry_ms, unanswered=False)
        except redis.exceptions.RedisError:
            return self.end(w, expiry_ms, unanswered=True)
        if not took or queues > 0:
            c.note_contended(self.key)
        if not took:
            return None
        now_us, (ms, seq) = seconds * 1_000_000 + micros, map(int, entry.split("-"))
        left_ms, fence = expiry_ms - now_us / 1000, ms * 1000 + seq
        if queues == 0 and seq < 1000 and fence < now_us + DAY_US and 0 < left_ms <= self.ttl_ms + max(self.ttl_ms / 20, 20):
            try:
                return self.granted(w, Reply(f"granted {now_us} {int(left_ms)} {fence}", sent))
            except Failed:  # it came past the deadline
                pass
        return self.end(w, expiry_ms, unanswered=False)

    def end(self, w, expiry_ms, unanswered):
        """Releases what a token has, or may get until then, whose SET was no grant."""
        try:
            reply = self.c.call("release", self.keys, ["", w.token, "", 0])
        except Failed:
            in_background(self.end_until, w, expiry_ms)
            raise
        if unanswered and reply.word != "released":
            in_background(self.end_until, w, expiry_ms)

    def end_until(self, w, expiry_ms):
        pause = 0.25
        while (left := expiry_ms / 1000 - self.c.server_time_us() / 1e6) >= 0:
            time.sleep(min(pause, left + 0.001))
            try:
                if self.c.call("release", self.keys, ["", w.token, "", 0]).word == "released":
                    return
            except Failed:
                pass
            pause = min(2 * pause, 5)

    def granted(self, w, reply):
        w.owed = True
        pttl_ms, fence = reply.ints(2)
        lease = Lease(self, w, fence, reply, reply.sent + pttl_ms / 1000 - drift(pttl_ms / 1000))
        if clock() >= lease.deadline:
            raise Failed("no answer in time: the lock was granted, but the reply came past the deadline")
        return lease

    def try_acquire(self):
        lease = self.take_free()
        return lease.begin(min(self.ttl_ms / 3000, 2)) if lease else self.try_by_script()

    def try_by_script(self):
        w = Waiter(self)
        try:
            reply = self.ask(w, "t")
            if reply.word == "granted":
                self.c.contended.discard(self.key)
                return self.granted(w, reply).begin(self.ttl_ms / 3000)
        except Failed:
            self.give_up(w)
            raise
        self.give_up(w)
        raise Held(reply.rest)

    def acquire(self, within=math.inf):
        """Waits for the lock, for about so many seconds at most. Of the threads of this process that wait, the first is in the server's queue."""
        end = clock() + within
        with self.c.mutex:
            line = self.c.lines.setdefault((self.key, self.weight), threading.Lock())
        if not line.acquire(timeout=min(within, threading.TIMEOUT_MAX)):
            raise Held("in time")
        try:
            lease = self.take_free()
            if lease:
                return lease.begin(min(self.ttl_ms / 3000, 2))
            if not self.c.subscribed.is_set():
                try:
                    return self.try_by_script()
                except Held:
                    pass
            return self.wait(end)
        finally:
            line.release()

    def wait(self, end):
        w, old, answered = None, None, False
        try:
            while clock() < end:
                self.c.subscribed.wait(1)
                if w is None:
                    w = Waiter(self, old.score if old else 0)
                    with self.c.mutex:
                        self.c.waiting[w.token] = w
                mode = "l" if w.placed else "w"
                try:
                    reply = self.ask(w, mode)
                except Failed as e:
                    if answered and e.text.startswith(UNAVAILABLE + REFUSED):
                        time.sleep(random.uniform(0.25, 0.75))
                        continue
                    raise
                answered = True
                if old is not None:
                    self.give_up(old)
                    old = None
                if reply.word == "granted":
                    if mode == "w":
                        self.c.contended.discard(self.key)
                    lease, first = self.granted(w, reply), self.ttl_ms / 3000
                elif reply.word == "queued":
                    lease, first = self.sleep(w, reply, end), 0.005
                elif reply.word == "gone":
                    old, w = w, None  # in whose place another waits
                    if mode == "w":
                        time.sleep(random.uniform(0.25, 0.75))
                    continue
                else:
                    raise Failed("malformed reply: " + reply.word)
                if lease is not None:
                    with self.c.mutex:
                        del self.c.waiting[w.token]
                    w = None
                    return lease.begin(first)
            raise Held("in time")
        finally:
            for other in (w, old):
                if other is not None:
                    self.give_up(other)

    def sleep(self, w, reply, end):
        """Sleeps in the queue until there is a lease, a reason to look, or the end has come."""
        pttl_ms, w.score, rank, receivers = reply.ints(4)
        w.placed, w.anchor = True, (reply.sent, reply.now_us)
        if rank > 1:
            rest = jitter(min(10, 2 * rank))
            if pttl_ms >= 0:
                rest = min(rest, max(pttl_ms / 1000, 0.5) + min(rank - 1, 2) * 0.1 + random.uniform(0, 0.3))
        elif reply.rest == "foreign":
            rest = jitter(min(max((clock() - w.began) / 8, 0.010), 0.250))
        elif pttl_ms < 0:
            rest = jitter(30)
        else:
            rest = min(pttl_ms / 1000, 30) + random.uniform(0.001, 0.011)
        if receivers == 0:
            rest = min(rest, 0.05)
        until = min(clock() + rest, end)
        while True:
            try:
                m = w.inbox.get(timeout=max(until - clock(), 0))
            except queue.Empty:
                return None
            if not isinstance(m, Standby):
                return m and self.claimed(w, m)
            sent, then_us = w.anchor
            due = min(clock() + (m.due_us - m.now_us) / 1e6, sent + (m.due_us - then_us) / 1e6)
            until = min(until, due + random.uniform(0, 0.020))

    def claimed(self, w, grant):
        """Returns the lease of a message, if the message is credible and the lease lasts long enough."""
        sent, then_us = w.anchor
        claim = min(grant.claim_ms, w.claim_ms) / 1000
        since = clock() - sent
        age = since - (grant.now_us - then_us) / 1e6
        left = claim - max(age, 0) - drift(since + claim)
        if grant.key != self.key or left < claim / 4 or not then_us - then_us % 1000 <= grant.fence <= then_us + since * 1e6 + 2e6:
            return None
        return Lease(self, w, grant.fence, grant, sent + since + left)

    def give_up(self, w):
        """Releases everything that the server has, or may get, under a token."""
        with self.c.mutex:
            if self.c.waiting.pop(w.token, None):
                self.forget(w.token)
        if w.owed:
            in_background(self.take_back, w.token, w.member, w.tombstone_us)

    def forget(self, token):
        """Records a token that has waited, and has nothing any more. Guarded by the client."""
        self.c.over[token] = self
        if len(self.c.over) > 10_000:
            del self.c.over[next(iter(self.c.over))]

    def take_back(self, token, member, tombstone_us):
        end, pause = clock() + self.ttl_ms / 1000 + RETRY_TIMEOUT + COMMAND_TIMEOUT, 0.25
        while clock() < end:
            try:
                self.c.call(self.family + "release", self.keys, ["", token, member, tombstone_us])
                return
            except Failed as e:
                if e.text.startswith(HOPELESS):
                    return
            time.sleep(jitter(pause))
            pause = min(2 * pause, 5)


class Lease:
    def __init__(self, lock, w, fence, granted_by, deadline):
        self.lock, self.w, self.fence, self.deadline = lock, w, fence, deadline
        self.granted_us = granted_by.now_us
        self.since = granted_by.sent if isinstance(granted_by, Reply) else w.anchor[0]  # it is not older than that
        self.mutex = threading.Lock()  # held by whoever asks the server about it
        self.ended = None  # why
        self.stop = threading.Event()

    def begin(self, first):
        in_background(self.keep, first)
        return self

    def keep(self, pause):
        """Renews it until it ends."""
        while not self.stop.wait(min(pause, max(self.deadline - clock(), 0))):
            with self.mutex:
                if self.is_held():
                    pause = self.renew()
                if not self.is_held():
                    return

    def is_held(self):
        if self.ended is None and clock() >= self.deadline:
            self.end("expired")
            in_background(self.lock.take_back, self.w.token, self.w.member, self.w.tombstone_us)
        return self.ended is None

    def end(self, why):
        self.ended = why
        self.stop.set()
        with self.lock.c.mutex:
            self.lock.forget(self.w.token)

    def renew(self):
        """Returns when to renew it again."""
        lock, token = self.lock, self.w.token
        try:
            reply = lock.c.send(lock.family + "renew", lock.least_keys, ["", token, lock.ttl_ms, 0, self.fence])
            if reply.word == "absent" and lock.family == "" and clock() < self.deadline:
                not_after_us = lock.c.server_time_us() + int((self.deadline - clock()) * 1e6)
                self.w.tombstone_us = max(self.w.tombstone_us, not_after_us)
                age = clock() - self.since
                age_us = int((age + drift(age)) * 1e6)
                args = ["", token, lock.ttl_ms, not_after_us, self.fence, self.fence, lock.c.info, self.granted_us, age_us, reply.now_us]
                reply = lock.c.send("reassert", lock.keys, args)
        except Failed:
            return min(max((self.deadline - clock()) / 8, 0.025), 1)
        if reply.word == "renewed":
            self.prolong(reply, reply.ints(1)[0])
            return lock.ttl_ms / 3000
        self.end(reply.word)
        in_background(lock.take_back, token, self.w.member, self.w.tombstone_us)
        return 0

    def prolong(self, reply, pttl_ms):
        self.deadline = max(self.deadline, reply.sent + pttl_ms / 1000 - drift(pttl_ms / 1000))

    def release(self):
        lock, w = self.lock, self.w
        with self.mutex:
            if not self.is_held():
                raise Lost(self.ended)
            self.end("released")
            if lock.kind is None and w.tombstone_us == 0 and lock.key not in lock.c.contended and lock.c.freed(lock.key, w.token):
                return
            try:
                reply = lock.c.call(lock.family + "release", lock.keys, ["", w.token, w.member, w.tombstone_us])
            except Failed:
                in_background(lock.take_back, w.token, w.member, w.tombstone_us)
                raise
            if reply.word in LOST and not reply.unanswered:
                raise Lost(reply.word)

    def detach(self, ttl):
        """Ends the lease, and returns a ticket, for which the server keeps the lock."""
        lock, w = self.lock, self.w
        with self.mutex:  # it is not renewed meanwhile
            if not self.is_held():
                raise Lost(self.ended)
            late_us = max(w.tombstone_us - lock.c.server_time_us(), 0)
            ttl_ms = max(int(ttl * 1000), late_us // 1000 + 1)
            reply = lock.c.call("renew", lock.least_keys, ["", w.token, ttl_ms, 0, self.fence])
            if reply.word in LOST:
                self.end(reply.word)
            if not self.is_held():
                raise Lost(self.ended)
            # Not end: a message that grants its token the lock is to be ignored from now on.
            self.ended = "detached"
            self.stop.set()
            return written(lock, w.token, self.fence, w.tombstone_us if late_us else 0)

    def weigh(self, weight):
        """Makes a writer a reader, or a reader a writer. Returns False, and changes nothing, if there is no room."""
        lock = self.lock
        with self.mutex:
            if not self.is_held():
                raise Lost(self.ended)
            reply = lock.c.call("share_weigh", lock.keys, ["", self.w.token, weight, self.fence, self.fence])
            if reply.word == "weighed":
                pttl_ms, self.fence = reply.ints(2)
                self.prolong(reply, pttl_ms)
            elif reply.word != "held":
                self.end(reply.word)
                raise Lost(self.ended)
            return reply.word == "weighed"
