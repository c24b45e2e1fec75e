/** The page shown while the server cannot be reached. */

import { useEffect } from "react";
import { startSession } from "./api/session";
import { Logo } from "./sidebar/logo";
import { Button } from "./ui/button";

const EVERY = 3_000;

/** Shown when the server does not respond while the page is opening; retries by itself. */
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
    <main className="sign-in">
      <div className="sign-in-card">
        <header>
          <Logo size={40} />
          <h1>The server is not responding</h1>
        </header>
        <p className="sign-in-status" role="status">
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
