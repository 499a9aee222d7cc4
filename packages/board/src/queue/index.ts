export { jobPage } from "./job.js";
export { queuePage } from "./queue.js";
