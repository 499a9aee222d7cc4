import type { CliCommand, PackageDescriptor } from "@kit/core/toolkit";
import type { Ground } from "./call.js";
import type { Samples } from "./samples.js";
import type { BoardAction, BoardOptions, BoardThing } from "../options.js";
import type { Html } from "./html.js";

/** A request, as the pages see it. */
export interface View extends Ground {
  readonly packages: readonly PackageDescriptor[];
  readonly title: string;
  /** The query of the address. */
  readonly query: URLSearchParams;
  readonly jobData: BoardOptions["jobData"];
  readonly metrics: BoardOptions["metrics"];
  /** The numbers that earlier pages of queues have shown. */
  readonly samples: Samples;
  /** Whether the person may run this command on this thing. */
  readonly may: (action: string, thing: BoardThing) => Promise<boolean>;
  /** The last actions of this process, the newest first. */
  readonly actions: readonly (BoardAction & { readonly at: string })[];
}

/** A page without its frame. */
export interface Page {
  readonly title: string;
  /** The pages above it, from the overview on. */
  readonly path?: readonly (readonly [text: string, address: string])[];
  readonly status?: number;
  /** Shown once. Forms are here, so that a refresh does not clear what a person types. */
  readonly head?: Html;
  /** Refreshed every few seconds, if `isLive`. */
  readonly body: Html;
  readonly isLive?: boolean;
  readonly foot?: Html;
}

/** A button of a thing's page: a command that can do something, and that the person may run. */
export interface OfferedButton {
  readonly command: CliCommand;
  readonly text: string;
}

/** The buttons for a thing in this state. */
export const buttonsOf = async (view: View, thing: BoardThing, data: object): Promise<readonly OfferedButton[]> => {
  const all = view.packages
    .flatMap(({ commands = [] }) => commands)
    .flatMap((command) => (command.buttons ?? []).map((button) => ({ command, ...button })))
    .filter(({ thing: kind, when }) => kind === thing.kind && (when?.(data as Record<string, unknown>) ?? true));
  const allowed = await Promise.all(all.map(({ command }) => view.may(command.path, thing)));
  return all.filter((_, at) => allowed[at]);
};
