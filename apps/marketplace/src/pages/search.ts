import type { Item } from "../market.js";
import { money } from "../money.js";
import type { Hit } from "../search.js";
import { html, type Html, plural } from "./html.js";
import { marked } from "./parts.js";

export interface FoundItem {
  readonly hit: Hit;
  readonly item: Item | null;
}

/** `asked` differs from `query` if only another spelling of a word has found something. */
export const searchPage = (query: string, asked: string, found: readonly FoundItem[]): Html =>
  html`<section class="intro">
      <h1>Search</h1>
      <p class="lead">
        ${
          query === ""
            ? "Type words of a name, in any order: of a seller, or of a thing. The last one may be its beginning."
            : html`${asked === query.trim() ? "" : html`Nothing is called “<bdi>${query}</bdi>”. `}${plural(found.length, "name")}
              with “<bdi>${asked}</bdi>”.`
        }
      </p>
    </section>
    ${
      found.length === 0
        ? html`<p class="empty">
            ${query === "" ? "Accents and capitals do not count: muller finds Müller. One typing error is forgiven." : "Nothing is called so. Try fewer words, or fewer letters."}
          </p>`
        : html`<ul class="results">
            ${found.map(
              ({ hit, item }) =>
                html`<li>
                  <a href="${hit.kind === "seller" ? `/seller/${hit.id}` : `/item/${hit.id}`}"
                    ><span class="kind">${hit.kind === "seller" ? "Seller" : "Thing"}</span>
                    <span class="hit">${marked(hit.text, hit.ranges)}</span>
                    <span class="price">${item?.listing ? money(item.listing.price) : ""}</span></a
                  >
                </li>`,
            )}
          </ul>`
    }`;
