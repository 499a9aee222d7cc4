// A library with one set of settings, behind the small interface of its package's benchmarks.

import type { ClientName } from "@tooling/lab";
import { type Connect, connectOf } from "./clients.js";

/** As the parent process knows it. */
export interface Implementation {
  /** Unique. */
  readonly id: string;
  /** The id that the worker process opens, if it is another one. */
  readonly opens?: string;
  /** Another checkout, whose builds of our packages the worker process loads. */
  readonly checkout?: string;
  /** The client of Redis on which our packages run. @default "ioredis" */
  readonly client?: ClientName;
  /** `kit`, `floor`, or `<name@version>`. Several implementations of one peer differ in their settings. */
  readonly peer: string;
  /** Whether the settings are the peer's own defaults, as far as the case can be run with them at all. */
  readonly isDefaults: boolean;
  readonly settings: string;
}

/** As it stands in the list of a package. A library is loaded only when it is opened. */
export interface Definition<Opened, Setup = void> {
  readonly id: string;
  /** @default the id */
  readonly peer?: string;
  /** @default false */
  readonly isDefaults?: boolean;
  readonly settings: string | ((setup: Setup) => string);
  /** `connect`: makes the client that our packages are given; `urlsBeside`: of further servers, if the case has them. */
  readonly open: (
    url: string,
    setup: Setup,
    connect: Connect,
    urlsBeside: readonly string[],
  ) => Opened | Promise<Opened>;
}

/** The implementations of a package. */
export interface Catalog<Opened, Setup> {
  /** Those of a case, which are opened with `setup`: for the parent process. */
  pick(ids: readonly string[], setup: Setup): { readonly implementations: Implementation[]; readonly setup: Setup };
  /** Opens one in a client process. */
  open(opening: {
    readonly implementation: string;
    readonly url: string;
    readonly urlsBeside: readonly string[];
    readonly setup: unknown;
    readonly client?: ClientName | undefined;
  }): Promise<Opened>;
}

export const catalogOf = <Opened, Setup = void>(
  definitions: readonly Definition<Opened, Setup>[],
): Catalog<Opened, Setup> => {
  const find = (id: string): Definition<Opened, Setup> => {
    const found = definitions.find((one) => one.id === id);
    if (!found) throw new Error(`There is no implementation ${id}`);
    return found;
  };
  const implementationOf = (id: string, setup: Setup): Implementation => {
    const { peer = id, isDefaults = false, settings } = find(id);
    return { id, peer, isDefaults, settings: typeof settings === "string" ? settings : settings(setup) };
  };
  return {
    pick: (ids, setup) => ({ implementations: ids.map((id) => implementationOf(id, setup)), setup }),
    open: async ({ implementation, url, urlsBeside, setup, client }) =>
      await find(implementation).open(url, setup as Setup, connectOf(client), urlsBeside),
  };
};
