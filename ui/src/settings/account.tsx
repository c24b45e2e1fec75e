/** Settings: the account and its tokens. */

import { signOut } from "../api/session";
import type { Me } from "../api/types";
import { Button } from "../ui/button";
import { attempt } from "../ui/notices";
import { Section } from "./section";
import { Tokens } from "./tokens";

const ROLES: Readonly<Record<Me["role"], string>> = {
  admin: "Administrator",
  member: "Member",
  viewer: "Viewer: read-only",
};

export function Account({ me }: { readonly me: Me }) {
  return (
    <>
      <Section title="Account">
        <dl className="settings-who">
          {me.mode === "team" && (
            <>
              <dt>Name</dt>
              <dd>{me.name}</dd>
            </>
          )}
          <dt>Role</dt>
          <dd>{me.mode === "local" ? "The only user of this server" : ROLES[me.role]}</dd>
          <dt>Permissions</dt>
          <dd>{me.scopes.join(", ")}</dd>
        </dl>
        <div>
          <Button onClick={() => void attempt(signOut)}>Sign out</Button>
        </div>
      </Section>
      <Section
        title="Tokens"
        about="For scripts and other devices. Revoking a token signs out everything that used it."
      >
        <Tokens me={me} />
      </Section>
    </>
  );
}
