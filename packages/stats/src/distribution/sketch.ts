/** Bins per power of two: scale 5 of OpenTelemetry's exponential histogram. */
const binsPerOctave = 32;
const gamma = 2 ** (1 / binsPerOctave);
/** The point of a bin that is off by the same share from both ends: at most (γ−1)/(γ+1), 1.083 %. */
const pointFactor = (2 * gamma) / (gamma + 1);

/** A double, and the half of its bits that contains the exponent. */
const double = new Float64Array(1);
const halves = new Uint32Array(double.buffer);
const high = new Uint8Array(new Uint16Array([1]).buffer)[0] === 1 ? 1 : 0;
const fractionMask = 0xfffff;
/** The edges within one power of two, from 1 to 2. */
const edges = Float64Array.from({ length: binsPerOctave + 1 }, (_, bin) => 2 ** (bin / binsPerOctave));
/** The last edge that is not above a fraction's first 8 bits: such a step is narrower than any bin. */
const lastEdge = Uint8Array.from({ length: 256 }, (_, first) => edges.findLastIndex((edge) => edge <= 1 + first / 256));

/** The bin of a positive value: the i with γ^i < value ≤ γ^(i+1). */
export const binOf = (value: number): number => {
  double[0] = value;
  const bits = halves[high]!;
  const exponent = bits >>> 20;
  // Subnormal doubles have fewer digits: scale the value up by this power of two.
  if (exponent === 0) return binOf(value * 2 ** 64) - 64 * binsPerOctave;
  halves[high] = (bits & fractionMask) | 0x3ff00000;
  const fraction = double[0];
  const first = lastEdge[(bits & fractionMask) >>> 12]!;
  const within = fraction > edges[first + 1]! ? first + 1 : fraction > edges[first]! ? first : first - 1;
  return (exponent - 1_023) * binsPerOctave + within;
};

/** γ^bin. Exact where it is a power of two, and in range where the power itself is not. */
const edge = (bin: number): number => {
  const octave = Math.floor(bin / binsPerOctave);
  const rest = 2 ** ((bin - octave * binsPerOctave) / binsPerOctave);
  // 2^1024 and 2^-1075 are out of a double's range, but may be edges of bins that hold doubles.
  return octave > 1_000 ? rest * 2 ** 1_000 * 2 ** (octave - 1_000) : rest * 2 ** octave;
};

/** Above the number of any bin. */
const offset = 100_000;

/** A number for the bin of any value, in the order of the values: negative ones, zero, positive ones. */
const positionOf = (value: number): number =>
  value > 0 ? binOf(value) + offset : value < 0 ? -binOf(-value) - offset : 0;

/** The largest value of a bin. For a bin of negative values, the largest value is slightly lower. */
const upperEdge = (position: number): number =>
  position > 0 ? edge(position - offset + 1) : position < 0 ? -edge(-position - offset) : 0;

/** The value that represents a bin. */
const pointOf = (position: number): number =>
  position === 0 ? 0 : Math.sign(position) * edge(Math.abs(position) - offset) * pointFactor;

/** The bounds that divide a bin, by its position. */
export type DividedBins = ReadonlyMap<number, readonly number[]>;

/** Zero and positive edges divide no bin. */
export const dividedBins = (bounds: readonly number[]): DividedBins => {
  const found = new Map<number, number[]>();
  for (const bound of bounds) {
    const position = positionOf(bound);
    if (position < 0 || upperEdge(position) !== bound) found.set(position, [...(found.get(position) ?? []), bound]);
  }
  return found;
};

/** A count in a separate object, so that counting is one look-up, and the bounds that divide the bin. */
interface Bin {
  count: number;
  readonly bounds: readonly number[] | undefined;
}

/**
 * Counts of values by bins of equal relative width, for positive and negative values, and of zeros. Two sketches together
 * are the sums of their bins: merging is exact, in any order.
 */
