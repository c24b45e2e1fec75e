/** Settings: theme, and how reasoning and tool output are shown. */

import { useStore } from "../reactive/store";
import { type Preferences, preferences, setPreferences } from "../store/preferences";
import { Section } from "./section";

type Name = "theme" | "reasoning" | "output";
type Choices<N extends Name> = readonly (readonly [Preferences[N], string])[];

const THEMES: Choices<"theme"> = [
  ["system", "Match the system"],
  ["light", "Light"],
  ["dark", "Dark"],
];
const FOLDING: Choices<"reasoning"> & Choices<"output"> = [
  ["auto", "Expanded while it streams, then collapsed"],
  ["open", "Expanded"],
  ["closed", "Collapsed"],
];

export function Appearance() {
  return (
    <Section title="Appearance" about="Stored in this browser.">
      <Choice name="theme" title="Theme" choices={THEMES} />
      <Choice name="reasoning" title="Reasoning" choices={FOLDING} />
      <Choice name="output" title="Tool output" choices={FOLDING} />
    </Section>
  );
}

interface ChoiceProps<N extends Name> {
  readonly name: N;
  readonly title: string;
  readonly choices: Choices<N>;
}

function Choice<N extends Name>({ name, title, choices }: ChoiceProps<N>) {
  const chosen = useStore(preferences, (all) => all[name]);
  return (
    <fieldset className="settings-choice">
      <legend>{title}</legend>
      {choices.map(([value, words]) => (
        <label key={value}>
          <input
            type="radio"
            name={name}
            checked={chosen === value}
            onChange={() => setPreferences({ [name]: value })}
          />
          {words}
        </label>
      ))}
    </fieldset>
  );
}
