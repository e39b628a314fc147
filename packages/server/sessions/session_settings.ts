import { type Static, Type } from "typebox";
import { closed, METADATA } from "../http/schema.ts";

/** What a turn or a session may cost. Default of each: no limit. */
export const BUDGET = closed({
  maxSteps: Type.Optional(Type.Integer({ minimum: 1, description: "Most model calls." })),
  maxTokens: Type.Optional(
    Type.Integer({ minimum: 1, description: "Most tokens, of prompts and replies together." }),
  ),
  maxCost: Type.Optional(
    Type.Number({
      exclusiveMinimum: 0,
      description: "Highest cost of the prompts, in the price of one uncached input token.",
    }),
  ),
});
/** What a turn or a session may cost. */
export type Budget = Readonly<Static<typeof BUDGET>>;

/** What a session is made with, defaults filled in. */
export const SESSION_SETTINGS = closed({
  instructions: Type.String({ description: "The system message." }),
  model: Type.String({ minLength: 1, description: "Name of the model at the provider." }),
  tools: Type.Array(Type.String(), {
    uniqueItems: true,
    description: "Names of the tools that the session may use.",
  }),
  metadata: METADATA,
  budget: BUDGET,
});
/** What a session is made with, defaults filled in. */
export type SessionSettings = Readonly<Static<typeof SESSION_SETTINGS>>;

/** Body of `POST /v1/sessions`: what it doesn't say is the server's own instructions and model, and all its tools. */
export const CREATE_SESSION = closed(Type.Partial(SESSION_SETTINGS).properties);
/** Body of `POST /v1/sessions`. */
export type CreateSession = Partial<SessionSettings>;
