export { Component, createComponent, withComponent } from "./component.js";
export { Config, createConfig } from "./config.js";
export {
  ComponentRefusedError,
  ConfigConflictError,
  ConfigInvalidError,
  ConfigLostError,
  ConfigMissingError,
} from "./errors.js";
export { createFlags, Flags } from "./flags.js";

export type {
  ComponentEvents,
  ComponentOptions,
  ComponentState,
  CustomComponentOptions,
  Secrets,
} from "./component.js";
export type { ComponentEntry, OpenContext } from "./component-entry.js";
export type { ConfigEvents, ConfigRevision } from "./config.js";
export type { ConfigErrorCode, ConfigIssue } from "./errors.js";
export type { Flag, FlagDefinition, FlagsEvents, FlagsOptions, SetFlagOptions } from "./flags.js";
export type { ConfigState } from "./follower.js";
export type { AskOptions, ConfigOptions, HistoryOptions, ReadyOptions, SetOptions, WatchOptions } from "./options.js";
export type { StandardSchema } from "./schema.js";
export type { ConfigVersion } from "./scripts.js";
