import { eventually } from "@kit/testing";
import type { Program } from "@tooling/vitest/helpers";

export const patient = { timeoutMs: 30_000 } as const;

/** Waits until a program has printed what begins with `start: `. */
export const said = async (program: Program, start: string): Promise<string> =>
  await eventually(() => {
    const [text] = program.said(start);
    if (text === undefined) throw new Error(`It printed only: ${program.printed}`);
    return text;
  }, patient);
