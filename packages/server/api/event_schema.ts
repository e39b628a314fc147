import type { ModelError, TurnEnd } from "@tare/loop";
import type { FinishReason } from "@tare/messages";
import { type TProperties, Type } from "typebox";
import { closed, COUNT, count, optionalText, text } from "../http/schema.ts";
import type { SessionEvent } from "../sessions/session_types.ts";
import { ASSISTANT_MESSAGE, CONTENT, MESSAGE } from "./message_schemas.ts";
import { ASKED } from "./report_schemas.ts";

const STRING = Type.String();
const TOKENS = Type.Number({ minimum: 0 });
const STEP = Type.Integer({ minimum: 1 });

const APPROVAL_ID = text(
  "Id of the question, to answer it by: `id` is that of the call, which another one may have had too.",
);

const HASH = text("SHA-256 of a part of what the tool is, in hex.");

/** Why somebody is asked. */
export const BEGUN = Type.Literal(true, {
  description:
    "It was made before the server ended, and nobody knows what came of it: a yes makes it once more.",
});

export const WHY = text("Why somebody is asked, where it isn't plain, in a sentence.");

const PATHS = Type.Array(STRING);

/** What a call would touch. */
export const EFFECTS = closed({
  root: text("The workspace's folder."),
  reads: Type.Optional(PATHS),
  writes: Type.Optional(PATHS),
  searches: Type.Optional(PATHS),
}, "Effects");

/** What a call changes in a file. */
export const FILE_CHANGE = closed({
  path: text("From the workspace."),
  added: count("Lines that come in."),
  removed: count("Lines that go."),
  diff: text("A unified diff without the names of files; of a long one the beginning."),
  omitted: Type.Optional(
    Type.Integer({ minimum: 1, description: "Lines of the diff that are left out behind that, or cut." }),
  ),
}, "FileChange");

const DOLLARS = Type.Number({
  minimum: 0,
  description: "US dollars, by the list price or one's own; absent where the model's price isn't known.",
});
const UNITS = Type.Number({ description: "Token units: the price of one uncached input token is 1." });

/** What a turn, or all turns of a session, cost. */
export const LEDGER = closed({
  calls: COUNT,
  promptTokens: TOKENS,
  cachedTokens: TOKENS,
  outputTokens: TOKENS,
  saved: Type.Unsafe<Readonly<Record<string, number>>>({
    type: "object",
    additionalProperties: { type: "number" },
  }),
  estimated: Type.Boolean(),
  tokenUnits: Type.Optional(UNITS),
  usd: Type.Optional(DOLLARS),
}, "Ledger");

const USAGE = closed({
  promptTokens: TOKENS,
  cachedTokens: TOKENS,
  outputTokens: TOKENS,
  cacheWriteTokens: Type.Optional(TOKENS),
  hourWriteTokens: Type.Optional(TOKENS),
  reasoningTokens: Type.Optional(TOKENS),
  estimated: Type.Optional(Type.Boolean()),
}, "Usage");

const COST = closed({ tokenUnits: UNITS, usd: Type.Optional(DOLLARS) }, "Cost");

// Keyed, so that a member that is added to one of these types and not here is a type error.
const FINISH_REASONS: Readonly<Record<FinishReason, true>> = {
  stop: true,
  tool_calls: true,
  length: true,
  content_filter: true,
};
const END_REASONS: Readonly<Record<TurnEnd["reason"], true>> = {
  completed: true,
  tool_calls: true,
  approval: true,
  cancelled: true,
  step_limit: true,
  output_limit: true,
  budget: true,
  interrupted: true,
  stalled: true,
  model_error: true,
  internal_error: true,
};
const MODEL_ERRORS: Readonly<Record<ModelError["code"], true>> = {
  bad_key: true,
  no_such_model: true,
  prompt_too_long: true,
  rate_limited: true,
  unreachable: true,
  bad_request: true,
  bad_response: true,
  provider_error: true,
};

function oneOf(members: Readonly<Record<string, true>>) {
  return Type.Enum(Object.keys(members));
}

/** Which call made another one. */
export const PARENT = optionalText("Id of the call that made this one: a program's.");
const BEGAN = Type.Optional(
  Type.Number({ minimum: 0, description: "When that call first ran, in milliseconds since the epoch." }),
);

