import { Redis } from "ioredis";
import { counted, type Finding } from "@kit/core/toolkit";
import type { ServerNode } from "../node.js";
import { type Check, ok, problem, skipped, warning } from "./check.js";

interface Word {
  readonly address: string;
  /** Its reply about the quorum; undefined when it does not answer. */
  readonly quorum: string | undefined;
  /** How many other Sentinels it knows. */
  readonly others: number;
}

const ask = async (
  host: string,
  port: number,
  master: string,
  { sentinelUsername, sentinelPassword, sentinelTLS, enableTLSForSentinelMode }: ServerNode["settings"],
): Promise<Word> => {
  const address = `${host}:${String(port)}`;
  const sentinel = new Redis({
    host,
    port,
    ...(sentinelUsername == null ? {} : { username: sentinelUsername }),
    ...(sentinelPassword == null ? {} : { password: sentinelPassword }),
    ...(enableTLSForSentinelMode && sentinelTLS ? { tls: sentinelTLS } : {}),
    lazyConnect: true,
    enableReadyCheck: false,
    connectTimeout: 2_000,
    commandTimeout: 2_000,
    retryStrategy: () => null,
  });
  sentinel.on("error", () => undefined);
  try {
    await sentinel.connect();
    const others = (await sentinel.call("SENTINEL", "SENTINELS", master)) as unknown[];
    const quorum = await sentinel
      .call("SENTINEL", "CKQUORUM", master)
      .then(String, (error: unknown) => (error instanceof Error ? error.message : String(error)));
    return { address, quorum, others: others.length };
  } catch {
    return { address, quorum: undefined, others: 0 };
  } finally {
    sentinel.disconnect();
  }
};

export const sentinels: Check = {
  id: "sentinels",
  async look({ nodes: [node], topology }): Promise<readonly Finding[]> {
    const { sentinels: listed = [], name = "" } = node.settings;
    if (topology !== "sentinel") return [skipped("the address names no Sentinels")];
    const words = await Promise.all(
      listed.map(({ host = "127.0.0.1", port = 26_379 }) => ask(host, port, name, node.settings)),
    );
    const found: Finding[] = [];
    const silent = words.filter(({ quorum }) => quorum === undefined);
    if (silent.length > 0)
      found.push(
        warning(
          `Sentinels that do not answer: ${silent.map(({ address }) => address).join(", ")}`,
          "Start them, or remove them from the address.",
        ),
      );
    const without = words.find(({ quorum }) => quorum?.startsWith("NOQUORUM"));
    if (without)
      found.push(
        problem(
          `${without.address} reports that too few Sentinels agree for a failover`,
          "Start the missing Sentinels. SENTINEL CKQUORUM name shows when there are enough.",
        ),
      );
    const known = Math.max(0, ...words.map(({ others }) => others)) + 1;
    if (known < 3)
      found.push(
        warning(
          `only ${counted(known, "Sentinel")}: if one fails, no majority is left`,
          "Run three or five, on separate machines.",
        ),
      );
    return found.length > 0 ? found : [ok(`${counted(known, "Sentinel")}, and enough of them agree for a failover`)];
  },
};
