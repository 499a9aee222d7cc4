/** An address as a number: 32 bits of IPv4, or 128 bits of IPv6. */
export type Address = { readonly family: 4; readonly value: number } | { readonly family: 6; readonly value: bigint };

/** An address as the caller may give it: text, 4 or 16 bytes, a number (IPv4) or a bigint (IPv6). */
export type AddressInput = string | Uint8Array | number | bigint;

/** Why a special-purpose address has no place: the registries of RFC 6890 and its successors. */
export type ReservedClass =
  | "unspecified"
  | "loopback"
  | "private"
  | "shared"
  | "link-local"
  | "documentation"
  | "benchmark"
  | "multicast"
  | "reserved";

export const maxV4 = 0xffff_ffff;
export const maxV6: bigint = (1n << 128n) - 1n;

/** The longest spelling, with a zone and a port; longer texts are refused unread. */
const longestText = 100;
const dot = 0x2e;
const zero = 0x30;
const nine = 0x39;
const slashCode = 0x2f;
const colon = 0x3a;
const letterA = 0x61;

/**
 * The value of dotted decimal text in ASCII, four parts of 0 to 255 without leading zeros; otherwise -1. It reads
 * bytes, since an import reads millions.
 */
const v4At = (bytes: Uint8Array, from: number, to: number): number => {
  let value = 0;
  let part = -1;
  let parts = 0;
  for (let index = from; index <= to; index++) {
    const code = index === to ? dot : bytes[index]!;
    if (code === dot) {
      if (part < 0) return -1;
      value = value * 256 + part;
      parts++;
      part = -1;
    } else {
      const digit = code - zero;
      // A leading zero means octal to some programs and decimal to others, so it is refused.
      if (digit < 0 || digit > 9 || part === 0) return -1;
      part = part < 0 ? digit : part * 10 + digit;
      if (part > 255) return -1;
    }
  }
  return parts === 4 ? value : -1;
};

const hexDigit = (code: number): number => {
  if (code <= nine) return code - zero;
  const letter = (code | 0x20) - letterA;
  return letter >= 0 && letter < 6 ? 10 + letter : -1;
};

const groups = new DataView(new ArrayBuffer(16));

/** The value of IPv6 text in ASCII (RFC 4291, section 2.2) without zone; otherwise -1n. */
const v6At = (bytes: Uint8Array, from: number, to: number): bigint => {
  let count = 0;
  /** Groups before `::`; -1 if there was none yet. */
  let before = -1;
  let index = from;
  // Bytes of an earlier text may follow the end.
  if (to - from > 1 && bytes[from] === colon && bytes[from + 1] === colon) {
    before = 0;
    index += 2;
  }
  while (index < to) {
    const start = index;
    let value = 0;
    for (; index < to; index++) {
      const digit = hexDigit(bytes[index]!);
      if (digit < 0) break;
      value = value * 16 + digit;
    }
    const isTail = index < to && bytes[index] === dot;
    if (index === start || index > start + 4 || count > (isTail ? 6 : 7)) return -1n;
    if (isTail) {
      const tail = v4At(bytes, start, to);
      if (tail < 0) return -1n;
      groups.setUint32(2 * count, tail);
      count += 2;
      break;
    }
    groups.setUint16(2 * count++, value);
    if (index === to) break;
    if (bytes[index++] !== colon || index === to) return -1n;
    if (bytes[index] !== colon) continue;
    if (before >= 0) return -1n;
    before = count;
    index++;
  }
  if (before < 0 ? count !== 8 : count === 8) return -1n;
  if (before >= 0) {
    // The groups after `::` go to the end.
    for (let at = 1; at <= 8 - before; at++)
      groups.setUint16(16 - 2 * at, at <= count - before ? groups.getUint16(2 * (count - at)) : 0);
  }
  return (groups.getBigUint64(0) << 64n) | groups.getBigUint64(8);
};

/** The longest spelling: eight groups, the last two as IPv4, and the length of a network. */
const ascii = new Uint8Array(49);