/** The fields of each event beside `type`. */
const FIELDS: Readonly<Record<SessionEvent["type"], TProperties>> = {
  message_added: { message: MESSAGE },
  helper_started: { id: STRING, session: STRING },
  turn_start: {
    input: Type.Optional(CONTENT),
    id: optionalText("Of one that was asked for in the background: its id."),
  },
  turn_resumed: { step: STEP },
  step_start: { step: STEP },
  user_message: { step: STEP, input: CONTENT },
  context_rewritten: {
    step: STEP,
    mechanism: STRING,
    reason: STRING,
    removed: STRING,
    tokensBefore: TOKENS,
    tokensAfter: TOKENS,
    asked: Type.Optional(ASKED),
  },
  warning: { message: STRING },
  text_delta: { step: STEP, text: STRING },
  reasoning_delta: { step: STEP, text: STRING },
  assistant_message: { step: STEP, message: ASSISTANT_MESSAGE },
  tool_call: { step: STEP, id: STRING, name: STRING, arguments: STRING, parent: PARENT, beganAtMs: BEGAN },
  tool_output: { step: STEP, id: STRING, text: STRING, parent: PARENT },
  tool_result: {
    step: STEP,
    id: STRING,
    name: STRING,
    content: STRING,
    error: Type.Boolean(),
    bytes: COUNT,
    durationMs: TOKENS,
    change: Type.Optional(FILE_CHANGE),
    parent: PARENT,
    made: Type.Optional(closed({
      calls: COUNT,
      failed: COUNT,
      keptTokens: Type.Number({
        minimum: 0,
        description: "Tokens of their results beyond those of this one: no prompt ever held them. No saving.",
      }),
    }, "MadeCalls")),
    pictures: Type.Optional(
      Type.Array(STRING, { description: "What the model is shown behind the content, as `data:` URLs." }),
    ),
  },
  approval_asked: {
    step: STEP,
    approvalId: Type.Optional(APPROVAL_ID),
    id: STRING,
    name: text("The tool that would run."),
    arguments: text("What it would run with, as JSON."),
    pin: Type.Optional(closed({ description: HASH, parameters: HASH, hints: HASH }, "ToolPin")),
    why: Type.Optional(WHY),
    begun: Type.Optional(BEGUN),
    parent: PARENT,
    beganAtMs: BEGAN,
    effects: Type.Optional(EFFECTS),
    change: Type.Optional(FILE_CHANGE),
    askedAtMs: Type.Optional(TOKENS),
    expiresAtMs: Type.Optional(
      Type.Number({ description: "When the time for an answer is over, in milliseconds since the epoch." }),
    ),
  },
  approval_answered: {
    approvalId: APPROVAL_ID,
    id: STRING,
    decision: Type.Enum(["allow", "deny"]),
    reason: Type.Optional(STRING),
    always: Type.Optional(Type.Literal(true)),
    by: Type.Enum(["person", "time", "message", "cancel"]),
    key: optionalText("Of a person: the name of the key, `owner` for the owner's."),
  },
  step_end: {
    step: STEP,
    atMs: Type.Optional(
      Type.Number({ description: "When the model had answered, in milliseconds since the epoch." }),
    ),
    usage: USAGE,
    cost: Type.Optional(COST),
    finishReason: oneOf(FINISH_REASONS),
    ledger: Type.Optional(
      Type.Object({}, { description: "What the call cost and why, by the server's policy." }),
    ),
  },
  reply_unfinished: {
    step: STEP,
    atMs: Type.Optional(
      Type.Number({ description: "When it ended, in milliseconds since the epoch." }),
    ),
    usage: USAGE,
    cost: Type.Optional(COST),
  },
  turn_end: {
    reason: oneOf(END_REASONS),
    text: STRING,
    ledger: LEDGER,
    whole: Type.Optional(LEDGER),
    message: Type.Optional(STRING),
    code: Type.Optional(oneOf(MODEL_ERRORS)),
  },
};

/** An event: the `data` of each server-sent event of a session's streams. */
export const EVENT = Type.Unsafe<SessionEvent>({
  title: "Event",
  oneOf: Object.entries(FIELDS).map(([type, fields]) =>
    closed(
      { type: Type.Literal(type), ...fields },
      `${type.split("_").map((word) => word.charAt(0).toUpperCase() + word.slice(1)).join("")}Event`,
    )
  ),
});
