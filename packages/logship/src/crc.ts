import { crc32 } from "node:zlib";

/** CRC-32 of `bytes` behind what has the CRC `before`. Node's own gives 0 for bytes of which there are none, whatever came before. */
export const crcOf = (bytes: Uint8Array, before: number): number =>
  bytes.length === 0 ? before : crc32(bytes, before);
