import { type Address, formatAddress, maxV4, maxV6 } from "./address.js";
import { entriesPerBlock } from "./builder.js";
import { Cache, Recent } from "./cache.js";
import { GeoIpCorruptError } from "./errors.js";
import type { Part } from "./keys.js";
import type { GeoIpSettings } from "./options.js";
import {
  decodeBlock,
  decodePageIndex,
  type PageIndex,
  fieldsPerShard,
  isIntact,
  isPage,
  pageOf,
  type PageRecord,
  recordAt,
  recordsPerPage,
  searchPage,
} from "./pages.js";
import { composed, type Place, type StoredNames, type StoredPlace } from "./place.js";
import type { GeoIpCommands, Manifest, VersionRecord } from "./commands.js";

/** A range and its place's number; 0: a gap. */
interface FoundRange {
  readonly place: number;
  readonly first: number | bigint;
  readonly last: number | bigint;
}

/** An address that has a place. */
export interface Located {
  readonly place: Place;
  readonly none: null;
  /** First and last address of the range around the address. The whole range has this place. */
  readonly first: string;
  readonly last: string;
  /** The version that answered. */
  readonly version: string;
}

interface Family {
  readonly pageIndex: PageIndex;
  readonly pages: Cache<Buffer>;
  /** Cached answers, by the number of their record. */
  readonly answers: Recent<Located>;
  /** All pages, in local mode. */
  all: readonly Buffer[] | undefined;
}

/** A part of a reply would keep all that came from the socket with it. */
const copied = (bytes: Buffer): Buffer => {
  const copy = Buffer.allocUnsafeSlow(bytes.length);
  copy.set(bytes);
  return copy;
};

/** For a family without pages. */
const noRange: FoundRange = { first: 0, last: 0, place: 0 };

/** One version of a database in a reader. It never changes: all its answers are of one version. */
export class Release {
  readonly manifest: Manifest;
  readonly #commands: GeoIpCommands;
  readonly #settings: GeoIpSettings;
  readonly #v4: Family;
  readonly #v6: Family;
  readonly #blocks: Cache<StoredPlace[]>;
  readonly #names: Cache<StoredNames[]>;
  /** Cached places, by their number. */
  readonly #places: Cache<Place>;
  /** Bytes of all blocks, in local mode. */
  #localBlocks: Partial<Record<Part, readonly Buffer[]>> = {};

  constructor(commands: GeoIpCommands, settings: GeoIpSettings, { manifest, index4, index6 }: VersionRecord) {
    this.manifest = manifest;
    this.#commands = commands;
    this.#settings = settings;
    const family = (number: 4 | 6, bytes: Buffer): Family => {
      const part: Part = number === 4 ? "v4" : "v6";
      const pageIndex = decodePageIndex(number, bytes, manifest.fields[part]);
      if (!pageIndex) throw this.#corrupt(`the page index of IPv${String(number)}`);
      const fetch = async (page: number): Promise<Buffer> => {
        const found = await commands.field(manifest.version, part, page, settings.deadlineMs);
        return this.#checkedPage(found, pageIndex, part, page);
      };
      const answers = new Recent<Located>(settings.cachePlaces);
      return { pageIndex, pages: new Cache(settings.cachePages, fetch), answers, all: undefined };
    };
    this.#v4 = family(4, index4);
    this.#v6 = family(6, index6);
    const { places: placesPerBlock, names: namesPerBlock } = entriesPerBlock;
    const { cachePlaces } = settings;
    this.#places = new Cache(cachePlaces, (number) => this.#makePlace(number));
    this.#blocks = new Cache(cachePlaces / placesPerBlock, (block) => this.#fetchBlock<StoredPlace>("places", block));
    this.#names = new Cache(cachePlaces / namesPerBlock, (block) => this.#fetchBlock<StoredNames>("names", block));
  }

