import { readFileSync, writeFileSync } from "node:fs";

interface Block {
  readonly language: string;
  readonly text: string;
}

/** A block to be typed, under the heading that names the step. */
export interface Step {
  readonly name: string;
  readonly code: string;
  /** The output that the page shows; `…` in a line stands for anything. */
  readonly shows: string | undefined;
}

/**
 * A runbook, parsed, so that the tests execute the page itself and not a copy: under each heading there is at most one
 * block of a language (`sh` is typed, `conf` goes into a configuration file, `text` is the expected output).
 */
export class Page {
  readonly #file: URL;
  readonly #sections: ReadonlyMap<string, readonly Block[]>;
  readonly #tried: Set<string> = new Set(["Settings"]);

  constructor(name: string) {
    this.#file = new URL(`../runbooks/${name}`, import.meta.url);
    this.#sections = sectionsOf(readFileSync(this.#file, "utf8"));
  }

  /** The block that an operator adapts before anything else. */
  get settings(): string {
    return this.#block("Settings", "sh");
  }

  step(name: string): Step {
    const code = this.#block(name, "sh");
    this.#tried.add(name);
    return { name, code, shows: this.#sections.get(name)?.find(({ language }) => language === "text")?.text };
  }

  conf(name: string): string {
    return this.#block(name, "conf");
  }

  /** Steps that no test used. */
  get untried(): string[] {
    const steps = [...this.#sections].filter(([, blocks]) => blocks.some(({ language }) => language === "sh"));
    return steps.map(([name]) => name).filter((name) => !this.#tried.has(name));
  }

  /**
   * The table of figures of that name: rewritten with `KIT_FIGURES=write`, otherwise read, so that a test can compare
   * it with a run.
   */
  figures(name: string, measured: readonly (readonly string[])[]): string[][] {
    const text = readFileSync(this.#file, "utf8");
    const table = new RegExp(`(<!-- figures: ${name} -->\n)(.*?)(\n<!-- end -->)`, "s");
    const found = table.exec(text);
    if (!found) throw new Error(`${this.#file.pathname} has no table of figures "${name}"`);
    if (process.env["KIT_FIGURES"] === "write") {
      const [head = [], ...rows] = measured;
      const lines = [head, head.map(() => "---"), ...rows].map((cells) => `| ${cells.join(" | ")} |`);
      writeFileSync(
        this.#file,
        text.replace(table, (_, open: string, __, close: string) => `${open}\n${lines.join("\n")}\n${close}`),
      );
      return measured.map((cells) => [...cells]);
    }
    const lines = (found[2] ?? "").trim().split("\n");
    return [...lines.slice(0, 1), ...lines.slice(2)].map((line) =>
      line
        .split("|")
        .slice(1, -1)
        .map((cell) => cell.trim()),
    );
  }

  #block(name: string, language: string): string {
    const blocks = (this.#sections.get(name) ?? []).filter((block) => block.language === language);
    if (blocks.length !== 1) {
      throw new Error(`${this.#file.pathname} has ${blocks.length} blocks of ${language} under "${name}"`);
    }
    return blocks[0]?.text ?? "";
  }
}

const sectionsOf = (markdown: string): Map<string, Block[]> => {
  const sections = new Map<string, Block[]>();
  let current: Block[] = [];
  for (const [, heading, language = "", text = ""] of markdown.matchAll(/^#+ ([^\n]+)$|^```(\w+)\n(.*?)^```$/gms)) {
    if (heading === undefined) current.push({ language, text });
    else if (sections.has(heading)) throw new Error(`Two headings "${heading}"`);
    else sections.set(heading, (current = []));
  }
  return sections;
};
