import type { Item } from "../market/market.js";
import { money } from "../common/money.js";
import type { Hit } from "../market/search.js";
import { html, type Html, plural } from "./html.js";
import { intro, list, marked, type Pages, pager } from "./parts.js";

interface FoundItem {
  readonly hit: Hit;
  readonly item: Item | null;
}

export interface SearchView extends Pages {
  readonly query: string;
  /** Differs from `query` if only another spelling of a word has found something. */
  readonly asked: string;
  readonly results: readonly FoundItem[];
  /** How many names come before this page. */
  readonly first: number;
}

const lead = ({ query, asked, results, page, hasMore, first }: SearchView): Html => {
  if (query === "")
    return html`Type words from the name of a seller or an item, in any order. The last word can be incomplete.`;
  const names =
    page === 1 && !hasMore ? plural(results.length, "name") : `Names ${first + 1} to ${first + results.length}`;
  return html`${asked === query.trim() ? "" : html`No name matches “<bdi>${query}</bdi>”. `}${names} with
  “<bdi>${asked}</bdi>”.`;
};

export const searchPage = (view: SearchView): Html => {
  const { query, results } = view;
  return html`${intro("Search", lead(view))}
  ${list(
    "results",
    results.map(
      ({ hit, item }) =>
        html`<li>
          <a href="${hit.kind === "seller" ? `/seller/${hit.id}` : `/item/${hit.id}`}"
            ><span class="kind">${hit.kind === "seller" ? "Seller" : "Item"}</span>
            <span class="hit">${marked(hit.text, hit.ranges)}</span>
            <span class="price">${item?.listing ? money(item.listing.price) : ""}</span></a
          >
        </li>`,
    ),
    query === ""
      ? "Search ignores accents, case and one typing error: muller finds Müller."
      : "No matches. Try fewer words or fewer letters.",
  )}
  ${pager("More names", view, (page) => `/search?${new URLSearchParams({ q: query, page: String(page) }).toString()}`)}`;
};
