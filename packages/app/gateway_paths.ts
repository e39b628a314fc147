import { LEDGER_REPORT } from "@tare/conversation/report";
import { SESSION_DETAILS, SESSION_LIST } from "@tare/gateway";
import type { JsonSchema } from "@tare/messages";
import {
  BLOCK_REPORT,
  BLOCKS_PAGE,
  CALL_LIST,
  CALLS_PAGE,
  NEW_PIN,
  OVERVIEW,
  PIN_LIST,
  PIN_REPORT,
  PROMPT_REPORT,
} from "@tare/conversation/report";

/** An operation of an OpenAPI document, as far as it is looked into. */
export interface Operation {
  readonly summary: string;
  readonly responses: Readonly<Record<string, JsonSchema>>;
}

/** Schemas of the gateway alone, by name: what agent and gateway share is among the agent's. */
export const GATEWAY_SCHEMAS: Readonly<Record<string, JsonSchema>> = Object.fromEntries(
  [LEDGER_REPORT, SESSION_LIST, SESSION_DETAILS].map((schema) => [String(schema.title), schema]),
);

const ID = inPath("id");
const NO_SESSION = { 404: { description: "There is no such session." } };
const UNITS = "Costs are in token units, and in US dollars where prices are known.";

/** The gateway's own routes. */
export const GATEWAY_PATHS: Readonly<Record<string, Readonly<Record<string, Operation & JsonSchema>>>> = {
  "/v1/ledger": {
    get: {
      operationId: "getLedger",
      summary:
        "Compares what sessions of other models cost with and without planning, since the server's start.",
      responses: {
        200: answerOf(LEDGER_REPORT, `Both groups. ${UNITS}`),
      },
    },
  },
  "/v1/gateway/sessions": {
    get: {
      operationId: "listGatewaySessions",
      summary: "Lists sessions of other models, the newest first.",
      parameters: [
        parameter("limit", "Most sessions in the answer. Default: 100.", {
          type: "integer",
          minimum: 1,
          maximum: 1000,
        }),
        parameter("after", "Id of the last session of the page before.", { type: "string" }),
        parameter("search", "Only sessions whose title holds this text, in either case.", { type: "string" }),
      ],
      responses: {
        200: answerOf(SESSION_LIST, `What each cost. ${UNITS}`),
        400: { description: "The limit isn't one." },
        404: { description: "There is no session `after`." },
      },
    },
  },
  "/v1/gateway/sessions/{id}": {
    get: {
      operationId: "getGatewaySession",
      summary: "Shows a session of another model, with what left its prompt and why.",
      parameters: [ID],
      responses: {
        200: answerOf(SESSION_DETAILS, "The session."),
        ...NO_SESSION,
      },
    },
  },
  "/v1/gateway/sessions/{id}/calls": {
    get: {
      operationId: "listGatewayCalls",
      summary:
        "Lists the newest model calls of a session, the oldest first: what each took, what resending everything " +
        `would have taken, and what was rewritten before it and why. ${UNITS}`,
      parameters: [
        ID,
        page(CALLS_PAGE),
        number("after", "Number of the last call of the page before. Default: 0."),
      ],
      responses: { 200: answerOf(CALL_LIST, "The calls."), ...badNumber(), ...NO_SESSION },
    },
  },
  "/v1/gateway/sessions/{id}/prompt": {
    get: {
      operationId: "getGatewayPrompt",
      summary:
        "Shows what the model of a session sees, without the texts: a block for each tool and message, those " +
        "that left included, and for each line that stands for several.",
      parameters: [
        ID,
        page(BLOCKS_PAGE),
        number("from", "How many blocks to leave out at the start. Default: 0."),
      ],
      responses: { 200: answerOf(PROMPT_REPORT, "The blocks."), ...badNumber(), ...NO_SESSION },
    },
  },
  "/v1/gateway/sessions/{id}/prompt/{block}": {
    get: {
      operationId: "getGatewayPromptBlock",
      summary:
        "Shows a block of the prompt: what stands there now, and what was said. Long texts come in stretches.",
      parameters: [
        ID,
        inPath("block"),
        number("offset", "Where in the texts to begin, in UTF-16 code units. Default: 0."),
      ],
      responses: {
        200: answerOf(BLOCK_REPORT, "The block with at most 100,000 characters of each text."),
        ...badNumber(),
        404: { description: "There is no such session or block." },
      },
    },
  },
  "/v1/gateway/sessions/{id}/pins": {
    get: {
      operationId: "listGatewayPins",
      summary:
        "Lists what is asked of single messages, by their places, and whether the prompt is already so.",
      parameters: [ID],
      responses: { 200: answerOf(PIN_LIST, "The pins."), ...NO_SESSION },
    },
    post: {
      operationId: "setGatewayPin",
      summary:
        "Asks that a message comes back at the next rewrite and stays (`keep`), or that a result leaves at the " +
        "next one (`let_go`), in place of what was asked for it before. By itself that rewrites nothing.",
      parameters: [ID],
      requestBody: { required: true, content: { "application/json": { schema: refTo(NEW_PIN) } } },
      responses: {
        200: answerOf(PIN_REPORT, "The pin."),
        400: { description: "That can't be asked of this message, or the body isn't valid." },
        ...NO_SESSION,
        413: { description: "The body is too large." },
        415: { description: "The body isn't declared as JSON." },
        501: { description: "The session takes no pins." },
      },
    },
  },
  "/v1/gateway/sessions/{id}/pins/{place}": {
    delete: {
      operationId: "removeGatewayPin",
      summary: "Asks for nothing more of a message: from the next rewrite on it is weighed like any other.",
      parameters: [ID, inPath("place")],
      responses: {
        204: { description: "It is gone." },
        404: { description: "There is no such session, or nothing is asked of this message." },
      },
    },
  },
  "/v1/gateway/overview": {
    get: {
      operationId: "getGatewayOverview",
      summary:
        "Says what sessions of other models have saved, today and since the server's start, how those do that " +
        `are left as they are, and the newest warnings. ${UNITS}`,
      responses: { 200: answerOf(OVERVIEW, "The overview.") },
    },
  },
};

function inPath(name: string): JsonSchema {
  return { name, in: "path", required: true, schema: { type: "string" } };
}

function number(name: string, description: string): JsonSchema {
  return parameter(name, description, { type: "integer", minimum: 0 });
}

function page({ usual, most }: { readonly usual: number; readonly most: number }): JsonSchema {
  return parameter("limit", `Most in the answer. Default: ${usual}.`, {
    type: "integer",
    minimum: 1,
    maximum: most,
  });
}

function badNumber() {
  return { 400: { description: "A number isn't one." } };
}

function refTo({ title }: JsonSchema): JsonSchema {
  return { $ref: `#/components/schemas/${title}` };
}

function parameter(name: string, description: string, schema: JsonSchema): JsonSchema {
  return { name, in: "query", description, schema };
}

function answerOf(schema: JsonSchema, description: string): JsonSchema {
  return { description, content: { "application/json": { schema: refTo(schema) } } };
}
