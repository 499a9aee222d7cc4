import { readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";

const packages = fileURLToPath(new URL("../../../packages/", import.meta.url));
const sources = readdirSync(packages).flatMap((name) =>
  readdirSync(join(packages, name, "src"), { recursive: true, encoding: "utf8" }).map((path) =>
    join(name, "src", path),
  ),
);
const textOf = (path: string): string => readFileSync(join(packages, path), "utf8");
const scripts = sources.filter((path) => path.endsWith(".lua"));
const code = sources.filter((path) => path.endsWith(".ts")).map((path) => ({ path, text: textOf(path) }));

/** The constants to which `.lua` files are imported. */
const imports = code.flatMap(({ path, text }) =>
  [...text.matchAll(/^import (\w+) from "(\.[^"]+\.lua)";$/gm)].map(([, constant = "", lua = ""]) => ({
    text,
    constant,
    lua: join(dirname(path), lua),
    uses: text.split(new RegExp(`\\b${constant}\\b`)).length - 2,
  })),
);

it("uses every script in one definition, and every library in at least one", () => {
  const wrong = scripts.filter((lua) => {
    const uses = imports.filter((one) => one.lua === lua).reduce((sum, one) => sum + one.uses, 0);
    return /^-- +Defines /m.test(textOf(lua)) ? uses === 0 : uses !== 1;
  });
  expect([wrong, scripts.length > 0]).toEqual([[], true]);
});

const reads =
  /^(?:[HMX]|HM|HSTR|P|Z|S|L|ZREV|XREV|ZLEX|ZM)?(?:GET|GETALL|KEYS|LEN|CARD|COUNT|RANGE|RANGEBY\w+|SCORE|RANK|RANDFIELD|SCAN|EXISTS|TTL|TIME)$/;

it("calls no script readonly that writes", () => {
  const readonly = imports.filter(({ text, constant }) =>
    new RegExp(`source: (?:\\[[^\\]]*\\b${constant},?\\s*\\]|${constant}),[^{}]*?\\breadonly: true`).test(text),
  );
  const wrong = readonly.filter(({ lua }) =>
    [...textOf(lua).matchAll(/redis\.p?call\(\s*['"](\w+)/g)].some(([, command = ""]) => !reads.test(command)),
  );
  expect(readonly).not.toEqual([]);
  expect(wrong.map(({ lua }) => lua)).toEqual([]);
});
