import type { CallReport, Overview, UsageTotals } from "@tare/session/internal/report";
import { SPEND_BY, SPENT_ON as PARTS, usageTotals } from "@tare/session/internal/report";
import { type TSchema, Type } from "typebox";
import { closed, COUNT, count, limitOf, optionalText, orNull, text } from "../http/schema.ts";

const NUMBER = Type.Number();
const TEXT = Type.String();
const FLAG = Type.Boolean();
const TIME = Type.String({ format: "date-time" });

export function numbers<const Names extends readonly string[]>(
  names: Names,
): { readonly [Name in Names[number]]: typeof NUMBER } {
  return Object.fromEntries(names.map((name) => [name, NUMBER])) as {
    readonly [Name in Names[number]]: typeof NUMBER;
  };
}

export const INNER_CALLS = Type.Array(
  closed({
    type: text("Purpose, such as `compaction` or `advisor_message`."),
    model: optionalText("Absent: unknown, or that of the outer call."),
    promptTokens: NUMBER,
    cachedTokens: NUMBER,
    cacheWriteTokens: Type.Optional(NUMBER),
    hourWriteTokens: Type.Optional(NUMBER),
    outputTokens: NUMBER,
  }, "InnerCall"),
  { description: "Model calls inside the call; its other fields exclude them." },
);

export const SERVER_TOOLS = Type.Unsafe<Readonly<Record<string, number>>>({
  type: "object",
  additionalProperties: { type: "number" },
  description: "Uses of the provider's own tools by name, such as `web_search`.",
});

const SPENT_ON = closed(numbers(PARTS), "SpentOn");

const WISH = Type.Enum(["retain", "evict"]);

export const REQUESTED_PINS = Type.Array(closed({ place: COUNT, wish: WISH, by: TEXT }, "RequestedPin"));

const REWRITE = {
  mechanism: TEXT,
  reason: TEXT,
  removed: TEXT,
  tokensBefore: NUMBER,
  tokensAfter: NUMBER,
  pins: Type.Optional(REQUESTED_PINS),
};

