/** The copy button. */

import { useEffect, useState } from "react";
import { IconButton } from "../ui/button";
import { notify } from "../ui/notices";
import { Icon } from "./icon";

interface Props {
  readonly label: string;
  /** Called on click. */
  readonly text: () => string;
}

export function CopyButton({ label, text }: Props) {
  const [done, setDone] = useState(false);
  useEffect(() => {
    if (!done) return;
    const timer = setTimeout(() => setDone(false), 1_500);
    return () => clearTimeout(timer);
  }, [done]);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text());
      setDone(true);
    } catch {
      // Browsers allow it only over HTTPS or on localhost.
      notify("The browser blocked copying: select the text and copy it.", true);
    }
  };
  return (
    <IconButton small label={done ? "Copied" : label} onClick={copy}>
      {done ? <Icon name="check" size={14} /> : <Icon name="copy" size={14} />}
    </IconButton>
  );
}
