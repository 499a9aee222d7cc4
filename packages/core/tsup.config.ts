import { library } from "@tooling/build";

export default library(["config", "durable", "leasing", "otel"]);
