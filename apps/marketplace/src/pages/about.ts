import type { Screen } from "./screens.js";
import { html, type Html } from "./html.js";
import { fact, intro, panel } from "./parts.js";
import { tourList } from "./tour.js";

/** The packages of a screen, its keys in Redis, and the lines of code behind it. */
export const screenFacts = ({ packages, keys, file, code }: Screen, note = ""): Html =>
  html`<dl class="behind">
      ${fact("Packages", html`${packages.map((one) => html`<a href="/docs/${one}"><code>@kit/${one}</code></a> `)}`)}
      ${fact("Keys in Redis", html`${keys.map((key) => html`<code>${key}</code> `)}`)}
    </dl>
    <figure>
      <figcaption>From <code>${file}</code>${note === "" ? "" : `, ${note}`}</figcaption>
      <pre tabindex="0"><code>${code}</code></pre>
    </figure>`;

export const aboutPage = (screens: readonly Screen[]): Html =>
  html`${intro("What am I looking at?", "This shop is a demo of kit, a set of Redis packages for Node.js. It uses all of them. Purchases run real scripts, workers are real processes, and the bar at the bottom counts money and items in Redis. The tour takes two minutes. Below it is the code behind each page.")}
  ${tourList()}
  ${screens.map((screen) => {
    const { path, name, what } = screen;
    const title = path.endsWith("/") && path !== "/" ? name : html`<a href="${path}">${name}</a>`;
    return panel(
      title,
      html`<p>${what}</p>
        ${screenFacts(screen)}`,
      "screen",
      `s-${name}`,
    );
  })}`;

export const docsPage = (name: string, readme: string): Html =>
  html`${intro(`@kit/${name}`, "", html`<a href="/about">What am I looking at?</a>`)}
    <pre class="readme panel" tabindex="0">${readme}</pre>`;
