// Preloaded into a program that must not outlive its parent. Descriptor 3 is a pipe to the parent; its end means that the
// parent has ended, even by SIGKILL.
import { Socket } from "node:net";

// Without this, forks and threads of the program would preload this file. In a fork, descriptor 3 is not the pipe.
process.execArgv = process.execArgv.filter((arg) => !arg.endsWith("leash.mjs"));

const leash = new Socket({ fd: 3, readable: true, writable: false });
const end = () => process.kill(process.pid, "SIGTERM");
leash.on("end", end);
leash.on("error", end);
leash.resume();
leash.unref();
