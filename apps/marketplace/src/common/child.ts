// Runs work in a separate process, which receives one message, sends one back and ends.
import { fork, type ChildProcess } from "node:child_process";

/** How long a child tries to reach Redis. Several start at once, perhaps on a busy machine. */
export const patienceMs = 20_000;

const running = new Set<ChildProcess>();

/**
 * Runs the program `name` of this build with `task`, and resolves with its answer.
 *
 * @throws {Error} the program ended without an answer, or `timeoutMs` passed.
 */
export const runChild = <Answer>(name: string, task: unknown, timeoutMs: number): Promise<Answer> =>
  new Promise((resolve, reject) => {
    const child = fork(new URL(`./${name}.js`, import.meta.url), {
      // A child writes to stderr only; stdout belongs to the main program.
      stdio: ["ignore", "ignore", "inherit", "ipc"],
      serialization: "advanced",
    });
    running.add(child);
    const timer = setTimeout(() => child.kill("SIGKILL"), timeoutMs);
    let answer: { readonly value: Answer } | undefined;
    child.once("message", (value) => {
      answer = { value: value as Answer };
    });
    child.once("error", reject);
    child.once("exit", (code, signal) => {
      clearTimeout(timer);
      running.delete(child);
      if (answer) resolve(answer.value);
      else reject(new Error(`${name} exited without a result (${signal ?? `code ${code}`})`));
    });
    child.send(task as object, (error) => {
      if (error) child.kill("SIGKILL");
    });
  });

/** Has {@link killChildren} kill this process, too. Call the returned function when it has ended. */
export const ownChild = (child: ChildProcess): (() => void) => {
  running.add(child);
  return () => running.delete(child);
};

/** Kills all children that still run. */
export const killChildren = (): void => {
  for (const child of running) child.kill("SIGKILL");
};

/** The other side of {@link runChild}: waits for the task, answers, and lets the process end. */
export const serveChild = <Task, Answer>(work: (task: Task) => Promise<Answer>): void => {
  const parentGone = (): never => process.exit(1);
  process.once("disconnect", parentGone);
  // Ctrl-C in a terminal reaches every process of the group. Only the parent ends this one.
  process.on("SIGINT", () => undefined);
  process.once("message", (task) => {
    void work(task as Task).then(
      (answer) => {
        process.off("disconnect", parentGone);
        process.send?.(answer as object, () => process.exit(0));
      },
      (error: unknown) => {
        process.stderr.write(`${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`);
        process.exit(1);
      },
    );
  });
};
