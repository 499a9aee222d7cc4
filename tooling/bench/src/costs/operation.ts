// The parts of the costs' measurements.
import type { Scene } from "./scene.js";

/** Opened on a scene, with all connections up. */
export interface Opened {
  /** Before each run, unmeasured. */
  readonly prepare?: (count: number) => Promise<unknown>;
  readonly run: (count: number) => Promise<unknown>;
}

/** An operation whose costs are measured. */
export interface CostedOperation {
  readonly package: string;
  readonly name: string;
  readonly about: string;
  /** So many in a measurement: enough that a command of the background does not count. */
  readonly count: number;
  /** How many run it at the same time, each on a scene with a client of its own, in equal parts. @default 1 */
  readonly callers?: number;
  /** @default true */
  readonly isOnCluster?: boolean;
  /** Of the single server. @default 0 */
  readonly replicas?: number;
  readonly open: (scene: Scene) => Promise<Opened>;
}

/** An object whose memory on the server is measured. */
export interface StoredObject {
  readonly package: string;
  readonly name: string;
  readonly about: string;
  readonly count: number;
  /** Stores `count` of them. */
  readonly store: (scene: Scene, count: number) => Promise<unknown>;
}

/** An object that is opened and left alone. */
export interface IdleObject {
  readonly package: string;
  readonly name: string;
  readonly about: string;
  readonly open: (scene: Scene) => Promise<unknown>;
}

/** As many as keep a server awake. Alone, each command wakes it, which takes longer than the command. */
export const manyCallers = 16;

/** One call after the other; each run goes on with the numbers. */
export const oneByOne = (call: (index: number) => Promise<unknown>): Opened["run"] => {
  let next = 0;
  return async (count) => {
    for (let left = count; left > 0; left--) await call(next++);
  };
};

/** In groups that begin at once. */
export const inGroups = (size: number, call: (index: number) => Promise<unknown>): Opened["run"] => {
  let next = 0;
  return async (count) => {
    for (let left = count; left > 0; left -= size)
      await Promise.all(Array.from({ length: Math.min(size, left) }, () => call(next++)));
  };
};
