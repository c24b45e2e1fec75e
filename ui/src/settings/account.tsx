import { signOut } from "../api/session";
import type { Me } from "../api/types";
import { Button } from "../parts/button";
import { attempt } from "../parts/notices";
import { Section } from "./section";
import { Tokens } from "./tokens";

const ROLES: Readonly<Record<Me["role"], string>> = {
  admin: "Administrator",
  member: "Member",
  viewer: "Viewer: may read, and change nothing",
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
          <dt>Signed in for</dt>
          <dd>{me.scopes.join(", ")}</dd>
        </dl>
        <div>
          <Button onClick={() => void attempt(signOut)}>Sign out</Button>
        </div>
      </Section>
      <Section
        title="Tokens"
        about="For programs that act in your name, and to sign in elsewhere. What one is good for ends with it."
      >
        <Tokens me={me} />
      </Section>
    </>
  );
}
