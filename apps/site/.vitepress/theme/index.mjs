import DefaultTheme, { VPHomeFeatures } from "vitepress/theme";
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
};
