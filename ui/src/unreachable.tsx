import { useEffect } from "react";
import { begin } from "./api/session";
import { Button } from "./parts/button";
import { Mark } from "./sidebar/mark";

const EVERY = 3_000;

/** The server was not there when the page was opened. */
export function Unreachable({ why }: { readonly why: string }) {
  useEffect(() => {
    const timer = setInterval(() => void begin(), EVERY);
    const hurry = () => void begin();
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
          <Mark size={40} />
          <h1>The server does not answer</h1>
        </header>
        <p className="door-status" role="status">
          <span className="spinner" />
          {why}
        </p>
        <p>
          This page goes on by itself as soon as the server is there. Nothing is lost: agents work
          on the server, not in this page.
        </p>
        <Button onClick={() => void begin()}>Try now</Button>
      </div>
    </main>
  );
}
