import { type Finding, isForbidden, newToken, type PackageDescriptor } from "@kit/core/toolkit";
import { Refused, Silent } from "../node.js";
import type { Server } from "../server.js";
import { type Check, ok, problem, warning } from "./check.js";

/** A command and its arguments. */
type CommandForm = ReturnType<PackageDescriptor["permissions"]["tried"]>[number];

/** The commands that every package runs, in addition to the commands on its keys. */
const ofCore: readonly CommandForm[] = [["EVALSHA", "0".repeat(40), 0], ["EVAL", "return 1", 0], ["TIME"]];

const isRefused = (error: unknown): boolean => error instanceof Refused || isForbidden(error);

/** The refused forms of commands; other errors do not matter here. */
const refusedOf = async ({ nodes: [node] }: Server, forms: readonly CommandForm[]): Promise<readonly string[]> => {
  // A Cluster node checks the permission before it redirects.
  const results = await Promise.allSettled(forms.map(([command, ...args]) => node.call(command, ...args)));
  for (const result of results)
    if (result.status === "rejected" && result.reason instanceof Silent) throw result.reason;
  return forms.flatMap(([command], index) => {
    const result = results[index];
    return result?.status === "rejected" && isRefused(result.reason) ? [command] : [];
  });
};

const askedOf = async ({ nodes: [node] }: Server, forms: readonly CommandForm[]): Promise<readonly string[]> => {
  try {
    const user = String(await node.call("ACL", "WHOAMI"));
    const replies = await Promise.all(
      forms.map(([command, ...args]) => node.call("ACL", "DRYRUN", user, command, ...args)),
    );
    return forms.flatMap(([command], index) => (replies[index] === "OK" ? [] : [command]));
  } catch (error) {
    if (error instanceof Silent) throw error;
    // ACL DRYRUN exists since 7.0, and needs a permission of its own.
    return [];
  }
};

const maySubscribe = async ({ nodes: [node] }: Server, channel: string): Promise<boolean> => {
  const connection = node.another();
  try {
    await connection.connect();
    await connection.subscribe(channel);
    return true;
  } catch (error) {
    return !isRefused(error);
  } finally {
    connection.disconnect();
  }
};

/** The commands that a package lacks; undefined: all, so the user is not meant for it. */
const missingOf = async (
  server: Server,
  { name, permissions }: PackageDescriptor,
): Promise<readonly string[] | undefined> => {
  const key = `${server.prefix}:${name}:{kit-doctor-${newToken()}}:key`;
  const tried = permissions.tried(key);
  const refused = await refusedOf(server, tried);
  // A command without a key, such as PING, is permitted to users of other packages, too.
  const onKeys = tried.filter((form) => form.includes(key));
  if (onKeys.every(([command]) => refused.includes(command))) return undefined;
  return [...refused, ...(await askedOf(server, permissions.asked?.(key) ?? []))];
};

interface Verdict {
  readonly of: PackageDescriptor;
  readonly missing: readonly string[] | undefined;
}

/** The commands that the installed packages lack, and the packages that the user is meant for. */
const packageFindings = (prefix: string, fix: string, verdicts: readonly Verdict[]): readonly Finding[] => {
  if (verdicts.length > 0 && verdicts.every(({ missing }) => missing === undefined)) {
    const keys = verdicts.map(({ of }) => `${prefix}:${of.name}:*`).join(" or ");
    const things = verdicts.map(({ of }) => of.things);
    const text = things.length === 1 ? `${things.join("")} do not work` : "no installed package works";
    return [problem(`this user cannot access ${keys}: ${text}`, fix)];
  }
  return verdicts.flatMap(({ of: { name, things }, missing = [] }) =>
    missing.length === 0
      ? []
      : [problem(`this user cannot run ${missing.join(", ")} on ${prefix}:${name}:*: ${things} do not work`, fix)],
  );
};

export const permissions: Check = {
  id: "permissions",
  async look(server): Promise<readonly Finding[]> {
    const { prefix, packages } = server;
    const fix = `Grant the keys, channels and commands that each package's docs list under "ACL". Do not rename commands.`;
    const found: Finding[] = [];
    const core = await refusedOf(server, ofCore);
    if (core.length > 0) found.push(problem(`this user cannot run ${core.join(", ")}: no kit package works`, fix));
    const verdicts: Verdict[] = [];
    for (const one of packages) verdicts.push({ of: one, missing: await missingOf(server, one) });
    found.push(...packageFindings(prefix, fix, verdicts));
    const usable = verdicts.filter(({ missing }) => missing).map(({ of }) => of);
    const meant = usable.map(({ name }) => name);
    for (const channel of new Set(usable.flatMap(({ permissions: { channels = [] } }) => channels))) {
      const name = `${prefix}:${channel.replace("*", `kit-doctor-${newToken()}`)}`;
      const pushes = [
        ...(await refusedOf(server, [["PING"], ["PUBLISH", name, ""], ["PUBSUB", "NUMSUB", name]])),
        ...((await maySubscribe(server, name)) ? [] : ["SUBSCRIBE"]),
      ];
      if (pushes.length > 0)
        found.push(
          warning(`this user cannot run ${pushes.join(", ")} on ${prefix}:${channel}: waiting calls poll instead`, fix),
        );
    }
    const helpful = await refusedOf(server, [
      ["INFO", "server"],
      ["TYPE", `${prefix}:${meant[0] ?? "lock"}:{kit-doctor}:key`],
    ]);
    if (helpful.length > 0 && meant.length > 0)
      found.push(warning(`this user cannot run ${helpful.join(", ")}: error messages have less detail`, fix));
    if (found.length > 0) return found;
    const all = ["core", ...meant].map((name) => `@kit/${name}`);
    return [
      ok(
        `this user has all permissions for ${all.length === 1 ? all.join("") : `${all.slice(0, -1).join(", ")} and ${all.at(-1) ?? ""}`}`,
      ),
    ];
  },
};
