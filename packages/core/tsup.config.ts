import { library } from "@tooling/build";

export default library(["kernel", "toolkit", "batching", "config", "durable", "leasing", "otel"]);
