/** The link back to the list, on narrow screens. */

import { ArrowLeft } from "lucide-react";
import { Link } from "wouter";

/** Link from a pane to the list. `className` hides it where both panes fit. */
export function BackLink({ className }: { readonly className: string }) {
  return (
    <Link href="/" className={`button ${className}`} data-look="plain" data-icon="">
      <ArrowLeft size={18} aria-hidden="true" />
      <span className="hidden-text">Back to the chats</span>
    </Link>
  );
}
