import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import "./styles/tokens.css";
import "./styles/base.css";
import "./parts/parts.css";
import { begin, beginAgainByAddress } from "./api/session";
import { App } from "./app";
import { followTheme } from "./theme";

followTheme();
void begin();
beginAgainByAddress();
const page = document.getElementById("page");
if (page === null) throw new Error("index.html has no place for the page");
createRoot(page).render(
  <StrictMode>
    <App />
  </StrictMode>,
);
