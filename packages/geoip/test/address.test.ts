import { describe, expect, it } from "vitest";
import { formatAddress, parseAddress, parseNetwork, reservedClass } from "../src/address.js";
import { type AddressInput, lookedUpAs } from "../src/index.js";

describe("an address", () => {
  it.each([
    ["0.0.0.0", "0.0.0.0"],
    ["255.255.255.255", "255.255.255.255"],
    ["1.2.3.4:80", "1.2.3.4"],
    [2 ** 31 + 1, "128.0.0.1"],
    [new Uint8Array([1, 2, 3, 4]), "1.2.3.4"],
    ["::", "::"],
    ["::1", "::1"],
    ["2001:DB8:0:0:1::1", "2001:db8::1:0:0:1"],
    ["2001:0db8:0000:0000:0001:0000:0000:0001", "2001:db8::1:0:0:1"],
    ["2001:db8::1:0:0.0.0.1", "2001:db8::1:0:0:1"],
    ["1:2:3:4:5:6:7::", "1:2:3:4:5:6:7:0"],
    ["::2:3:4:5:6:7:8", "0:2:3:4:5:6:7:8"],
    ["[2001:db8::1]:443", "2001:db8::1"],
    ["[2001:db8::1]", "2001:db8::1"],
    ["fe80::1%eth0", "fe80::1"],
    ["[fe80::1%25]:443", "fe80::1"],
    [(0x2001_0db8n << 96n) | 1n, "2001:db8::1"],
    [1n, "::1"],
    [new Uint8Array([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]), "2001:db8::1"],
  ] as [AddressInput, string][])("%s is %s", (given, text) => {
    const parsed = parseAddress(given)!;
    expect(formatAddress(parsed.family, parsed.value)).toBe(text);
  });

  it("is read without what was read before it", () => {
    for (const text of ["[:]", ":%a:b"]) {
      expect(lookedUpAs("::1")).toBe("::1");
      expect(lookedUpAs(text), text).toBeNull();
    }
  });

  it.each([
    ...["", " ", " 1.2.3.4", "1.2.3.4 ", "1.2.3.4\n", "1.2.3.4.", ".1.2.3.4", "1.2.3", "1.2.3.4.5", "1..3.4"],
    ...["01.2.3.4", "1.2.3.04", "00.0.0.0", "0x7f.1.1.1", "0x7f.1", "256.1.1.1", "1.1.1.256", "1e3.0.0.0", "-1.2.3.4"],
    ...[
      "1.2.3.4/24",
      "1.2.3.+4",
      "１.2.3.4",
      "1.2.3.4:",
      "1.2.3.4:x",
      "1.2.3.4:65536",
      "1.2.3.4:-1",
      "localhost",
      "16909060",
    ],
    ...[
      ":",
      ":::",
      "::1::",
      "1::2::3",
      "1:2:3:4:5:6:7",
      "1:2:3:4:5:6:7:8:9",
      "1:2:3:4:5:6:7:8::",
      "12345::",
      "g::",
      "::1 ",
    ],
    ...[
      "1:2:3:4:5:6:7:1.2.3.4",
      "1.2.3.4::",
      "::1.2.3",
      "::01.2.3.4",
      "::1.2.3.4:5",
      "[::1",
      "::1]",
      "[1.2.3.4]",
      "[]",
    ],
    ...["[::1]:", "[::1]:x", "[::1]80", "fe80::1%", "fe80::1%a b", `::${"0".repeat(200)}1`, ":1", "1:", "٣.1.1.1"],
    ...[-1, 2 ** 32, 1.5, Number.NaN, Number.POSITIVE_INFINITY, -1n, 1n << 128n, new Uint8Array(3), new Uint8Array(17)],
    ...([null, undefined, {}, [1, 2, 3, 4], true] as unknown[]),
  ] as AddressInput[])("%s is none", (given) => {
    expect(parseAddress(given)).toBeUndefined();
    expect(lookedUpAs(given)).toBeNull();
  });

  it.each([
    ["::ffff:1.2.3.4", "1.2.3.4"],
    ["::ffff:102:304", "1.2.3.4"],
    ["64:ff9b::1.2.3.4", "1.2.3.4"],
    ["2002:102:304::1", "1.2.3.4"],
    // The example of RFC 4380, section 4.
    ["2001:0:4136:e378:8000:63bf:3fff:fdd2", "192.0.2.45"],
    ["::1.2.3.4", "::102:304"],
    ["64:ff9b:1::1.2.3.4", "64:ff9b:1::102:304"],
  ])("%s is looked up as %s", (given, text) => {
    expect(lookedUpAs(given)).toBe(text);
  });

  it.each([
    ["0.1.2.3", "unspecified"],
    ["127.0.0.1", "loopback"],
    ["10.255.255.255", "private"],
    ["172.31.0.1", "private"],
    ["172.32.0.1", undefined],
    ["100.64.0.1", "shared"],
    ["169.254.1.1", "link-local"],
    ["203.0.113.9", "documentation"],
    ["198.19.0.0", "benchmark"],
    ["239.0.0.1", "multicast"],
    ["255.255.255.255", "reserved"],
    ["8.8.8.8", undefined],
    ["::", "unspecified"],
    ["::1", "loopback"],
    ["fd00::1", "private"],
    ["fe80::1", "link-local"],
    ["ff02::1", "multicast"],
    ["2001:db8::1", "documentation"],
    ["::2", "reserved"],
    ["5000::1", "reserved"],
    ["2600::1", undefined],
  ])("%s is %s", (given, name) => {
    expect(reservedClass(parseAddress(given)!)).toBe(name);
  });

  it.each([
    ["1.0.0.0/24", { family: 4, first: 0x1000000, last: 0x10000ff }],
    ["0.0.0.0/0", { family: 4, first: 0, last: 2 ** 32 - 1 }],
    ["1.2.3.4/32", { family: 4, first: 0x1020304, last: 0x1020304 }],
    ["::/0", { family: 6, first: 0n, last: (1n << 128n) - 1n }],
    ["2a00::/12", { family: 6, first: 0x2a00n << 112n, last: (0x2a10n << 112n) - 1n }],
  ])("%s is a network", (text, span) => {
    expect(parseNetwork(text)).toEqual(span);
  });

  it.each([
    "1.0.0.0",
    "1.0.0.1/24",
    "1.0.0.0/33",
    "1.0.0.0/",
    "1.0.0.0/-1",
    "1.0.0.0/08",
    "1.0.0/24",
    "::1/64",
    "::/129",
    "[::]/0",
  ])("%s is no network", (text) => {
    expect(parseNetwork(text)).toEqual(expect.any(String));
  });
});
