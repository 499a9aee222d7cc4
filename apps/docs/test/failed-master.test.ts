import { cpSync } from "node:fs";
import { connect } from "@kit/core";
import { eventually, FaultProxy } from "@kit/testing";
import { beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { Lab, type Machine, type Settings } from "./lab.js";
import { Load, type Loss, type Write, type Writer } from "./load.js";
import { Page } from "./page.js";

const page = new Page("failed-master.md");
const persistence = new Page("persistence.md");
const serverConf = `${persistence.conf("Snapshots")}repl-diskless-sync-delay 0\n`;

let lab: Lab;
beforeEach(() => {
  lab = new Lab();
  onTestFinished(() => lab[Symbol.asyncDispose]());
});

const address = ({ host, port }: Machine): string => `${host} ${port}`;

/** A master, its two replicas, and the Sentinels that watch them. */
interface Group {
  readonly master: Machine;
  readonly replicas: readonly [Machine, Machine];
  readonly spare: Machine;
  readonly sentinels: readonly Machine[];
  /** The link from the master to its replicas, if there are no Sentinels. */
  readonly link: FaultProxy;
}

const group = async ({ withSentinels = false } = {}): Promise<Group> => {
  const master = await lab.machine(serverConf);
  await master.start();
  const link = await FaultProxy.start({ port: master.port });
  lab.onClose(() => link[Symbol.asyncDispose]());
  // Sentinels know a replica by the address of its master.
  const masterAddress = withSentinels ? address(master) : `127.0.0.1 ${link.port}`;
  const replica = async (): Promise<Machine> => {
    const machine = await lab.machine(`${serverConf}replicaof ${masterAddress}\n`);
    await machine.start();
    return machine;
  };
  const replicas = [await replica(), await replica()] as const;
  await eventually(() => reachesBoth(master), { timeoutMs: 30_000 });
  const watching = page.conf("Configuration of a Sentinel").replace("10.0.0.1 6379", address(master));
  const sentinels: Machine[] = [];
  for (let n = 0; withSentinels && n < 3; n += 1) sentinels.push(await lab.machine(watching, { role: "sentinel" }));
  await Promise.all(sentinels.map((sentinel) => sentinel.start()));
  await Promise.all(
    sentinels.map((sentinel) => eventually(() => isReady(sentinel), { timeoutMs: 30_000, intervalMs: 50 })),
  );
  return { master, replicas, spare: await lab.machine(serverConf), sentinels, link };
};
const info = async (machine: Machine): Promise<string> => {
  const client = machine.client();
  return client.info("replication").finally(() => client.disconnect());
};
/** A replica is online before its master sends it the writes. */
const reachesBoth = async (master: Machine): Promise<void> => {
  const client = master.client();
  try {
    await client.set("begun", 1);
    expect(await client.wait(2, 1_000)).toBe(2);
  } finally {
    client.disconnect();
  }
};
/** Knows both replicas and both of the other Sentinels. */
const isReady = async (sentinel: Machine): Promise<void> => {
  const client = sentinel.client();
  const reply = (await client.call("SENTINEL", "MASTER", "kit").finally(() => client.disconnect())) as string[];
  const field = (name: string): string | undefined => reply[reply.indexOf(name) + 1];
  expect([field("num-slaves"), field("num-other-sentinels")]).toEqual(["2", "2"]);
};

const settingsOf = ({ master, replicas, spare, sentinels }: Group, chosen: Machine = replicas[0]): Settings => ({
  OLD: address(master),
  NEW: address(chosen),
  OTHER: address(replicas.find((one) => one !== chosen) ?? chosen),
  SPARE: address(spare),
  OLD_CONF: master.conf,
  OLD_DATA: master.data,
  NEW_DATA: chosen.data,
  SPARE_DATA: spare.data,
  ...(sentinels[0] && { SENTINEL: address(sentinels[0]) }),
});
const type = (all: Group, step: string, chosen?: Machine): Promise<string> =>
  lab.type(page, page.step(step), [all.master, ...all.replicas, all.spare], settingsOf(all, chosen));

/** The replica that the page says to take. */
const best = async (all: Group): Promise<Machine> => {
  const printed = await type(all, "See who has what");
  const offsets = all.replicas.map((replica) => {
    const part = printed.split("== ").find((text) => text.startsWith(address(replica)));
    return Number(/slave_repl_offset:(\d+)/.exec(part ?? "")?.[1]);
  });
  const [first = NaN, second = NaN] = offsets;
  expect(first + second).toBeGreaterThan(0);
  return first >= second ? all.replicas[0] : all.replicas[1];
};

const acknowledgedByReplica: Write = async (client, n) => {
  await client.sadd("acknowledged", n);
  if ((await client.wait(1, 1_000)) < 1) throw new Error("No replica has it yet");
};
const waysToWrite: [acknowledgedBy: string, write: Write | undefined][] = [
  ["the master", undefined],
  ["a replica too (`WAIT 1`)", acknowledgedByReplica],
];

const rows: string[][] = [];
const note = (way: string, by: string, { lost, acknowledged }: Loss, ms: number): void => {
  rows.push([
    way,
    by,
    `${lost.toLocaleString("en")} of ${acknowledged.toLocaleString("en")}`,
    Number.isNaN(ms) ? "–" : `${(ms / 1_000).toFixed(1)} s`,
  ]);
};
const expectFewLost = ({ lost, acknowledged }: Loss, write: Write | undefined): void => {
  expect(acknowledged).toBeGreaterThan(100);
  if (write) expect(lost).toBe(0);
  else expect(lost).toBeLessThan(acknowledged / 10);
};

/** Milliseconds until this server accepts a write. */
const takesWrites = async (machine: Machine, since: number): Promise<number> => {
  const client = machine.client();
  await eventually(() => client.set("again", 1), { intervalMs: 1 });
  client.disconnect();
  return performance.now() - since;
};

const replacedByHand = async (all: Group): Promise<Machine> => {
  const chosen = await best(all);
  await type(all, "Make sure that the old master stopped", chosen);
  await type(all, "Promote the replica", chosen);
  return chosen;
};

describe("A failed master", () => {
  it.each(waysToWrite)("is replaced manually; acknowledged by %s", async (by, how) => {
    const all = await group();
    const load = new Load(all.master.client(), how);
    await load.lasts(500, 1_000);
    const injectedAt = performance.now();
    await load.endsBy(() => all.master.end("SIGKILL"));
    const chosen = await replacedByHand(all);
    const ms = await takesWrites(chosen, injectedAt);
    const loss = await load.lossOn(chosen);
    note("`REPLICAOF NO ONE`", by, loss, ms);
    expectFewLost(loss, how);
    const client = chosen.client();
    await client.ping();
    expect(await type(all, "Tell the clients", chosen)).toMatch(/^[1-9]/);

    await type(all, "Bring the old master back as a replica", chosen);
    expect(await info(all.master)).toContain("role:slave");
    // Even after another restart, since its configuration says so.
    await all.master.end("SIGTERM");
    await all.master.start();
    expect(await info(all.master)).toContain(`master_port:${chosen.port}`);
  });

  it.each(waysToWrite)("loses what it had not sent on; acknowledged by %s", async (by, how) => {
    const all = await group();
    const load = new Load(all.master.client(), how);
    await load.lasts(500, 1_000);
    all.link.down.hole = true;
    const cutAt = performance.now();
    await eventually(() => expect(performance.now() - cutAt).toBeGreaterThan(500));
    const injectedAt = performance.now();
    await load.endsBy(() => all.master.end("SIGKILL"));
    expect(all.link.stats.droppedBytes).toBeGreaterThan(0);
    const chosen = await replacedByHand(all);
    const loss = await load.lossOn(chosen);
    note("the same, cut off from its replicas 0.5 s before", by, loss, await takesWrites(chosen, injectedAt));
    expect(loss.lost > 100).toBe(how === undefined);
    expect(loss.lost === 0).toBe(how !== undefined);
  });

  it("a master that hung is gone for good before another takes its place", async () => {
    const all = await group();
    const load = new Load(all.master.client());
    await load.lasts(100);
    all.master.signal("SIGSTOP");
    await type(all, "Make sure that the old master stopped");
    await load.endsBy(() => Promise.resolve());
    await type(all, "Promote the replica");
    expect(all.master.isRunning).toBe(false);
  });

  it("an old master that starts without being told takes writes next to the new one", async () => {
    const all = await group();
    await type(all, "Make sure that the old master stopped");
    await type(all, "Promote the replica");
    await all.master.start();
    const client = all.master.client();
    await client.set("astray", 1);
    expect(await info(all.master)).toContain("role:master");
    expect(await all.replicas[0].client().get("astray")).toBeNull();
  });

  it("the lost writes are in the copy of the old master's files", async () => {
    const all = await group();
    const client = all.master.client();
    await client.config("SET", "appendonly", "yes", "appendfsync", "always");
    await eventually(async () => expect(await client.info("persistence")).toContain("aof_rewrite_in_progress:0"));
    for (const replica of all.replicas) replica.signal("SIGSTOP");
    await client.set("unsent", "here");
    await all.master.end("SIGKILL");
    for (const replica of all.replicas) {
      replica.signal("SIGKILL");
      await replica.ended();
      await replica.start();
    }
    await type(all, "Promote the replica");
    await type(all, "Bring the old master back as a replica");
    expect(await all.replicas[0].client().get("unsent")).toBeNull();
    const other = await lab.machine(persistence.conf("Append-only, synced each second"));
    cpSync(`${all.master.data}.before-failover`, other.data, { recursive: true });
    await other.start();
    expect(await other.client().get("unsent")).toBe("here");
  });

  it("the data of a replica go to another machine, which becomes the master", async () => {
    const all = await group();
    const load = new Load(all.master.client(), acknowledgedByReplica);
    await load.lasts(500, 1_000);
    const injectedAt = performance.now();
    await load.endsBy(() => all.master.end("SIGKILL"));
    const chosen = await best(all);
    await type(all, "Make sure that the old master stopped", chosen);
    const sums = await type(all, "Put the data of a replica on another machine", chosen);
    const ms = await takesWrites(all.spare, injectedAt);
    expect(new Set([...sums.matchAll(/^[0-9a-f]{64}/gm)].map(([sum]) => sum)).size).toBe(1);
    const loss = await load.lossOn(all.spare);
    note("`SAVE`, copy, start", "a replica too (`WAIT 1`)", loss, ms);
    expectFewLost(loss, acknowledgedByReplica);
  });

  it.each(waysToWrite)("is replaced by Sentinel, and the clients follow; acknowledged by %s", async (by, how) => {
    const all = await group({ withSentinels: true });
    await type(all, "See whether they could");
    const client = await toSentinels(all);
    const load = new Load(client, how);
    await load.lasts(500, 1_000);
    const injectedAt = performance.now();
    await all.master.end("SIGKILL");
    const printed = await type(all, "Wait for the new master");
    const chosen = oneNamed(all, printed);
    await eventually(() => expect(load.lastAt).toBeGreaterThan(injectedAt + 1_000), { timeoutMs: 40_000 });
    const ms = load.longestPause;
    await load.endsBy(() => Promise.resolve());
    const loss = await load.lossOn(chosen);
    note("Sentinel", by, loss, ms);
    expectFewLost(loss, how);
    expect(ms).toBeLessThan(50_000);
    // Once is enough: it takes the Sentinels ten seconds to be sure of it.
    if (how) return;
    await all.master.start();
    await eventually(async () => expect(await info(all.master)).toContain("role:slave"), { timeoutMs: 40_000 });
  });

  it("changes places manually without losing anything", async () => {
    const all = await group();
    const load = new Load(all.master.client());
    await load.lasts(300, 1_000);
    const injectedAt = performance.now();
    await type(all, "Change the master on purpose, manually");
    await load.endsBy(() => Promise.resolve());
    const ms = await takesWrites(all.replicas[0], injectedAt);
    const loss = await load.lossOn(all.replicas[0]);
    note("`FAILOVER`, on purpose", "the master", loss, ms);
    expect([loss.lost, loss.acknowledged > 100]).toEqual([0, true]);
  });

  it("changes places by Sentinel without loss only if the writers are held up", async () => {
    const step = page.step("Change the master on purpose, by Sentinel");
    const withoutPause = { ...step, code: step.code.replace(/^at \$OLD CLIENT PAUSE.*$/m, "echo OK") };
    expect(withoutPause.code).not.toBe(step.code);
    const heldUp = async (): Promise<[loss: Loss, pauseMs: number]> => {
      const all = await group({ withSentinels: true });
      const load = new Load(await toSentinels(all));
      await load.lasts(300, 1_000);
      const injectedAt = performance.now();
      const done = lab.type(page, step, [], settingsOf(all));
      await eventually(() => expect(load.lastAt).toBeGreaterThan(injectedAt + 1_000), { timeoutMs: 40_000 });
      await load.endsBy(() => Promise.resolve());
      return [await load.lossOn(oneNamed(all, await done)), load.longestPause];
    };
    const goingOn = async (): Promise<Loss> => {
      const all = await group({ withSentinels: true });
      const load = new Load(all.master.client(), acknowledgedByReplica);
      await load.lasts(300, 1_000);
      const printed = await lab.type(page, withoutPause, [], settingsOf(all));
      await load.endsBy(() => Promise.resolve());
      return load.lossOn(oneNamed(all, printed));
    };
    // Most of the time they wait for Sentinels.
    const [withPause, without] = await Promise.all([heldUp(), goingOn()]);
    note("Sentinel, on purpose", "the master", ...withPause);
    note("the same, writers not held up", "a replica too (`WAIT 1`)", without, NaN);
    expect([withPause[0].lost, withPause[0].acknowledged > 100]).toEqual([0, true]);
    expect(without.lost).toBeGreaterThan(0);
  });

  it("without a majority of Sentinels it is replaced manually, and they are told", async () => {
    const all = await group({ withSentinels: true });
    const [, second, third] = all.sentinels;
    await Promise.all([second?.end("SIGKILL"), third?.end("SIGKILL"), all.master.end("SIGKILL")]);
    const settings = settingsOf(all);
    await eventually(
      async () => {
        const { printed } = await lab.shell(page, page.step("See whether they could"), [], settings);
        expect(printed).toContain("NOQUORUM");
      },
      { timeoutMs: 30_000, intervalMs: 100 },
    );
    await type(all, "Promote the replica");
    const printed = await type(all, "Tell the Sentinels about a manual change");
    expect(printed).toContain(String(all.replicas[0].port));
  });

  it("the page tells these figures", () => {
    const table = page.figures("failover", [
      ["Way", "Acknowledged by", "Lost", "Until writes are taken again"],
      ...rows,
    ]);
    expect(table.slice(1).map((cells) => cells.slice(0, 2))).toEqual(rows.map((cells) => cells.slice(0, 2)));
  });

  it("has no step that was not tried here", () => {
    expect(page.untried).toEqual([]);
  });
});

/** The replica whose port is printed last. */
const oneNamed = ({ replicas }: Group, printed: string): Machine => {
  const port = Number(printed.trimEnd().split("\n").at(-1));
  const named = replicas.find((replica) => replica.port === port);
  if (!named) throw new Error(`No replica has the port ${port}`);
  return named;
};

const toSentinels = async ({ sentinels }: Group): Promise<Writer> => {
  const hosts = sentinels.map(({ host, port }) => `${host}:${port}`).join(",");
  const client = await connect({ url: `redis+sentinel://${hosts}/kit`, deadlineMs: 30_000 });
  lab.onClose(() => client.disconnect());
  return client;
};
