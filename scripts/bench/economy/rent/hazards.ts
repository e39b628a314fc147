import type { Profile } from "@tare/planner";
import { outputPrice } from "../output_price.ts";
import type { Standing } from "./bearers.ts";

/** What a rule goes by for one message before one call. */
export interface Now {
  readonly call: number;
  /** Calls since one of its files was last read or written. */
  readonly fileAge: number;
  readonly profile: Profile;
}

/**
 * What letting a message go is expected to cost at the next call, if it is paid three times: the probability that
 * it is needed, times {@linkcode refetch}. `age` is the number of calls that the probability falls with.
 */
export type Hazard = (standing: Standing, now: Now) => { readonly loss: number; readonly age: number };

/** Prompt tokens that a repair is expected to read. The prompt as it is would feed back: a large one would keep more. */
const REPAIR_PROMPT_TOKENS = 20_000;
const REPAIR_OUTPUT_TOKENS = 60;
const REPAIR_ORIGINAL_TOKENS = 7_000;

/** What fetching a message of so many tokens back costs. */
function refetch(tokens: number, profile: Profile): number {
  return REPAIR_PROMPT_TOKENS * profile.read + REPAIR_OUTPUT_TOKENS * outputPrice(profile) +
    Math.min(tokens, REPAIR_ORIGINAL_TOKENS) * profile.write;
}

/** S: by the lines and names of which a message is the newest bearer, since it was last referred to. */
export const S: Hazard = (standing, { call, fileAge, profile }) => {
  const { facts: { fileText, tokens }, lines, names, wantedText } = standing;
  const age = 1 + call - wantedText;
  const text = fileText
    ? 0.035 * Math.sqrt(lines) / (age * Math.sqrt(Math.min(age, fileAge)))
    : 0.003 * Math.sqrt(lines) / age;
  const named = names > 0 ? 0.2 * names ** 0.15 / age : 0;
  const hazard = 3 * Math.min(0.5, text) + 1.5 * Math.min(0.5, named);
  return { loss: hazard * refetch(tokens, profile), age };
};

/** Z: by size in place of lines and names. */
export const Z: Hazard = ({ facts: { fileText, tokens }, wantedText }, { call, fileAge, profile }) => {
  const age = 1 + call - wantedText;
  const weight = fileText ? 0.9 / Math.sqrt(Math.min(age, fileAge)) : 0.03;
  return { loss: (weight * Math.sqrt(tokens / 1000) + 0.225) / age * refetch(tokens, profile), age };
};

/**
 * Keep: by size, by how lately its file was touched, and by the names that nothing newer bears. What a text is worth
 * falls from when it was last referred to by a name, what its names are worth from when it came: a name that is used
 * moves on to the call that used it.
 */
export const KEEP: Hazard = ({ facts, names, came, wanted }, { call, fileAge, profile }) => {
  const age = 1 + call - wanted;
  const recent = Math.min(age, fileAge);
  const size = Math.sqrt(facts.tokens / 1000);
  const text = facts.edits
    ? 0.3 * size / (age * recent ** 0.25)
    : facts.fileText
    ? 0.3 * size / (age * Math.sqrt(recent))
    : 0.024 * size / age;
  const named = names > 0 ? 0.12 * names ** 0.15 / (1 + call - came) : 0;
  return { loss: 2.2 * (text + named) * refetch(facts.tokens, profile), age };
};

/** Landlord with λ = 1 (Young 2002): a message has paid for itself once carrying it has cost what fetching it back would. */
export const LANDLORD: Hazard = ({ facts: { tokens }, wantedText }, { call, profile }) => {
  const age = 1 + call - wantedText;
  return { loss: refetch(tokens, profile) / age, age };
};
