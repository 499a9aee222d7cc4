import type { ChannelStatus } from "@kit/logship";
import type { ShipperStatus } from "../behind/shipper.js";
import { html, type Html, plural } from "./html.js";
import type { Part } from "./live.js";
import { bytes, count, fact, intro, list, meter, panel, postForm, table } from "./parts.js";

export interface LogsLook {
  readonly channel: ChannelStatus | null;
  readonly shipper: ShipperStatus | null;
  /** `2026-11-20 DE` → visits. */
  readonly visits: ReadonlyMap<string, string>;
  readonly counted: number;
  readonly consumers: readonly { readonly name: string; readonly lines: number }[];
}

const shownDays = 14;
const shownCountries = 12;
const levels = 6;
const names = new Intl.DisplayNames("en-GB", { type: "region", fallback: "code" });

const countryName = (code: string): string => {
  if (!/^[A-Z]{2}$/.test(code)) return code === "unknown" ? "this machine" : code;
  return names.of(code) ?? code;
};

const grid = (visits: LogsLook["visits"]): Html => {
  const byDay = new Map<string, Map<string, number>>();
  const totals = new Map<string, number>();
  for (const [field, value] of visits) {
    const [day, country] = field.split(" ");
    if (day === undefined || country === undefined) continue;
    const row = byDay.get(day) ?? new Map<string, number>();
    byDay.set(day, row.set(country, Number(value)));
    totals.set(country, (totals.get(country) ?? 0) + Number(value));
  }
  const days = [...byDay.keys()].sort().slice(-shownDays);
  const countries = [...totals].sort(([, one], [, other]) => other - one).slice(0, shownCountries);
  if (days.length === 0) return html`<p class="empty">No visits counted yet. The first files are being shipped.</p>`;
  const most = Math.max(1, ...days.flatMap((day) => countries.map(([country]) => byDay.get(day)?.get(country) ?? 0)));
  const top = Math.max(1, ...countries.map(([, total]) => total));
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Visits by country and day">
    ${table({
      ...{ caption: "Visits by country and day", isCaptionAway: true, kind: "heat", hasRowHeads: true },
      columns: [
        "Country",
        ...days.map(
          (day) =>
            [html`<span class="away">${day}</span><span aria-hidden="true">${day.slice(8)}</span>`, "number"] as const,
        ),
        ["30 days", "number"],
      ],
      rows: countries.map(([country, total]) => [
        countryName(country),
        ...days.map((day) => {
          const value = byDay.get(day)?.get(country) ?? 0;
          return [value === 0 ? "" : value, `h${Math.ceil((value / most) * levels)}`] as const;
        }),
        [html`${count(total)}${meter(total / top)}`, "total"],
      ]),
    })}
  </div>`;
};

const fileList = ({ files }: ChannelStatus): Html =>
  list(
    "files",
    files
      .slice(-8)
      .reverse()
      .map(({ name, textBytes, storedBytes, chunks, freedChunks, positions, isSealed }) => {
        const held = Math.max(0, chunks - freedChunks);
        return html`<li>
          <p>
            <b>${name}</b>
            <span class="fact"
              >${bytes(textBytes)} of text, ${bytes(storedBytes)} compressed, ${plural(held, "chunk")} in Redis,
              ${freedChunks} freed${isSealed ? "" : ", shipping"}</span
            >
          </p>
          <ul class="progress">
            ${Object.entries(positions).map(([consumer, position]) => {
              const share = textBytes === 0 ? 0 : position / textBytes;
              return html`<li>
                <span>${consumer}</span>${meter(share)}<span class="number">${Math.floor(share * 100)} %</span>
              </li>`;
            })}
          </ul>
        </li>`;
      }),
    "No files in Redis. All consumers have read all files, and their space is freed.",
  );

export const logsParts = ({ channel, shipper, visits, counted, consumers }: LogsLook): Part[] => [
  [
    "logs-now",
    html`<dl class="facts">
        ${fact("Shipped", shipper === null ? "–" : plural(shipper.files, "file"))}
        ${fact("Lines", shipper === null ? "–" : count(shipper.lines))} ${fact("Counted exactly once", count(counted))}
        ${fact("In Redis now", channel === null ? "–" : `${bytes(channel.usedBytes)} of ${bytes(channel.limitBytes)}`)}
        ${consumers.map(({ name, lines }) => fact(`Read by ${name}`, count(lines)))}
      </dl>
      <p class="fact">The count comes from Redis. The other figures follow a moment later.</p>
      <p class="shipping">
        ${
          shipper?.now
            ? html`<span>Shipping <b>${shipper.now.file}</b>, ${bytes(shipper.now.doneBytes)}</span>`
            : html`<span class="fact"
                >The shipper is waiting for the next file. The web server rotates its log every few seconds.</span
              >`
        }
      </p>`,
  ],
  ["logs-files", channel === null ? html`<p class="empty">No channel yet.</p>` : fileList(channel)],
  ["logs-grid", grid(visits)],
];

export interface LogsView {
  readonly look: LogsLook;
  readonly csrf: string;
  readonly canShip: boolean;
}

export const logsPage = ({ look, csrf, canShip }: LogsView): Html => {
  const parts = new Map(logsParts(look));
  const live = (title: string, id: string, more: Html = html``): Html =>
    panel(
      title,
      html`<div id="${id}">${parts.get(id) ?? ""}</div>
        ${more}`,
    );
  const button = html`<button class="button primary">Ship a file of 20,000 lines</button>`;
  return html`${intro("The shop's own log files", "Every request to this server is a log line. Files go through Redis in chunks, within a memory limit. Two consumers count each line exactly once, even if a process dies.")}
  ${live("In transit", "logs-now", canShip ? postForm("/logs/ship", { csrf }, button, "start") : html``)}
  ${live("Files in Redis", "logs-files")}
  ${live(
    "Visits by country and day",
    "logs-grid",
    html`<p class="hint">
      Synthetic geography: addresses come from reserved blocks (240.0.0.0/4, 2001:db8::/32). This shop invents their
      countries.
    </p>`,
  )}`;
};
