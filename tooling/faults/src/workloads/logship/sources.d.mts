/** A consumer's result of one file: text bytes, and the SHA-256 chain over its lines. */
export interface Chain {
  readonly offset: number;
  readonly sha256: string;
}
export declare const noChain: Chain;
export declare const chained: (chain: Chain, lines: readonly string[]) => Chain;
export declare const chainText: (chain: Chain) => string;
export declare const parseChain: (text: string | undefined) => Chain;
/** The lines of a file, by its name. */
export declare const linesOf: (name: string, seed: number) => string[];
/** The lines of a file in another container: the first half of them, or all, plain or as gzip, whatever its name says. */
export declare const containedOf: (name: string, seed: number, isHalf: boolean, isGzip: boolean) => Buffer;
/** The bytes of a file: gzip in several members if its name ends with `.gz`. */
export declare const bytesOf: (name: string, seed: number) => Buffer;
/** Whether the gzip bytes of a file are shipped as they are. */
export declare const isPassedThrough: (name: string) => boolean;
/** Counts lines by their first word. */
export declare const wordsOf: (lines: readonly string[]) => Map<string, number>;
/**
 * Collects results of files, each together with its position. `stored` reads the stored results. `contradicted` receives
 * a stored result that does not belong to the position at which lines begin. That is a fault, unless another process has
 * gone on since or a failover came between.
 */
export declare const collector: (
  consumer: string,
  stored: () => Promise<Map<string, string>>,
  contradicted: (what: string, at: { readonly file: string; readonly offset: number }) => void,
) => (
  lines: readonly string[],
  results: {
    increment(name: string, field: string, by?: number): unknown;
    set(name: string, field: string, value: string): unknown;
  },
  at: { readonly file: string; readonly offset: number },
) => Promise<void>;
