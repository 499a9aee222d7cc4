// Draws the picture of an item from its id: a still life on a table, with one motif per category. It is code and no
// file, since each motif takes its measures from the id: no two items look alike. The content policy forbids inline
// styles, so only presentation attributes are used.
import { random, type Random, seedOf } from "../seed/random.js";

interface Colours {
  readonly wall: string;
  readonly table: string;
  readonly dark: string;
  readonly main: string;
  readonly light: string;
  readonly accent: string;
}

type Palette = readonly [Colours, ...Colours[]];

const colours = (wall: string, table: string, dark: string, main: string, light: string, accent: string): Colours => ({
  wall,
  table,
  dark,
  main,
  light,
  accent,
});

const palette: Palette = [
  colours("#e9e1d3", "#cdbb9c", "#3b3530", "#a4583c", "#f4ead8", "#2f6f6b"),
  colours("#dbe5e3", "#9fb8b4", "#23393a", "#2f7a78", "#eef5f2", "#d08a3e"),
  colours("#e8dcdc", "#c9a8a5", "#43292c", "#9c4450", "#f6ebe8", "#3e5c76"),
  colours("#dfe3ec", "#a9b4cc", "#262f47", "#4a62a0", "#eff2f8", "#d9a441"),
  colours("#e6e6d6", "#b9bd93", "#33381f", "#6c7a34", "#f3f3e2", "#b0563a"),
  colours("#eadfce", "#d2a96f", "#46331c", "#c07d2c", "#f8efdd", "#44637a"),
  colours("#e2dde8", "#b3a5c4", "#332a44", "#74598f", "#f1ecf5", "#c9873a"),
  colours("#d9e2dc", "#94ab9c", "#1f3329", "#3b7257", "#eaf2ec", "#c9694a"),
];

const el = (name: string, attributes: Record<string, string | number>, inside = ""): string => {
  const written = Object.entries(attributes).map(([key, value]) => ` ${key}="${value}"`);
  return inside === "" ? `<${name}${written.join("")}/>` : `<${name}${written.join("")}>${inside}</${name}>`;
};
const rect = (x: number, y: number, width: number, height: number, fill: string, rx = 0): string =>
  el("rect", { x, y, width, height, fill, rx });
const circle = (cx: number, cy: number, r: number, fill: string): string => el("circle", { cx, cy, r, fill });
const ellipse = (cx: number, cy: number, rx: number, ry: number, fill: string): string =>
  el("ellipse", { cx, cy, rx, ry, fill });
const path = (d: string, fill: string): string => el("path", { d, fill });
const stroke = (d: string, colour: string, width: number): string =>
  el("path", {
    d,
    fill: "none",
    stroke: colour,
    "stroke-width": width,
    "stroke-linecap": "round",
    "stroke-linejoin": "round",
  });
const ring = (cx: number, cy: number, r: number, colour: string, width: number): string =>
  el("circle", { cx, cy, r, fill: "none", stroke: colour, "stroke-width": width });
const at = (cx: number, cy: number, r: number, turn: number): string =>
  `${(cx + r * Math.sin(turn)).toFixed(1)} ${(cy - r * Math.cos(turn)).toFixed(1)}`;
const marks = (
  cx: number,
  cy: number,
  from: number,
  to: number,
  count: number,
  colour: string,
  width: number,
): string =>
  stroke(
    Array.from({ length: count }, (_, n) => {
      const turn = (n / count) * 2 * Math.PI;
      return `M${at(cx, cy, from, turn)}L${at(cx, cy, to, turn)}`;
    }).join(""),
    colour,
    width,
  );

/** Draws one thing on the table (y = 236), around x = 200. */
type Motif = (c: Colours, chance: Random) => string;

