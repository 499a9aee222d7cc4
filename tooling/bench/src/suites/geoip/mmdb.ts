// Writes a database in version 2.0 of MaxMind's format, which is all that the peer reads.
import { cities, cityName, cityOf, type Network } from "./data.js";

const utf8 = 2;
const unsigned16 = 5;
const unsigned32 = 6;
const map = 7;

/** The control byte. It holds sizes up to 28, which is enough for these texts and maps. */
const head = (type: number, size: number): Buffer => Buffer.from([(type << 5) | size]);
const text = (value: string): Buffer => Buffer.concat([head(utf8, value.length), Buffer.from(value)]);
const integer = (type: number, value: number): Buffer => {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return type === unsigned16
    ? Buffer.concat([head(type, 2), bytes.subarray(2)])
    : Buffer.concat([head(type, 4), bytes]);
};
const mapOf = (entries: Readonly<Record<string, Buffer>>): Buffer =>
  Buffer.concat([
    head(map, Object.keys(entries).length),
    ...Object.entries(entries).flatMap(([name, value]) => [text(name), value]),
  ]);

/** Bytes between the tree and its data. */
const separator = 16;

export const mmdbOf = (networks: Iterable<Network>): Buffer => {
  const data: Buffer[] = [];
  const offsets: number[] = [];
  let dataLength = 0;
  for (let city = 0; city < cities; city++) {
    const entry = mapOf({
      city: mapOf({ names: mapOf({ en: text(cityName(city)) }) }),
      country: mapOf({ iso_code: text("XA") }),
    });
    offsets.push(dataLength);
    dataLength += data.push(entry) && entry.length;
  }
  // Two records per node. Zero is empty; a city is stored as a negative number until the number of nodes is final.
  const nodes: number[] = [0, 0];
  for (const { first, bits, place } of networks) {
    let node = 0;
    for (let bit = 0; bit < bits; bit++) {
      const record = 2 * node + ((first >>> (31 - bit)) & 1);
      if (bit === bits - 1) nodes[record] = -1 - cityOf(place);
      else {
        if (nodes[record] === 0) nodes[record] = nodes.push(0, 0) / 2 - 1;
        node = nodes[record] ?? 0;
      }
    }
  }
  const count = nodes.length / 2;
  const tree = Buffer.alloc(8 * count);
  for (const [at, record] of nodes.entries())
    tree.writeUInt32BE(
      record === 0 ? count : record > 0 ? record : count + separator + (offsets[-1 - record] ?? 0),
      4 * at,
    );
  const metadata = mapOf({
    binary_format_major_version: integer(unsigned16, 2),
    binary_format_minor_version: integer(unsigned16, 0),
    build_epoch: integer(unsigned32, 1_760_000_000),
    database_type: text("Made-up City"),
    description: mapOf({ en: text("Made up") }),
    ip_version: integer(unsigned16, 4),
    languages: Buffer.concat([Buffer.from([1, 4]), text("en")]),
    node_count: integer(unsigned32, count),
    record_size: integer(unsigned16, 32),
  });
  return Buffer.concat([
    tree,
    Buffer.alloc(separator),
    ...data,
    Buffer.from("\xab\xcd\xefMaxMind.com", "latin1"),
    metadata,
  ]);
};
