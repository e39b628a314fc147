import type { JSX } from "preact";
import type { TurnLimits } from "../api/sessions.ts";

/** The limits as they were written. */
export type LimitTexts = Readonly<Record<keyof TurnLimits, string>>;

/** No limit is written. */
export const NO_LIMITS: LimitTexts = { maxSteps: "", maxTokens: "", maxUsd: "" };

const FIELDS: readonly { readonly name: keyof TurnLimits; readonly label: string }[] = [
  { name: "maxSteps", label: "Model calls" },
  { name: "maxTokens", label: "Tokens, read and written" },
  { name: "maxUsd", label: "US dollars" },
];

/** The limits that were written; nothing if none was. */
export function limitsOf(texts: LimitTexts): TurnLimits | undefined {
  const given = FIELDS.filter(({ name }) => Number(texts[name]) > 0);
  if (given.length === 0) return undefined;
  return Object.fromEntries(given.map(({ name }) => [name, Number(texts[name])]));
}

/** What the next turn may take at most. */
export function Limits(
  { texts, change }: { readonly texts: LimitTexts; readonly change: (texts: LimitTexts) => void },
): JSX.Element {
  const isLimited = limitsOf(texts) !== undefined;
  return (
    <details class="limits">
      <summary>{isLimited ? "Limited" : "Limits"}</summary>
      <div class="sheet">
        <p>The turn ends when it has used up one of these.</p>
        {FIELDS.map(({ name, label }) => (
          <label key={name}>
            <span>{label}</span>
            <input
              type="number"
              min="0"
              step={name === "maxUsd" ? "any" : 1}
              inputMode="decimal"
              value={texts[name]}
              onInput={(event) => change({ ...texts, [name]: event.currentTarget.value })}
            />
          </label>
        ))}
      </div>
    </details>
  );
}
