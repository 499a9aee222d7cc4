import { KitError } from "@kit/core";
import { type Finding, isForbidden } from "@kit/core/toolkit";
import { Refused, type ServerNode, Silent } from "../node.js";
import type { Server } from "../server.js";

/** Checks one thing, and changes nothing. */
export interface Check {
  /** Stable, for scripts; also the heading of its section in the documentation. */
  readonly id: string;
  /** Whether it runs without a connection; then it must not use its argument. */
  readonly isLocal?: true;
  /** @throws {Refused} the check is `skipped` then. */
  readonly look: (server: Server) => Promise<readonly Finding[]>;
}

export const ok = (text: string): Finding => ({ severity: "ok", text });
export const warning = (text: string, fix: string): Finding => ({ severity: "warning", text, fix });
export const problem = (text: string, fix: string): Finding => ({ severity: "problem", text, fix });
export const skipped = (text: string): Finding => ({ severity: "skipped", text });

type Severity = Finding["severity"];

const order: readonly Severity[] = ["skipped", "ok", "warning", "problem"];

export const worstOf = (findings: readonly { readonly severity: Severity }[]): Severity =>
  findings.reduce<Severity>(
    (worst, { severity }) => (order.indexOf(severity) > order.indexOf(worst) ? severity : worst),
    "skipped",
  );

/** The advice about a server that does not answer. */
export const bringBack =
  "Check that its process runs, is not stopped and does not swap, and that no firewall blocks this machine.";

/** Why a check did not run. */
export const skippedFor = (error: unknown): Finding => {
  const message = error instanceof Error ? error.message : String(error);
  if (error instanceof Refused) return skipped(`not permitted: ${message}`);
  // A package's check sends its own commands; the server's refusal names the command.
  if (isForbidden(error) || (KitError.is(error) && error.code === "KIT_NO_PERMISSION"))
    return skipped(`not permitted: ${message.replace(/^NOPERM /, "")}`);
  const text = `the check failed: ${message}`;
  return error instanceof Silent && error.isNews ? problem(text, bringBack) : skipped(text);
};

/**
 * Checks each process by itself. A finding about all processes is reported once, any other with its process.
 */
export const onEachNode = async (
  { nodes }: Server,
  look: (node: ServerNode) => Promise<readonly Finding[]>,
): Promise<readonly Finding[]> => {
  // A process that does not answer must not prevent the checks of the others.
  const all = await Promise.all(
    nodes.map(async (node): Promise<readonly Finding[]> => {
      // A finding about a silent process would not be reliable.
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
  // A result is `ok` only if every process was checked.
  const isWhole = nodes.every(({ silence }) => silence === undefined);
  return isWhole ? [fine, ...named] : [...named, skipped(`other nodes: ${fine.text}`)];
};

/** `12`, `4.5k`, `3.1 M`: for rates and counts that are only read, not added up. */
export const roughly = (value: number): string => {
  if (value >= 1_000_000) return `${(value / 1_000_000).toFixed(1)} M`;
  if (value >= 10_000) return `${String(Math.round(value / 1_000))}k`;
  return value >= 10 ? String(Math.round(value)) : value.toFixed(1);
};

export const megabytes = (bytes: number): string => {
  const value = bytes / 1_048_576;
  return `${value < 10 ? value.toFixed(1) : String(Math.round(value))} MB`;
};
