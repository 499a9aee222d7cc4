import { describe } from "vitest";
import type { Login } from "./acl.js";

/** The users of a suite, by mode. Without one, the suite connects as the server's default user. */
interface Logins {
  readonly single?: Login;
  readonly cluster?: Login;
  /** See `onNodeRedis`. A suite without this login is left out of `npm run matrix -- node-redis`. */
  readonly nodeRedis?: Login;
}

/**
 * Runs a suite on a single server, then on a Cluster. `npm run matrix -- node-redis` runs it on a single server with a
 * client of node-redis instead. To run one mode alone, filter by the words that the suite puts into its name.
 */
export const inModes = (
  { single, cluster, nodeRedis }: Logins,
  suite: (mode: "single" | "cluster", login?: Login) => void,
): void => {
  if (process.env["KIT_TEST_CLIENT"] === "node-redis") {
    describe("on a client of node-redis:", () => {
      suite("single", nodeRedis);
    });
    return;
  }
  suite("single", single);
  suite("cluster", cluster);
};
