/** Bins per power of two: scale 5 of OpenTelemetry's exponential histogram. */
const binsPerOctave = 32;
const gamma = 2 ** (1 / binsPerOctave);
/** The point of a bin that is off by the same share from both ends: at most (γ−1)/(γ+1), 1.083 %. */
const pointFactor = (2 * gamma) / (gamma + 1);

/** A double, and the two halves of its bits. */
const double = new Float64Array(1);
const halves = new Uint32Array(double.buffer);
const [high, low] = new Uint8Array(new Uint16Array([1]).buffer)[0] === 1 ? [1, 0] : [0, 1];
const fractionMask = 0xfffff;

/** The edges within one power of two, by the two halves of their fractions. */
const edges = Array.from({ length: binsPerOctave }, (_, bin) => {
  double[0] = 2 ** (bin / binsPerOctave);
  return [halves[high]! & fractionMask, halves[low]!] as const;
});
const highEdges = Uint32Array.from([...edges, [fractionMask + 1]], ([fraction]) => fraction);
const lowEdges = Uint32Array.from([...edges, [0, 0] as const], ([, rest]) => rest);
/** The last edge that is not above the first 8 bits of a fraction: such a step is narrower than any bin. */
const lastEdge = Uint8Array.from({ length: 256 }, (_, first) => highEdges.findLastIndex((edge) => edge <= first << 12));

/** The bin of a positive value: the i with γ^i < value ≤ γ^(i+1). */
export const binOf = (value: number): number => {
  double[0] = value;
  const exponent = halves[high]! >>> 20;
  // Subnormal doubles have fewer digits: scale the value up by that many powers of two.
  if (exponent === 0) return binOf(value * 2 ** 64) - 64 * binsPerOctave;
  const fraction = halves[high]! & fractionMask;
  const rest = halves[low]!;
  const isAbove = (edge: number): boolean =>
    fraction > highEdges[edge]! || (fraction === highEdges[edge]! && rest > lowEdges[edge]!);
  const edge = lastEdge[fraction >>> 12]!;
  const within = isAbove(edge + 1) ? edge + 1 : isAbove(edge) ? edge : edge - 1;
  return (exponent - 1_023) * binsPerOctave + within;
};

/** γ^bin. Exact where it is a power of two, and in range where the power itself is not. */
const edge = (bin: number): number => {
  const octave = Math.floor(bin / binsPerOctave);
  const rest = 2 ** ((bin - octave * binsPerOctave) / binsPerOctave);
  // 2^1024 and 2^-1075 are out of a double's range, but may be edges of bins that hold doubles.
  return octave > 1_000 ? rest * 2 ** 1_000 * 2 ** (octave - 1_000) : rest * 2 ** octave;
};

/** Counts by bin; each in an object of its own, so that counting is one look-up. */
type Bins = Map<number, { count: number }>;

/**
 * Counts of values by bins of equal relative width, for positive and negative values, and of zeros. Two sketches together
 * are the sums of their bins: merging is exact, in any order.
 */
export class Sketch {
  readonly #positive: Bins = new Map();
  readonly #negative: Bins = new Map();
  #zeros = 0;

  get size(): number {
    return this.#positive.size + this.#negative.size + (this.#zeros > 0 ? 1 : 0);
  }

  add(value: number): void {
    if (value > 0) increase(this.#positive, binOf(value), 1);
    else if (value < 0) increase(this.#negative, binOf(-value), 1);
    else this.#zeros++;
  }

  absorb(other: Sketch): void {
    for (const [bin, { count }] of other.#positive) increase(this.#positive, bin, count);
    for (const [bin, { count }] of other.#negative) increase(this.#negative, bin, count);
    this.#zeros += other.#zeros;
  }

  /** Adds a field of a stored hash; fields that are no bins are ignored. */
  addField(field: string, count: number): void {
    const bin = Number(field.slice(1));
    if (field === "z") this.#zeros += count;
    else if (/^p-?\d+$/.test(field)) increase(this.#positive, bin, count);
    else if (/^n-?\d+$/.test(field)) increase(this.#negative, bin, count);
  }

  /** Field and count of each bin, as they are stored. */
  fields(): string[] {
    const fields: string[] = [];
    for (const [bin, { count }] of this.#positive) fields.push(`p${String(bin)}`, String(count));
    for (const [bin, { count }] of this.#negative) fields.push(`n${String(bin)}`, String(count));
    if (this.#zeros > 0) fields.push("z", String(this.#zeros));
    return fields;
  }

  /**
   * How many values are at most each of the ascending `bounds`. A bin that a bound divides counts as above it, so the bound
   * acts as if it was up to 2.2 % lower; powers of two divide none. Undefined below the lowest of `maxBins` bins: the rest
   * has collapsed into that one.
   */
  upTo(bounds: readonly number[], maxBins: number = Infinity): (number | undefined)[] {
    const bins = this.bins();
    const known = bins.length >= maxBins ? (bins[0]?.upTo ?? -Infinity) : -Infinity;
    let seen = 0;
    let next = 0;
    return bounds.map((bound) => {
      for (let bin = bins[next]; bin && bin.upTo <= bound; bin = bins[++next]) seen += bin.count;
      return bound < known ? undefined : seen;
    });
  }

  /** Bins in the order of their values: the largest value of each, a value that stands for it, and its count. */
  bins(): { readonly upTo: number; readonly value: number; readonly count: number }[] {
    const negative = [...this.#negative].toSorted(([a], [b]) => b - a);
    const positive = [...this.#positive].toSorted(([a], [b]) => a - b);
    return [
      ...negative.map(([bin, { count }]) => ({ upTo: -edge(bin), value: -point(bin), count })),
      ...(this.#zeros > 0 ? [{ upTo: 0, value: 0, count: this.#zeros }] : []),
      ...positive.map(([bin, { count }]) => ({ upTo: edge(bin + 1), value: point(bin), count })),
    ];
  }
}

const point = (bin: number): number => edge(bin) * pointFactor;

const increase = (bins: Bins, bin: number, count: number): void => {
  const known = bins.get(bin);
  if (known) known.count += count;
  else bins.set(bin, { count });
};
