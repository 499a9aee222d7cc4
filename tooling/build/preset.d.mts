import type { Options } from "tsup";
export declare const library: () => Options[];
export declare const application: (entry: string[] | Record<string, string>) => Options;
