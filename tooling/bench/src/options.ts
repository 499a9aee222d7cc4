import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { type ClientName, clientNames, isClientName } from "@tooling/lab";

export interface Options {
  readonly package: string;
  /** Only cases with an entry whose name contains it, ignoring case. */
  readonly pattern: string | undefined;
  readonly rounds: number;
  readonly json: boolean;
  readonly save: boolean;
  /** A built checkout of an earlier state, to be measured in place of the peers. */
  readonly before: string | undefined;
  /** The client that our packages run on; any but ioredis is measured beside ioredis, in place of the peers. */
  readonly client: ClientName;
  /** The case to profile, by the same rule as `pattern`. */
  readonly profile: string | undefined;
  readonly scale: number;
}

/** A mistake of the caller, printed without a stack. */
export class UsageError extends Error {
  override readonly name = "UsageError";
}

export const usage: string = `npm run bench -- <package> [options]

  --case PATTERN     only cases whose name contains PATTERN
  --rounds N         rounds of each case, at most (default 5)
  --json             one JSON object on stdout instead of the table
  --save             keep the result and its plots in apps/docs/bench; with --case the other cases stay
  --before DIR       ours alone, against the build in another checkout: DIR after \`npm run setup\`
  --client NAME      ours alone, on another client of Redis against ioredis: ${clientNames.join(", ")}
  --profile PATTERN  write a CPU profile of ours in these cases to .cache/bench, and print what is hottest
  --scale F          measure only F of the usual time, to see that all runs; the figures then say nothing
  --help             this text

npm run bench -- plots       remake the plots of all kept results, without measuring
npm run bench -- costs       what one operation of ours sends, moves and stores; idle objects, too

  --save             keep the costs in apps/docs/bench/costs.json, and remake the tables of apps/docs/at-scale.md
  --load "NAME=N"    the load of N operations a second, by the kept costs; several make a mix
`;

const number = (name: string, text: string, isRight: (value: number) => boolean, wanted: string): number => {
  const value = Number(text);
  if (text.trim() === "" || !isRight(value)) throw new UsageError(`Expected --${name} to be ${wanted}, got "${text}"`);
  return value;
};

/** The folder of a checkout; workers have the same working directory, but the hook gets a whole path. */
const checkoutOf = (folder: string | undefined): string | undefined => {
  if (folder === undefined) return undefined;
  const checkout = resolve(folder);
  if (!existsSync(join(checkout, "packages/core/dist")))
    throw new UsageError(`Expected --before to be a checkout after \`npm run setup\`, got "${folder}"`);
  return checkout;
};

/**
 * The options, or undefined if only help is requested.
 *
 * @throws {UsageError} an argument makes no sense; the message says what does.
 */
export const parseOptions = (args: readonly string[], packages: readonly string[]): Options | undefined => {
  let parsed;
  try {
    parsed = parseArgs({
      args: [...args],
      allowPositionals: true,
      options: {
        case: { type: "string" },
        rounds: { type: "string", default: "5" },
        json: { type: "boolean", default: false },
        save: { type: "boolean", default: false },
        before: { type: "string" },
        client: { type: "string", default: "ioredis" },
        profile: { type: "string" },
        scale: { type: "string", default: "1" },
        help: { type: "boolean", short: "h" },
      },
    });
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error));
  }
  const { values, positionals } = parsed;
  if (values.help) return undefined;
  const [name, ...more] = positionals;
  const known = `There are: ${packages.join(", ")}`;
  if (name === undefined) throw new UsageError(`Which package? ${known}`);
  if (!packages.includes(name)) throw new UsageError(`There are no benchmarks of "${name}". ${known}`);
  if (more.length > 0) throw new UsageError(`One package at a time, got also "${more.join(" ")}"`);
  const scale = number("scale", values.scale, (value) => value > 0 && value <= 1, "above 0 and at most 1");
  const { client } = values;
  if (!isClientName(client))
    throw new UsageError(`Expected --client to be ${clientNames.join(" or ")}, got "${client}"`);
  if (values.before !== undefined && client !== "ioredis")
    throw new UsageError("Either --before or --client: each measures ours against ours");
  if (values.save && (values.before !== undefined || client !== "ioredis" || scale < 1))
    throw new UsageError("--save keeps what the docs show: leave out --before, --client and --scale");
  return {
    package: name,
    pattern: values.case,
    rounds: number("rounds", values.rounds, (value) => Number.isInteger(value) && value >= 1, "an integer from 1"),
    json: values.json,
    save: values.save,
    before: checkoutOf(values.before),
    client,
    profile: values.profile,
    scale,
  };
};
