export { jobs } from "../queue/jobs.js";
