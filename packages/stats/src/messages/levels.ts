/** The levels, as pino numbers them. */
export const levels = { trace: 10, debug: 20, info: 30, warn: 40, error: 50, fatal: 60 } as const;

/** The name of a level. */
export type Level = keyof typeof levels;

export const levelNames: readonly Level[] = Object.keys(levels) as Level[];

/**
 * The level with which something is stored, by name or number: the highest that is not above the number.
 *
 * @throws {TypeError | RangeError} it is neither a name nor an integer from 0 to 1,000.
 */
export const levelOf = (level: Level | number): { readonly name: Level; readonly severity: number } => {
  if (typeof level === "string" && Object.hasOwn(levels, level)) return { name: level, severity: levels[level] };
  if (typeof level !== "number")
    throw new TypeError(`Expected \`level\` to be a number or one of ${levelNames.join(", ")}`);
  if (!Number.isInteger(level) || level < 0 || level > 1_000)
    throw new RangeError(`Expected \`level\` to be an integer from 0 to 1000, got ${String(level)}`);
  return { name: levelNames.findLast((name) => levels[name] <= level) ?? "trace", severity: level };
};
