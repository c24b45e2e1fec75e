import { useState } from "react";
import { Link } from "wouter";
import type { Model } from "../api/types";
import { short } from "../chat/models";
import { count } from "../parts/words";
import type { Catalog } from "../store/catalog";
import { FromCatalog, Section } from "./section";
import { effortsWords, priceWords, windowWords } from "./words";

const MANY = 8;

export function Models() {
  return (
    <Section
      title="Models"
      about={
        <>
          What can be asked now. More appear when <Link href="/settings/providers">a provider</Link>{" "}
          gets its key; others of the same providers can be named in full where a model is chosen.
        </>
      }
    >
      <FromCatalog>{(known) => <Known known={known} />}</FromCatalog>
    </Section>
  );
}

function Known({ known: { models, pricedOn } }: { readonly known: Catalog }) {
  const [query, setQuery] = useState("");
  const wanted = models.filter(({ name }) => name.toLowerCase().includes(query.toLowerCase()));
  const providers = [...new Set(wanted.map(({ provider }) => provider))];
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
            {wanted
              .filter((model) => model.provider === provider)
              .map((model) => (
                <One key={model.name} model={model} />
              ))}
          </ul>
        </section>
      ))}
      {wanted.length === 0 && <p className="settings-about">No model is called that.</p>}
      <p className="settings-fine">
        Prices are in US dollars for a million tokens, as they were on {pricedOn}.
      </p>
    </>
  );
}

function One({ model }: { readonly model: Model }) {
  const { name, window, max_output, efforts, price, files, used_by } = model;
  const facts = [
    windowWords(window),
    max_output === null ? null : `answers up to ${count(max_output)}`,
    effortsWords(efforts),
    priceWords(price),
    files === null || files.length === 0 ? null : `takes ${files.join(", ")}`,
  ];
  return (
    <li>
      <p className="settings-name">
        <span>{short(name)}</span>
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
