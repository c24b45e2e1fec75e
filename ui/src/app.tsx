/** The root component: session state, routes, and the frame of sidebar and main pane. */

import { type ReactNode, useEffect, useMemo } from "react";
import { Route, Switch, useLocation } from "wouter";
import { session } from "./api/session";
import "./app.css";
import { Inbox } from "./approvals/inbox";
import { usePendingCountInTitle } from "./approvals/tab-title";
import { ChatScreen } from "./chat/chat-screen";
import { NewChat } from "./chat/new-chat";
import { NotFound } from "./chat/not-found";
import { useStore } from "./reactive/store";
import { Search, useSearchKey } from "./search/search";
import { Settings } from "./settings/settings";
import { Shortcuts, useShortcut, useShortcutsKey } from "./shortcuts";
import { Sidebar } from "./sidebar/sidebar";
import { useOpenChat } from "./sidebar/visible-chats";
import { AccountConflict, SignIn } from "./sign-in";
import { readCatalog } from "./store/catalog";
import { ChatList } from "./store/chat-list";
import { preferences } from "./store/preferences";
import { ErrorBoundary } from "./ui/error-boundary";
import { useNarrow } from "./ui/media-query";
import { Notices } from "./ui/notices";
import { Unreachable } from "./unreachable";

export function App() {
  const now = useStore(session);
  switch (now.is) {
    case "asking":
      return null;
    case "out":
      return <SignIn why={now.why} />;
    case "conflict":
      return <AccountConflict {...now} />;
    case "unreachable":
      return <Unreachable why={now.why} />;
    case "in":
      // Another user has other chats.
      return <AppFrame key={now.me.user} />;
  }
}

/** Two columns; one at a time on small screens. */
function AppFrame() {
  const list = useChatList();
  const [path, navigate] = useLocation();
  const width = useStore(preferences, ({ sidebarWidth }) => sidebarWidth);
  const search = useSearchKey();
  const shortcuts = useShortcutsKey();
  useShortcut("alt+n", () => {
    navigate("/new");
    // The page may already be open.
    requestAnimationFrame(() => document.querySelector<HTMLElement>(".new textarea")?.focus());
  });
  useShortcut("alt+i", () => navigate("/inbox"));
  usePendingCountInTitle(list);
  return (
    <div
      className="frame"
      data-pane={path === "/" ? "list" : "main"}
      style={{ "--sidebar": `${width}px` } as React.CSSProperties}
    >
      <SkipLink />
      <ListPane isAlone={useNarrow() && path === "/"}>
        <Sidebar list={list} onSearch={search.open} onKeys={shortcuts.open} />
      </ListPane>
      <main id="main" className="main" tabIndex={-1}>
        <ErrorBoundary what="This page" at={path}>
          <MainPane list={list} />
        </ErrorBoundary>
      </main>
      {search.isOpen && <Search list={list} onClose={search.close} onKeys={shortcuts.open} />}
      {shortcuts.isOpen && <Shortcuts onClose={shortcuts.close} />}
      <Notices />
    </div>
  );
}

interface ListPaneProps {
  /** The list is the only pane on the screen, and so the main landmark. */
  readonly isAlone: boolean;
  readonly children: ReactNode;
}

function ListPane({ isAlone, children }: ListPaneProps) {
  return (
    <div className="frame-list" role={isAlone ? "main" : undefined}>
      {isAlone && <h1 className="hidden-text">Chats</h1>}
      <ErrorBoundary what="The list of chats">{children}</ErrorBoundary>
    </div>
  );
}

/** A button, not a link: a hash in the URL would name a message. */
function SkipLink() {
  return (
    <button type="button" className="skip" onClick={() => document.getElementById("main")?.focus()}>
      Skip to the conversation
    </button>
  );
}

function useChatList(): ChatList {
  const list = useMemo(() => new ChatList(), []);
  useEffect(() => {
    list.open();
    // After an error it is loaded when it is needed.
    readCatalog().catch(() => {});
    return () => list.close();
  }, [list]);
  const open = useOpenChat();
  const isRead = useStore(list.chats, ({ is }) => is !== "reading");
  useEffect(() => {
    if (open !== null && isRead) void list.ensureLoaded(open);
  }, [list, open, isRead]);
  return list;
}

function MainPane({ list }: { readonly list: ChatList }) {
  return (
    <Switch>
      <Route path="/">
        <NewChat list={list} />
      </Route>
      <Route path="/new">
        <NewChat list={list} />
      </Route>
      <Route path="/inbox">
        <Inbox list={list} />
      </Route>
      <Route path="/settings/:section?">
        {({ section }) => <Settings section={section ?? "providers"} />}
      </Route>
      <Route path="/chats/:id">{({ id }) => <ChatScreen key={id} id={id} list={list} />}</Route>
      <Route>
        <NotFound />
      </Route>
    </Switch>
  );
}
