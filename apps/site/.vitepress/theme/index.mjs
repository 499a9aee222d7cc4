import { onMounted } from "vue";
import DefaultTheme, { VPHomeFeatures } from "vitepress/theme-without-fonts";
import Front from "./Front.vue";
import Hero from "./Hero.vue";
import "./style.css";

export default {
  extends: DefaultTheme,
  enhanceApp: ({ app }) => {
    app.component("front", Front); // `layout: front` of apps/site/index.md
    app.component("Hero", Hero);
    app.component("PackageList", VPHomeFeatures);
  },
  setup: () => {
    onMounted(() => new MutationObserver(nameSearchBox).observe(document.body, { childList: true }));
  },
};

/** The theme calls its search box a button, so that a screen reader does not see the field and the results in it. */
function nameSearchBox() {
  const box = document.querySelector(".VPLocalSearchBox[role=button]");
  box?.setAttribute("role", "dialog");
  box?.removeAttribute("aria-expanded");
}
