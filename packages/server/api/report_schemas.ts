import type { CallReport, Overview, Sums } from "@tare/session/internal/report";
import { SPEND_BY, SPENT_ON as PARTS, sumsOf } from "@tare/session/internal/report";
import { type TSchema, Type } from "typebox";
import { closed, COUNT, count, limitOf, optionalText, orNull, text } from "../http/schema.ts";

const NUMBER = Type.Number();
const TEXT = Type.String();
const FLAG = Type.Boolean();
const TIME = Type.String({ format: "date-time" });

/** These fields, a number each. */
export function numbers<const Names extends readonly string[]>(
  names: Names,
): { readonly [Name in Names[number]]: typeof NUMBER } {
  return Object.fromEntries(names.map((name) => [name, NUMBER])) as {
    readonly [Name in Names[number]]: typeof NUMBER;
  };
}

const SPENT_ON = closed(numbers(PARTS), "SpentOn");

const WISH = Type.Enum(["keep", "let_go"]);

/** What was asked for and was done with a rewrite. */
export const ASKED = Type.Array(closed({ place: COUNT, wish: WISH, by: TEXT }, "Asked"));

const REWRITE = {
  mechanism: TEXT,
  reason: TEXT,
  removed: TEXT,
  tokensBefore: NUMBER,
  tokensAfter: NUMBER,
  asked: Type.Optional(ASKED),
};

/** What a client had changed of what it sent before. */
export const PREFIX_CHANGE = orNull(closed({
  where: Type.Enum(["tools", "instructions", "message"]),
  kind: Type.Enum(["bill", "git_status", "date", "number", "text", "order", "list"]),
  place: COUNT,
  line: orNull(COUNT),
  before: TEXT,
  after: TEXT,
  tokens: NUMBER,
}, "PrefixChange"));

const CALL = closed({
  number: COUNT,
  at: orNull(TIME),
  turn: orNull(COUNT),
  afterQuestion: FLAG,
  purpose: TEXT,
  promptTokens: NUMBER,
  cachedTokens: NUMBER,
  writtenTokens: NUMBER,
  newTokens: NUMBER,
  outputTokens: NUMBER,
  estimated: FLAG,
  tokenUnits: NUMBER,
  usd: orNull(NUMBER),
  spent: closed({ tokenUnits: SPENT_ON, usd: orNull(SPENT_ON) }, "Spent"),
  without: orNull(closed({
    ...numbers(["promptTokens", "cachedTokens", "tokenUnits"]),
    usd: orNull(NUMBER),
    compacts: FLAG,
  }, "WithoutTare")),
  resendTokenUnits: orNull(NUMBER),
  projected: orNull(closed({
    ...numbers(["promptTokens", "cachedTokens", "tokenUnits", "repairTokenUnits"]),
    usd: orNull(NUMBER),
  }, "Projected")),
  summary: orNull(closed(numbers(["promptTokens", "cachedTokens", "outputTokens"]), "SummaryUsage")),
  uncached: Type.Array(closed({
    cause: Type.Unsafe<CallReport["uncached"][number]["cause"]>(TEXT),
    tokens: NUMBER,
  }, "UncachedTokens")),
  changed: PREFIX_CHANGE,
  rewrites: Type.Array(closed(REWRITE, "Rewrite")),
}, "Call");

/** A stretch of a session's calls. */
export const CALL_LIST = closed({ calls: Type.Array(CALL), hasMore: FLAG }, "CallList");

/** Which stretch of the calls is asked for. */
export const CALLS_QUERY = {
  limit: limitOf(10_000, 1_000, "Most calls in the answer."),
  after: Type.Integer({ minimum: 0, default: 0, description: "Number of the last call of the page before." }),
};

/** What is asked for of a message, and whether the prompt is so. */
export const PIN_REPORT = closed({
  place: COUNT,
  wish: WISH,
  by: TEXT,
  state: Type.Enum(["waiting", "done"]),
}, "Pin");

/** All pins of a session. */
export const PIN_LIST = closed({ pins: Type.Array(PIN_REPORT) }, "PinList");

/** What is asked for. */
export const NEW_PIN = closed(
  {
    place: count("Position of the message in the history."),
    wish: Type.Enum(["keep", "let_go"], {
      description: "`keep` brings it back at the next rewrite and keeps it; `let_go` lets the result leave.",
    }),
    by: Type.Optional(
      Type.String({ minLength: 1, maxLength: 100, description: "Who asks. Default: `user`." }),
    ),
  },
  "NewPin",
  { place: 12, wish: "keep", by: "ada" },
);

/** For how long a session is to be kept warm. */
export const KEEP_WARM = closed(
  { minutes: Type.Integer({ minimum: 5, maximum: 1_440, description: "From now on." }) },
  "KeepWarm",
  { minutes: 60 },
);

/** How long a session is kept warm. */
export const KEPT_WARM = closed({
  until: Type.String({ format: "date-time", description: "No ping is made behind that." }),
  maxUsd: Type.Number({
    description:
      "What pings cost up to then at most, in US dollars. They end sooner where they aren't worth it.",
  }),
}, "KeptWarm");

/** What became of a block. */
export const BLOCK_STATE = Type.Enum([
  ...["alive", "said_once", "elided", "truncated", "summarised", "left", "compact"] as const,
]);

const BLOCK = {
  id: TEXT,
  kind: Type.Enum(["tool", "message", "line"]),
  role: TEXT,
  tool: orNull(TEXT),
  subject: orNull(TEXT),
  place: orNull(COUNT),
  tokens: COUNT,
  originalTokens: COUNT,
  state: BLOCK_STATE,
  pin: orNull(PIN_REPORT),
  title: TEXT,
};

