// `npm run docs` writes the pages and the sidebar before it calls VitePress. See tooling/bootstrap/site.
import { readFileSync } from "node:fs";
import { slug } from "../../../tooling/bootstrap/checks/links.mjs";
import { weightInSearch, withKeywords } from "../../../tooling/bootstrap/site/search.mjs";

const { sidebar, repository } = JSON.parse(readFileSync(new URL("../dist/site.json", import.meta.url), "utf8"));

export default {
  title: "kit",
  titleTemplate: ":title · kit",
  description: "Redis building blocks for TypeScript: locks, queues, chats and more",
  lang: "en",
  srcDir: "dist/pages",
  outDir: "dist/www",
  cacheDir: "dist/cache",
  cleanUrls: true,
  metaChunk: true,
  // The documents link to each other by the headings' anchors as GitHub makes them.
  markdown: {
    config: (markdown) => {
      // An empty heading of a column has no meaning for a screen reader: it is a cell.
      for (const rule of ["th_open", "th_close"]) {
        markdown.renderer.rules[rule] = (tokens, index, options, _env, self) => {
          const content = tokens[rule === "th_open" ? index + 1 : index - 1];
          if (content.type === "inline" && content.content === "") tokens[index].tag = "td";
          return self.renderToken(tokens, index, options);
        };
      }
      // Lines of a checklist, `- [ ] `.
      markdown.core.ruler.after("inline", "tasks", ({ tokens }) => {
        for (const [index, { type, children }] of tokens.entries()) {
          const [first] = children ?? [];
          if (type !== "inline" || first?.type !== "text" || !first.content.startsWith("[ ] ")) continue;
          if (tokens[index - 2]?.type !== "list_item_open") continue;
          first.content = `☐ ${first.content.slice(4)}`;
          tokens[index - 2].attrJoin("class", "task");
        }
      });
    },
    anchor: { slugify: slug },
    linkify: false,
    theme: { light: "github-light-high-contrast", dark: "github-dark-high-contrast" },
  },
  // "Edit this page" leads to the document from which the page is made.
  transformPageData: (page) => ({ filePath: page.frontmatter.source ?? page.filePath }),
  transformHead: ({ pageData }) => [
    ["meta", { property: "og:title", content: pageData.title || "kit" }],
    ["meta", { property: "og:description", content: pageData.description }],
  ],
  head: [
    [
      "link",
      {
        rel: "icon",
        href: "data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 32 32'><rect width='32' height='32' rx='7' fill='%23b3261e'/><path d='M9 7v18M10 17 21 7M13.5 14 22 25' stroke='white' stroke-width='4' fill='none'/></svg>",
      },
    ],
  ],
  themeConfig: {
    nav: [
      { text: "First steps", link: "/first-steps" },
      { text: "Recipes", link: "/recipes" },
      { text: "Production", link: "/production" },
      { text: "Errors", link: "/errors" },
      { text: "Compare", items: sidebar.find(({ text }) => text === "Compare and migrate").items },
      { text: "Status", link: "/status" },
      ...(repository ? [{ text: "Repository", link: repository }] : []),
    ],
    sidebar,
    outline: [2, 3],
    search: {
      provider: "local",
      options: {
        // The index has only words, so code needs no colors here.
        _render: (text, env, markdown) =>
          markdown.render(
            withKeywords(text, env.relativePath.replace(/\.md$/, "")).replace(/^( *```)\w+.*$/gm, "$1txt"),
            env,
          ),
        miniSearch: { searchOptions: { boostDocument: weightInSearch } },
      },
    },
    externalLinkIcon: true,
    ...(repository && {
      editLink: { pattern: `${repository}/edit/main/:path`, text: "Edit this page" },
    }),
    notFound: {
      title: "Page not found",
      quote: "This page was moved, or never existed. Search for it, or start at the front page.",
      linkLabel: "Go to the front page",
      linkText: "Front page",
    },
    footer: { message: "MIT license" },
  },
};
