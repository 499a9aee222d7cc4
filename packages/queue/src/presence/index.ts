export { Presence, type WorkerNow } from "./presence.js";
