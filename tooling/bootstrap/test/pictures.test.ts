import { existsSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { drawings } from "../pictures/architecture.mjs";
import { bars } from "../pictures/bars.mjs";
import { pictureProblems } from "../pictures/index.mjs";
import { terminal } from "../pictures/terminal.mjs";
import { root } from "../repo.mjs";
import { tempFolder, writeFiles } from "./temp.js";

const folder = join(root, "apps/docs/pictures");

it("finds the stored pictures as their data", () => {
  expect(pictureProblems()).toEqual([]);
});

it("names each picture that is missing or old", () => {
  const other = tempFolder();
  writeFiles(other, { "charts/queue.svg": "<svg/>" });
  const problems = pictureProblems(other).join("\n");
  expect(problems).toMatch(/charts\/queue\.svg is not as its data/);
  expect(problems).toMatch(/drawings\/job\.svg is not as its data/);
});

it("has screenshots that are small enough for a page", () => {
  const shots = readdirSync(folder).filter((name) => name.endsWith(".png"));
  expect(shots.sort()).toEqual(["board-job.png", "board-queue.png", "race.png", "shop.png"]);
  for (const name of shots) expect(statSync(join(folder, name)).size).toBeLessThan(150 * 1_024);
});

describe.each(Object.entries(drawings))("the drawing %s", (_, { size: [width, height], boxes, arrows }) => {
  it("has every box within it, and wide enough for its words", () => {
    for (const { at, size, lines, is } of Object.values(boxes)) {
      const [boxWidth, boxHeight] = size ?? [0, 0];
      expect(at[0] + boxWidth).toBeLessThanOrEqual(width);
      expect(at[1] + boxHeight).toBeLessThanOrEqual(height);
      // The usual fonts need at most so many pixels for a letter.
      const letters = Math.max(...lines.map((line) => line.length));
      expect(letters * 7.2, lines.join()).toBeLessThanOrEqual(is === "words" ? width - at[0] : boxWidth);
    }
  });

  it("has arrows between boxes that there are", () => {
    for (const { from, to } of arrows) expect(Object.keys(boxes)).toEqual(expect.arrayContaining([from[0], to[0]]));
  });
});

it("draws bars in the ratio of their values, and says where there is none", () => {
  const picture = bars(
    "a <b>",
    [
      {
        title: "speed",
        unit: "ms",
        bars: [
          { who: "@kit/a", value: 50, shown: "50" },
          { who: "other", value: 100, shown: "100" },
          { who: "none", value: undefined, shown: "no answer" },
        ],
      },
    ],
    "",
  );
  const widths = [...picture.matchAll(/class="(?:kit|peer)" .*? width="([\d.]+)"/g)].map(([, width]) => Number(width));
  expect(widths).toHaveLength(2);
  expect((widths[1] ?? 0) / (widths[0] ?? 1)).toBeCloseTo(2, 1);
  expect(picture).toContain(">no answer<");
  expect(picture).toContain("a &lt;b&gt;");
});

it("shows a terminal as wide as its longest line", () => {
  const width = (session: string): number => Number(/ width="(\d+)"/.exec(terminal(session))?.[1]);
  expect(width("$ kit list\nshort\n")).toBeLessThan(width(`$ kit list\n${"x".repeat(80)}\n`));
  expect(existsSync(join(folder, "terminal.txt"))).toBe(true);
});
