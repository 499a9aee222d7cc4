/** A model of the callers of a lock of several names, without Redis: every rule in its plainest form, and nothing else. */

export type Action =
  | { readonly do: "acquire" | "try"; readonly who: number; readonly names: readonly string[] }
  | { readonly do: "release" | "abort"; readonly who: number };

/** One command that a caller sends next. */
type Command = { readonly send: "try" | "queue" | "free"; readonly name: string } | { readonly send: "leave" };

interface Caller {
  /** In the order in which they are taken. */
  readonly names: readonly string[];
  readonly isTry: boolean;
  /** Its names from the front that it keeps. */
  kept: number;
  /** Names that a try has taken, and whether one before them was not free. */
  taken: string[];
  refused: string | undefined;
  /** The commands that it sends next, in this order. */
  commands: Command[];
  isLeaving: boolean;
}

interface State {
  readonly holders: Record<string, number | undefined>;
  readonly queues: Record<string, number[]>;
  readonly callers: Record<number, Caller>;
}

interface Row {
  readonly name: string;
  readonly holder: number | undefined;
  readonly queue: readonly number[];
}

/** Makes the caller try all names that it does not keep. */
const begin = (caller: Caller): void => {
  caller.taken = [];
  caller.refused = undefined;
  caller.commands = caller.names.slice(caller.kept).map((name) => ({ send: "try", name }));
};

const free = (names: readonly string[]): Command[] => names.map((name) => ({ send: "free", name }));

/** After the last try: all of them, or the wait for the first that was not free. */
const conclude = (caller: Caller): void => {
  const { refused, taken } = caller;
  if (refused === undefined) caller.kept = caller.names.length;
  else if (caller.isTry) {
    caller.isLeaving = true;
    caller.commands = free(taken);
  } else {
    caller.kept = caller.names.indexOf(refused);
    const behind = taken.filter((name) => caller.names.indexOf(name) > caller.kept);
    caller.commands = [...free(behind), { send: "queue", name: refused }];
  }
};

/** The state after the next command of a caller. */
const afterCommand = (before: State, who: number): State => {
  const state = structuredClone(before);
  const { holders, queues, callers } = state;
  const caller = callers[who]!;
  const command = caller.commands.shift()!;
  if (command.send === "leave") for (const queue of Object.values(queues)) remove(queue, who);
  else {
    const { name } = command;
    const queue = queues[name]!;
    const isFree = holders[name] === undefined && queue.length === 0;
    if (command.send === "free") {
      const next = queue.shift();
      holders[name] = next;
      if (next !== undefined) {
        callers[next]!.kept++;
        begin(callers[next]!);
        if (callers[next]!.commands.length === 0) conclude(callers[next]!);
      }
    } else if (command.send === "try") {
      if (isFree) {
        holders[name] = who;
        caller.taken.push(name);
      } else caller.refused ??= name;
      if (caller.commands.length === 0) conclude(caller);
    } else if (isFree) {
      holders[name] = who;
      caller.kept++;
      begin(caller);
      if (caller.commands.length === 0) conclude(caller);
    } else queue.push(who);
  }
  if (caller.isLeaving && caller.commands.length === 0) delete callers[who];
  return state;
};

const remove = (queue: number[], who: number): void => {
  const at = queue.indexOf(who);
  if (at >= 0) queue.splice(at, 1);
};

export class Model {
  readonly #names: readonly string[];
  #state: State;

  constructor(names: readonly string[]) {
    this.#names = names;
    this.#state = {
      holders: {},
      queues: Object.fromEntries(names.map((name) => [name, []])),
      callers: {},
    };
  }

  /** A state as text: for each name its holder and its queue, and the callers that hold all of their names. */
  static show(rows: readonly Row[], done: readonly number[]): string {
    const shown = rows.map(({ name, holder, queue }) => `${name}: ${String(holder ?? "-")} [${queue.join(" ")}]`);
    return `${shown.join(", ")}; done: ${done.toSorted((one, other) => one - other).join(" ")}`;
  }

  get state(): string {
    return this.#show(this.#state);
  }

  /** The states that may be the end of an action: callers send their commands independently of each other. */
  after(action: Action): Map<string, State> {
    const begun = structuredClone(this.#state);
    if (action.do === "acquire" || action.do === "try") {
      const names = action.names.toSorted();
      const caller: Caller = {
        names,
        isTry: action.do === "try",
        kept: 0,
        taken: [],
        refused: undefined,
        commands: [],
        isLeaving: false,
      };
      begin(caller);
      begun.callers[action.who] = caller;
    } else {
      const caller = begun.callers[action.who]!;
      const own = free(caller.names.slice(0, caller.kept));
      caller.commands = action.do === "abort" ? [{ send: "leave" }, ...own] : own;
      caller.isLeaving = true;
      if (caller.commands.length === 0) delete begun.callers[action.who];
    }
    const ends = new Map<string, State>();
    const seen = new Set<string>();
    const open = [begun];
    for (let state = open.pop(); state; state = open.pop()) {
      const text = JSON.stringify(state);
      if (seen.has(text)) continue;
      seen.add(text);
      const busy = Object.keys(state.callers)
        .map(Number)
        .filter((who) => state.callers[who]!.commands.length > 0);
      if (busy.length === 0) ends.set(this.#show(state), state);
      for (const who of busy) open.push(afterCommand(state, who));
    }
    return ends;
  }

  go(state: State): void {
    this.#state = state;
  }

  #show({ holders, queues, callers }: State): string {
    const rows = this.#names.map((name) => ({ name, holder: holders[name], queue: queues[name]! }));
    const done = Object.keys(callers).map(Number);
    return Model.show(
      rows,
      done.filter((who) => callers[who]!.kept === callers[who]!.names.length),
    );
  }
}
