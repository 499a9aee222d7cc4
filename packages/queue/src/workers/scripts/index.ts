import { defineScript } from "@kit/core";
import presentSource from "./present.lua";

/** Shows that a worker lives, or has left; see `present.lua`. */
export const present = defineScript({
  name: "queue.present",
  source: presentSource,
  keys: ["workers"],
  args: ["worker", "record", "sweeps"],
  idempotent: true,
  reply: Number,
});
