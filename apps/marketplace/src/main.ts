// The main program. It starts Redis, the shop, the web server and the other processes. `leave` stops them all.
import { randomBytes } from "node:crypto";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { AccessLog } from "./behind/access-log.js";
import { createApp } from "./app.js";
import { killChildren, runChild } from "./common/child.js";
import { Crew } from "./behind/crew.js";
import type { ConsumerTask } from "./behind/consumer.js";
import type { PartnersFacts } from "./behind/partners.js";
import type { SellersTask } from "./behind/sellers.js";
import type { ShipperTask } from "./behind/shipper.js";
import type { TrafficTask } from "./behind/traffic.js";
import type { WireFacts, WireTask } from "./behind/wire.js";
import type { WorkerTask } from "./behind/worker.js";
import { Faults } from "./behind/faults.js";
import { redisFacts } from "./behind/inspect-line.js";
import { Live } from "./web/live.js";
import { checkPackages } from "./package-checks.js";
import type { Place } from "./common/place.js";
import { raceWays } from "./race/race.js";
import { startRedis } from "./behind/redis-server.js";
import { serve, usualPort, type WebServer } from "./web/server.js";
import { isMode, type Mode, type Servers, startBehind } from "./behind/servers.js";
import { Shop } from "./behind/shop.js";
import { smokeSummary } from "./smoke.js";
import { soak } from "./soak.js";
import { recount } from "./race/stage.js";
import { logConsumers, queueName } from "./common/tools.js";
import type { VisitorsReport, VisitorsTask } from "./visitors.js";

const mostLogDays = 30;

const usage = `Usage: node dist/main.js [--port N] [--redis URL] [--prefix TEXT] [--mode MODE] [--log-days N] [--no-visitors] [--smoke] [--soak MINUTES]

  --port N       serve on this port, 0 for any free port (default: 3000, or any free port)
  --redis URL    use this Redis instead of starting one; disables faults, races and measurements
  --prefix TEXT  prefix of all keys (default: kit)
  --mode MODE    Redis to start: single (default), cluster or sentinel
  --log-days N   days of generated access log from before the start (default and maximum: ${mostLogDays})
  --no-visitors  don't simulate visitors
  --smoke        run scripted visitors, test every package, print one JSON summary; exit with 0 or 1
  --soak MINUTES inject random faults for this long, check money, items and heap, print one JSON summary
`;

const exitLimitMs = 2_700;
const visitorsLimitMs = 300_000;
const workerNames = ["worker 1", "worker 2", "worker 3"];

interface Flags {
  readonly port: number | undefined;
  readonly redis: string | undefined;
  readonly prefix: string;
  readonly mode: Mode;
  readonly logDays: number;
  readonly hasVisitors: boolean;
  readonly smoke: boolean;
  readonly soakMinutes: number;
}

