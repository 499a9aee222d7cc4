import { KitError } from "@kit/core";
import { type Finding, isForbidden, type Severity } from "@kit/core/toolkit";
import { Refused, type ServerNode, Silent } from "../node.js";
import type { Server } from "../server.js";

/** Looks at one thing, and changes nothing. */
export interface Check {
  /** Stable, for scripts; also the heading of its section in the documentation. */
  readonly id: string;
  /** Whether it can look without a connection; then it must not use what it is given. */
  readonly isLocal?: true;
  /** @throws {Refused} what makes the check `skipped`. */
  readonly look: (server: Server) => Promise<readonly Finding[]>;
}

export const ok = (text: string): Finding => ({ severity: "ok", text });
export const warning = (text: string, fix: string): Finding => ({ severity: "warning", text, fix });
export const problem = (text: string, fix: string): Finding => ({ severity: "problem", text, fix });
export const skipped = (text: string): Finding => ({ severity: "skipped", text });

const order: readonly Severity[] = ["skipped", "ok", "warning", "problem"];

export const worstOf = (findings: readonly { readonly severity: Severity }[]): Severity =>
  findings.reduce<Severity>(
    (worst, { severity }) => (order.indexOf(severity) > order.indexOf(worst) ? severity : worst),
    "skipped",
  );

/** The advice about a server that does not answer. */
export const bringBack =
  "See whether its process runs, stands still or swaps, and whether the network lets us through.";

/** Why a check could not look. */
export const skippedFor = (error: unknown): Finding => {
  const message = error instanceof Error ? error.message : String(error);
  if (error instanceof Refused) return skipped(`not permitted: ${message}`);
  // A package's check asks by itself; what the server says names the command.
  if (isForbidden(error) || (KitError.is(error) && error.code === "KIT_NO_PERMISSION"))
    return skipped(`not permitted: ${message.replace(/^NOPERM /, "")}`);
  const text = `could not look: ${message}`;
  return error instanceof Silent && error.isNews ? problem(text, bringBack) : skipped(text);
};

/**
 * Looks at each process by itself. A finding about all of several is reported once, any other with the process it is about.
 */
export const onEachNode = async (
  { nodes }: Server,
  look: (node: ServerNode) => Promise<readonly Finding[]>,
): Promise<readonly Finding[]> => {
  // One that does not answer must not keep the others from being looked at.
  const all = await Promise.all(
    nodes.map(async (node): Promise<readonly Finding[]> => {
      // A finding that needs no answer would not be true of it either.
      if (node.silence !== undefined) return [skippedFor(new Silent(node.silence, false))];
      return await look(node).catch((error: unknown) => [skippedFor(error)]);
    }),
  );
  const [first = []] = all;
  const words = (findings: readonly Finding[]): string => findings.map(({ text }) => text).join("\n");
  if (all.every((findings) => words(findings) === words(first))) return first;
  const named = all.flatMap((findings, index) =>
    findings
      .filter(({ severity }) => severity !== "ok")
      .map((finding) => ({ ...finding, text: `${nodes[index]?.address ?? ""}: ${finding.text}` })),
  );
  const fine = all.flat().find(({ severity }) => severity === "ok");
  if (!fine || worstOf(named) !== "skipped") return named;
  // Nothing is said to be well of which a part was not seen.
  const isWhole = nodes.every(({ silence }) => silence === undefined);
  return isWhole ? [fine, ...named] : [...named, skipped(`elsewhere: ${fine.text}`)];
};

/** `12`, `4.5k`, `3.1 M`: for rates and counts that nobody adds up. */
export const roughly = (value: number): string => {
  if (value >= 1_000_000) return `${(value / 1_000_000).toFixed(1)} M`;
  if (value >= 10_000) return `${String(Math.round(value / 1_000))}k`;
  return value >= 10 ? String(Math.round(value)) : value.toFixed(1);
};

export const megabytes = (bytes: number): string => `${String(Math.max(1, Math.round(bytes / 1_048_576)))} MB`;
