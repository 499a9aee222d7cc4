import { defineScript } from "@kit/core";
import entriesSource from "../../store/scripts/entries.lua";
import revokedSource from "../../store/scripts/revoked.lua";
import closeNotesSource from "./closeNotes.lua";
import noteSource from "./note.lua";

/** Adds notes to a job, see `note.lua`. Each write has a number, so repeating it is harmless. */
export const note = defineScript({
  name: "queue.note",
  source: [entriesSource, revokedSource, noteSource],
  keys: ["leases", "revoked", "notes"],
  args: ["member", "of", "number", "keepMs", "maxLines", "maxBytes", "progress", "checkpoint", "...lines"],
  idempotent: true,
  reply: (raw): "written" | "lost" | "cancelled" =>
    Number(raw) === 1 ? "written" : Number(raw) === 0 ? "lost" : "cancelled",
});

/** Deletes the checkpoint of a finished job, and shortens the expiry of its other notes. */
export const closeNotes = defineScript({
  name: "queue.closeNotes",
  source: closeNotesSource,
  keys: ["notes"],
  args: ["of", "keepMs"],
  idempotent: true,
  reply: Number,
});
