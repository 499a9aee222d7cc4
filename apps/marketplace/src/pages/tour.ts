// The five steps through the shop: a list on the about page, and a strip that leads from one step to the next.
import { html, type Html } from "./html.js";

interface Step {
  readonly name: string;
  readonly what: string;
  /** The page where the step begins. */
  readonly path: string;
  /** The pages where it takes place. A visitor who gets there has come to this step. */
  readonly pages: RegExp;
}

/** The first step asks the visitor to type one of these. The smoke run types them, too, and each must find something. */
export const tourWords = ["mül", "brass lamp"] as const;

const steps: readonly Step[] = [
  {
    name: "Search",
    what: `Type ${tourWords.map((words) => `“${words}”`).join(" or ")} in the search box above. It completes names as you type.`,
    path: "/",
    pages: /^\/(search)?$/,
  },
  {
    name: "Buy something",
    what: "Choose a persona, open an item and buy it with the lock.",
    path: "/personas",
    pages: /^\/(personas$|item\/)/,
  },
  {
    name: "Follow the order",
    what: "Watch three workers charge, print and mail. Then ask the seller a question.",
    path: "/me",
    pages: /^\/(order\/|me$)/,
  },
  {
    name: "Send fifty buyers for one item",
    what: "Send fifty buyers without a lock: the item is sold many times. Then choose the tab Kit lock and send them again.",
    path: "/race",
    pages: /^\/race/,
  },
  {
    name: "Kill a worker",
    what: "Kill a worker in the middle of a job. Another worker finishes the job, and the marks at the bottom stay green.",
    path: "/faults",
    pages: /^\/faults/,
  },
];

/** The page where a step begins; undefined if there is no such step. */
export const startOfStep = (step: number): string | undefined => steps[step - 1]?.path;

/** The step after a page was opened: the tour follows visitors who go on by themselves, but never back. */
export const stepAfter = (step: number, path: string): number =>
  step === 0 ? 0 : Math.max(step, steps.findIndex(({ pages }) => pages.test(path)) + 1);

/** The task of the current step and a link to the next; empty outside the tour. */
export const tourStrip = (step: number, path: string): Html => {
  const now = steps[step - 1];
  if (!now) return html``;
  const next = steps[step];
  return html`<aside class="strip" aria-label="Tour">
    <p>
      <b>Step ${step} of ${steps.length}: ${now.name}.</b> ${now.what}
      ${now.pages.test(path) ? "" : html`<a href="/tour/${step}">Go there</a>`}
    </p>
    ${
      next
        ? html`<a class="button small" href="/tour/${step + 1}">Next: ${next.name} →</a>
            <a class="quiet button small" href="/tour/0">End tour</a>`
        : html`<a class="button small" href="/tour/0">Finish: see the code →</a>`
    }
  </aside>`;
};

export const tourList = (): Html =>
  html`<ol class="tour">
      ${steps.map(
        ({ name, what }, at) =>
          html`<li>
            <p><a href="/tour/${at + 1}">${name}</a>. ${what}</p>
          </li>`,
      )}
    </ol>
    <p><a class="button primary" href="/tour/1">Start the tour</a></p>`;
