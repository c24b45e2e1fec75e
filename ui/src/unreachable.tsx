/** The page shown while the server cannot be reached. */

import { useEffect } from "react";
import { startSession } from "./api/session";
import { Logo } from "./sidebar/logo";
import { Button } from "./ui/button";

const EVERY = 3_000;

/** The server was not there when the page was opened. */
export function Unreachable({ why }: { readonly why: string }) {
  useEffect(() => {
    const timer = setInterval(() => void startSession(), EVERY);
    const hurry = () => void startSession();
    addEventListener("online", hurry);
    return () => {
      clearInterval(timer);
      removeEventListener("online", hurry);
    };
  }, []);
  return (
    <main className="door">
      <div className="door-card">
        <header>
          <Logo size={40} />
          <h1>The server is not responding</h1>
        </header>
        <p className="door-status" role="status">
          <span className="spinner" />
          {why}
        </p>
        <p>
          This page reconnects as soon as the server is back. Nothing is lost: agents run on the
          server, not in this page.
        </p>
        <Button onClick={() => void startSession()}>Try now</Button>
      </div>
    </main>
  );
}
