import { keyspace, KitError } from "@kit/core";
import type { DoctorCheck, Finding } from "@kit/core/toolkit";
import { exitCodes } from "../exit-codes.js";
import { type Examined, openServer, type Server } from "../server.js";
import { withoutCredentials } from "../target.js";
import { access } from "./access.js";
import { type Check, skipped, skippedFor, worstOf } from "./check.js";
import { clockSkew } from "./clock-skew.js";
import { clusterSlots } from "./cluster-slots.js";
import { connectionChurn } from "./connection-churn.js";
import { connections } from "./connections.js";
import { duplicateCopies } from "./duplicate-copies.js";
import { evictionPolicy } from "./eviction-policy.js";
import { keysWithoutExpiry } from "./keys-without-expiry.js";
import { memory } from "./memory.js";
import { permissions } from "./permissions.js";
import { persistence } from "./persistence.js";
import { reachability, unreachable } from "./reachability.js";
import { replication } from "./replication.js";
import { roundTrip } from "./round-trip.js";
import { scriptLimits } from "./script-limits.js";
import { sentinels } from "./sentinels.js";
import { slowLog } from "./slow-log.js";
import { throughput } from "./throughput.js";
import { tls } from "./tls.js";
import { version } from "./version.js";

/** In the order of execution and output; the checks of the packages follow. */
const checks: readonly Check[] = [
  reachability,
  roundTrip,
  version,
  evictionPolicy,
  persistence,
  memory,
  keysWithoutExpiry,
  permissions,
  clusterSlots,
  sentinels,
  replication,
  clockSkew,
  connections,
  slowLog,
  scriptLimits,
  access,
  tls,
  connectionChurn,
  throughput,
  duplicateCopies,
];

const checkOf = ({ id, look }: DoctorCheck): Check => ({
  id,
  look: async ({ redis, prefix, ended, trouble }) => {
    if (trouble) return [skipped("the Cluster is not usable")];
    return await look({ redis, prefix, signal: ended });
  },
});

/** The longest check takes about three seconds. */
const patienceMs = 5_000;

/** The result of one check. */
export interface CheckResult {
  readonly id: string;
  readonly severity: Finding["severity"];
  readonly findings: readonly Finding[];
  /** The command that explains it. */
  readonly docs: string;
}

export interface Report {
  /** The address without user name and password. */
  readonly url: string;
  readonly checks: readonly CheckResult[];
  readonly exitCode: number;
}

const resultOf = (id: string, findings: readonly Finding[]): CheckResult => ({
  id,
  severity: worstOf(findings),
  findings,
  docs: `kit help ${id}`,
});

/**
 * Runs all checks one after the other, because they measure times. Calls `report` with each result as soon as it is there,
 * but not for checks that were skipped because there is no connection.
 *
 * @throws {KitError} `KIT_TARGET`: the address is malformed.
 * @throws {TypeError | RangeError} the prefix is invalid.
 */
export const examine = async (
  examined: Examined & { readonly isStrict: boolean; readonly skip: readonly string[] },
  report: (result: CheckResult) => void,
): Promise<Report> => {
  const { url, prefix, isStrict, skip, packages } = examined;
  // Throws for a prefix that no package accepts.
  keyspace("doctor", prefix);
  const results: CheckResult[] = [];
  const say = (id: string, findings: readonly Finding[]): void => {
    const result = resultOf(id, findings);
    results.push(result);
    report(result);
  };
  let server: Server | undefined;
  const over = new AbortController();
  try {
    server = await openServer(examined, over.signal);
  } catch (error) {
    if (KitError.is(error) && error.code === "KIT_TARGET") throw error;
    say(reachability.id, [await unreachable(error)]);
  }
  try {
    for (const check of [...checks, ...packages.flatMap((one) => (one.checks ?? []).map(checkOf))])
      if (server || check.isLocal)
        say(
          check.id,
          skip.includes(check.id) ? [skipped("excluded with --skip")] : await lookWithin(check, server ?? nothing),
        );
      else if (check !== reachability) results.push(resultOf(check.id, [skipped("no connection")]));
  } finally {
    over.abort();
    // No call is under way, and QUIT would wait for silent nodes.
    for (const node of server?.nodes ?? []) node.disconnect();
    server?.redis.disconnect();
  }
  const worst = worstOf(results);
  const exitCode = !server
    ? exitCodes.noConnection
    : worst === "problem"
      ? exitCodes.problem
      : worst === "warning" && isStrict
        ? exitCodes.warnings
        : exitCodes.fine;
  return { url: withoutCredentials(url), checks: results, exitCode };
};

/** The facts for a local check. */
const nothing = {} as Server;

/** A silent server must not delay the report about the others. */
const lookWithin = async ({ look }: Check, server: Server): Promise<readonly Finding[]> => {
  let timer: NodeJS.Timeout | undefined;
  const silence = new Promise<readonly Finding[]>((resolve) => {
    timer = setTimeout(
      () => resolve([skipped(`the check did not finish within ${String(patienceMs / 1_000)} s`)]),
      patienceMs,
    );
  });
  try {
    return await Promise.race([look(server), silence]);
  } catch (error) {
    return [skippedFor(error)];
  } finally {
    clearTimeout(timer);
  }
};
