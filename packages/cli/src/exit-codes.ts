/** Stable, for scripts. */
export const exitCodes = { fine: 0, warnings: 1, unknown: 1, problem: 2, noConnection: 3, usage: 64 } as const;

/** One sentence for the user at the terminal, and the exit code. */
export class Failure extends Error {
  override name = "Failure";
  readonly exitCode: number;

  constructor(message: string, exitCode: number) {
    super(message);
    this.exitCode = exitCode;
  }
}
