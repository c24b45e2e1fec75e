/** The foot of the sidebar: theme, shortcuts, settings, sign out. */

import { Keyboard, LogOut, Monitor, Moon, Settings, Sun } from "lucide-react";
import { Link, useRoute } from "wouter";
import { session, signOut } from "../api/session";
import { useStore } from "../reactive/store";
import { preferences, setPreferences } from "../store/preferences";
import { IconButton } from "../ui/button";
import { type Item, MenuButton } from "../ui/menu";
import { attempt } from "../ui/notices";

export const THEMES = [
  { theme: "system", name: "Match the system", Icon: Monitor },
  { theme: "light", name: "Light", Icon: Sun },
  { theme: "dark", name: "Dark", Icon: Moon },
] as const;

export function SidebarFoot({ onKeys }: { readonly onKeys: () => void }) {
  const [isHere] = useRoute("/settings/*?");
  return (
    <div className="sidebar-foot">
      <Link href="/settings" className="sidebar-link" aria-current={isHere ? "page" : undefined}>
        <Settings size={17} />
        <span>Settings</span>
      </Link>
      <UserMenu />
      <span className="sidebar-keys">
        <IconButton label="Keyboard shortcuts" onClick={onKeys}>
          <Keyboard size={17} />
        </IconButton>
      </span>
      <ThemeButton />
    </div>
  );
}

function ThemeButton() {
  const chosen = useStore(preferences, ({ theme }) => theme);
  const items = THEMES.map(
    ({ theme, name, Icon }): Item => ({
      name,
      icon: <Icon size={15} />,
      chosen: theme === chosen,
      onChoose: () => setPreferences({ theme }),
    }),
  );
  const { Icon } = THEMES.find(({ theme }) => theme === chosen) ?? THEMES[0];
  return (
    <MenuButton label="Theme" items={items}>
      <Icon size={17} />
    </MenuButton>
  );
}

/** The signed-in user and "Sign out"; nothing on a single-user server. */
function UserMenu() {
  const now = useStore(session);
  if (now.is !== "in" || now.me.mode === "local") return null;
  const { name, role } = now.me;
  const out: Item = {
    name: "Sign out",
    icon: <LogOut size={15} />,
    onChoose: () => void attempt(signOut),
  };
  return (
    <MenuButton label={`${name}, ${role}`} items={[out]} className="sidebar-user">
      <span aria-hidden="true">{name.slice(0, 1).toUpperCase()}</span>
    </MenuButton>
  );
}
