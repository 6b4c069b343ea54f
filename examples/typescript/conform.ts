/**
 * Lets conformance judge the client of holdfast.ts: see "Judging a client" in docs/PROTOCOL.md.
 *
 *     go run github.com/holdfast-go/holdfast/cmd/holdfast/conformance@latest node dist/conform.js
 */

import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

import { Client, Held, type Lease, type Lock, Lost } from "./holdfast.js";

const SCRIPTS = fileURLToPath(new URL("../../../docs/scripts", import.meta.url)); // from dist

let lease: Lease | undefined;

function lockOf(client: Client, name: string, side: string | undefined, ttl: number): Lock {
  switch (side) {
    case "read":
      return client.rwMutex(name, { ttl }).reader;
    case "write":
      return client.rwMutex(name, { ttl }).writer;
    case "permit":
      return client.semaphore(name, 2, { ttl });
    default:
      return client.mutex(name, { ttl });
  }
}

async function answer(client: Client, name: string, line: string): Promise<string> {
  const [command = "", ttl, withinMs] = line.split(" ");
  const [verb, side] = command.split("-");
  switch (verb) {
    case "try":
    case "acquire": {
      const lock = lockOf(client, name, side, Number(ttl));
      lease = undefined;
      try {
        lease = await (verb === "try" ? lock.tryAcquire() : lock.acquire(withinMs ? { signal: AbortSignal.timeout(Number(withinMs)) } : {}));
      } catch (e) {
        if (e instanceof Held || (e instanceof Error && e.name === "TimeoutError")) return "held";
        throw e;
      }
      return `granted ${lease.fence}`;
    }
    case "release":
      try {
        await lease?.release();
        return "released";
      } catch (e) {
        if (e instanceof Lost) return "lost";
        throw e;
      }
    case "holds":
      return lease?.held ? "yes" : "no";
    default:
      return `error there is no command ${command}`;
  }
}

const [hostPort = "", name = ""] = process.argv.slice(2);
const colon = hostPort.lastIndexOf(":");
const client = await Client.connect({ host: hostPort.slice(0, colon), port: Number(hostPort.slice(colon + 1)) }, SCRIPTS);
console.log("ready rwmutex semaphore");
for await (const line of createInterface({ input: process.stdin })) {
  console.log(await answer(client, name, line.trim()).catch((e: unknown) => `error ${e}`.replaceAll("\n", " ")));
}
process.exit();
