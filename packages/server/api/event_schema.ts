import type { ModelError, TurnEnd } from "@tare/loop";
import type { FinishReason } from "@tare/messages";
import { type TProperties, Type } from "typebox";
import { closed, COUNT, count, optionalText, text } from "../http/schema.ts";
import type { SessionEvent } from "../sessions/session_types.ts";
import { ASSISTANT_MESSAGE, CONTENT, MESSAGE } from "./message_schemas.ts";
import { INNER_CALLS, REQUESTED_PINS, SERVER_TOOLS } from "./report_schemas.ts";

const STRING = Type.String();
const TOKENS = Type.Number({ minimum: 0 });
const STEP = Type.Integer({ minimum: 1 });

const APPROVAL_ID = text(
  "Id of the approval, to answer it by; `id` is the call's and may repeat.",
);

const HASH = text("SHA-256 of a part of the tool's definition, in hex.");

export const BEGUN = Type.Literal(true, {
  description:
    "The call ran before the server stopped, and its outcome is unknown: if approved, it runs again.",
});

export const WHY = text("Reason for the approval, in a sentence, unless obvious.");

const PATHS = Type.Array(STRING);

export const EFFECTS = closed({
  root: text("The workspace's folder."),
  reads: Type.Optional(PATHS),
  writes: Type.Optional(PATHS),
  searches: Type.Optional(PATHS),
}, "Effects");

export const FILE_CHANGE = closed({
  path: text("Path relative to the workspace."),
  added: count("Added lines."),
  removed: count("Removed lines."),
  diff: text("A unified diff without file names; the beginning of a long one."),
  omitted: Type.Optional(
    Type.Integer({ minimum: 1, description: "Lines of the diff that are omitted after that, or cut." }),
  ),
}, "FileChange");

const DOLLARS = Type.Number({
  minimum: 0,
  description: "US dollars, by the configured or the list price; absent if the model's price is unknown.",
});
const UNITS = Type.Number({ description: "Cost units: one unit is the price of one uncached input token." });

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
  costUnits: Type.Optional(UNITS),
  usd: Type.Optional(DOLLARS),
}, "Ledger");

const BILLING = {
  tier: optionalText("Service tier or speed other than standard, such as `priority` or `fast`."),
  region: optionalText("Region of the inference if not global."),
  serverTools: Type.Optional(SERVER_TOOLS),
  model: optionalText("Model that served the call in place of the requested one."),
  innerCalls: Type.Optional(INNER_CALLS),
  reportedUsd: Type.Optional(
    Type.Number({ minimum: 0, description: "Cost in US dollars as reported by the provider." }),
  ),
};

const USAGE = closed({
  promptTokens: TOKENS,
  cachedTokens: TOKENS,
  outputTokens: TOKENS,
  cacheWriteTokens: Type.Optional(TOKENS),
  hourWriteTokens: Type.Optional(TOKENS),
  reasoningTokens: Type.Optional(TOKENS),
  estimated: Type.Optional(Type.Boolean()),
  firstRead: Type.Optional(closed({
    promptTokens: TOKENS,
    cachedTokens: TOKENS,
    cacheWriteTokens: Type.Optional(TOKENS),
    hourWriteTokens: Type.Optional(TOKENS),
    estimated: Type.Optional(Type.Boolean()),
  }, "FirstRead")),
  ...BILLING,
}, "Usage");

const COST = closed({ costUnits: UNITS, usd: Type.Optional(DOLLARS) }, "Cost");

// Keyed, so that a member missing here is a type error.
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
  insufficient_quota: true,
  unreachable: true,
  bad_request: true,
  bad_response: true,
  provider_error: true,
};

function oneOf(members: Readonly<Record<string, true>>) {
  return Type.Enum(Object.keys(members));
}

export const PARENT = optionalText("Id of the program's call that made this one.");
const BEGAN = Type.Optional(
  Type.Number({ minimum: 0, description: "Time of that call's first run, in milliseconds since the epoch." }),
);

const FIELDS: Readonly<Record<SessionEvent["type"], TProperties>> = {
  message_added: { message: MESSAGE },
  subagent_started: { id: STRING, session: STRING },
  turn_start: {
    input: Type.Optional(CONTENT),
    id: optionalText("Id of a turn that was queued."),
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
    pins: Type.Optional(REQUESTED_PINS),
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
      omittedTokens: Type.Number({
        minimum: 0,
        description:
          "Tokens of their results beyond those of this one: no prompt contained them. Not a saving.",
      }),
    }, "MadeCalls")),
    images: Type.Optional(
      Type.Array(STRING, {
        description: "Images that the model receives after the content, as `data:` URLs.",
      }),
    ),
  },
  approval_requested: {
    step: STEP,
    approvalId: Type.Optional(APPROVAL_ID),
    id: STRING,
    name: text("Tool of the call."),
    arguments: text("Arguments of the call, as JSON."),
    pin: Type.Optional(closed({ description: HASH, parameters: HASH, hints: HASH }, "ToolPin")),
    why: Type.Optional(WHY),
    begun: Type.Optional(BEGUN),
    parent: PARENT,
    beganAtMs: BEGAN,
    effects: Type.Optional(EFFECTS),
    change: Type.Optional(FILE_CHANGE),
    requestedAtMs: Type.Optional(TOKENS),
    expiresAtMs: Type.Optional(
      Type.Number({ description: "Deadline of the answer, in milliseconds since the epoch." }),
    ),
  },
  approval_answered: {
    approvalId: APPROVAL_ID,
    id: STRING,
    decision: Type.Enum(["allow", "deny"]),
    reason: Type.Optional(STRING),
    always: Type.Optional(Type.Literal(true)),
    by: Type.Enum(["user", "time", "message", "cancel"]),
    key: optionalText("Name of the user's key, `owner` for the owner's."),
  },
  step_end: {
    step: STEP,
    atMs: Type.Optional(
      Type.Number({ description: "Time of the model's answer, in milliseconds since the epoch." }),
    ),
    usage: USAGE,
    cost: Type.Optional(COST),
    finishReason: oneOf(FINISH_REASONS),
    ledger: Type.Optional(
      Type.Object({}, { description: "Cost of the call and its causes, by the server's policy." }),
    ),
  },
  reply_unfinished: {
    step: STEP,
    atMs: Type.Optional(
      Type.Number({ description: "Time of its end, in milliseconds since the epoch." }),
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

export const EVENT = Type.Unsafe<SessionEvent>({
  title: "Event",
  oneOf: Object.entries(FIELDS).map(([type, fields]) =>
    closed(
      { type: Type.Literal(type), ...fields },
      `${type.split("_").map((word) => word.charAt(0).toUpperCase() + word.slice(1)).join("")}Event`,
    )
  ),
});
