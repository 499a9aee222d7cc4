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
    return html`Type words of a name, in any order: of a seller, or of a thing. The last one may be its beginning.`;
  const names =
    page === 1 && !hasMore ? plural(results.length, "name") : `Names ${first + 1} to ${first + results.length}`;
  return html`${asked === query.trim() ? "" : html`Nothing is called “<bdi>${query}</bdi>”. `}${names} with
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
            ><span class="kind">${hit.kind === "seller" ? "Seller" : "Thing"}</span>
            <span class="hit">${marked(hit.text, hit.ranges)}</span>
            <span class="price">${item?.listing ? money(item.listing.price) : ""}</span></a
          >
        </li>`,
    ),
    query === ""
      ? "Accents and capitals do not count: muller finds Müller. One typing error is forgiven."
      : "Nothing is called so. Try fewer words, or fewer letters.",
  )}
  ${pager("More names", view, (page) => `/search?${new URLSearchParams({ q: query, page: String(page) }).toString()}`)}`;
};
