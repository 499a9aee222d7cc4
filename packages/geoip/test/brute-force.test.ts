import { useRedis } from "@kit/testing";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { formatAddress, parseNetwork, type Span } from "../src/address.js";
import { dbIp, geoLite2, type Lookup } from "../src/index.js";
import { csv } from "./data.js";
import { fixtureOf } from "./harness.js";

const redis = useRedis(vitest);
const fixture = fixtureOf(redis);

/** How many addresses are compared in all; more by hand: `BRUTE_ADDRESSES=200000`. */
const addresses = Number(process.env["BRUTE_ADDRESSES"] ?? 6_000);
const rowsPerFamily = 4_000;

/** Marsaglia's xorshift32: the same numbers in each run. */
const randomOf = (seed: number) => {
  let state = seed;
  return (below: number): number => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) % below;
  };
};

interface Row {
  readonly network: string;
  readonly span: Span;
  /** The longer, the narrower. */
  readonly length: number;
  readonly asn: number;
}

/** Networks of all lengths with gaps between them, some nested, none twice, in the order of the vendors' files. */
const rowsOf = (family: 4 | 6, random: (below: number) => number): Row[] => {
  const bits = family === 4 ? 32 : 128;
  const networks = new Map<string, Row>();
  while (networks.size < rowsPerFamily) {
    const length = family === 4 ? 8 + random(25) : [29, 32, 33, 48, 64, 65, 96, 127, 128][random(9)]!;
    let value = 0n;
    for (let word = 0; word < bits; word += 16) value = (value << 16n) | BigInt(random(65_536));
    // Close together, so that there are neighbours and nesting; and clear of Teredo, which is looked up as IPv4.
    if (family === 6) value = BigInt.asUintN(96, value) | (BigInt(0x2001_0db0 + random(8)) << 96n);
    else value = BigInt.asUintN(26, value) | (BigInt(random(4)) << 30n);
    const size = 1n << BigInt(bits - length);
    const first = (value / size) * size;
    const network = `${formatAddress(family, first)}/${String(length)}`;
    networks.set(network, { network, span: parseNetwork(network) as Span, length, asn: 1 + random(40) });
  }
  return [...networks.values()].toSorted((a, b) =>
    a.span.first === b.span.first ? (a.span.last > b.span.last ? -1 : 1) : a.span.first < b.span.first ? -1 : 1,
  );
};

/** The answer by definition: of all rows that hold the address, the narrowest. */
const linear = (rows: readonly Row[], value: number | bigint): number | null => {
  let best: Row | undefined;
  for (const row of rows) {
    if (row.span.first > value || row.span.last < value) continue;
    if (!best || row.length > best.length) best = row;
  }
  return best?.asn ?? null;
};

/** Anywhere; or at an edge of a row, or one beside it, where mistakes are. */
const addressOf = (family: 4 | 6, rows: readonly Row[], random: (below: number) => number): number | bigint => {
  const max = family === 4 ? (1n << 32n) - 1n : (1n << 128n) - 1n;
  let value: bigint;
  if (random(4) === 0) {
    value = 0n;
    for (let word = 0; word < 8; word++) value = (value << 16n) | BigInt(random(65_536));
    value &= max;
  } else {
    const { span } = rows[random(rows.length)]!;
    value = BigInt(random(2) === 0 ? span.first : span.last) + BigInt(random(3) - 1);
  }
  value = value < 0n ? 0n : value > max ? max : value;
  return family === 4 ? Number(value) : value;
};

describe("look-ups", () => {
  it("give what a linear scan of the same file gives", { timeout: 600_000 }, async () => {
    const random = randomOf(20_261_122);
    const rows = { 4: rowsOf(4, random), 6: rowsOf(6, random) };
    const lines = (family: 4 | 6): string[] => [
      "network,autonomous_system_number,autonomous_system_organization",
      ...rows[family].map(({ network, asn }) => `${network},${String(asn)},"Net ${String(asn)}"`),
    ];
    await fixture.import(geoLite2({ blocks: [csv("v4.csv", lines(4)), csv("v6.csv", lines(6))] }));
    const readers = (["cached", "local", "server"] as const).map((mode) => fixture.reader({ mode, cachePages: 8 }));
    await Promise.all(readers.map((reader) => reader.ready()));

    let compared = 0;
    let different = 0;
    let located = 0;
    for (let index = 0; index < addresses; index++) {
      const family = index % 2 === 0 ? 4 : 6;
      const value = addressOf(family, rows[family], random);
      const expected = linear(rows[family], value);
      const reader = readers[index % readers.length]!;
      const found: Lookup = await reader.lookup(formatAddress(family, value));
      const asn = found.place?.asn ?? null;
      compared++;
      if (asn !== null) located++;
      if (asn !== expected) different++;
    }
    if (process.env["BRUTE_ADDRESSES"] !== undefined)
      process.stdout.write(`${JSON.stringify({ compared, located, different })}\n`);
    expect({ compared, different }).toEqual({ compared: addresses, different: 0 });
    expect(located).toBeGreaterThan(addresses / 4);
    expect(located).toBeLessThan(addresses);
  });

  it("give the same by DB-IP's ranges as by networks", async () => {
    const random = randomOf(7);
    const lines = Array.from({ length: 600 }, (_, index) => {
      const first = index * 700 + random(300);
      return [formatAddress(4, first), formatAddress(4, first + 1 + random(398)), `X${"ABC"[random(3)]!}`] as const;
    });
    await fixture.import(
      dbIp(
        csv(
          "country.csv",
          lines.map((line) => line.join(",")),
        ),
      ),
    );
    const reader = fixture.reader({ mode: "local" });
    await reader.ready();
    for (const [first, last, country] of lines)
      expect([reader.lookupSync(first).place?.country, reader.lookupSync(last).place?.country]).toEqual([
        country,
        country,
      ]);
  });
});
