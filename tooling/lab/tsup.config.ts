import { application } from "@tooling/build";

/** Built, since the worker programs of the faults are plain JavaScript, which Node runs as it is. */
export default application({ index: "src/index.ts" });
