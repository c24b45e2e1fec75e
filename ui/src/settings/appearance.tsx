import { useStore } from "../state/store";
import { type Preferences, prefer, preferences } from "../store/preferences";
import { Section } from "./section";

type Name = "theme" | "reasoning" | "output";
type Choices<N extends Name> = readonly (readonly [Preferences[N], string])[];

const THEMES: Choices<"theme"> = [
  ["system", "As the system has it"],
  ["light", "Light"],
  ["dark", "Dark"],
];
const FOLDING: Choices<"reasoning"> & Choices<"output"> = [
  ["auto", "Open while it grows, then folded"],
  ["open", "Open"],
  ["closed", "Folded"],
];

export function Appearance() {
  return (
    <Section title="Appearance" about="Kept in this browser.">
      <Choice name="theme" title="Theme" choices={THEMES} />
      <Choice name="reasoning" title="What the model thinks" choices={FOLDING} />
      <Choice name="output" title="What tools put out" choices={FOLDING} />
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
            onChange={() => prefer({ [name]: value })}
          />
          {words}
        </label>
      ))}
    </fieldset>
  );
}
