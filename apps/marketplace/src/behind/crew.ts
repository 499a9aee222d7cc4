// Starts the processes beside the web server, restarts those that die, and stops them all.
import { type ChildProcess, fork } from "node:child_process";
import { type FromChild, startLimitMs, type ToChild } from "./member.js";

const restartMs = 1_500;
const stopMs = 1_200;
const eventsKept = 40;

type MemberState = "starting" | "running" | "paused" | "gone";

/** The state of a process, as the web process has it. */
export interface Member {
  readonly name: string;
  readonly program: string;
  readonly pid: number;
  readonly state: MemberState;
  readonly since: number;
  readonly restarts: number;
  /** The last report of the process. */
  readonly status: unknown;
}

export interface CrewEvent {
  readonly at: number;
  readonly text: string;
}

class OneMember {
  readonly name: string;
  readonly program: string;
  readonly task: unknown;
  child: ChildProcess | undefined;
  state: MemberState = "starting";
  since = Date.now();
  restarts = 0;
  status: unknown;
  /** The facts that it sent when it was ready for the first time. */
  facts: unknown;
  restartAfterMs = restartMs;
  timer: NodeJS.Timeout | undefined;
  readonly calls = new Map<number, { resolve: (value: unknown) => void; reject: (error: Error) => void }>();

  constructor(name: string, program: string, task: unknown) {
    this.name = name;
    this.program = program;
    this.task = task;
  }
}

export class Crew {
  readonly #members = new Map<string, OneMember>();
  readonly #events: CrewEvent[] = [];
  #isStopping = false;
  #calls = 0;

  /** Starts a process; resolves with the facts that it sends when ready. A process that dies is restarted. */
  async add<Facts = unknown>(name: string, program: string, task: unknown): Promise<Facts> {
    const member = new OneMember(name, program, task);
    this.#members.set(name, member);
    return (await this.#start(member)) as Facts;
  }

  members(program?: string): Member[] {
    return [...this.#members.values()]
      .filter((member) => program === undefined || member.program === program)
      .map(({ name, program: of, child, state, since, restarts, status }) => ({
        ...{ name, program: of, pid: child?.pid ?? 0, state, since, restarts, status },
      }));
  }

  /** Recent events, the newest first. */
  get events(): readonly CrewEvent[] {
    return this.#events;
  }

  note(text: string): void {
    this.#events.unshift({ at: Date.now(), text });
    this.#events.splice(eventsKept);
  }

  /** Kills a process by SIGKILL and returns its pid. It is restarted `backAfterMs` later. */
  kill(name: string, backAfterMs: number = restartMs): number {
    const member = this.#running(name);
    member.restartAfterMs = backAfterMs;
    const pid = member.child?.pid ?? 0;
    this.note(`${name} (pid ${pid}) was killed`);
    member.child?.kill("SIGKILL");
    return pid;
  }

  /** Sends a process a request and resolves with its answer; rejects if it ends before it answers. */
  async call<Answer>(name: string, what: unknown): Promise<Answer> {
    const member = this.#running(name);
    const call = ++this.#calls;
    return await new Promise<Answer>((resolve, reject) => {
      member.calls.set(call, { resolve: (value) => resolve(value as Answer), reject });
      member.child?.send({ kind: "call", call, what } satisfies ToChild, (error) => {
        if (!error) return;
        member.calls.delete(call);
        reject(error);
      });
    });
  }

  /** Ends every process. The one named `last` ends after the others, since they need it for their own stop. */
  async stop(last: string | null = null): Promise<void> {
    this.#isStopping = true;
    const all = [...this.#members.values()];
    await this.#end(all.filter(({ name }) => name !== last));
    await this.#end(all.filter(({ name }) => name === last));
  }

  async #end(members: readonly OneMember[]): Promise<void> {
    const ended = members.map(
      (member) =>
        new Promise<void>((resolve) => {
          clearTimeout(member.timer);
          const { child } = member;
          if (!child || child.exitCode !== null || child.signalCode !== null) return resolve();
          const timer = setTimeout(() => child.kill("SIGKILL"), stopMs);
          child.once("exit", () => {
            clearTimeout(timer);
            resolve();
          });
          child.send({ kind: "stop" } satisfies ToChild, () => undefined);
          // A process that SIGSTOP has stopped reads the message only when it continues.
          child.kill("SIGCONT");
        }),
    );
    await Promise.all(ended);
  }

  /** Kills every process without waiting. */
  killAll(): void {
    this.#isStopping = true;
    for (const { child, timer } of this.#members.values()) {
      clearTimeout(timer);
      child?.kill("SIGKILL");
    }
  }

  #running(name: string): OneMember {
    const member = this.#members.get(name);
    if (!member || member.state !== "running") throw new Error(`${name} is not running`);
    return member;
  }

  #start(member: OneMember): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const child = fork(new URL(`./${member.program}.js`, import.meta.url), {
        stdio: ["ignore", "ignore", "inherit", "ipc"],
        serialization: "advanced",
      });
      member.child = child;
      member.state = "starting";
      member.since = Date.now();
      member.status = undefined;
      const limit = setTimeout(() => child.kill("SIGKILL"), 2 * startLimitMs);
      child.on("message", (message: FromChild) => {
        if (message.kind === "ready") {
          clearTimeout(limit);
          member.state = "running";
          member.facts ??= message.facts;
          if (member.restarts > 0) this.note(`${member.name} restarted as pid ${child.pid ?? 0}`);
          resolve(message.facts);
        } else if (message.kind === "status") member.status = message.status;
        else {
          member.calls.get(message.call)?.resolve(message.value);
          member.calls.delete(message.call);
        }
      });
      child.once("error", reject);
      child.once("exit", (code, signal) => {
        clearTimeout(limit);
        member.state = "gone";
        member.since = Date.now();
        for (const { reject: giveUp } of member.calls.values()) giveUp(new Error(`${member.name} stopped`));
        member.calls.clear();
        if (this.#isStopping) return;
        if (signal === null) this.note(`${member.name} exited with ${code}`);
        member.restarts++;
        member.timer = setTimeout(() => void this.#start(member).catch(() => undefined), member.restartAfterMs);
        member.restartAfterMs = restartMs;
        reject(new Error(`${member.name} exited at startup (${signal ?? `code ${code}`})`));
      });
      child.send({ kind: "start", task: member.task, before: member.facts } satisfies ToChild, () => undefined);
    });
  }
}