const motifs: Readonly<Record<string, Motif>> = {
  instruments: (c, chance) => {
    const needle = chance.next() * 2 * Math.PI;
    return [
      path("M150 236 L164 206 H236 L250 236 Z", c.dark),
      circle(200, 138, 84, c.dark),
      circle(200, 138, 76, c.main),
      circle(200, 138, 62, c.light),
      marks(200, 138, 50, 57, 36, c.dark, 2),
      marks(200, 138, 44, 57, 4, c.dark, 4),
      path(
        `M${at(200, 138, 46, needle)}L${at(200, 138, 9, needle + 1.57)}L${at(200, 138, 9, needle - 1.57)}Z`,
        c.accent,
      ),
      path(
        `M${at(200, 138, 46, needle + Math.PI)}L${at(200, 138, 9, needle + 1.57)}L${at(200, 138, 9, needle - 1.57)}Z`,
        c.dark,
      ),
      circle(200, 138, 6, c.light),
    ].join("");
  },
  cameras: (c, chance) => {
    const tall = chance.next() < 0.35;
    const y = tall ? 84 : 122;
    return [
      tall ? rect(160, 64, 80, 26, c.dark, 6) : rect(172, 100, 56, 26, c.dark, 5),
      rect(tall ? 140 : 104, y, tall ? 120 : 192, 236 - y, c.dark, 12),
      rect(tall ? 140 : 104, y + 34, tall ? 120 : 192, 236 - y - 58, c.main),
      rect(tall ? 156 : 118, y - 8, 30, 10, c.dark, 4),
      tall ? circle(200, 118, 26, c.light) + circle(200, 118, 19, c.dark) + circle(193, 111, 6, c.light) : "",
      circle(200, 184, 42, c.dark),
      circle(200, 184, 35, c.light),
      circle(200, 184, 26, c.dark),
      circle(200, 184, 15, c.accent),
      circle(191, 175, 6, c.light),
      tall ? "" : rect(252, 132, 28, 16, c.light, 3),
    ].join("");
  },
  clocks: (c, chance) => {
    const [hour, minute] = [chance.next() * 6.28, chance.next() * 6.28];
    const round = chance.next() < 0.5;
    return [
      round
        ? path("M124 236 V150 A76 76 0 0 1 276 150 V236 Z", c.main)
        : path("M120 236 V116 L200 66 L280 116 V236 Z", c.main),
      rect(108, 224, 184, 12, c.dark, 3),
      circle(200, 152, 58, c.dark),
      circle(200, 152, 51, c.light),
      marks(200, 152, 40, 46, 12, c.dark, 3),
      stroke(`M200 152L${at(200, 152, 26, hour)}`, c.dark, 6),
      stroke(`M200 152L${at(200, 152, 38, minute)}`, c.dark, 4),
      circle(200, 152, 5, c.accent),
    ].join("");
  },
  ceramics: (c, chance) => {
    const belly = chance.between(62, 92);
    const neck = chance.between(20, 34);
    const top = chance.between(70, 112);
    const side = (sign: number, w: number): string => String(200 + sign * w);
    const shape = `M${side(-1, neck)} ${top} C${side(-1, neck)} ${top + 44} ${side(-1, belly + 22)} 130 ${side(-1, belly)} 184 C${side(-1, belly - 12)} 222 ${side(-1, 44)} 230 ${side(-1, 38)} 236 H${side(1, 38)} C${side(1, 44)} 230 ${side(1, belly - 12)} 222 ${side(1, belly)} 184 C${side(1, belly + 22)} 130 ${side(1, neck)} ${top + 44} ${side(1, neck)} ${top} Z`;
    const band = chance.between(158, 190);
    const handle = chance.next() < 0.5;
    return [
      handle
        ? stroke(
            `M${200 + neck} ${top + 22} C${230 + belly} ${top + 10} ${236 + belly} 190 ${196 + belly} 186`,
            c.dark,
            11,
          )
        : "",
      el("clipPath", { id: "pot" }, path(shape, "#000")),
      path(shape, c.main),
      el(
        "g",
        { "clip-path": "url(#pot)" },
        rect(80, band, 240, 9, c.light) +
          rect(80, band + 16, 240, 4, c.light) +
          ellipse(150, 150, 20, 60, c.light).replace("/>", ' opacity=".18"/>'),
      ),
      ellipse(200, top, neck, 8, c.dark),
    ].join("");
  },
  lamps: (c, chance) => {
    const width = chance.between(66, 96);
    const glow = `<radialGradient id="glow"><stop offset="0" stop-color="#fff6d8" stop-opacity=".95"/><stop offset="1" stop-color="#fff6d8" stop-opacity="0"/></radialGradient>`;
    const shade =
      chance.next() < 0.5
        ? `M${200 - width * 0.55} 78 H${200 + width * 0.55} L${200 + width} 148 H${200 - width} Z`
        : `M${200 - width} 148 A${width} 76 0 0 1 ${200 + width} 148 Z`;
    return [
      glow,
      circle(200, 164, 128, "url(#glow)"),
      rect(195, 140, 10, 90, c.dark),
      ellipse(200, 160, 16, 18, "#fff3c9"),
      path(shade, c.main),
      rect(200 - width, 144, width * 2, 7, c.accent, 3),
      path("M148 236 C152 222 176 218 200 218 C224 218 248 222 252 236 Z", c.dark),
    ].join("");
  },
  chairs: (c, chance) => {
    const back = chance.between(64, 96);
    const slats = chance.between(2, 4);
    const bars = Array.from({ length: slats }, (_, n) =>
      rect(150, back + 14 + (n * (150 - back)) / slats, 100, 11, c.main, 5),
    );
    return [
      stroke(`M148 236 L146 ${back}`, c.dark, 11),
      stroke(`M252 236 L254 ${back}`, c.dark, 11),
      ...bars,
      stroke("M152 206 H248", c.dark, 6),
      path("M132 172 H268 L276 190 H124 Z", c.accent),
      rect(124, 188, 152, 8, c.dark, 4),
      stroke("M132 236 V196 M268 236 V196", c.dark, 11),
    ].join("");
  },
  books: (c, chance) => {
    const inks = chance.shuffle([c.main, c.dark, c.accent, c.main]);
    let y = 236;
    const pile = inks.map((ink) => {
      const height = chance.between(22, 34);
      const width = chance.between(150, 196);
      const x = 200 - width / 2 + chance.between(-14, 14);
      y -= height;
      return [
        rect(x, y, width, height, ink, 4),
        rect(x + width - 12, y + 4, 12, height - 8, c.light),
        rect(x + 16, y, 6, height, c.light).replace("/>", ' opacity=".55"/>'),
        rect(x + 46, y + height / 2 - 2, chance.between(40, 70), 4, c.light, 2).replace("/>", ' opacity=".8"/>'),
      ].join("");
    });
    return pile.join("");
  },
  records: (c, chance) =>
    [
      circle(246, 148, 84, c.dark),
      ring(246, 148, 70, c.main, 1),
      ring(246, 148, 60, c.main, 1),
      ring(246, 148, 50, c.main, 1),
      circle(246, 148, 28, c.accent),
      circle(246, 148, 5, c.light),
      rect(94, 64, 170, 172, c.main, 3),
      ...Array.from({ length: 5 }, (_, n) => {
        const size = 64 - n * 13;
        return circle(179 + (chance.next() - 0.5) * 10, 150, size, n % 2 === 0 ? c.light : c.accent);
      }),
      rect(110, 80, chance.between(50, 90), 7, c.light, 3),
    ].join(""),
  bicycles: (c, chance) => {
    const spokes = chance.between(10, 16);
    const wheel = (x: number): string =>
      [ring(x, 182, 52, c.dark, 7), marks(x, 182, 6, 48, spokes, c.dark, 1), circle(x, 182, 6, c.dark)].join("");
    return [
      wheel(118),
      wheel(284),
      stroke("M118 182 L164 118 H252 L196 184 Z M164 118 L196 184 M118 182 H196 M252 118 L284 182", c.main, 8),
      stroke("M158 108 L168 126 M246 96 L254 124", c.dark, 6),
      stroke("M144 106 H174", c.dark, 10),
      stroke("M246 96 H272 C284 96 284 112 274 112", c.accent, 7),
      circle(196, 184, 12, c.dark),
      circle(196, 184, 5, c.light),
    ].join("");
  },
  textiles: (c, chance) => {
    const rows = chance.between(5, 7);
    const inks = [c.light, c.accent, c.dark, c.light];
    const bands = Array.from({ length: rows }, (_, n) => {
      const y = 78 + (n * 138) / rows;
      const ink = inks[n % inks.length] ?? c.light;
      if (n % 2 === 0) return rect(112, y, 176, chance.between(5, 12), ink);
      const teeth = Array.from({ length: 8 }, (_, t) => `L${123 + t * 22} ${y + (t % 2 === 0 ? 14 : 0)}`).join("");
      return stroke(`M112 ${y}${teeth}L288 ${y}`, ink, 5);
    });
    const fringe = Array.from({ length: 15 }, (_, n) => `M${116 + n * 12} 220V236`).join("");
    return [
      rect(104, 62, 192, 10, c.dark, 5),
      rect(112, 68, 176, 152, c.main),
      ...bands,
      stroke(fringe, c.main, 4),
    ].join("");
  },
  toys: (c, chance) => {
    const windows = chance.between(2, 3);
    return [
      rect(96, 128, 116, 76, c.main, 8),
      ...Array.from({ length: windows }, (_, n) => rect(110 + n * (96 / windows), 144, 80 / windows, 26, c.light, 4)),
      rect(206, 156, 92, 48, c.accent, 8),
      rect(262, 108, 22, 50, c.dark, 3),
      rect(256, 102, 34, 10, c.dark, 3),
      circle(296, 96, 10, c.light),
      circle(316, 78, 14, c.light),
      circle(342, 56, 18, c.light),
      rect(86, 118, 136, 14, c.dark, 6),
      rect(90, 200, 220, 10, c.dark, 4),
      ...[124, 184, 236, 282].map(
        (x, n) => circle(x, 212, n < 2 ? 24 : 18, c.dark) + circle(x, 212, n < 2 ? 11 : 8, c.light),
      ),
    ].join("");
  },
  plants: (c, chance) => {
    const count = chance.between(6, 9);
    const leaves = Array.from({ length: count }, (_, n) => {
      const lean = (n / (count - 1) - 0.5) * 2.1;
      const length = chance.between(78, 128);
      const tip = at(200, 182, length, lean);
      const left = at(200, 182, length * 0.55, lean - 0.24);
      const right = at(200, 182, length * 0.55, lean + 0.24);
      const ink = n % 3 === 0 ? "#5d8a4f" : n % 3 === 1 ? "#3f6f49" : "#7fa65e";
      return path(`M200 182 Q${left} ${tip} Q${right} 200 182Z`, ink) + stroke(`M200 182L${tip}`, "#2c4f35", 1.5);
    });
    return [
      ...leaves,
      path("M150 176 H250 L240 236 H160 Z", c.main),
      rect(142, 168, 116, 18, c.dark, 4),
      rect(160, 204, 80, 6, c.light, 3).replace("/>", ' opacity=".5"/>'),
    ].join("");
  },
};

/** The picture of an item as an SVG document. */
export const picture = (item: string, category: string): string => {
  const chance = random(seedOf(`${category}/${item}`));
  const c = chance.pick(palette);
  const sun = chance.between(60, 340);
  const motif = motifs[category];
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 400 300" role="img">`,
    rect(0, 0, 400, 300, c.wall),
    circle(sun, chance.between(70, 120), chance.between(70, 120), c.light).replace("/>", ' opacity=".7"/>'),
    rect(0, 226, 400, 74, c.table),
    ellipse(200, 240, 128, 12, c.dark).replace("/>", ' opacity=".22"/>'),
    motif ? motif(c, chance) : "",
    `</svg>`,
  ].join("");
};
