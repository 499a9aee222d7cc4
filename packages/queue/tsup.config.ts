import { library } from "@tooling/build";

export default library(["presence", "thread", "store/grouped", "below", "slices", "dead", "waits"]);
