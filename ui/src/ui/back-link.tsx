/** The link back to the list, on narrow screens. */

import { ArrowLeft } from "lucide-react";
import { Link } from "wouter";

/** From one pane to the list, where there is room for one. `className` says where that is. */
export function BackLink({ className }: { readonly className: string }) {
  return (
    <Link href="/" className={`button ${className}`} data-look="plain" data-icon="">
      <ArrowLeft size={18} aria-hidden="true" />
      <span className="hidden-text">Back to the chats</span>
    </Link>
  );
}
