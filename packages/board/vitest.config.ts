import { preset } from "@tooling/vitest";

// The style sheet is a text that the board serves; Vitest would empty it.
export default preset({ css: { include: /\.css/ } });