const readFlags = (): Flags | string => {
  try {
    const { values } = parseArgs({
      options: {
        port: { type: "string" },
        redis: { type: "string" },
        prefix: { type: "string", default: "kit" },
        mode: { type: "string", default: "single" },
        "log-days": { type: "string", default: String(mostLogDays) },
        "no-visitors": { type: "boolean", default: false },
        smoke: { type: "boolean", default: false },
        soak: { type: "string", default: "0" },
      },
    });
    const { redis, prefix, mode, smoke } = values;
    const port = values.port === undefined ? undefined : Number(values.port);
    if (port !== undefined && !(Number.isInteger(port) && port >= 0 && port <= 65_535))
      return `--port must be a number from 0 to 65535`;
    if (!/^[\w-]{1,32}$/.test(prefix)) return `--prefix must be 1 to 32 letters, digits, - and _`;
    if (!isMode(mode)) return `--mode must be single, cluster or sentinel`;
    if (redis !== undefined && mode !== "single") return `--mode starts its own Redis: omit --redis`;
    if (smoke && redis !== undefined) return `--smoke needs its own Redis: omit --redis`;
    const logDays = Number(values["log-days"]);
    if (!(Number.isInteger(logDays) && logDays >= 0 && logDays <= mostLogDays))
      return `--log-days must be a number from 0 to ${mostLogDays}`;
    const soakMinutes = Number(values.soak);
    if (!(soakMinutes >= 0 && soakMinutes <= 24 * 60)) return `--soak must be a number of minutes, up to one day`;
    if (soakMinutes > 0 && redis !== undefined) return `--soak needs its own Redis: omit --redis`;
    // The background visitors stay away from another owner's Redis. In a smoke run they would change the counts.
    const hasVisitors = !values["no-visitors"] && !smoke && redis === undefined;
    return { port, redis, prefix, mode, logDays, hasVisitors, smoke, soakMinutes };
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
};

const say = (text: string): void => void process.stderr.write(`${text}\n`);
const wordsOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** The started parts. They end in reverse order. */
const begun: { readonly name: string; readonly end: () => Promise<void> }[] = [];
let leaving: Promise<never> | undefined;

const leave = (code: number): Promise<never> => {
  leaving ??= (async () => {
    // If a part hangs, this process exits anyway. Its exit handlers then kill the rest.
    setTimeout(() => process.exit(code), exitLimitMs).unref();
    killChildren();
    for (const { name, end } of begun.reverse())
      await end().catch((error: unknown) => say(`${name} did not stop cleanly: ${wordsOf(error)}`));
    process.exit(code);
  })();
  return leaving;
};

/** A temporary folder, removed when this process exits. */
const makeHome = (): { home: string; logs: string } => {
  const home = mkdtempSync(join(tmpdir(), "bazaar-"));
  process.once("exit", () => rmSync(home, { recursive: true, force: true }));
  const logs = join(home, "logs");
  mkdirSync(logs);
  return { home, logs };
};

const run = async ({
  port,
  redis: givenUrl,
  prefix,
  mode,
  logDays,
  hasVisitors,
  smoke,
  soakMinutes,
}: Flags): Promise<void> => {
  const startedAt = performance.now();
  const progress = (text: string): void => {
    if (!smoke) say(`  ${((performance.now() - startedAt) / 1_000).toFixed(1)} s  ${text}`);
  };
  const { home, logs } = makeHome();
  let servers: Servers | undefined;
  let otherLogsUrl: string | null = null;
  if (givenUrl === undefined) {
    servers = await startBehind(mode, home);
    begun.push({ name: "Redis", end: () => servers?.stop() ?? Promise.resolve() });
    const other = await startRedis(home);
    begun.push({ name: "the other Redis", end: other.stop });
    otherLogsUrl = other.url;
    for (const lost of [servers.lost, other.lost])
      lost?.catch((error: unknown) => {
        if (leaving) return;
        say(wordsOf(error));
        void leave(1);
      });
    progress(
      mode === "single"
        ? "Redis is up"
        : `a ${mode === "cluster" ? "Cluster" : "master with replicas and Sentinels"} is up`,
    );
  }
  const redisMs = performance.now() - startedAt;

  const crew = new Crew();
  process.once("exit", () => crew.killAll());
  let url = givenUrl ?? servers?.url ?? "";
  const wire = servers?.port == null ? null : "wire";
  if (wire !== null && servers?.port != null)
    ({ url } = await crew.add<WireFacts>(wire, "wire", { port: servers.port } satisfies WireTask));
  begun.push({ name: "the other processes", end: () => crew.stop(wire) });

  const place: Place = { url, prefix };
  const shop = await Shop.open({
    ...place,
    isGuestServer: givenUrl !== undefined,
    hasReplicas: mode !== "single",
    onProgress: progress,
  });
  begun.push({ name: "the shop", end: () => shop.close() });
  const seededMs = performance.now() - startedAt - redisMs;

  const pass = randomBytes(12).toString("hex");
  const accessLog = new AccessLog(logs, pass);
  const partners = await crew.add<PartnersFacts>("partners", "partners", null);
  const faults = new Faults({
    ...{ shop, crew, wire, partners, failover: servers?.failover ?? null, isEnabled: givenUrl === undefined },
  });
  // Past the wire, so that an operator can look while the shop is cut off.
  const redis = redisFacts(givenUrl ?? servers?.url ?? "", prefix);
  const live = new Live(shop.auditor);
  let web: WebServer | undefined;
  const app = createApp({
    ...{ shop, live, crew, partners, faults, accessLog, pass, otherLogsUrl, redis },
    origin: () => web?.origin ?? "",
    onFault: (error) => say(error instanceof Error ? (error.stack ?? error.message) : String(error)),
  });
  web = await serve(app, port);
  const { origin, close } = web;
  begun.push({
    name: "the web server",
    end: async () => {
      live.close();
      accessLog.close();
      await close();
    },
  });
  if (!smoke) {
    if (port === undefined && !origin.endsWith(`:${usualPort}`))
      say(`  Port ${usualPort} is in use. To choose a port, pass --port`);
    process.stdout.write(`Bazaar is open: ${origin}\n`);
    say("  Starting the workers");
    say(`  Redis: ${redis.address}`);
    const inspect = redis.inspect("queue", queueName);
    if (inspect !== null) say(`  Inspect the queue from another terminal: ${inspect}`);
    say(`  Start with ${origin}/about (two minutes) or ${origin}/race\n  Ctrl-C stops the shop and all its processes.`);
  }

  // The pages are served now. The remaining processes start behind them.
  const sellers = shop.world.users.filter(({ isSeller }) => isSeller).map(({ id }) => id);
  const begin = (async () => {
    // A few at a time: on two cores, eight programs that start at once are all late.
    const [first = "", ...others] = workerNames;
    const worker = (name: string): Promise<unknown> =>
      crew.add(name, "worker", { ...place, name, partners } satisfies WorkerTask);
    // The old chats are decoration: an outage at this moment must not stop the shop.
    await Promise.all([worker(first), shop.furnish().catch(() => undefined)]);
    await crew.add("sellers", "sellers", { ...place, sellers } satisfies SellersTask);
    await Promise.all(others.map(worker));
    await Promise.all([
      crew.add("shipper", "shipper", { ...place, folder: logs, days: logDays } satisfies ShipperTask),
      ...logConsumers.map((consumer) => crew.add(consumer, "consumer", { ...place, consumer } satisfies ConsumerTask)),
    ]);
    if (hasVisitors) {
      const users = shop.world.users
        .filter(({ id, isSeller }) => !isSeller && !shop.personas.has(id))
        .map(({ id }) => id);
      await crew.add("visitors", "traffic", { origin, pass, users } satisfies TrafficTask);
    }
    progress("all processes are running");
  })();
  await begin.catch((error: unknown) => {
    if (leaving) return;
    throw error;
  });
  if (soakMinutes > 0) {
    const report = await soak(shop, faults, soakMinutes);
    process.stdout.write(`${JSON.stringify(report)}\n`);
    await leave(report.ok ? 0 : 1);
  }
  if (!smoke) return;

  const readyMs = performance.now() - startedAt;
  const visitorsTask: VisitorsTask = { origin, races: raceWays };
  const visitors = await runChild<VisitorsReport>("visitors", visitorsTask, visitorsLimitMs);
  const packages = await checkPackages({ shop, crew, partners, origin, accessLog });
  const recounted = await recount({ ...place, market: "main", world: shop.world, seller: null });
  const { summary, ok } = smokeSummary(visitors, recounted, packages, { redisMs, seededMs, readyMs });
  process.stdout.write(`${JSON.stringify(summary)}\n`);
  await leave(ok ? 0 : 1);
};

const flags = readFlags();
if (typeof flags === "string") {
  say(`${flags}\n\n${usage}`);
  process.exit(2);
}
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => void leave(0));
run(flags).catch((error: unknown) => {
  if (leaving) return;
  say(wordsOf(error));
  void leave(1);
});
