import { defineScript } from "@kit/core";
import listenSource from "./listen.lua";

/** Lets events be recorded for a time. Replies with the id of the last entry. */
export const listen = defineScript({
  name: "queue.listen",
  source: listenSource,
  keys: ["limits", "events"],
  args: ["recordMs"],
  idempotent: true,
  reply: String,
});
