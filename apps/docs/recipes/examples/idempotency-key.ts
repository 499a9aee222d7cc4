import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { connect } from "@kit/core";
import { createLock } from "@kit/lock";

const redis = await connect();
const lock = createLock(redis);

/** Runs a request once for each key, and gives repeated requests the first response. */
const once = async (key: string, run: () => Promise<string>): Promise<string> =>
  await lock.using(
    `request:${key}`,
    async () => {
      const stored = await redis.get(`response:${key}`);
      if (stored !== null) return stored;
      const response = await run(); // pass the key on to the payment provider
      await redis.set(`response:${key}`, response, "EX", 86_400);
      return response;
    },
    { waitMs: 10_000 },
  );

let charges = 0;
const server = createServer((request, response) => {
  const key = request.headers["idempotency-key"];
  if (typeof key !== "string" || key.length > 100) return void response.writeHead(400).end();
  once(key, async () => await Promise.resolve(`charge ${String(++charges)}`)).then(
    (text) => response.end(text),
    () => response.writeHead(503).end(), // the client tries again, with the same key
  );
});
await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));

const url = `http://127.0.0.1:${String((server.address() as AddressInfo).port)}/charges`;
const headers = { "idempotency-key": randomUUID() };
const post = async (): Promise<string> => await (await fetch(url, { method: "POST", headers })).text();
console.log(await Promise.all([post(), post(), post()])); // prints: charge 1,charge 1,charge 1

server.close();
server.closeAllConnections();
await lock.close();
await redis.close();
