/** Layout of a settings section, and its loading and error states. */

import { type ReactNode, useId, useRef } from "react";
import { type Catalog, useCatalog } from "../store/catalog";
import { Button } from "../ui/button";
import { useFocusFallback } from "../ui/focus";

interface SectionProps {
  readonly title: string;
  readonly about?: ReactNode;
  readonly children: ReactNode;
}

export function Section({ title, about, children }: SectionProps) {
  const id = useId();
  return (
    <section className="settings-part" aria-labelledby={id}>
      <h2 id={id}>{title}</h2>
      {about !== undefined && <p className="settings-about">{about}</p>}
      {children}
    </section>
  );
}

/** Content that needs the catalog, with loading and error states. */
export function FromCatalog({ children }: { children: (catalog: Catalog) => ReactNode }) {
  const state = useCatalog();
  switch (state.is) {
    case "reading":
      return <p className="settings-about">Loading…</p>;
    case "failed":
      return (
        <p className="settings-bad" role="alert">
          {state.problem.message}{" "}
          <Button busy={state.isTrying} onClick={state.again}>
            Try again
          </Button>
        </p>
      );
    case "read":
      return children(state.catalog);
  }
}

interface SelfRemovingProps {
  readonly children: ReactNode;
  readonly onClick: () => void;
}

/** A button that disappears after its action: the focus moves to the button before it. */
export function SelfRemovingButton({ children, onClick }: SelfRemovingProps) {
  const place = useRef<HTMLSpanElement>(null);
  useFocusFallback(place, (removed) => {
    const all = [...(removed.closest("section")?.querySelectorAll("button") ?? [])];
    return all[all.findIndex((button) => removed.contains(button)) - 1];
  });
  return (
    <span ref={place}>
      <Button look="danger" onClick={onClick}>
        {children}
      </Button>
    </span>
  );
}

interface FieldProps {
  readonly label: string;
  readonly why?: string | undefined;
  readonly children: (id: string, described: string | undefined) => ReactNode;
}

/** A form field with its label and error. */
export function FormField({ label, why, children }: FieldProps) {
  const id = useId();
  const described = why === undefined ? undefined : `${id}-why`;
  return (
    <div className="settings-field">
      <label htmlFor={id}>{label}</label>
      {children(id, described)}
      {why !== undefined && (
        <p id={described} className="settings-bad" role="alert">
          {why}
        </p>
      )}
    </div>
  );
}
