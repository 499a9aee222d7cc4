import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { builtWith, type Mutations } from "../lab/control.js";

interface RotationControl {
  readonly name: string;
  readonly lua?: Mutations;
  /** A text of the built package, and what replaces it. */
  readonly patch?: readonly [text: string, other: string];
}

/** Deliberate faults of the package, which a run must report. */
export const controls: readonly RotationControl[] = [
  {
    // A file is claimed by what the directory said of it, and another one may be read: it has the name by then.
    name: "identity-before-read",
    patch: [
      "was.id === file.id && bornOf(was.stamp) === bornOf(file.stamp)",
      "(await new Promise((resolve) => setTimeout(resolve, 20 * Math.random())), true)",
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
  if (!control.patch) return url;
  const [text, other] = control.patch;
  const built = readFileSync(fileURLToPath(url), "utf8");
  if (!built.includes(text)) throw new Error(`The built package has no "${text}"`);
  writeFileSync(
    fileURLToPath(url),
    built.replace(text, () => other),
  );
  return url;
};
