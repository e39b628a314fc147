import { MODELS_DATE } from "@tare/planner/internal";
import type { SessionRecord } from "@tare/session/internal";
import { type Static, Type } from "typebox";
import { closed, METADATA, text } from "../http/schema.ts";
import { APPROVAL_RULES } from "../approvals/rules.ts";
import { invalidRequest } from "../http/http_error.ts";

export const BUDGET = closed({
  maxSteps: Type.Optional(Type.Integer({ minimum: 1, description: "Most model calls." })),
  maxTokens: Type.Optional(
    Type.Integer({ minimum: 1, description: "Most tokens, of prompts and replies together." }),
  ),
  maxUsd: Type.Optional(
    Type.Number({
      exclusiveMinimum: 0,
      description:
        "Most US dollars, of prompts and replies together, by configured prices or the list prices of " +
        `${MODELS_DATE}.`,
    }),
  ),
  maxCostUnits: Type.Optional(
    Type.Number({
      exclusiveMinimum: 0,
      description: "Highest cost of the prompts in cost units (one unit = one uncached input token).",
    }),
  ),
});
export type Budget = Readonly<Static<typeof BUDGET>>;

export const EFFORT = Type.String({
  pattern: "^[a-z]{1,20}$",
  description: "Reasoning effort, such as low, medium or high. Default: the model's own.",
});

export const SESSION_SETTINGS = closed({
  instructions: text(
    "Start of the system message. The server's own instructions are followed by a description of the " +
      "environment.",
  ),
  model: Type.String({ minLength: 1, description: "Name of the model at the provider." }),
  effort: Type.Optional(EFFORT),
  tools: Type.Array(Type.String(), {
    uniqueItems: true,
    maxItems: 1_000,
    description:
      "Names of the tools that the session may use; `server__*` matches all tools of that MCP server.",
  }),
  metadata: METADATA,
  budget: BUDGET,
  approvalRules: APPROVAL_RULES,
});
export type SessionSettings = Readonly<Static<typeof SESSION_SETTINGS>>;

/** Body of `POST /tare/v1/sessions`. Defaults: the server's own instructions and model, and all its tools. */
export const CREATE_SESSION = closed(Type.Partial(SESSION_SETTINGS).properties, "CreateSession", {
  metadata: { of: "a test" },
  budget: { maxSteps: 20 },
});
export type CreateSession = Partial<SessionSettings>;

export interface StoredSettings extends SessionSettings {
  readonly subagent?: {
    readonly call: string;
    readonly tools: readonly string[];
  };
  readonly forkedFrom?: ForkedFrom;
}

export interface SubagentParent {
  readonly session: string;
  readonly call: string;
}

export function parentOf(
  { parent, settings }: Pick<SessionRecord, "parent" | "settings">,
): SubagentParent | undefined {
  return parent === undefined
    ? undefined
    : { session: parent, call: (settings as StoredSettings).subagent?.call ?? "" };
}

export interface ForkedFrom {
  readonly session: string;
  readonly messages: number;
}

export interface Chosen extends Pick<SessionSettings, "model" | "effort"> {
  /** The effort that was chosen for another model, and that isn't requested from this one. */
  readonly effortOfOthers?: string;
}

export function storedSettings(stored: unknown, chosen?: Chosen): SessionSettings {
  const { subagent: _helper, forkedFrom: _forkedFrom, ...settings } = stored as StoredSettings;
  if (chosen) choose(settings, chosen);
  return settings;
}

/** @throws {HttpError} 400 if a model is known not to support this effort. */
export function checkEffort(
  effort: string,
  { model, known }: { readonly model: string; readonly known: readonly string[] | undefined },
): void {
  if (known?.includes(effort) ?? true) return;
  const right = known?.length ? `supports the efforts ${known.join(", ")}` : "has no reasoning effort";
  const state = `model ${JSON.stringify(model)} ${right}`;
  throw invalidRequest(`Cannot use effort ${JSON.stringify(effort)}: ${state}.`);
}

export function choose(
  settings: { -readonly [Name in keyof SessionSettings]: SessionSettings[Name] },
  { model, effort }: Chosen,
): void {
  settings.model = model;
  if (effort === undefined) delete settings.effort;
  else settings.effort = effort;
}
