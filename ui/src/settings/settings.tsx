/** The settings page: navigation, and one section at a time. */

import type { ReactNode } from "react";
import { Link } from "wouter";
import { session } from "../api/session";
import type { Me } from "../api/types";
import { useTabTitle } from "../approvals/tab-title";
import { useStore } from "../reactive/store";
import { BackLink } from "../ui/back-link";
import { Account } from "./account";
import { Agents } from "./agents";
import { Appearance } from "./appearance";
import { Models } from "./models";
import { Providers } from "./providers";
import "./settings.css";
import { mayAdminister } from "./labels";
import { Users } from "./users";

interface Props {
  readonly section: string;
}

interface Section {
  /** URL path below /settings/ */
  readonly path: string;
  readonly name: string;
  readonly show: (me: Me) => ReactNode;
  readonly isFor?: (me: Me) => boolean;
}

interface Part {
  readonly name: string;
  readonly sections: readonly Section[];
}

/** All sections, in the order of the navigation. */
const PARTS: readonly Part[] = [
  {
    name: "This server",
    sections: [
      { path: "providers", name: "Providers", show: (me) => <Providers me={me} /> },
      { path: "models", name: "Models", show: () => <Models /> },
      { path: "agents", name: "Agents", show: () => <Agents /> },
      {
        path: "users",
        name: "Users",
        show: (me) => <Users me={me} />,
        isFor: (me) => me.mode === "team" && mayAdminister(me),
      },
    ],
  },
  {
    name: "You",
    sections: [
      { path: "appearance", name: "Appearance", show: () => <Appearance /> },
      { path: "account", name: "Account", show: (me) => <Account me={me} /> },
    ],
  },
];

export function Settings({ section }: Props) {
  const now = useStore(session);
  useTabTitle("Settings");
  if (now.is !== "in") return null;
  const { me } = now;
  const all = PARTS.flatMap(({ sections }) => sections);
  const open = all.find(({ path, isFor }) => path === section && (isFor?.(me) ?? true));
  return (
    <div className="settings">
      <header className="settings-head">
        <BackLink className="settings-back" />
        <h1>Settings</h1>
      </header>
      <div className="settings-columns">
        <Navigation me={me} open={section} />
        <div className="settings-section">
          {open === undefined ? <p>Settings page not found.</p> : open.show(me)}
        </div>
      </div>
    </div>
  );
}

function Navigation({ me, open }: { readonly me: Me; readonly open: string }) {
  return (
    <nav className="settings-nav" aria-label="Settings">
      {PARTS.map(({ name, sections }) => (
        <div key={name}>
          <h2>{name}</h2>
          <ul>
            {sections
              .filter(({ isFor }) => isFor?.(me) ?? true)
              .map(({ path, name }) => (
                <li key={path}>
                  <Link
                    href={`/settings/${path}`}
                    aria-current={path === open ? "page" : undefined}
                  >
                    {name}
                  </Link>
                </li>
              ))}
          </ul>
        </div>
      ))}
    </nav>
  );
}
