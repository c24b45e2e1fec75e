/** The entry point: mounts the page. */

import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import "./styles/tokens.css";
import "./styles/base.css";
import "./ui/ui.css";
import { begin, beginAgainByAddress, beginAgainByOtherTab } from "./api/session";
import { App } from "./app";
import { followTheme } from "./theme";

followTheme();
void begin();
beginAgainByAddress();
beginAgainByOtherTab();
const page = document.getElementById("page");
if (page === null) throw new Error("index.html has no place for the page");
createRoot(page).render(
  <StrictMode>
    <App />
  </StrictMode>,
);
