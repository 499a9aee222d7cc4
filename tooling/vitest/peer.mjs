/**
 * A client of a process that `Peer` of `@tooling/vitest/helpers` starts.
 *
 * @param {{ Cluster: any, Redis: any }} ioredis the caller's own
 * @param {string} mode `cluster`, or anything else for a single server
 * @param {string} ports on the loopback, separated by commas
 * @param {object} login user name and password, if any
 */
export const clientOf = ({ Cluster, Redis }, mode, ports, login) => {
  const nodes = ports.split(",").map((port) => ({ host: "127.0.0.1", port: Number(port) }));
  return mode === "cluster" ? new Cluster(nodes, { redisOptions: login }) : new Redis({ ...nodes[0], ...login });
};

/**
 * Does what the parent says: each command gets the id of its call and its own arguments.
 *
 * @param {Record<string, (id: number, ...args: any[]) => unknown>} commands
 */
export const obey = (commands) => {
  const answer = async ([id, command, ...args]) => {
    try {
      process.send({ id, value: await commands[command](id, ...args) });
    } catch ({ name, code, reason }) {
      process.send({ id, error: { name, code, reason } });
    }
  };
  process.on("message", (order) => void answer(order));
  // An orphan must not outlive its parent.
  process.on("disconnect", () => process.exit());
};
