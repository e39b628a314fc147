import { MODELS_DATE } from "@tare/planner/internal";
import type { SessionRecord } from "@tare/session/internal";
import { type Static, Type } from "typebox";
import { closed, METADATA, text } from "../http/schema.ts";
import { APPROVAL_RULES } from "../approvals/rules.ts";
import { invalidRequest } from "../http/http_error.ts";

/** What a turn or a session may cost. Default of each: no limit. */
export const BUDGET = closed({
  maxSteps: Type.Optional(Type.Integer({ minimum: 1, description: "Most model calls." })),
  maxTokens: Type.Optional(
    Type.Integer({ minimum: 1, description: "Most tokens, of prompts and replies together." }),
  ),
  maxUsd: Type.Optional(
    Type.Number({
      exclusiveMinimum: 0,
      description:
        `Most US dollars, of prompts and replies together, by the list prices of ${MODELS_DATE} or one's own.`,
    }),
  ),
  maxTokenUnits: Type.Optional(
    Type.Number({
      exclusiveMinimum: 0,
      description: "Highest cost of the prompts in token units: the price of one uncached input token is 1.",
    }),
  ),
});
/** What a turn or a session may cost. */
export type Budget = Readonly<Static<typeof BUDGET>>;

/** How much a model shall reason. */
export const EFFORT = Type.String({
  pattern: "^[a-z]{1,20}$",
  description: "How much the model shall reason, such as low, medium or high. Default: as it likes.",
});

/** What a session is made with, defaults filled in. */
export const SESSION_SETTINGS = closed({
  instructions: text(
    "What the system message begins with; of the server's own, what it says of the place follows.",
  ),
  model: Type.String({ minLength: 1, description: "Name of the model at the provider." }),
  effort: Type.Optional(EFFORT),
  tools: Type.Array(Type.String(), {
    uniqueItems: true,
    maxItems: 1_000,
    description:
      "Names of the tools that the session may use; `server__*` means all tools of that MCP server.",
  }),
  metadata: METADATA,
  budget: BUDGET,
  approvalRules: APPROVAL_RULES,
});
/** What a session is made with, defaults filled in. */
export type SessionSettings = Readonly<Static<typeof SESSION_SETTINGS>>;

/** Body of `POST /tare/v1/sessions`: what it doesn't say is the server's own instructions and model, and all its tools. */
export const CREATE_SESSION = closed(Type.Partial(SESSION_SETTINGS).properties, "CreateSession", {
  metadata: { of: "a test" },
  budget: { maxSteps: 20 },
});
/** Body of `POST /tare/v1/sessions`. */
export type CreateSession = Partial<SessionSettings>;

/** What is stored of how a session was made. */
export interface StoredSettings extends SessionSettings {
  /** What sets a helper apart from the session that it was forked from. Absent: it is nobody's helper. */
  readonly helper?: {
    readonly call: string;
    readonly tools: readonly string[];
  };
  /** Where it goes on from what was said in another session. Absent: it doesn't. */
  readonly forkedFrom?: ForkedFrom;
}

/** The session and the call that a subagent was started for. */
export interface HelperParent {
  readonly session: string;
  readonly call: string;
}

/** Returns what a stored session was started for; `undefined` if it is no subagent. */
export function parentOf(
  { parent, settings }: Pick<SessionRecord, "parent" | "settings">,
): HelperParent | undefined {
  return parent === undefined
    ? undefined
    : { session: parent, call: (settings as StoredSettings).helper?.call ?? "" };
}

/** Where a session goes on from what was said in another one. */
export interface ForkedFrom {
  readonly session: string;
  readonly messages: number;
}

/** What of a session's settings may change between its turns. */
export interface Chosen extends Pick<SessionSettings, "model" | "effort"> {
  /** The effort that somebody chose for another model, and that this one isn't asked for. */
  readonly effortOfOthers?: string;
}

/** The settings of a session: those that it was created with, and what was chosen since. */
export function storedSettings(stored: unknown, chosen?: Chosen): SessionSettings {
  const { helper: _helper, forkedFrom: _forkedFrom, ...settings } = stored as StoredSettings;
  if (chosen) choose(settings, chosen);
  return settings;
}

/** @throws {HttpError} 400 if a model is known not to have this effort. */
export function checkEffort(
  effort: string,
  { model, known }: { readonly model: string; readonly known: readonly string[] | undefined },
): void {
  if (known?.includes(effort) ?? true) return;
  const right = known?.length ? `has the efforts ${known.join(", ")}` : "has no effort to choose";
  const state = `model ${JSON.stringify(model)} ${right}`;
  throw invalidRequest(`Cannot use effort ${JSON.stringify(effort)}: ${state}.`);
}

/** Changes the settings for all parts of a session, which hold the same object. */
export function choose(
  settings: { -readonly [Name in keyof SessionSettings]: SessionSettings[Name] },
  { model, effort }: Chosen,
): void {
  settings.model = model;
  if (effort === undefined) delete settings.effort;
  else settings.effort = effort;
}
