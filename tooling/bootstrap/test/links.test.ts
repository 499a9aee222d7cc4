import { basename } from "node:path";
import { expect, it } from "vitest";
import { anchorsOf, brokenLinks, changeLinks, linksOf } from "../checks/links.mjs";
import { tempFolder, writeFiles } from "./temp.js";

it("accepts links to files, folders and headings that exist, and every link to the network", () => {
  const folder = tempFolder();
  writeFiles(folder, {
    "README.md":
      "# Kit\n\n[a](docs/a.md#two-words) [b](./docs) [c](#kit) [d](https://example.org/x) ![e](<docs/a.md>)\n",
    "docs/a.md":
      '## Two words\n\n[up](../README.md "title") <a href="#own"></a><a id="own"></a>\n\n[ref][r]\n\n[r]: ../README.md\n',
  });
  expect(brokenLinks(folder)).toEqual([]);
});

it("names each broken link with its file, line and cause", () => {
  const folder = tempFolder();
  writeFiles(folder, {
    "README.md":
      "# Kit\n\n[a](gone.md)\n[b](docs/a.md#gone)\n[c](#gone)\n[d](/etc/hosts)\n[e](../..)\n\n[r]: lost.md\n",
    "docs/a.md": '# A\n\n```md\n# gone\n```\n\n<img src="no.png">\n',
  });
  expect(brokenLinks(folder)).toEqual([
    "README.md:3: gone.md: no such file",
    "README.md:4: docs/a.md#gone: no such heading",
    "README.md:5: #gone: no such heading",
    "README.md:6: /etc/hosts: is absolute; links are relative to their file",
    "README.md:7: ../..: leads out of the repository",
    "README.md:9: lost.md: no such file",
    "docs/a.md:7: no.png: no such file",
  ]);
});

it("finds no link in code, fenced or inline, nor in a comment", () => {
  const text = "`[a](x.md)` ``b ` [b](x.md)``\n\n```md\n[c](x.md)\n```\n\n<!-- [d](x.md) -->\n\n[e](y.md)\n";
  expect(linksOf(text)).toMatchObject([{ target: "y.md", line: 9 }]);
});

it("finds a picture that is the words of a link, and changes each by itself", () => {
  const text = "[![badge](badge.svg)](LICENSE) and [words](gone.md)\n";
  expect(linksOf(text).map(({ target }) => target)).toEqual(["LICENSE", "gone.md", "badge.svg"]);
  const change = (path: string): string | undefined =>
    path.endsWith(".svg") ? `figures/${basename(path)}` : undefined;
  expect(changeLinks(text, "/folder/README.md", change)).toBe("![badge](figures/badge.svg) and words\n");
});

it("derives anchors as GitHub does", () => {
  const text = "# `using(fn)`, first\n## Räume & Zeit\n## Twice\n## Twice\n## A [link](x.md) here\n";
  expect([...anchorsOf(text)]).toEqual(["usingfn-first", "räume--zeit", "twice", "twice-1", "a-link-here"]);
});
