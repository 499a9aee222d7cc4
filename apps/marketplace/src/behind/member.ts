// The process side of crew.ts: receives a task, reports its status, answers calls, and stops on request.

/** Messages of a process to the web process. */
export type FromChild =
  | { readonly kind: "ready"; readonly facts: unknown }
  | { readonly kind: "status"; readonly status: unknown }
  | { readonly kind: "reply"; readonly call: number; readonly value: unknown };

/** Messages of the web process to a process. */
export type ToChild =
  | { readonly kind: "start"; readonly task: unknown; readonly before: unknown }
  | { readonly kind: "call"; readonly call: number; readonly what: unknown }
  | { readonly kind: "stop" };

export interface Duty {
  /** Sent to the web process when the process is ready. */
  readonly facts?: unknown;
  readonly onCall?: (what: never) => unknown;
  readonly stop: () => Promise<void>;
}

/** Sends the status that the ops page shows. At most four a second are sent; the newest one wins. */
export type Report = (status: unknown) => void;

const reportMs = 250;

/** How long a process waits for Redis at its start. Many start at once, perhaps on a small machine. */
export const startLimitMs = 20_000;

/** Runs `begin` for the task. A restarted process receives the facts of its first start, which others still use. */
export const serveMember = <Task, Facts = unknown>(
  begin: (task: Task, report: Report, before: Facts | undefined) => Promise<Duty>,
): void => {
  // Ctrl-C in a terminal reaches every process of the group. Only the web process ends this one.
  process.on("SIGINT", () => undefined);
  process.once("disconnect", () => process.exit(1));
  let duty: Duty | undefined;
  let latest: unknown;
  let timer: NodeJS.Timeout | undefined;
  const send = (message: FromChild): void => {
    if (process.connected) process.send?.(message, () => undefined);
  };
  const report: Report = (status) => {
    latest = status;
    timer ??= setTimeout(() => {
      timer = undefined;
      send({ kind: "status", status: latest });
    }, reportMs).unref();
  };
  process.on("message", (message: ToChild) => {
    if (message.kind === "start")
      void begin(message.task as Task, report, message.before as Facts | undefined).then(
        (ready) => {
          duty = ready;
          send({ kind: "ready", facts: ready.facts });
        },
        (error: unknown) => {
          process.stderr.write(`${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`);
          process.exit(1);
        },
      );
    else if (message.kind === "call") {
      const { call, what } = message;
      void Promise.resolve(duty?.onCall?.(what as never)).then((value) => send({ kind: "reply", call, value }));
    } else
      void (duty?.stop() ?? Promise.resolve()).then(
        () => process.exit(0),
        () => process.exit(0),
      );
  });
};
