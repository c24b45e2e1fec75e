/** Settings: agents and their tools. */

import type { Agent } from "../api/types";
import { effortName, shortName } from "../chat/model-options";
import { Inline } from "../timeline/inline-markdown";
import { count } from "../ui/format";
import { asSentence, effectLabel, type Tool, waitLabel, windowLabel } from "./labels";
import { FromCatalog, Section } from "./section";

export function Agents() {
  return (
    <Section
      title="Agents"
      about="Agents are configured on the server, in holdfast.toml or in Python. The first one is the default."
    >
      <FromCatalog>
        {({ agents }) =>
          agents.map((agent, at) => <AgentDetails key={agent.name} agent={agent} at={at} />)
        }
      </FromCatalog>
    </Section>
  );
}

function AgentDetails({ agent, at }: { readonly agent: Agent; readonly at: number }) {
  const { name, description, model, effort, window, compacts_at, tools, provider_tools } = agent;
  const facts = [
    shortName(model),
    effort === null ? null : `effort ${effortName(effort).toLowerCase()}`,
    windowLabel(window),
    compacts_at === null ? "never summarized" : `summarized at ${count(compacts_at)}`,
  ];
  const many = tools.length === 1 ? "1 tool" : `${tools.length} tools`;
  return (
    <section className="settings-group" aria-label={name}>
      <h3 className="settings-name">
        <span>{name}</span>
        {at === 0 && <span className="settings-tag">default</span>}
      </h3>
      {description !== "" && <p className="settings-facts">{description}</p>}
      <p className="settings-facts">{facts.filter((fact) => fact !== null).join(" · ")}</p>
      {provider_tools.length > 0 && (
        <p className="settings-facts">
          Tools run by the model's provider: {provider_tools.join(", ")}
        </p>
      )}
      {tools.length === 0 ? (
        <p className="settings-facts">No tools.</p>
      ) : (
        <details className="settings-tools" open={at === 0}>
          <summary>{many}</summary>
          <ul className="settings-list">
            {tools.map((tool) => (
              <ToolLine key={tool.name} tool={tool} />
            ))}
          </ul>
        </details>
      )}
    </section>
  );
}

function ToolLine({ tool }: { readonly tool: Tool }) {
  const waits = waitLabel(tool);
  const [first = ""] = tool.description.split("\n");
  return (
    <li>
      <p className="settings-name">
        <code>{tool.name}</code>
        {waits !== null && <span className="settings-tag">{waits}</span>}
      </p>
      <p className="settings-facts">
        <Inline text={first} />
      </p>
      {tool.waits_for === null && (
        <p className="settings-fine">{asSentence(effectLabel(tool.effect))}</p>
      )}
    </li>
  );
}
