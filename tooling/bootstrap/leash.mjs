// Preloaded into a program that must not outlive the one that started it: descriptor 3 is a pipe to the starter, and
// its end means that the starter is gone, even by SIGKILL.
import { Socket } from "node:net";

// Forks and threads of the program would preload this too; in a fork, descriptor 3 is something else.
process.execArgv = process.execArgv.filter((arg) => !arg.endsWith("leash.mjs"));

const leash = new Socket({ fd: 3, readable: true, writable: false });
const end = () => process.kill(process.pid, "SIGTERM");
leash.on("end", end);
leash.on("error", end);
leash.resume();
leash.unref();