  /** The number of pages and places held now, for information. */
  get cached(): { readonly pages: number; readonly places: number } {
    const pages = (family: Family): number => family.all?.length ?? family.pages.size;
    return { pages: pages(this.#v4) + pages(this.#v6), places: this.#places.size };
  }

  /** The answer, if all its data is cached, as always in local mode; null if there is no place. */
  peek(address: Address): Located | null | undefined {
    const family = this.#family(address);
    const number = pageOf(family.pageIndex, address.value);
    if (number < 0) return null;
    const page = family.all ? family.all[number] : family.pages.get(number);
    if (!page) return undefined;
    const index = searchPage(page, address.value);
    const key = number * recordsPerPage + index;
    const known = family.answers.get(key);
    if (known) return known;
    const range = this.#rangeOf(address, number, recordAt(page, index));
    if (range.place === 0) return null;
    const place = this.#places.get(range.place) ?? this.#placeLocally(range.place);
    if (!place) return undefined;
    const answer = this.#answer(address, range, place);
    family.answers.set(key, answer);
    return answer;
  }

  /** The answer, with missing data fetched; null if there is no place. */
  async find(address: Address): Promise<Located | null> {
    const range = await this.#findRange(address);
    return range.place === 0 ? null : this.#answer(address, range, await this.#places.load(range.place));
  }

  /** Fetches everything. */
  async loadAll(): Promise<void> {
    this.#v4.all = await this.#allPages("v4", this.#v4.pageIndex);
    this.#v6.all = await this.#allPages("v6", this.#v6.pageIndex);
    for (const part of ["places", "names"] as const) {
      const fields = await this.#allFields(part);
      this.#localBlocks[part] = fields.map((bytes, block) => copied(this.#checked(bytes, part, block)));
    }
  }

  async #findRange(address: Address): Promise<FoundRange> {
    const family = this.#family(address);
    const number = pageOf(family.pageIndex, address.value);
    if (number < 0) return noRange;
    if (this.#settings.mode !== "server") {
      const page = await family.pages.load(number);
      return this.#rangeOf(address, number, recordAt(page, searchPage(page, address.value)));
    }
    const bytes = Buffer.alloc(address.family === 4 ? 4 : 16);
    if (address.family === 4) bytes.writeUInt32BE(address.value);
    else {
      bytes.writeBigUInt64BE(address.value >> 64n, 0);
      bytes.writeBigUInt64BE(BigInt.asUintN(64, address.value), 8);
    }
    const { version } = this.manifest;
    const record = await this.#commands.find(version, address.family, number, bytes, this.#settings.deadlineMs);
    if (!record) throw this.#corrupt(`page ${String(number)}`);
    return this.#rangeOf(address, number, record);
  }

  #rangeOf({ family }: Address, page: number, { first, place, next }: PageRecord): FoundRange {
    const after = next ?? (family === 4 ? this.#v4 : this.#v6).pageIndex[page + 1];
    if (after === undefined) return { first, place, last: family === 4 ? maxV4 : maxV6 };
    return { first, place, last: typeof after === "bigint" ? after - 1n : after - 1 };
  }

  #answer({ family }: Address, { first, last }: FoundRange, place: Place): Located {
    const [from, to] = [formatAddress(family, first), formatAddress(family, last)];
    // Shared by all callers.
    return Object.freeze({ place, none: null, first: from, last: to, version: this.manifest.version });
  }

  #family({ family }: Address): Family {
    return family === 4 ? this.#v4 : this.#v6;
  }

  async #makePlace(number: number): Promise<Place> {
    const size = entriesPerBlock.places;
    const stored = this.#entry(await this.#blocks.load(Math.floor((number - 1) / size)), (number - 1) % size);
    if (stored.of === 0) return composed(stored, undefined, this.#settings.locales);
    const perBlock = entriesPerBlock.names;
    const block = await this.#names.load(Math.floor((stored.of - 1) / perBlock));
    return composed(stored, this.#entry(block, (stored.of - 1) % perBlock), this.#settings.locales);
  }

  /** Undefined outside of local mode. */
  #placeLocally(number: number): Place | undefined {
    if (!this.#localBlocks.places) return undefined;
    const stored = this.#localEntry<StoredPlace>("places", this.#blocks, number);
    const names = stored.of === 0 ? undefined : this.#localEntry<StoredNames>("names", this.#names, stored.of);
    const place = composed(stored, names, this.#settings.locales);
    this.#places.set(number, place);
    return place;
  }

  #localEntry<Entry>(part: "places" | "names", cache: Cache<Entry[]>, number: number): Entry {
    const size = entriesPerBlock[part];
    const block = Math.floor((number - 1) / size);
    let entries = cache.get(block);
    if (!entries) cache.set(block, (entries = this.#entries<Entry>(this.#localBlocks[part]?.[block], part, block)));
    return this.#entry(entries, (number - 1) % size);
  }

  #entry<Entry>(entries: readonly Entry[], index: number): Entry {
    const entry = entries[index];
    if (entry === undefined) throw this.#corrupt("a place");
    return entry;
  }

  async #fetchBlock<Entry>(part: "places" | "names", block: number): Promise<Entry[]> {
    const bytes = await this.#commands.field(this.manifest.version, part, block, this.#settings.deadlineMs);
    return this.#entries<Entry>(bytes, part, block);
  }

  #entries<Entry>(bytes: Buffer | undefined, part: Part, block: number): Entry[] {
    const checked = this.#checked(bytes, part, block);
    try {
      const entries = decodeBlock(checked);
      if (Array.isArray(entries)) return entries as Entry[];
    } catch {
      // Fall through.
    }
    throw this.#corrupt(`block ${String(block)} of ${part}`);
  }

  async #allPages(part: "v4" | "v6", pageIndex: PageIndex): Promise<Buffer[]> {
    const fields = await this.#allFields(part);
    return fields.map((bytes, page) => this.#checkedPage(bytes, pageIndex, part, page));
  }

  async #allFields(part: Part): Promise<(Buffer | undefined)[]> {
    const { fields, version } = this.manifest;
    const all: (Buffer | undefined)[] = [];
    for (let shard = 0; shard * fieldsPerShard < fields[part]; shard++)
      all.push(...(await this.#commands.shard(version, part, shard, this.#settings.deadlineMs)));
    return all.slice(0, fields[part]);
  }

  #checkedPage(bytes: Buffer | undefined, pageIndex: PageIndex, part: Part, page: number): Buffer {
    if (!bytes || !isPage(bytes, pageIndex[page]!)) throw this.#corrupt(`page ${String(page)} of ${part}`);
    return copied(bytes);
  }

  #checked(bytes: Buffer | undefined, part: Part, block: number): Buffer {
    if (!bytes || !isIntact(bytes)) throw this.#corrupt(`block ${String(block)} of ${part}`);
    return bytes;
  }

  #corrupt(what: string): GeoIpCorruptError {
    return new GeoIpCorruptError(this.#commands.database, this.manifest.version, what);
  }
}
