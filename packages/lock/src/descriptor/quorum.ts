import type { Connection } from "@kit/core";
import { type Facts, secondsText } from "@kit/core/toolkit";
import { quorumKey } from "../keys.js";
import { inspect } from "../quorum/scripts/index.js";

/** The part of a quorum lock that one server has. */
export interface QuorumReport {
  readonly holder: string;
  /** Milliseconds left of the lease there; null: it has no end. */
  readonly msLeft: number | null;
}

/** Looks at the part of a quorum lock on this server; undefined: nobody has it here. */
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
  `${holder}, ${msLeft === null ? "never ends: its expiry was removed" : `ends in ${secondsText(msLeft)} unless renewed`}`;

/** The state in words. */
export const quorumText = (report: QuorumReport): string => `held on this server by ${endText(report)}`;

export const quorumFacts = (report: QuorumReport): Facts => [
  ["quorum", "held on this server"],
  ["holder", endText(report)],
];
