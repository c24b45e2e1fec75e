/** The dialog that lists all slash commands. */

import { Fragment } from "react";
import { Button } from "../ui/button";
import { Dialog } from "../ui/dialog";
import { COMMANDS } from "./slash-commands";

export function CommandHelp({ onClose }: { readonly onClose: () => void }) {
  return (
    <Dialog title="Commands" onClose={onClose} wide>
      <dl className="composer-help">
        {COMMANDS.map(({ name, about }) => (
          <Fragment key={name}>
            <dt>
              <code>/{name}</code>
            </dt>
            <dd>{about}</dd>
          </Fragment>
        ))}
      </dl>
      <p className="composer-help-keys">
        For keyboard shortcuts, press <kbd>?</kbd> outside a text field.
      </p>
      <div className="dialog-buttons">
        <Button onClick={onClose}>Close</Button>
      </div>
    </Dialog>
  );
}
