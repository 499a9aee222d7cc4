// Starts a server, says where it is, and ends in the way asked for without ever stopping it.
import { startRedis } from "@kit/testing";

const server = await startRedis();
const [, dir] = await server.call("CONFIG", "GET", "dir");
process.stdout.write(`${JSON.stringify({ port: server.nodes[0].port, dir })}\n`);

const ending = process.argv[2];
if (ending === "exit") process.exit(3);
if (ending === "throw") setImmediate(() => void Promise.reject(new Error("as asked")));
if (ending === "handled") process.on("SIGTERM", () => process.exit(7));
if (ending.startsWith("SIG") || ending === "handled") setInterval(() => {}, 1_000);
