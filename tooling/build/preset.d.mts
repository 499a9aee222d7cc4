import type { Options } from "tsup";
export declare const library: (parts?: readonly string[]) => Options[];
export declare const application: (entry: string[] | Record<string, string>) => Options;
