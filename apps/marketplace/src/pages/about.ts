import type { Screen } from "../screens.js";
import { html, type Html } from "./html.js";

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
        A shop that runs on kit, a set of Redis packages for Node. Nothing is staged: purchases are real scripts,
        workers are real processes, and the bar at the foot counts money and items from Redis.
      </p>
    </section>
    <ol class="tour">
      <li>
        <p><a href="/">Type “mül” or “brass” in the search box</a> and see names complete.</p>
      </li>
      <li>
        <p><a href="/personas">Become somebody</a>, open a thing and buy it.</p>
      </li>
      <li>On the order's page watch its jobs, and ask the seller something.</li>
      <li>
        <p><a href="/race">Send fifty buyers for one item</a>, without a lock and with it.</p>
      </li>
      <li>
        <p><a href="/faults">Kill a worker</a> in the middle of a job; the bar stays green.</p>
      </li>
    </ol>
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
