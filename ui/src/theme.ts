/** Applies the theme: light, dark or the system's, with the browser's own colours. */

import { preferences } from "./store/preferences";

/** Applies the theme, also to the browser's bars, and follows changes. */
export function applyTheme(): void {
  const bar = document.createElement("meta");
  bar.name = "theme-color";
  document.head.append(bar);
  const apply = () => {
    const { theme } = preferences.get();
    if (theme === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    bar.content = getComputedStyle(document.body).backgroundColor;
  };
  apply();
  preferences.subscribe(apply);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", apply);
  // Styles may load after the script.
  addEventListener("load", apply);
}
