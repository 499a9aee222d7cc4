import type { ViteUserConfig } from "vitest/config";
export declare const preset: (
  overrides?: NonNullable<ViteUserConfig["test"]>,
  majors?: { readonly alsoWithOlder?: readonly string[] },
) => ViteUserConfig;
