/** Settings: models that can be used, with window, efforts and price. */

import { useState } from "react";
import { Link } from "wouter";
import type { Model } from "../api/types";
import { shortName } from "../chat/model-options";
import type { Catalog } from "../store/catalog";
import { count } from "../ui/format";
import { effortsLabel, priceLabel, windowLabel } from "./labels";
import { FromCatalog, Section } from "./section";

const MANY = 8;

export function Models() {
  return (
    <Section
      title="Models"
      about={
        <>
          Models available now. More appear when <Link href="/settings/providers">a provider</Link>{" "}
          gets a key. In the model picker you can also enter the full name of any other model of
          these providers.
        </>
      }
    >
      <FromCatalog>{(known) => <ModelList known={known} />}</FromCatalog>
    </Section>
  );
}

function ModelList({ known: { models, pricedOn } }: { readonly known: Catalog }) {
  const [query, setQuery] = useState("");
  const found = models.filter(({ name }) => name.toLowerCase().includes(query.toLowerCase()));
  const providers = [...new Set(found.map(({ provider }) => provider))];
  return (
    <>
      {models.length > MANY && (
        <input
          className="field settings-search"
          type="search"
          aria-label="Search models"
          placeholder="Search models"
          value={query}
          onChange={(event) => setQuery(event.target.value)}
        />
      )}
      {providers.map((provider) => (
        <section key={provider} className="settings-group" aria-label={provider}>
          <h3>{provider}</h3>
          <ul className="settings-list">
            {found
              .filter((model) => model.provider === provider)
              .map((model) => (
                <ModelRow key={model.name} model={model} />
              ))}
          </ul>
        </section>
      ))}
      {found.length === 0 && <p className="settings-about">No model matches.</p>}
      <p className="settings-fine">
        Prices are in US dollars per million tokens, as of {pricedOn}.
      </p>
    </>
  );
}

function ModelRow({ model }: { readonly model: Model }) {
  const { name, window, max_output, efforts, price, files, used_by } = model;
  const facts = [
    windowLabel(window),
    max_output === null ? null : `answers up to ${count(max_output)} tokens`,
    effortsLabel(efforts),
    priceLabel(price),
    files === null || files.length === 0 ? null : `accepts ${files.join(", ")}`,
  ];
  return (
    <li>
      <p className="settings-name">
        <span>{shortName(name)}</span>
        {used_by.map((agent) => (
          <span key={agent} className="settings-tag">
            {agent}
          </span>
        ))}
      </p>
      <p className="settings-facts">{facts.filter((fact) => fact !== null).join(" · ")}</p>
    </li>
  );
}
