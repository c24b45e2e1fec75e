import { type ReactNode, useId } from "react";
import { Button } from "../parts/button";
import { type Catalog, useCatalog } from "../store/catalog";

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

/** Something made of the catalog, once that is there. */
export function FromCatalog({ children }: { children: (catalog: Catalog) => ReactNode }) {
  const known = useCatalog();
  switch (known.is) {
    case "reading":
      return <p className="settings-about">Reading…</p>;
    case "failed":
      return (
        <p className="settings-bad" role="alert">
          {known.problem.message}{" "}
          <Button busy={known.isTrying} onClick={known.again}>
            Try again
          </Button>
        </p>
      );
    case "read":
      return children(known.catalog);
  }
}

interface FieldProps {
  readonly label: string;
  readonly why?: string | undefined;
  readonly children: (id: string, described: string | undefined) => ReactNode;
}

/** A field with its name, and what is wrong with it beside it. */
export function Field({ label, why, children }: FieldProps) {
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
