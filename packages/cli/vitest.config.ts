import { preset } from "@tooling/vitest";

// The folder that the programs of a file are started in goes when the file is through.
export default preset({ isolate: true });