/** A stretch of a prompt's blocks. */
export const PROMPT_REPORT = closed({
  tokens: COUNT,
  originalTokens: COUNT,
  total: COUNT,
  blocks: Type.Array(closed(BLOCK, "PromptBlock")),
  hasMore: FLAG,
}, "Prompt");

/** Which stretch of the blocks is asked for. */
export const PROMPT_QUERY = {
  limit: limitOf(10_000, 2_000, "Most blocks in the answer."),
  from: Type.Integer({
    minimum: 0,
    default: 0,
    description: "How many blocks to leave out at the start.",
  }),
};

const BLOCK_TEXT = closed({ text: TEXT, offset: COUNT, chars: COUNT }, "BlockText");

/** A block with its texts. */
export const BLOCK_REPORT = closed({
  ...BLOCK,
  now: orNull(BLOCK_TEXT),
  original: orNull(BLOCK_TEXT),
}, "PromptBlockDetails");

/** Where in the texts to begin. */
export const BLOCK_QUERY = {
  offset: Type.Integer({
    minimum: 0,
    default: 0,
    description: "Where in the texts to begin, in UTF-16 code units.",
  }),
};

/** What calls came to, a field for each sum. */
export const SUMS = numbers(Object.keys(sumsOf.nothing) as (keyof Sums)[]);
const GROUP_SUMS = closed({ ...SUMS, sessions: COUNT }, "GroupSums");

/** What was saved. */
export const OVERVIEW = closed({
  today: closed(SUMS, "Sums"),
  all: closed(SUMS, "Sums"),
  groups: closed({ planned: GROUP_SUMS, control: GROUP_SUMS }, "Groups"),
  warnings: Type.Array(
    closed({ at: TIME, session: TEXT, message: TEXT } satisfies Fields<Overview["warnings"]>, "ToldWarning"),
  ),
}, "Overview");

const DAY = Type.String({ pattern: "^\\d{4}-\\d{2}-\\d{2}$" });

/** Which spending is asked for. */
export const SPEND_QUERY = {
  by: Type.Enum([...SPEND_BY], {
    default: "day",
    description: 'What it is cut by; "session": the thousand newest of each kind.',
  }),
  from: Type.Optional({ ...DAY, description: "The first day, by UTC, such as `2026-01-31`. Default: any." }),
  to: Type.Optional({ ...DAY, description: "The last day. Default: any." }),
  limit: limitOf(1_000, 100, "Most rows in the answer."),
};

/** What money went for, over sessions. */
export const SPEND_REPORT = closed({
  all: closed(SUMS, "Sums"),
  rows: Type.Array(closed({
    key: text("The day, the model, the agent's name or the session's id; empty where it isn't known."),
    session: orNull(closed({
      kind: Type.Enum(["agent", "gateway"]),
      title: TEXT,
      model: TEXT,
      agent: orNull(TEXT),
    }, "SpendingSession")),
    ...SUMS,
  }, "SpendRow")),
  hasMore: FLAG,
}, "Spend");

/** Which misses are asked for. */
export const MISSES_QUERY = {
  session: optionalText("Only those of this session. Default: of many."),
  from: SPEND_QUERY.from,
  to: SPEND_QUERY.to,
  limit: limitOf(10_000, 200, "Most sessions of each kind that are looked at, the newest first."),
};

/** The fields of a list's items. */
type Fields<List extends readonly object[]> = Record<keyof List[number], TSchema>;

const LEDGER_GROUP = closed({
  ...SUMS,
  sessions: COUNT,
  tokenUnitsPerSession: NUMBER,
  withoutTokenUnitsPerSession: NUMBER,
  projectedTokenUnitsPerSession: NUMBER,
  callsPerSession: NUMBER,
  usdPerSession: orNull(NUMBER),
}, "GatewayLedgerGroup");

/** What sessions cost that pass through, planned and left as they are. */
export const LEDGER_REPORT = closed({ planned: LEDGER_GROUP, control: LEDGER_GROUP }, "GatewayLedger");

const PASSING = {
  kind: Type.Literal("gateway"),
  id: TEXT,
  key: optionalText("Name of the key with which it was begun; absent: the owner's."),
  title: text("What the user said first, in one line."),
  protocol: TEXT,
  model: text("The model that was asked last."),
  agent: Type.Union([TEXT, Type.Null()], {
    description: "Name of the program whose loop it is, as its requests tell it; null if they don't.",
  }),
  createdAt: TIME,
  lastAt: TIME,
  control: FLAG,
  reverted: FLAG,
  epoch: NUMBER,
  ...SUMS,
  savedTokenUnits: NUMBER,
};

/** A session of another agent, which passes through. */
export const PASSING_SESSION = closed(PASSING, "GatewaySession");

/** The same with what left its prompt and why. */
export const PASSING_SESSION_DETAILS = closed({
  ...PASSING,
  archiveBytes: NUMBER,
  prompt: orNull(closed({
    tokens: NUMBER,
    windowTokens: orNull(NUMBER),
    left: closed(
      numbers(["context", "prune", "schemas", "truncate", "references", "notation"]),
      "GatewayLeft",
    ),
  }, "GatewayPrompt")),
  rewrites: Type.Array(closed({ at: TIME, ...REWRITE }, "GatewayRewrite")),
  compactionCalls: Type.Array(closed({
    at: TIME,
    ...numbers(["promptTokens", "cachedTokens", "outputTokens", "tokenUnits"]),
    usd: Type.Optional(NUMBER),
  }, "GatewayCompaction")),
}, "GatewaySessionDetails");
