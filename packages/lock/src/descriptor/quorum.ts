import type { Connection } from "@kit/core";
import { type Facts, secondsText } from "@kit/core/toolkit";
import { quorumKey } from "../keys.js";
import { inspect } from "../quorum/scripts/index.js";

/** One server's part of a quorum lock. */
export interface QuorumReport {
  readonly holder: string;
  /** Milliseconds left of the lease there, or null if it has no end. */
  readonly msLeft: number | null;
}

/** Reads this server's part of a quorum lock. Undefined if the lock has no holder here. */
export const quorumReportOf = async (
  redis: Connection,
  prefix: string,
  name: string,
): Promise<QuorumReport | undefined> => {
  const stored = await inspect.run(redis, { lease: quorumKey(prefix)(name) }, {});
  if (!stored) return undefined;
  const { holder, msLeft } = stored;
  return { holder, msLeft: msLeft === Infinity ? null : msLeft };
};

const endText = ({ holder, msLeft }: QuorumReport): string =>
  `${holder}, ${msLeft === null ? "never expires: its expiry was removed" : `expires in ${secondsText(msLeft)} unless renewed`}`;

/** Describes the state in words. */
export const quorumText = (report: QuorumReport): string => `held on this server by ${endText(report)}`;

export const quorumFacts = (report: QuorumReport): Facts => [
  ["quorum", "held on this server"],
  ["holder", endText(report)],
];
