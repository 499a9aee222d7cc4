// The commands by which an operator looks at the shop's data from another terminal.
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { appFile } from "../common/app-file.js";

export interface RedisFacts {
  /** Without user and password. */
  readonly address: string;
  /** A `kit inspect` command that works as copied; null if the address has a password, or kit is not built here. */
  inspect(thing: string, name: string): string | null;
}

const kit = fileURLToPath(appFile("../../packages/cli/dist/main.js"));

/** Quotes what a shell would take apart. */
const quoted = (word: string): string => (/^[\w./:@%+=-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`);

export const redisFacts = (url: string, prefix: string): RedisFacts => {
  const secret = /^([a-z0-9+.-]+:\/\/)[^/?]*@/i.exec(url);
  const address = secret ? url.replace(secret[0], secret[1] ?? "") : url;
  if (secret || !existsSync(kit)) return { address, inspect: () => null };
  const where = ["--url", url, ...(prefix === "kit" ? [] : ["--prefix", prefix])];
  return { address, inspect: (thing, name) => ["node", kit, "inspect", thing, name, ...where].map(quoted).join(" ") };
};
