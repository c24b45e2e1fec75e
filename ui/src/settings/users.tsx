/** Settings: users, their roles and their tokens. */

import { type FormEvent, useCallback, useEffect, useState } from "react";
import { IdempotencyKeys } from "../api/idempotency-key";
import { Problem } from "../api/problem";
import { call } from "../api/request";
import type { Schemas } from "../api/schema";
import type { Me } from "../api/types";
import { Button } from "../ui/button";
import { attempt } from "../ui/notices";
import { FormField, Section } from "./section";
import { Tokens } from "./tokens";

type User = Schemas["User"];
type Role = User["role"];

const ROLES: readonly (readonly [Role, string])[] = [
  ["viewer", "Viewer"],
  ["member", "Member"],
  ["admin", "Administrator"],
];

export function Users({ me }: { readonly me: Me }) {
  const [users, setUsers] = useState<readonly User[] | null>(null);
  const [why, setWhy] = useState<string>();
  const read = useCallback(async () => {
    try {
      setUsers(await readAll());
      setWhy(undefined);
    } catch (error) {
      setWhy(Problem.of(error).message);
    }
  }, []);
  useEffect(() => void read(), [read]);
  return (
    <Section
      title="Users"
      about="Each user has their own chats. To give someone access, add them and create a token for them."
    >
      {why !== undefined && (
        <p className="settings-bad" role="alert">
          {why}
        </p>
      )}
      <NewUser onCreated={() => void read()} />
      <ul className="settings-list">
        {users?.map((user) => (
          <UserRow key={user.id} user={user} me={me} onChange={() => void read()} />
        ))}
      </ul>
    </Section>
  );
}

async function readAll(): Promise<readonly User[]> {
  const users: User[] = [];
  let after = "";
  for (;;) {
    const page = await call("GET /users", { query: { after, limit: 1000 } });
    users.push(...page.users);
    if (page.next == null) return users;
    after = page.next;
  }
}

function NewUser({ onCreated }: { readonly onCreated: () => void }) {
  const [name, setName] = useState("");
  const [role, setRole] = useState<Role>("member");
  const [why, setWhy] = useState<string>();
  const [busy, setBusy] = useState(false);
  const [keys] = useState(() => new IdempotencyKeys());
  const add = async (event: FormEvent) => {
    event.preventDefault();
    if (name.trim() === "") return setWhy("Enter a name.");
    setBusy(true);
    try {
      // A retry after a lost response is not refused because the name exists.
      const body = { name: name.trim(), role };
      await call("POST /users", { body, key: keys.for(body) });
      keys.done();
      setName("");
      setWhy(undefined);
      onCreated();
    } catch (error) {
      setWhy(Problem.of(error).message);
    }
    setBusy(false);
  };
  return (
    <form className="settings-form settings-row" onSubmit={(event) => void add(event)} noValidate>
      <FormField label="Name" why={why}>
        {(id, described) => (
          <input
            id={id}
            className="field"
            autoComplete="off"
            value={name}
            aria-invalid={why !== undefined}
            aria-describedby={described}
            onChange={(event) => setName(event.target.value)}
          />
        )}
      </FormField>
      <FormField label="Role">
        {(id) => <RoleSelect id={id} role={role} onChange={setRole} />}
      </FormField>
      <Button look="main" type="submit" busy={busy}>
        Add
      </Button>
    </form>
  );
}

interface RoleProps {
  readonly id?: string;
  readonly label?: string;
  readonly role: Role;
  readonly onChange: (role: Role) => void;
}

function RoleSelect({ id, label, role, onChange }: RoleProps) {
  return (
    <select
      id={id}
      className="field settings-select"
      aria-label={label}
      value={role}
      onChange={(event) => onChange(event.target.value as Role)}
    >
      {ROLES.map(([value, words]) => (
        <option key={value} value={value}>
          {words}
        </option>
      ))}
    </select>
  );
}

interface UserRowProps {
  readonly user: User;
  readonly me: Me;
  readonly onChange: () => void;
}

function UserRow({ user, me, onChange }: UserRowProps) {
  const [isOpen, setOpen] = useState(false);
  const off = user.disabled_at != null;
  const change = async (body: Schemas["ChangeUser"]) => {
    const path = { user: user.id };
    await attempt(() => call("PATCH /users/{user}", { path, body }));
    // Also after an error: the select shows the stored role again.
    onChange();
  };
  return (
    <li data-off={off ? "" : undefined}>
      <div className="settings-line">
        <p className="settings-name">
          <span>{user.name}</span>
          {user.id === me.user && <span className="settings-tag">you</span>}
          {off && <span className="settings-tag">disabled</span>}
        </p>
        <div className="settings-buttons">
          <RoleSelect
            label={`Role of ${user.name}`}
            role={user.role}
            onChange={(role) => void change({ role })}
          />
          <Button aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
            Tokens<span className="hidden-text"> of {user.name}</span>
          </Button>
          <Button look={off ? "usual" : "danger"} onClick={() => void change({ disabled: !off })}>
            {off ? "Enable" : "Disable"}
            <span className="hidden-text"> {user.name}</span>
          </Button>
        </div>
      </div>
      {isOpen && (
        <div className="settings-inner">
          <Tokens me={me} user={user.id} />
        </div>
      )}
    </li>
  );
}
