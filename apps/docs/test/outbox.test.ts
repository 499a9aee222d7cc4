import { readdirSync, readFileSync } from "node:fs";
import { type Connection, connect } from "@kit/core";
import { createQueue, type Job, type Queue } from "@kit/queue";
import { eventually, FaultProxy, startRedis } from "@kit/testing";
import { Program } from "@tooling/vitest/helpers";
import pg from "pg";
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { once, table as doneTable } from "./outbox/once.mjs";
import { addLater, Relay, table } from "./outbox/outbox.mjs";
import { Postgres } from "./postgres.js";

const folder = new URL("outbox/", import.meta.url);
const patient = { timeoutMs: 30_000 };

let postgres: Postgres;
beforeAll(async () => {
  postgres = await Postgres.start();
});
afterAll(() => postgres[Symbol.asyncDispose]());

let server: Awaited<ReturnType<typeof startRedis>>;
let db: Connection;
let queue: Queue;
let client: pg.Client;
let pool: pg.Pool;
beforeEach(async () => {
  server = await startRedis();
  const redis = await connect(server.url);
  db = redis;
  queue = createQueue(redis, "shop");
  client = new pg.Client(postgres.url);
  await client.connect();
  pool = new pg.Pool({ connectionString: postgres.url });
  await client.query(`${table}; ${doneTable}; CREATE TABLE IF NOT EXISTS accounts (euros integer NOT NULL)`);
  await client.query("TRUNCATE outbox, jobs_done, accounts; INSERT INTO accounts VALUES (0)");
  onTestFinished(async () => {
    await queue.close();
    await redis.close();
    await client.end();
    await pool.end();
    await server.stop();
  });
});

const start = (file: string, env: Readonly<Record<string, string>> = {}): Program => {
  const program = new Program(new URL(file, folder), { REDIS_URL: server.url, DATABASE_URL: postgres.url, ...env });
  onTestFinished(async () => void (await program.end("SIGKILL")));
  return program;
};

/** Adds a job in a transaction of its own. */
const add = async (end: "COMMIT" | "ROLLBACK", name = "mail", data: unknown = {}): Promise<string> => {
  await client.query("BEGIN");
  const id = await addLater(client, name, data);
  await client.query(end);
  return id;
};

const rows = async (): Promise<number> => (await client.query("SELECT FROM outbox")).rows.length;

/** Waits until the queue holds no job. */
const isIdle = async (): Promise<void> => {
  await eventually(async () => expect(await db.hlen("kit:queue:{shop}:jobs")).toBe(0), patient);
};

/** The ids of the jobs that ran, in order. */
const working = (handler: (job: Job) => unknown = () => undefined): string[] => {
  const ran: string[] = [];
  const mail = async (job: Job): Promise<void> => {
    ran.push(job.id);
    await handler(job);
  };
  queue.work({ mail }, { concurrency: 1 });
  return ran;
};

it("the page shows each program as it is", () => {
  const page = readFileSync(new URL("../../../packages/queue/docs/outbox.md", import.meta.url), "utf8");
  for (const file of readdirSync(folder).filter((name) => name !== "killed.mjs"))
    expect(page).toContain(readFileSync(new URL(file, folder), "utf8").trim());
});

describe("a relay", () => {
  it("that is killed between any two calls adds the job of each commit once, and none of a rollback", async () => {
    const committed: string[] = [];
    for (const call of ["BEGIN", "SELECT", "add", "DELETE", "COMMIT", "end"]) {
      committed.push(await add("COMMIT"));
      await add("ROLLBACK");
      expect(await start("killed.mjs", { BEFORE: call }).ended()).toBe("SIGKILL");
    }
    expect(await rows()).toBe(0);
    const ran = working();
    await eventually(() => expect(ran.length).toBeGreaterThanOrEqual(committed.length), patient);
    await add("COMMIT", "mail", "last");
    await new Relay(queue).step(client);
    await eventually(() => expect(ran.length).toBeGreaterThan(committed.length), patient);
    expect(ran.slice(0, -1)).toEqual(committed);
  });

  it("that dies before its delete, when the job is done, adds it again; `once` then has no second effect", async () => {
    const id = await add("COMMIT");
    expect(await start("killed.mjs", { BEFORE: "DELETE" }).ended()).toBe("SIGKILL");
    const done = working((job) =>
      once(pool, job, (to: pg.PoolClient) => to.query("UPDATE accounts SET euros = euros + 1")),
    );
    await eventually(() => expect(done).toEqual([id]), patient);
    await isIdle();
    expect(await new Relay(queue).step(client)).toBe(1);
    await eventually(() => expect(done).toEqual([id, id]), patient);
    await isIdle();
    expect((await pool.query("SELECT euros FROM accounts")).rows).toEqual([{ euros: 1 }]);
  });

  it("that lost a reply adds the job once, even when it is done meanwhile", async () => {
    const proxy = await FaultProxy.start({ port: server.nodes[0]!.port });
    const redis = await connect({ url: proxy.url, deadlineMs: 1_000 });
    const far = createQueue(redis, "shop");
    const relay = new Relay(far);
    await far.add("mail", "first"); // it is connected
    const ran = working();
    await eventually(() => expect(ran).toHaveLength(1), patient);
    const id = await add("COMMIT");
    proxy.down.hole = true;
    await expect(relay.step(client)).rejects.toThrow(/reply was lost/);
    expect(await rows()).toBe(1);
    await eventually(() => expect(ran.slice(1)).toEqual([id]), patient);
    proxy.heal();
    await eventually(async () => expect(await relay.step(client)).toBe(1), patient);
    const last = await add("COMMIT");
    await eventually(async () => expect(await relay.step(client)).toBe(1), patient);
    await eventually(() => expect(ran).toContain(last), patient);
    expect(ran.slice(1)).toEqual([id, last]);
    await far.close();
    await redis.close();
    await proxy.close();
  });

  it("keeps a row that the queue refuses, with the reason, and moves the others", async () => {
    await add("COMMIT", "");
    await add("COMMIT", "mail", "x".repeat(300_000));
    const id = await add("COMMIT");
    const ran = working();
    const relay = new Relay(queue);
    expect(await relay.step(client)).toBe(3);
    expect(await relay.step(client)).toBe(0);
    await eventually(() => expect(ran).toEqual([id]), patient);
    const { rows: kept } = await client.query<{ refused: string }>("SELECT refused FROM outbox ORDER BY position");
    expect(kept.map(({ refused }) => refused)).toEqual([
      expect.stringContaining("name"),
      expect.stringContaining("bytes"),
    ]);
  });
});

describe("several relays", () => {
  it("move rows in order, even when one is killed, and end by SIGTERM", async () => {
    const [first, second] = [start("relay.mjs"), start("relay.mjs")];
    const ran = working();
    const added: string[] = [];
    const addSome = async (): Promise<void> => {
      await client.query("BEGIN");
      for (let count = 0; count < 20; count++) added.push(await addLater(client, "mail", count));
      await client.query("COMMIT");
    };
    for (let count = 0; count < 15; count++) await addSome();
    await eventually(() => expect(ran).not.toEqual([]), patient);
    first.signal("SIGKILL");
    for (let count = 0; count < 5; count++) await addSome();
    await eventually(() => expect(new Set(ran).size).toBe(added.length), patient);
    expect([...new Set(ran)]).toEqual(added);
    expect(await second.end("SIGTERM")).toBe(0);
    expect(second.printed).toBe("");
  });
});