/** Writes text as ASCII into `ascii`; false if it is too long. */
const toAscii = (text: string): boolean => {
  const { length } = text;
  if (length > ascii.length) return false;
  for (let index = 0; index < length; index++) {
    const code = text.charCodeAt(index);
    // Digits of other scripts are not accepted.
    ascii[index] = code < 0x80 ? code : 0;
  }
  return true;
};

const parseV4 = (text: string): number => (toAscii(text) ? v4At(ascii, 0, text.length) : -1);
const parseV6 = (text: string): bigint => (toAscii(text) ? v6At(ascii, 0, text.length) : -1n);

const v4 = (value: number): Address | undefined => (value < 0 ? undefined : { family: 4, value });
const v6 = (value: bigint): Address | undefined => (value < 0n ? undefined : { family: 6, value });
const isPort = (text: string): boolean => /^\d{1,5}$/.test(text) && Number(text) <= 65_535;
const withoutZone = (text: string): string => text.replace(/%[^\s[\]%/]+$/, "");

const parseText = (text: string): Address | undefined => {
  if (text.length > longestText) return undefined;
  const colon = text.indexOf(":");
  if (colon < 0) return v4(parseV4(text));
  const [, bracketed, port] = /^\[([^[\]]+)\](?::(.*))?$/.exec(text) ?? [];
  if (bracketed !== undefined)
    return port === undefined || isPort(port) ? v6(parseV6(withoutZone(bracketed))) : undefined;
  if (!text.includes(":", colon + 1))
    return isPort(text.slice(colon + 1)) ? v4(parseV4(text.slice(0, colon))) : undefined;
  return v6(parseV6(withoutZone(text)));
};

const parseBytes = (bytes: Uint8Array): Address | undefined => {
  let value = 0n;
  for (const byte of bytes) value = (value << 8n) | BigInt(byte);
  if (bytes.length === 4) return { family: 4, value: Number(value) };
  return bytes.length === 16 ? { family: 6, value } : undefined;
};

/** Reads an address in any of its forms; undefined if it is none. Never throws, and never guesses. */
export const parseAddress = (input: AddressInput): Address | undefined => {
  if (typeof input === "string") return parseText(input);
  if (typeof input === "number")
    return Number.isInteger(input) && input >= 0 && input <= maxV4 ? { family: 4, value: input } : undefined;
  if (typeof input === "bigint") return input >= 0n && input <= maxV6 ? { family: 6, value: input } : undefined;
  return input instanceof Uint8Array && input.length <= 16 ? parseBytes(input) : undefined;
};

const low32 = (value: bigint): number => Number(BigInt.asUintN(32, value));
const mapped = 0xffffn;
const nat64 = 0x64_ff9b_0000_0000_0000_0000n;

/**
 * The address that is looked up: for IPv6 that carries an IPv4 address, the IPv4 address. These forms are IPv4-mapped
 * (`::ffff:0:0/96`), NAT64 (`64:ff9b::/96`), 6to4 (`2002::/16`) and Teredo (`2001::/32`, the client's address).
 */
export const effectiveAddress = (address: Address): Address => {
  if (address.family === 4) return address;
  const { value } = address;
  const high96 = value >> 32n;
  if (high96 === mapped || high96 === nat64) return { family: 4, value: low32(value) };
  if (value >> 112n === 0x2002n) return { family: 4, value: low32(value >> 80n) };
  // RFC 4380, section 4: the client's address with each bit inverted.
  if (value >> 96n === 0x2001_0000n) return { family: 4, value: ~low32(value) >>> 0 };
  return address;
};

const formatV4 = (value: number): string =>
  `${String(value >>> 24)}.${String((value >>> 16) & 255)}.${String((value >>> 8) & 255)}.${String(value & 255)}`;

