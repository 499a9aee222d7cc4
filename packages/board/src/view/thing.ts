import type { Inspector, Report } from "@kit/core/toolkit";
import { secondsText } from "@kit/core/toolkit";
import { look } from "./call.js";
import { optionFields, valuesOf } from "./form.js";
import { capital, foreign, html, type Html, none, thingAddress } from "./html.js";
import { buttonBar, card, factList, kindPath, note, overviewPath, placeFields, reportTable, tableOf } from "./parts.js";
import { buttonsOf, type Page, type View } from "./view.js";

/** The most keys of a thing that a page looks at. */
const maxKeys = 40;

/** The keys of a thing. They are read only when a person asks. */
export const keysPart = async (view: View, { thing, keys }: Inspector, names: readonly string[]): Promise<Html> => {
  const { redis, prefix, query } = view;
  if (!keys) return none;
  if (!query.has("keys"))
    return html`<p class="quiet"><a href="${thingAddress(thing, names, ["keys", "1"])}">Show its keys in Redis</a></p>`;
  const looked = keys(prefix, ...names).slice(0, maxKeys);
  const rows = await Promise.all(
    looked.map(async (key) => {
      const [type, life] = await Promise.all([redis.call("TYPE", key), redis.call("PTTL", key)]);
      return [foreign(key), String(type), Number(life) < 0 ? "never" : `in ${secondsText(Number(life))}`] as const;
    }),
  );
  const there = rows.filter(([, type]) => type !== "none");
  const shown =
    there.length === 0 ? note("info", "It has no keys now.") : tableOf("Keys", ["key", "type", "expires"], there);
  return card("Keys in Redis", shown);
};

/** The pages above a thing. */
export const pathTo = (view: View, inspector: Inspector, names: readonly string[]): NonNullable<Page["path"]> => {
  const [owner] = inspector.args ?? [];
  const inspectors = view.packages.flatMap((one) => one.inspectors ?? []);
  const listed = inspector.listed ?? inspectors.find((one) => one.listed?.things === owner?.listedIn)?.listed;
  const parent = names.length > 1 ? inspectors.find((one) => one.listed === listed && listed !== undefined) : undefined;
  const [first = ""] = names;
  return [
    overviewPath,
    ...(listed ? [kindPath(listed.things)] : []),
    ...(parent ? [[first, thingAddress(parent.thing, [first])] as const] : []),
  ];
};

/** The page of a thing without its body. It has buttons, unless the thing is damaged or unknown. */
export const frameOf = async (
  view: View,
  inspector: Inspector,
  names: readonly string[],
  { isUnknown = false, hasProblem = false, data }: Report,
  form: Html = none,
): Promise<Omit<Page, "body">> => {
  const { thing } = inspector;
  const buttons = isUnknown || hasProblem ? [] : await buttonsOf(view, { kind: thing, names }, data);
  return {
    title: names.at(-1) ?? thing,
    path: pathTo(view, inspector, names),
    isLive: true,
    status: isUnknown ? 404 : 200,
    head: html`<p class="kind">${capital(thing)}</p>
      ${buttonBar(thing, names, buttons)}${form}`,
  };
};

/** A page for any thing, from its inspector alone. */
export const thingPage = async (view: View, inspector: Inspector, names: readonly string[]): Promise<Page> => {
  const { thing, options = [] } = inspector;
  const report = await look(view, inspector, names, valuesOf(view.query, options));
  const form =
    options.length === 0
      ? none
      : html`<form class="search options">
          ${placeFields(thing, names)}${optionFields(options, view.query)}<button>Show</button>
        </form>`;
  return {
    ...(await frameOf(view, inspector, names, report, form)),
    body: html`<section class="card" aria-label="Facts">
      ${report.hasProblem ? note("bad", "It cannot be read.") : none}
      ${factList(report.facts ?? [], [thing])}${reportTable(report, "Details")}
    </section>`,
    foot: await keysPart(view, inspector, names),
  };
};
