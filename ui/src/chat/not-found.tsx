/** Not-found pages: for a chat that does not exist or is not visible, and for unknown URLs. */

import { Link } from "wouter";
import type { Problem } from "../api/problem";
import { useTabTitle } from "../approvals/tab-title";
import "./chat-head.css";

/** Page for a chat that does not exist or is not visible: the server does not say which. */
export function ChatNotFound({ problem }: { readonly problem: Problem }) {
  useTabTitle("Not found");
  return (
    <div className="missing" role="alert">
      <h1>This chat cannot be shown</h1>
      <p>{problem.message}</p>
      <p>It may have been deleted, or it may belong to someone who has not shared it with you.</p>
      <WaysOut />
    </div>
  );
}

/** Page for an unknown URL. */
export function NotFound() {
  useTabTitle("Not found");
  return (
    <div className="missing">
      <h1>Page not found</h1>
      <WaysOut />
    </div>
  );
}

function WaysOut() {
  return (
    <p className="missing-links">
      <Link href="/">Back to the chats</Link>
      <Link href="/new">Start a new chat</Link>
    </p>
  );
}