/** RFC 5952: lower case, no leading zeros, the longest run of zero groups as `::`. */
const formatV6 = (value: bigint): string => {
  const groups = Array.from({ length: 8 }, (_, index) =>
    Number(BigInt.asUintN(16, value >> BigInt(112 - 16 * index))).toString(16),
  );
  let [from, length] = [0, 1];
  for (let start = 0; start < 8; start++) {
    let end = start;
    while (groups[end] === "0") end++;
    if (end - start > length) [from, length] = [start, end - start];
  }
  if (length < 2) return groups.join(":");
  return `${groups.slice(0, from).join(":")}::${groups.slice(from + length).join(":")}`;
};

/** The usual spelling of an address. */
export const formatAddress = (family: 4 | 6, value: number | bigint): string =>
  family === 4 ? formatV4(Number(value)) : formatV6(BigInt(value));

/** First and last address of a network. */
export type Span =
  | { readonly family: 4; readonly first: number; readonly last: number }
  | { readonly family: 6; readonly first: bigint; readonly last: bigint };

const hostBits = "has bits set after its prefix";
const notNetwork = "is not a network such as 192.0.2.0/24";

const v4Network = (value: number, length: number): Span | string => {
  if (length > 32) return "has a prefix longer than an IPv4 address";
  // JavaScript does not shift by 32.
  const hosts = length === 32 ? 0 : maxV4 >>> length;
  return (value & hosts) === 0 ? { family: 4, first: value, last: value + hosts } : hostBits;
};

const v6Network = (value: bigint, length: number): Span | string => {
  if (length > 128) return "has a prefix longer than an IPv6 address";
  const hosts = maxV6 >> BigInt(length);
  return (value & hosts) === 0n ? { family: 6, first: value, last: value | hosts } : hostBits;
};

/** Reads `address/length` in ASCII; returns a text that names the fault if it is invalid. */
export const networkAt = (bytes: Uint8Array, from: number, to: number): Span | string => {
  let slash = to - 1;
  while (slash > from && slash > to - 5 && bytes[slash] !== slashCode) slash--;
  let length = 0;
  for (let index = slash + 1; index < to; index++) {
    const digit = bytes[index]! - zero;
    if (digit < 0 || digit > 9 || (length === 0 && index > slash + 1)) return notNetwork;
    length = 10 * length + digit;
  }
  if (slash === to - 1 || bytes[slash] !== slashCode) return notNetwork;
  const base = addressAt(bytes, from, slash);
  if (!base) return notNetwork;
  return base.family === 4 ? v4Network(base.value, length) : v6Network(base.value, length);
};

/** The same for text. */
export const parseNetwork = (text: unknown): Span | string =>
  typeof text === "string" && toAscii(text) ? networkAt(ascii, 0, text.length) : notNetwork;

/** Reads an address in the form of data files, in ASCII: no port, no brackets, no zone. */
export const addressAt = (bytes: Uint8Array, from: number, to: number): Address | undefined =>
  v4(v4At(bytes, from, to)) ?? v6(v6At(bytes, from, to));

const reservedNetworks: readonly (readonly [ReservedClass, ...string[]])[] = [
  ["unspecified", "0.0.0.0/8", "::/128"],
  ["loopback", "127.0.0.0/8", "::1/128"],
  ["private", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"],
  ["shared", "100.64.0.0/10"],
  ["link-local", "169.254.0.0/16", "fe80::/10"],
  ["documentation", "192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32", "3fff::/20"],
  ["benchmark", "198.18.0.0/15", "2001:2::/48"],
  ["multicast", "224.0.0.0/4", "ff00::/8"],
  // The last two are all IPv6 outside of 2000::/3, the only part that is assigned.
  ["reserved", "192.0.0.0/24", "192.88.99.0/24", "240.0.0.0/4", "::/3", "4000::/2", "8000::/1"],
];
let reservedSpans: readonly (readonly [ReservedClass, Span])[] | undefined;

/** The special purpose of an address; undefined if it is an ordinary one. */
export const reservedClass = ({ family, value }: Address): ReservedClass | undefined => {
  reservedSpans ??= reservedNetworks.flatMap(([name, ...networks]) =>
    networks.map((network) => [name, parseNetwork(network) as Span] as const),
  );
  return reservedSpans.find(([, span]) => span.family === family && span.first <= value && value <= span.last)?.[0];
};