/** A client's change of an earlier request. */
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
  tier: orNull(TEXT),
  region: orNull(TEXT),
  serverTools: SERVER_TOOLS,
  servedBy: orNull(TEXT),
  innerCalls: INNER_CALLS,
  reportedUsd: orNull(NUMBER),
  costUnits: NUMBER,
  usd: orNull(NUMBER),
  spent: closed({ costUnits: SPENT_ON, usd: orNull(SPENT_ON) }, "Spent"),
  baseline: orNull(closed({
    ...numbers(["promptTokens", "cachedTokens", "costUnits"]),
    usd: orNull(NUMBER),
    compacts: FLAG,
  }, "Baseline")),
  resendCostUnits: orNull(NUMBER),
  projected: orNull(closed({
    ...numbers(["promptTokens", "cachedTokens", "costUnits", "refetchCostUnits"]),
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

export const CALL_LIST = closed({ calls: Type.Array(CALL), hasMore: FLAG }, "CallList");

export const CALLS_QUERY = {
  limit: limitOf(10_000, 1_000, "Most calls in the response."),
  after: Type.Integer({
    minimum: 0,
    default: 0,
    description: "Number of the last call of the previous page.",
  }),
};

export const PIN_REPORT = closed({
  place: COUNT,
  wish: WISH,
  by: TEXT,
  state: Type.Enum(["waiting", "done"]),
}, "Pin");

export const PIN_LIST = closed({ pins: Type.Array(PIN_REPORT) }, "PinList");

export const NEW_PIN = closed(
  {
    place: count("Position of the message in the history."),
    wish: Type.Enum(["retain", "evict"], {
      description:
        "`retain` restores the message at the next rewrite and retains it; `evict` evicts the result.",
    }),
    by: Type.Optional(
      Type.String({ minLength: 1, maxLength: 100, description: "Name of the author. Default: `user`." }),
    ),
  },
  "NewPin",
  { place: 12, wish: "retain", by: "ada" },
);

export const KEEP_ALIVE = closed(
  { minutes: Type.Integer({ minimum: 5, maximum: 1_440, description: "Duration from now." }) },
  "KeepAliveRequest",
  { minutes: 60 },
);

export const KEEP_ALIVE_RESPONSE = closed({
  until: Type.String({ format: "date-time", description: "End of keep-alive requests." }),
  maxUsd: Type.Number({
    description:
      "Highest cost of keep-alive requests until then, in US dollars. They end earlier if the cache is lost.",
  }),
}, "KeepAliveResponse");

export const MAY_PIN = Type.Array(WISH, { description: "Pins that it accepts." });

export const BLOCK_STATE = Type.Enum([
  ...["visible", "deduplicated", "replaced", "truncated", "summarized", "evicted", "compact"] as const,
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
  mayPin: MAY_PIN,
  title: TEXT,
};

export const PROMPT_REPORT = closed({
  tokens: COUNT,
  originalTokens: COUNT,
  total: COUNT,
  blocks: Type.Array(closed(BLOCK, "PromptBlock")),
  hasMore: FLAG,
}, "Prompt");

export const PROMPT_QUERY = {
  limit: limitOf(10_000, 2_000, "Most blocks in the response."),
  from: Type.Integer({
    minimum: 0,
    default: 0,
    description: "Number of blocks to skip.",
  }),
};

const BLOCK_TEXT = closed({ text: TEXT, offset: COUNT, chars: COUNT }, "BlockText");

export const BLOCK_REPORT = closed({
  ...BLOCK,
  now: orNull(BLOCK_TEXT),
  original: orNull(BLOCK_TEXT),
}, "PromptBlockDetails");

export const BLOCK_QUERY = {
  offset: Type.Integer({
    minimum: 0,
    default: 0,
    description: "Start position in the texts, in UTF-16 code units.",
  }),
};

export const TOTAL_FIELDS = numbers(Object.keys(usageTotals.nothing) as (keyof UsageTotals)[]);
const GROUP_TOTALS = closed({ ...TOTAL_FIELDS, sessions: COUNT }, "GroupTotals");

export const OVERVIEW = closed({
  today: closed(TOTAL_FIELDS, "UsageTotals"),
  all: closed(TOTAL_FIELDS, "UsageTotals"),
  groups: closed({ planned: GROUP_TOTALS, holdout: GROUP_TOTALS }, "Groups"),
  warnings: Type.Array(
    closed(
      { at: TIME, session: TEXT, message: TEXT } satisfies Fields<Overview["warnings"]>,
      "SessionWarning",
    ),
  ),
}, "Overview");

const DAY = Type.String({ pattern: "^\\d{4}-\\d{2}-\\d{2}$" });

export const SPEND_QUERY = {
  by: Type.Enum([...SPEND_BY], {
    default: "day",
    description: 'Grouping; "day_agent": day and agent; "session": the thousand newest of each kind.',
  }),
  from: Type.Optional({ ...DAY, description: "First day in UTC, such as `2026-01-31`. Default: any." }),
  to: Type.Optional({ ...DAY, description: "Last day. Default: any." }),
  limit: limitOf(1_000, 100, "Most rows in the response."),
};

export const SPEND_REPORT = closed({
  all: closed(TOTAL_FIELDS, "UsageTotals"),
  rows: Type.Array(closed({
    key: text(
      "Day, model, name of the agent or id of the session, empty if unknown; of day_agent, such as " +
        "`2026-01-31 tare`.",
    ),
    session: orNull(closed({
      kind: Type.Enum(["agent", "gateway"]),
      title: TEXT,
      model: TEXT,
      agent: orNull(TEXT),
    }, "SpendingSession")),
    ...TOTAL_FIELDS,
  }, "SpendRow")),
  hasMore: FLAG,
  pricesDate: text("Date of the list prices, such as `2026-01-31`."),
}, "Spend");

export const MISSES_QUERY = {
  session: optionalText("Only this session. Default: many."),
  from: SPEND_QUERY.from,
  to: SPEND_QUERY.to,
  limit: limitOf(10_000, 200, "Most sessions of each kind, the newest first."),
};

type Fields<List extends readonly object[]> = Record<keyof List[number], TSchema>;

const LEDGER_GROUP = closed({
  ...TOTAL_FIELDS,
  sessions: COUNT,
  costUnitsPerSession: NUMBER,
  baselineCostUnitsPerSession: NUMBER,
  projectedCostUnitsPerSession: NUMBER,
  callsPerSession: NUMBER,
  usdPerSession: orNull(NUMBER),
}, "GatewayLedgerGroup");

export const LEDGER_REPORT = closed({ planned: LEDGER_GROUP, holdout: LEDGER_GROUP }, "GatewayLedger");

const GATEWAY_FIELDS = {
  kind: Type.Literal("gateway"),
  id: TEXT,
  key: optionalText("Name of the key that created it; absent: the owner's."),
  title: text("The user's first message, in one line."),
  protocol: TEXT,
  model: text("Model of the newest request."),
  agent: Type.Union([TEXT, Type.Null()], {
    description: "Name of the client, as its requests report it; null if they don't.",
  }),
  createdAt: TIME,
  lastAt: TIME,
  holdout: FLAG,
  reverted: FLAG,
  epoch: NUMBER,
  ...TOTAL_FIELDS,
  savedCostUnits: NUMBER,
};

export const GATEWAY_SESSION = closed(GATEWAY_FIELDS, "GatewaySession");

export const GATEWAY_SESSION_DETAILS = closed({
  ...GATEWAY_FIELDS,
  archiveBytes: NUMBER,
  prompt: orNull(closed({
    tokens: NUMBER,
    windowTokens: orNull(NUMBER),
    evicted: closed(
      numbers(["context", "prune", "schemas", "truncate", "references", "normalization"]),
      "GatewayEvicted",
    ),
  }, "GatewayPrompt")),
  rewrites: Type.Array(closed({ at: TIME, ...REWRITE }, "GatewayRewrite")),
  compactionCalls: Type.Array(closed({
    at: TIME,
    ...numbers(["promptTokens", "cachedTokens", "outputTokens", "costUnits"]),
    usd: Type.Optional(NUMBER),
  }, "GatewayCompaction")),
}, "GatewaySessionDetails");
