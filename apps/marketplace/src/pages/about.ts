import type { Screen } from "../screens.js";
import { html, type Html } from "./html.js";
import { tourList } from "./tour.js";

/** The packages of a screen, its keys in Redis, and the lines of code behind it. */
export const screenFacts = ({ packages, keys, file, code }: Screen, note = ""): Html =>
  html`<dl class="behind">
      <div>
        <dt>Packages</dt>
        <dd>${packages.map((one) => html`<a href="/docs/${one}"><code>@kit/${one}</code></a> `)}</dd>
      </div>
      <div>
        <dt>Keys in Redis</dt>
        <dd>${keys.map((key) => html`<code>${key}</code> `)}</dd>
      </div>
    </dl>
    <figure>
      <figcaption>From <code>${file}</code>${note === "" ? "" : `, ${note}`}</figcaption>
      <pre tabindex="0"><code>${code}</code></pre>
    </figure>`;

export const aboutPage = (screens: readonly Screen[]): Html =>
  html`<section class="intro">
      <h1>What am I looking at?</h1>
      <p class="lead">
        A demo of kit, a set of Redis packages for Node: a shop that uses every one of them. Nothing is staged.
        Purchases are real scripts, workers are real processes, and the bar at the foot counts money and items in Redis.
        Five steps show it in two minutes; below them is the code of each screen.
      </p>
    </section>
    ${tourList()}
    ${screens.map(
      (screen) =>
        html`<section class="panel screen" aria-labelledby="s-${screen.name}">
          <h2 id="s-${screen.name}">
            ${screen.path.endsWith("/") && screen.path !== "/" ? screen.name : html`<a href="${screen.path}">${screen.name}</a>`}
          </h2>
          <p>${screen.what}</p>
          ${screenFacts(screen)}
        </section>`,
    )}`;

export const docsPage = (name: string, readme: string): Html =>
  html`<section class="intro">
      <p class="label"><a href="/about">What am I looking at?</a></p>
      <h1>@kit/${name}</h1>
    </section>
    <pre class="readme panel" tabindex="0">${readme}</pre>`;
