import type { Random } from "./random.js";

type Words = readonly [string, ...string[]];

/** A category of things: its prices in pounds, and the way its titles are made. */
export interface Category {
  readonly id: string;
  readonly name: string;
  readonly price: readonly [lowest: number, highest: number];
  readonly title: (chance: Random) => string;
}

const words = (text: string): Words => text.split(", ") as unknown as Words;

const years = (chance: Random, from: number, to: number): number => chance.between(from, to);

const category = (
  id: string,
  name: string,
  price: readonly [number, number],
  parts: readonly Words[],
  title: (pick: readonly string[], chance: Random) => string,
): Category => ({
  id,
  name,
  price,
  title: (chance) =>
    title(
      parts.map((list) => chance.pick(list)),
      chance,
    ),
});

const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

export const categories: readonly [Category, ...Category[]] = [
  category(
    "instruments",
    "Instruments",
    [45, 1900],
    [
      words("brass, nickel, blackened brass, steel, silvered brass"),
      words("sextant, barometer, theodolite, marine compass, slide rule, drawing set, octant, ship's clock"),
    ],
    ([metal = "", thing = ""], chance) => `${capital(metal)} ${thing}, ${years(chance, 1868, 1946)}`,
  ),
  category(
    "cameras",
    "Cameras",
    [35, 1250],
    [
      words("Folding, Twin-lens, Rangefinder, Half-frame, Stereo, Box, Press"),
      words("in a leather case, with two lenses, with the original strap, serviced this spring, with light meter"),
    ],
    ([kind = "", extra = ""], chance) => `${kind} camera ${extra}, ${years(chance, 1928, 1974)}`,
  ),
  category(
    "clocks",
    "Clocks",
    [25, 1600],
    [
      words("Walnut, Oak, Enamel, Slate, Gilt, Beech"),
      words("mantel clock, carriage clock, wall regulator, travel alarm, kitchen clock, cuckoo clock"),
      words("eight-day movement, strikes the hours, silent by night, runs four minutes fast a week, new mainspring"),
    ],
    ([wood = "", clock = "", note = ""]) => `${wood} ${clock}, ${note}`,
  ),
  category(
    "ceramics",
    "Ceramics",
    [8, 420],
    [
      words("Celadon, Salt-glazed, Ash-glazed, Blue-and-white, Tin-glazed, Terracotta, Crackled"),
      words("teapot, moon jar, bowl, vase, jug, storage jar, pair of cups"),
      words("with a mended lip, signed on the foot, from a country potter, unsigned, in its box"),
    ],
    ([glaze = "", pot = "", note = ""]) => `${glaze} ${pot} ${note}`,
  ),
  category(
    "lamps",
    "Lamps",
    [18, 680],
    [
      words("Opal glass, Brass, Enamelled, Smoked glass, Spun copper, Paper"),
      words("desk lamp, pendant, ship's lantern, floor lamp, wall light, banker's lamp"),
      words("rewired, with fabric flex, dimmable, from a railway office, from a theatre"),
    ],
    ([stuff = "", lamp = "", note = ""]) => `${stuff} ${lamp}, ${note}`,
  ),
  category(
    "chairs",
    "Chairs",
    [30, 1450],
    [
      words("Ash, Bentwood, Rush-seated, Elm, Tubular steel, Cane"),
      words("armchair, dining chair, rocking chair, stool, writing chair, bench for two"),
      words("from a chapel, set of one, re-upholstered in wool, with honest wear, from a village school"),
    ],
    ([stuff = "", chair = "", note = ""]) => `${stuff} ${chair} ${note}`,
  ),
  category(
    "books",
    "Books",
    [3, 260],
    [
      words("A Field Guide to, The Pocket Book of, Notes on, An Atlas of, The Amateur's Guide to, Letters on"),
      words("Mosses, Lighthouses, Clouds, Tide Pools, Knots, Comets, Hedgerows, Bridges, Beekeeping"),
      words("first printing, with plates, signed, cloth binding, foxed, in its jacket"),
    ],
    ([lead = "", subject = "", note = ""], chance) => `${lead} ${subject}, ${note}, ${years(chance, 1889, 1968)}`,
  ),
  category(
    "records",
    "Records",
    [4, 140],
    [
      words("Late, Northern, Quiet, Winter, Electric, Paper"),
      words("Harbour, Orchard, Signals, Gardens, Radio, Rooms"),
      words("12-inch, 7-inch, double LP, white label, 10-inch"),
    ],
    ([first = "", second = "", form = ""], chance) => `${first} ${second}, ${form}, ${years(chance, 1957, 1989)}`,
  ),
  category(
    "bicycles",
    "Bicycles",
    [60, 2400],
    [
      words("Lugged steel, Mixte, Track, Touring, Folding, Randonneur, Delivery"),
      words("54 cm, 56 cm, 58 cm, small, tall"),
      words("new cables, with dynamo, leather saddle, three-speed hub, repainted, all original"),
    ],
    ([kind = "", size = "", note = ""]) => `${kind} bicycle, ${size}, ${note}`,
  ),
  category(
    "textiles",
    "Textiles",
    [6, 540],
    [
      words("Indigo, Madder red, Undyed, Ikat, Block-printed, Herringbone"),
      words("linen throw, wool blanket, kilim, quilt, tea towels, scarf, flatweave runner"),
      words("hand-stitched, mended twice, never used, 1.4 by 2 metres, with fringe"),
    ],
    ([dye = "", cloth = "", note = ""]) => `${dye} ${cloth}, ${note}`,
  ),
  category(
    "toys",
    "Toys",
    [4, 320],
    [
      words("Tin, Beech, Felt, Clockwork, Painted, Die-cast"),
      words("steam engine, robot, boat, Noah's ark, tram, spinning top, stacking tower, fire engine"),
      words("with key, a little loved, boxed, paint of its time, complete"),
    ],
    ([stuff = "", toy = "", note = ""]) => `${stuff} ${toy}, ${note}`,
  ),
  category(
    "plants",
    "Plants",
    [3, 180],
    [
      words("Trailing, Variegated, Dwarf, Old, Grafted, Flowering"),
      words("string of pearls, monstera, lemon tree, snake plant, fern, bonsai juniper, agave, orchid"),
      words("in terracotta, bare-rooted, three cuttings, repotted in May, in a glass dome"),
    ],
    ([habit = "", plant = "", note = ""]) => `${habit} ${plant}, ${note}`,
  ),
];
