/**
 * Takes turns with other processes: contend.js HOST:PORT SCRIPTS NAME. It stands beside holdfast.js.
 *
 * It prints "ready", and for the command "contend KIND WORKERS MS COUNTER" a line "turn WORKER SHARE FENCE ASKED GRANTED RELEASED"
 * for each grant, then "done". The kind is mutex, rw, of which every third turn is a writer's, or sem, with two permits. SHARE is 0 for
 * whoever has the lock alone, and then adds 1 to the counter. Times are in nanoseconds of CLOCK_MONOTONIC, as in Go's tests.
 */
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";

import { Client, type Lock } from "./holdfast.js";

const [address = "", scripts = "", name = ""] = process.argv.slice(2);
const [host = "", port = ""] = address.split(":");
const server = { host, port: Number(port) };
const client = await Client.connect(server, scripts);
const redis = new Redis({ ...server, replyMapping: "legacy" });

function lockOf(kind: string, turn: number): { lock: Lock; share: number } {
  const { reader, writer } = client.rwMutex(name);
  if (kind === "sem") return { lock: client.semaphore(name, 2), share: 1 };
  if (kind === "rw") return turn % 3 ? { lock: reader, share: 1 } : { lock: writer, share: 0 };
  return { lock: client.mutex(name), share: 0 };
}

async function contend(worker: number, kind: string, ms: number, counter: string): Promise<void> {
  const end = performance.now() + ms;
  for (let turn = worker; performance.now() < end; turn++) {
    const { lock, share } = lockOf(kind, turn);
    const asked = process.hrtime.bigint();
    const lease = await lock.acquire();
    const granted = process.hrtime.bigint();
    const count = share ? 0 : Number(await redis.get(counter));
    await sleep(1);
    if (!share) await redis.set(counter, count + 1);
    const released = process.hrtime.bigint();
    await lease.release();
    console.log("turn", worker, share, lease.fence, `${asked} ${granted} ${released}`);
  }
}

console.log("ready");
for await (const line of createInterface({ input: process.stdin })) {
  const [, kind = "", workers, ms, counter = ""] = line.split(" ");
  await Promise.all(Array.from({ length: Number(workers) }, (_, worker) => contend(worker, kind, Number(ms), counter)));
  console.log("done");
}
process.exit();