export class Sketch {
  readonly #bins = new Map<number, Bin>();
  readonly #divided: DividedBins | undefined;
  /** For each bound, how many values of the bin that it divides are at most the bound. */
  readonly #within = new Map<number, number>();
  /** The bin of the lowest values, if those have collapsed into it: its values may lie anywhere below its edge. */
  #collapsed = -Infinity;

  constructor(divided?: DividedBins) {
    this.#divided = divided;
  }

  add(value: number): void {
    const bin = this.#bin(positionOf(value));
    bin.count++;
    if (bin.bounds) for (const bound of bin.bounds) if (value <= bound) this.#addWithin(bound, 1);
  }

  absorb(other: Sketch): void {
    for (const [position, { count }] of other.#bins) this.#bin(position).count += count;
    for (const [bound, count] of other.#within) this.#addWithin(bound, count);
    this.#collapsed = Math.max(this.#collapsed, other.#collapsed);
  }

  /** Adds a field of a stored hash; fields that are no bins are ignored. */
  addField(field: string, count: number): void {
    const [, kind, digits] = /^([bpn])(-?\d.*)$/.exec(field) ?? [];
    const number = Number(digits);
    if (field === "z") this.#bin(0).count += count;
    else if (kind === "b") this.#addWithin(number, count);
    else if (kind) this.#bin(kind === "p" ? number + offset : -number - offset).count += count;
  }

  /** To be called after the last field of a hash. If its smallest value has no bin, the lowest bins have collapsed. */
  endFields(min: number): void {
    const [lowest = 0] = this.#positions();
    if (positionOf(min) < lowest) this.#collapsed = lowest;
  }

  /** Field and count of each bin, as they are stored: of `maxBins` at most, the lowest in one. */
  fields(maxBins: number): [field: string, count: number][] {
    const positions = this.#positions();
    const lowest = positions.length - maxBins;
    let count = 0;
    return positions.flatMap((position, index) => {
      count += this.#bins.get(position)!.count;
      if (index < lowest) return [];
      const all = count;
      count = 0;
      return [[position === 0 ? "z" : (position > 0 ? "p" : "n") + String(Math.abs(position) - offset), all]];
    });
  }

  /** Field and count of each bound that divides a bin. */
  boundFields(): [field: string, count: number][] {
    return [...this.#within].map(([bound, count]) => [`b${String(bound)}`, count]);
  }

  /** How many values are at most each of the ascending `bounds`; undefined where the lowest bins have collapsed. */
  upTo(bounds: readonly number[]): (number | undefined)[] {
    const positions = this.#positions();
    // NaN if no bin has collapsed: NaN is above no bound.
    const known = upperEdge(this.#collapsed);
    let seen = 0;
    let next = 0;
    return bounds.map((bound) => {
      for (; next < positions.length && upperEdge(positions[next]!) <= bound; next++)
        seen += this.#bins.get(positions[next]!)!.count;
      return bound < known ? undefined : seen + (this.#within.get(bound) ?? 0);
    });
  }

  /** The number of values in a bin into which other bins have collapsed, or below that bin. */
  get vague(): number {
    let count = 0;
    for (const [position, bin] of this.#bins) if (position <= this.#collapsed) count += bin.count;
    return count;
  }

  /** The value that represents the bin of the value with this rank, from 1. */
  at(rank: number): number {
    let seen = 0;
    for (const position of this.#positions())
      if ((seen += this.#bins.get(position)!.count) >= rank) return pointOf(position);
    return Infinity;
  }

  #bin(position: number): Bin {
    let bin = this.#bins.get(position);
    if (!bin) this.#bins.set(position, (bin = { count: 0, bounds: this.#divided?.get(position) }));
    return bin;
  }

  #addWithin(bound: number, count: number): void {
    this.#within.set(bound, (this.#within.get(bound) ?? 0) + count);
  }

  #positions(): number[] {
    return [...this.#bins.keys()].toSorted((one, other) => one - other);
  }
}
