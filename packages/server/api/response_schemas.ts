import type { JsonSchema } from "@tare/messages";
import { LEDGER } from "./event_schema.ts";
import { ERROR_CODES } from "../http/http_error.ts";
import { MESSAGE } from "./message_schemas.ts";
import { BUDGET } from "./request_schemas.ts";
import { objectSchema } from "../http/object_schema.ts";

const STRING: JsonSchema = { type: "string" };
const COUNT: JsonSchema = { type: "integer", minimum: 0 };
const COST: JsonSchema = { type: "number", minimum: 0 };

/** JSON Schema of every error. */
export const ERROR: JsonSchema = {
  title: "Error",
  ...objectSchema({
    error: objectSchema({ status: { type: "integer" }, code: { enum: ERROR_CODES }, message: STRING }),
  }),
};

const SESSION_FIELDS: Readonly<Record<string, JsonSchema>> = {
  id: STRING,
  created_at: { type: "string", format: "date-time" },
  status: { enum: ["idle", "running"] },
  instructions: STRING,
  model: STRING,
  tools: { type: "array", items: STRING },
  metadata: { type: "object", additionalProperties: STRING },
  budget: BUDGET,
  turns: COUNT,
  last_event: COUNT,
  ledger: LEDGER,
};

/** JSON Schema of a session. */
export const SESSION: JsonSchema = { title: "Session", ...objectSchema(SESSION_FIELDS) };

/** JSON Schema of several sessions. */
export const SESSION_LIST: JsonSchema = {
  title: "SessionList",
  ...objectSchema({ sessions: { type: "array", items: SESSION } }),
};

/** JSON Schema of a session with its messages. */
export const SESSION_WITH_MESSAGES: JsonSchema = {
  title: "SessionWithMessages",
  ...objectSchema({ ...SESSION_FIELDS, messages: { type: "array", items: MESSAGE } }),
};

const QUOTED_PROMPT: JsonSchema = {
  title: "QuotedPrompt",
  ...objectSchema({ promptTokens: COUNT, cachedTokens: COUNT, warmCost: COST, coldCost: COST }),
};

/** JSON Schema of what the next request would cost. */
export const QUOTE: JsonSchema = {
  title: "Quote",
  ...objectSchema({
    asIs: QUOTED_PROMPT,
    rewritten: QUOTED_PROMPT,
    alive: { type: "number", minimum: 0, maximum: 1 },
  }),
};
