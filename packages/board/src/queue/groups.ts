import {
  card,
  count,
  foreign,
  html,
  type Html,
  instant,
  none,
  read,
  tableOf,
  thingAddress,
  turn,
  type View,
} from "../view/index.js";
import type { GroupsData, QueueData } from "./data.js";

type Group = GroupsData["groups"][number];

/** The groups of a queue's page, before a person asks for all. */
const maxGroups = 20;

/** First the states that a person can change. */
const order: readonly Group["state"][] = ["paused", "halted", "retrying", "full", "ready", "idle"];

const byNeed = (one: Group, other: Group): number =>
  order.indexOf(one.state) - order.indexOf(other.state) ||
  (one.nextAddedAt ?? "").localeCompare(other.nextAddedAt ?? "");

const stateCell = ({ state, pausedAt, retryAt, haltedUntil }: Group): Html => {
  if (state === "paused") return html`<span class="badge warn">paused</span> since ${instant(pausedAt)}`;
  if (state === "halted") return html`<span class="badge warn">no starts</span> until ${instant(haltedUntil)}`;
  if (state === "retrying") return html`<span class="badge warn">waits for a retry</span> at ${instant(retryAt)}`;
  return html`<span class="badge">${state === "full" ? "all places taken" : state}</span>`;
};

/** A command of a queue that a group has a button for. `option`: one more that it gets. */
type Action = readonly [
  path: string,
  text: string,
  when: (group: Group) => boolean,
  option?: readonly [string, string],
];

const actions: readonly Action[] = [
  ["queue pause", "Pause", ({ pausedAt }) => pausedAt === null],
  ["queue resume", "Resume", ({ pausedAt, state }) => pausedAt !== null || state === "halted"],
  ["queue drain", "Drain", ({ ready }) => ready > 0],
  ["queue drain", "Cancel", ({ active }) => active > 0, ["o.active", "on"]],
];

/** The groups of a queue: first those that start no job, or with `groups` in the address all by name. */
export const groupsPart = async (view: View, name: string, data: QueueData): Promise<Html> => {
  if (data.groups === 0) return none;
  const after = view.query.get("groups");
  const rest = data.groups - data.shownGroups.length;
  const first = { groups: data.shownGroups, next: rest > 0 ? (data.shownGroups.at(-1)?.group ?? null) : null };
  const { groups = [], next } = after ? (await read<GroupsData>(view, "queue groups", [name], { after })).data : first;
  const shown = after === null ? groups.toSorted(byNeed).slice(0, maxGroups) : groups;
  const may = await Promise.all(actions.map(([path]) => view.may(path, { kind: "queue", names: [name] })));
  const allowed = actions.filter((_, at) => may[at]);
  const to = (...more: readonly (readonly [string, string])[]): string => thingAddress("queue", [name], ...more);
  const rows = shown.map((one) => {
    const { group, ready, active, concurrency, nextAddedAt, state } = one;
    const jobs = to(["state", state === "retrying" ? "delayed" : "grouped"], ["group", group]);
    const links = allowed
      .filter(([, , when]) => when(one))
      .map(
        ([path, text, , option]) =>
          html`<a class="act" href="${to(["do", path], ["o.group", group], ...(option ? [option] : []))}"
            >${text}<span class="unseen"> group ${foreign(group)}</span></a
          > `,
      );
    return [
      html`<a href="${jobs}">${foreign(group)}</a>`,
      count(ready),
      `${String(active)} of ${String(concurrency)}`,
      instant(nextAddedAt),
      stateCell(one),
      ...(allowed.length === 0 ? [] : [html`${links}`]),
    ];
  });
  const table = html`${tableOf("Groups", ["group", "ready", "active", "next job added", "state", ...(allowed.length === 0 ? [] : ["actions"])], rows)}
    <p class="pages">
      ${after === null && data.groups > shown.length ? turn(to(["groups", ""]), "All by name") : none}
      ${after !== null && next ? turn(to(["groups", next]), "Next groups") : none}
      ${
        after === null && rest > 0
          ? html`<span class="quiet"
              >The ${count(shown.length)} that wait the longest, of the first ${count(groups.length)} by name.</span
            >`
          : none
      }
    </p>`;
  return card("Groups", table, { id: "groups", badge: count(data.groups) });
};
