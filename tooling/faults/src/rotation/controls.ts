import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { builtWith, type Mutations } from "../lab/control.js";

interface RotationControl {
  readonly name: string;
  readonly lua?: Mutations;
  /** Texts of the built package, and what replaces each. */
  readonly patches?: readonly (readonly [text: string, other: string])[];
}

/** Deliberate faults of the package, which a run must report. */
export const controls: readonly RotationControl[] = [
  {
    // What is read is opened by its name after the file of that name was identified, so it may be the next one.
    name: "identity-before-read",
    patches: [
      ["was.id === file.id && bornOf(was.stamp) === bornOf(file.stamp)", "true"],
      [
        "return await this.#process(file, claimed, opened, run);",
        "await new Promise((resolve) => setTimeout(resolve, 100)); const next = await OpenFile.open(listed.file, true); if (next) { await opened.close(); opened = next; } return await this.#process(file, claimed, opened, run);",
      ],
    ],
  },
  {
    name: "position-reset",
    lua: {
      "claim(progress, file)":
        "if redis.call('HEXISTS', progress, file .. ':position') == 1 then redis.call('HSET', progress, file .. ':position', '0:0:0:0') end",
    },
  },
];

/** The module that the readers import: the package as it is, or with a fault. */
export const subjectOf = (name: string | undefined): string => {
  const control = controls.find((one) => one.name === name);
  if (!control) return "@kit/logship";
  const url = builtWith(`rotation-${control.name}`, "@kit/logship", control.lua ?? {});
  const path = fileURLToPath(url);
  for (const [text, other] of control.patches ?? []) {
    const built = readFileSync(path, "utf8");
    if (!built.includes(text)) throw new Error(`The built package has no "${text}"`);
    writeFileSync(
      path,
      built.replace(text, () => other),
    );
  }
  return url;
};
