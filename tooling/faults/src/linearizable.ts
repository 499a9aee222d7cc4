/** A sequential model of an object. */
export interface Model<State, Call> {
  readonly initial: State;
  /** The state after this call, or undefined if the call is impossible in this state. */
  step(state: State, call: Call): State | undefined;
  /** Equal for equal states, and for those only. */
  key(state: State): string;
}

/** One call with its result, and the span in which it took effect. */
export interface Operation<Call> {
  readonly call: Call;
  readonly startedAt: number;
  /** Infinity if the outcome is unknown, so that it may still take effect. */
  readonly endedAt: number;
}

/** The result of the search. */
export interface Linearizability {
  /** Undefined if undecided within `mostSteps`. */
  readonly isLinearizable: boolean | undefined;
  readonly steps: number;
}

interface Event {
  readonly at: number;
  readonly operation: number;
  readonly isStart: boolean;
}

const eventsOf = <Call>(operations: readonly Operation<Call>[]): Event[] =>
  operations
    .flatMap(({ startedAt, endedAt }, operation): Event[] => [
      { at: startedAt, operation, isStart: true },
      ...(endedAt === Infinity ? [] : [{ at: endedAt, operation, isStart: false }]),
    ])
    // A call that begins at the instant at which another ends may have come first.
    .toSorted((a, b) => a.at - b.at || Number(b.isStart) - Number(a.isStart));

/** The events in order. Any can be removed and put back in its place. */
class EventList {
  readonly events: readonly Event[];
  readonly #next: Int32Array;
  readonly #previous: Int32Array;
  readonly #ends: Int32Array;

  constructor(events: readonly Event[], operations: number) {
    this.events = events;
    // The last index is head and tail: the list is a ring.
    const ring = events.length + 1;
    this.#next = Int32Array.from({ length: ring }, (_, index) => (index + 1) % ring);
    this.#previous = Int32Array.from({ length: ring }, (_, index) => (index + ring - 1) % ring);
    this.#ends = new Int32Array(operations).fill(-1);
    for (const [index, { operation, isStart }] of events.entries()) if (!isStart) this.#ends[operation] = index;
  }

  get first(): number {
    return this.after(this.events.length);
  }

  after(index: number): number {
    return this.#next[index] ?? 0;
  }

  /** Removes the start at `index` and its end. */
  takeOut(index: number): void {
    this.#unlink(index);
    const end = this.#ends[this.events[index]?.operation ?? 0] ?? -1;
    if (end >= 0) this.#unlink(end);
  }

  /** Undoes the last `takeOut` that is not yet undone. */
  putBack(index: number): void {
    const end = this.#ends[this.events[index]?.operation ?? 0] ?? -1;
    if (end >= 0) this.#link(end);
    this.#link(index);
  }

  #unlink(index: number): void {
    this.#next[this.#previous[index] ?? 0] = this.#next[index] ?? 0;
    this.#previous[this.#next[index] ?? 0] = this.#previous[index] ?? 0;
  }

  #link(index: number): void {
    this.#next[this.#previous[index] ?? 0] = index;
    this.#previous[this.#next[index] ?? 0] = index;
  }
}

/**
 * Whether the model allows some order of the calls in which each lies within its own span. A call of unknown end may take
 * effect at any time after its start, or never.
 *
 * The search is that of Wing and Gong, which tries each possible next call and backtracks. It uses Lowe's cache of
 * visited configurations (finished calls and state). Its time is exponential in the number of overlapping calls, so
 * histories should be split by object first.
 */
export const linearizable = <State, Call>(
  model: Model<State, Call>,
  operations: readonly Operation<Call>[],
  mostSteps = 1_000_000,
): Linearizability => {
  const list = new EventList(eventsOf(operations), operations.length);
  const { events } = list;
  const done = new Uint32Array((operations.length + 31) >> 5);
  const flip = (operation: number): void => {
    done[operation >> 5] = (done[operation >> 5] ?? 0) ^ (1 << (operation & 31));
  };
  const seen = new Set<string>();
  const path: { readonly index: number; readonly before: State }[] = [];
  let mustEnd = operations.filter(({ endedAt }) => endedAt !== Infinity).length;
  const isClosed = (operation: number): boolean => operations[operation]?.endedAt !== Infinity;

  let state = model.initial;
  let index = list.first;
  let steps = 0;
  while (mustEnd > 0) {
    if (++steps > mostSteps) return { isLinearizable: undefined, steps };
    const event = events[index];
    const operation = event?.operation ?? 0;
    const current = operations[operation];
    if (event?.isStart && current) {
      const after = model.step(state, current.call);
      if (after !== undefined) {
        flip(operation);
        const place = `${done.join()} ${model.key(after)}`;
        if (!seen.has(place)) {
          seen.add(place);
          path.push({ index, before: state });
          state = after;
          if (isClosed(operation)) mustEnd--;
          list.takeOut(index);
          index = list.first;
          continue;
        }
        flip(operation);
      }
      index = list.after(index);
      continue;
    }
    // Either this is the end of a call that is not done, or no call is left to try. So the last choice was wrong.
    const last = path.pop();
    if (!last) return { isLinearizable: false, steps };
    const undone = events[last.index]?.operation ?? 0;
    state = last.before;
    flip(undone);
    if (isClosed(undone)) mustEnd++;
    list.putBack(last.index);
    index = list.after(last.index);
  }
  return { isLinearizable: true, steps };
};
