import { type Finding, serverVersion } from "@kit/core/toolkit";
import { type Check, ok, onEachNode, problem, warning } from "./check.js";

/**
 * For each branch the first version without the faults by which a script can run code in the server: CVE-2025-49844, -46817,
 * -46818, -46819, and, contained in these, CVE-2024-31449 and -46981.
 */
const patched: Readonly<Record<string, readonly string[]>> = {
  redis: ["6.2.20", "7.2.11", "7.4.6", "8.0.4", "8.2.2"],
  valkey: ["7.2.11", "8.0.6", "8.1.4"],
};
/**
 * Debian's packages that have the fixes although their version numbers do not: the first such package of each version. The
 * packages of kit are tested on these servers.
 */
const byDebian: Readonly<Record<string, string>> = {
  "redis 7.0.15": "5:7.0.15-1~deb12u6",
  "redis 8.0.2": "5:8.0.2-3+deb13u1",
  "valkey 8.1.1": "8.1.1+dfsg1-3+deb13u1",
};
const oldest: Readonly<Record<string, string>> = { redis: "6.2.0", valkey: "7.2.0" };

const compare = (a: string, b: string): number => {
  const parts = b.split(".").map(Number);
  for (const [index, part] of a.split(".").map(Number).entries()) {
    const difference = part - (parts[index] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
};

/** The finding about a version. */
export const judgeVersion = (server: "redis" | "valkey", version: string): Finding => {
  const name = `${server === "redis" ? "Redis" : "Valkey"} ${version}`;
  const least = oldest[server] ?? "";
  if (compare(version, least) < 0)
    return problem(`${name} is older than ${least}, the oldest supported version`, "Upgrade the server.");
  const fixes = patched[server] ?? [];
  const branch = fixes.find((fix) => fix.split(".").slice(0, 2).join(".") === version.split(".").slice(0, 2).join("."));
  const isNewer = compare(version, fixes.at(-1) ?? "") > 0;
  if (branch ? compare(version, branch) >= 0 : isNewer) return ok(`${name}`);
  const wanted = branch ?? fixes.find((fix) => compare(fix, version) > 0) ?? "";
  const fixed = byDebian[`${server} ${version}`];
  const without = fixed
    ? `Debian's package has the fixes since ${fixed}, without a new version number (dpkg -s ${server}-server).`
    : "Your distribution's package may have the fixes without a new version number.";
  return warning(
    `by its version number, ${name} lets a script run code in the server (CVE-2025-49844 and older)`,
    `Upgrade to ${wanted} or newer. ${without}`,
  );
};

export const version: Check = {
  id: "version",
  look: (server) =>
    onEachNode(server, async (node) => {
      const info = await node.info();
      const { server: kind, version: number } = serverVersion(info);
      return [judgeVersion(kind, number)];
    }),
};
