import {
  clientRules,
  custom,
  type MetricSource,
  type PackageDescriptor,
  required,
  type RulesOf,
  text,
} from "@kit/core/toolkit";

/** The thing that a request shows or changes. */
export interface BoardThing {
  /** `board` for the overview, `health`, or the kind of thing as in `kit inspect`: `queue`, `job`, `lock`. */
  readonly kind: string;
  /** The names of the thing: `["mail", "job-17"]` for a job. Empty for a page that shows all things of the kind. */
  readonly names: readonly string[];
}

/** An action and its outcome. */
export interface BoardAction {
  /** Who acted: the name that `authorize` returned. */
  readonly person: string;
  /** The CLI command without `kit`: `queue retry`. */
  readonly action: string;
  readonly thing: BoardThing;
  /** The options that were set. */
  readonly options: Readonly<Record<string, string>>;
  /** `failed`: the command threw an error, and may have done part of its work. */
  readonly outcome: "done" | "refused" | "failed";
  /** The command's report, without secrets. */
  readonly text: string;
}

/** A value of a job that can be private. */
export interface JobValue {
  readonly queue: string;
  readonly id: string;
  /** The name of the job. */
  readonly name: string;
  readonly part: "data" | "checkpoint" | "result";
}

/** Options of `createBoard()`. */
export interface BoardOptions {
  /** What to show: the `descriptor` of each package, from its entry `@kit/<name>/descriptor`. */
  readonly packages: readonly PackageDescriptor[];
  /**
   * The prefix of the keys.
   *
   * @default "kit"
   */
  readonly prefix?: string | undefined;
  /**
   * The name at the top of each page. Use it to tell production from staging.
   *
   * @default "kit"
   */
  readonly title?: string | undefined;
  /**
   * Allows or refuses each page and each action. `action` is `view` for a page, otherwise the CLI command without `kit`, such as
   * `queue retry` or `lock release`. Return the person's name to allow the request. Return undefined, null, false or an empty text to
   * refuse it. If `authorize` throws or rejects, the request fails and nothing is changed.
   *
   * The board calls `authorize` several times for one page, since a page shows only the buttons of allowed actions. The board has no login:
   * read your session from the request.
   *
   * @default every page is visible and every action is refused
   */
  readonly authorize?:
    ((request: Request, action: string, thing: BoardThing) => Authorized | Promise<Authorized>) | undefined;
  /**
   * Receives each action after it has ended, for your audit log. The board itself stores nothing. Its page `Health` lists the last 20
   * actions of this process. If `onAction` throws, the person sees the error, since the action has already run.
   *
   * @default none
   */
  readonly onAction?: ((action: BoardAction) => void | Promise<void>) | undefined;
  /**
   * Returns what a job's page shows of its data, checkpoint and result. Remove secrets here. Return undefined to hide a value. To show
   * everything: `(value) => value`. Errors, log lines and progress of jobs are always shown.
   *
   * @default hides all three
   */
  readonly jobData?: ((value: unknown, job: JobValue) => unknown) | undefined;
  /**
   * Returns the metrics of a queue: call `queueMetrics()` of `@kit/queue/metrics` with the workers of this process. The queue's page then
   * shows how long jobs waited and ran, as histograms and by name. Each view of the page reads the metrics with at least four commands.
   *
   * @default the page shows no times
   */
  readonly metrics?: ((queue: string) => MetricSource | undefined) | undefined;
  /**
   * Receives unexpected errors, whose messages the board does not show. Errors of kit are shown on the page.
   *
   * @default none
   */
  readonly onError?: ((error: unknown) => void) | undefined;
}

/** The name of the person who is allowed, or a refusal. */
export type Authorized = string | undefined | null | false;

const callback = <Value extends (...args: never[]) => unknown>() =>
  custom((name, value: Value): Value | undefined => {
    if (typeof value !== "function") throw new TypeError(`Expected \`${name}\` to be a function`);
    return value;
  });

const descriptors = (name: string, value: readonly PackageDescriptor[]): readonly PackageDescriptor[] => {
  const isList: boolean = Array.isArray(value);
  if (!isList || !value.every((one: unknown) => typeof (one as PackageDescriptor | null)?.permissions === "object"))
    throw new TypeError(`Expected \`${name}\` to be a list of descriptors, from @kit/<name>/descriptor`);
  return [...value];
};

export const boardRules = {
  packages: required(custom(descriptors)),
  prefix: clientRules.prefix,
  title: text(60, "kit"),
  authorize: callback<NonNullable<BoardOptions["authorize"]>>(),
  onAction: callback<NonNullable<BoardOptions["onAction"]>>(),
  jobData: callback<NonNullable<BoardOptions["jobData"]>>(),
  metrics: callback<NonNullable<BoardOptions["metrics"]>>(),
  onError: callback<NonNullable<BoardOptions["onError"]>>(),
} satisfies RulesOf<BoardOptions>;
