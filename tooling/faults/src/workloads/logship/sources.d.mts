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
/** The bytes of a file: gzip in several members where its name ends so. */
export declare const bytesOf: (name: string, seed: number) => Buffer;
/** Whether its gzip bytes are shipped as they are. */
export declare const isPassedThrough: (name: string) => boolean;
/** How often each first word stands in lines. */
export declare const wordsOf: (lines: readonly string[]) => Map<string, number>;
/**
 * Collects what a consumer has of its files, each time together with the position. `stored` reads what is stored; `odd` hears of a stored result that
 * does not belong to its position. `overtaken` hears of one that is ahead of it: another process has gone on since, or the result is odd too.
 */
export declare const collector: (
  consumer: string,
  stored: () => Promise<Map<string, string>>,
  odd: (what: string) => void,
  overtaken?: (what: string, at: { readonly file: string; readonly offset: number }) => void,
) => (
  lines: readonly string[],
  results: {
    increment(name: string, field: string, by?: number): unknown;
    set(name: string, field: string, value: string): unknown;
  },
  at: { readonly file: string; readonly offset: number },
) => Promise<void>;
