import { crc32, deflateRawSync, inflateRawSync } from "node:zlib";

/** Records of one page; a page is a field of a shard. */
export const recordsPerPage = 256;
/** Fields of one shard. */
export const fieldsPerShard = 256;

/**
 * The bytes before the body of every field: CRC-32 of the rest (4 bytes), and in a page the width of an address (1
 * byte).
 */
const crcBytes = 4;
const pageHead = crcBytes + 1;
const placeBytes = 4;
const low64 = 0xffff_ffff_ffff_ffffn;

/** Puts the checksum in front. */
const sealed = (body: Uint8Array): Buffer => {
  const bytes = Buffer.allocUnsafe(crcBytes + body.length);
  bytes.writeUInt32BE(crc32(body), 0);
  bytes.set(body, crcBytes);
  return bytes;
};

/** Whether the checksum in front matches the rest. */
export const isIntact = (bytes: Buffer): boolean =>
  bytes.length > crcBytes && bytes.readUInt32BE(0) === crc32(bytes.subarray(crcBytes));

/** The most bytes of JSON in a block: a look-up decodes one on the event loop. Usual ones have a few KiB. */
const maxBlockBytes = 1_048_576;

/** A block of entries in JSON, compressed: most of their bytes repeat, above all field names. Undefined if it is too large. */
export const encodeBlock = (entries: readonly string[]): Buffer | undefined => {
  const json = Buffer.from(`[${entries.join(",")}]`);
  return json.length > maxBlockBytes ? undefined : sealed(deflateRawSync(json, { level: 1 }));
};

/**
 * The entries of an intact block.
 *
 * @throws {Error} it is not one of {@link encodeBlock}, or larger.
 */
export const decodeBlock = (bytes: Buffer): unknown =>
  JSON.parse(inflateRawSync(bytes.subarray(crcBytes), { maxOutputLength: maxBlockBytes }).toString());

/**
 * A page: `crc32, width`, then for each range its first address in `width` bytes and its place in 4, big-endian. The width is 4
 * for IPv4. For IPv6 it is 8 if no range of the page starts inside a /64, otherwise 16.
 */
export const encodePage = (family: 4 | 6, starts: readonly (number | bigint)[], places: readonly number[]): Buffer => {
  const isWide = family === 6 && starts.some((start) => (BigInt(start) & low64) !== 0n);
  const width = family === 4 ? 4 : isWide ? 16 : 8;
  const body = Buffer.allocUnsafe(1 + starts.length * (width + placeBytes));
  let at = body.writeUInt8(width, 0);
  for (const [index, start] of starts.entries()) {
    if (family === 4) at = body.writeUInt32BE(Number(start), at);
    else {
      at = body.writeBigUInt64BE(BigInt(start) >> 64n, at);
      if (isWide) at = body.writeBigUInt64BE(BigInt(start) & low64, at);
    }
    at = body.writeUInt32BE(places[index] ?? 0, at);
  }
  return sealed(body);
};

/** A range in a page: its place's number (0: none), and its end, unless that is in the next page. */
export interface PageRecord {
  readonly first: number | bigint;
  readonly place: number;
  readonly next: number | bigint | undefined;
}

/** Every cached look-up reads several of these, and `readUInt32BE()` takes several times as long. */
const v4StartAt = (page: Buffer, at: number): number =>
  page[at]! * 2 ** 24 + ((page[at + 1]! << 16) | (page[at + 2]! << 8) | page[at + 3]!);

const startAt = (page: Buffer, width: number, at: number): number | bigint => {
  if (width === 4) return v4StartAt(page, at);
  const high = page.readBigUInt64BE(at) << 64n;
  return width === 8 ? high : high | page.readBigUInt64BE(at + 8);
};

/** Whether a page is intact: its checksum matches, and it starts at the address in the page index. */
export const isPage = (page: Buffer, first: number | bigint): boolean =>
  isIntact(page) && page.length > pageHead && startAt(page, page.readUInt8(crcBytes), pageHead) === first;

/** The number of the last record that starts at or before the address. The address must not be before the page. */
export const searchPage = (page: Buffer, address: number | bigint): number => {
  const width = page[crcBytes]!;
  const size = width + placeBytes;
  let low = 0;
  let high = (page.length - pageHead) / size - 1;
  while (low < high) {
    const middle = (low + high + 1) >>> 1;
    const at = pageHead + middle * size;
    // Comparing values of one number type avoids boxing them.
    const isBehind = typeof address === "number" ? v4StartAt(page, at) > address : startAt(page, width, at) > address;
    if (isBehind) high = middle - 1;
    else low = middle;
  }
  return low;
};

export const recordAt = (page: Buffer, index: number): PageRecord => {
  const width = page[crcBytes]!;
  const size = width + placeBytes;
  const at = pageHead + index * size;
  const next = at + size < page.length ? startAt(page, width, at + size) : undefined;
  return { first: startAt(page, width, at), place: page.readUInt32BE(at + width), next };
};

/** The first address of each page of a family, in order. */
export type PageIndex = ArrayLike<number> | readonly bigint[];

export const encodePageIndex = (family: 4 | 6, starts: readonly (number | bigint)[]): Buffer => {
  const body = Buffer.allocUnsafe(starts.length * (family === 4 ? 4 : 16));
  let at = 0;
  for (const start of starts) {
    if (family === 4) at = body.writeUInt32BE(Number(start), at);
    else {
      at = body.writeBigUInt64BE(BigInt(start) >> 64n, at);
      at = body.writeBigUInt64BE(BigInt(start) & low64, at);
    }
  }
  return sealed(body);
};

/** Undefined if it is damaged, or has another number of pages. */
export const decodePageIndex = (family: 4 | 6, bytes: Buffer, pages: number): PageIndex | undefined => {
  const width = family === 4 ? 4 : 16;
  if (bytes.length !== crcBytes + pages * width) return undefined;
  if (pages === 0) return [];
  if (!isIntact(bytes)) return undefined;
  if (family === 6)
    return Array.from({ length: pages }, (_, page) => startAt(bytes, 16, crcBytes + 16 * page) as bigint);
  return Uint32Array.from({ length: pages }, (_, page) => bytes.readUInt32BE(crcBytes + 4 * page));
};

/** The number of the page that an address belongs to; -1 if there are no pages. */
export const pageOf = (pageIndex: PageIndex, address: number | bigint): number => {
  let low = 0;
  let high = pageIndex.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >>> 1;
    if (pageIndex[middle]! <= address) low = middle;
    else high = middle - 1;
  }
  return high;
};
