// Compiled, never run: pins the types that callers see. A change of the surface must be made here too.
import type { RedisLike } from "@kit/core";
import type { MetricSource, PackageDescriptor } from "@kit/core/toolkit";
import type { Authorized, Board, BoardAction, BoardOptions, BoardThing, createBoard, JobValue } from "../src/index.js";

type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
type Check<Proof extends true> = Proof;
type Option<T> = T | undefined;
/** Properties, flattened, so that an interface and a literal can be compared. */
type Flat<T> = { [Key in keyof T]: T[Key] };

export type Pins = [
  Check<Same<typeof createBoard, (redis: RedisLike, options: BoardOptions) => Board>>,
  Check<Same<Board, (request: Request) => Promise<Response>>>,
  Check<Same<Authorized, string | undefined | null | false>>,
  Check<
    Same<
      Flat<BoardOptions>,
      {
        readonly packages: readonly PackageDescriptor[];
        readonly prefix?: Option<string>;
        readonly title?: Option<string>;
        readonly authorize?: Option<
          (request: Request, action: string, thing: BoardThing) => Authorized | Promise<Authorized>
        >;
        readonly onAction?: Option<(action: BoardAction) => void | Promise<void>>;
        readonly jobData?: Option<(value: unknown, job: JobValue) => unknown>;
        readonly metrics?: Option<(queue: string) => MetricSource | undefined>;
        readonly onError?: Option<(error: unknown) => void>;
      }
    >
  >,
  Check<Same<Flat<BoardThing>, { readonly kind: string; readonly names: readonly string[] }>>,
  Check<
    Same<
      Flat<BoardAction>,
      {
        readonly person: string;
        readonly action: string;
        readonly thing: BoardThing;
        readonly options: Readonly<Record<string, string>>;
        readonly outcome: "done" | "refused" | "failed";
        readonly text: string;
      }
    >
  >,
  Check<
    Same<
      Flat<JobValue>,
      {
        readonly queue: string;
        readonly id: string;
        readonly name: string;
        readonly part: "data" | "checkpoint" | "result";
      }
    >
  >,
];
