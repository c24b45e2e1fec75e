/** The entry point: mounts the page. */

import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import "./styles/tokens.css";
import "./styles/base.css";
import "./ui/ui.css";
import { restartOnSignInElsewhere, restartOnTokenInUrl, startSession } from "./api/session";
import { App } from "./app";
import { applyTheme } from "./theme";

applyTheme();
void startSession();
restartOnTokenInUrl();
restartOnSignInElsewhere();
const page = document.getElementById("page");
if (page === null) throw new Error("index.html has no place for the page");
createRoot(page).render(
  <StrictMode>
    <App />
  </StrictMode>,
);
