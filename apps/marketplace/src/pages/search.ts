import type { Item } from "../market.js";
import { money } from "../money.js";
import type { Hit } from "../search.js";
import { html, type Html, plural } from "./html.js";
import { marked } from "./parts.js";

export interface FoundItem {
  readonly hit: Hit;
  readonly item: Item | null;
}

export const searchPage = (query: string, found: readonly FoundItem[]): Html =>
  html`<section class="intro">
      <h1>Search</h1>
      <p class="lead">
        ${
          query === ""
            ? "Type the beginning of a word: the name of a seller, or of a thing."
            : html`${plural(found.length, "name")} with a word that begins with “<bdi>${query}</bdi>”.`
        }
      </p>
    </section>
    ${
      found.length === 0
        ? html`<p class="empty">
            ${query === "" ? "Accents and capitals do not count: muller finds Müller." : "Nothing begins so. Try fewer letters."}
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
