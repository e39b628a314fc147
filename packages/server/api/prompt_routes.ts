import type { NewPin } from "@tare/planner";
import {
  BLOCK_REPORT,
  BLOCKS_PAGE,
  CALL_LIST,
  CALLS_PAGE,
  NEW_PIN,
  OVERVIEW,
  pageOfCalls,
  PIN_LIST,
  PIN_REPORT,
  PROMPT_REPORT,
  reportBlock,
  reportPins,
  reportPrompt,
  type SeenConversation,
} from "@tare/conversation/report";
import { Type } from "typebox";
import { errorResponses, HttpError } from "../http/http_error.ts";
import { queryNumber } from "../http/query_number.ts";
import { type Route, route, type RouteResponse } from "../http/route.ts";
import type { Session } from "../sessions/session.ts";
import type { Sessions } from "../sessions/sessions.ts";

const MOST_CALLS = queryNumber({ name: "limit", says: "Most calls in the answer.", least: 1, ...CALLS_PAGE });
const AFTER = queryNumber({ name: "after", says: "Number of the last call of the page before." });
const MOST_BLOCKS = queryNumber({
  name: "limit",
  says: "Most blocks in the answer.",
  least: 1,
  ...BLOCKS_PAGE,
});
const FROM = queryNumber({ name: "from", says: "How many blocks to leave out at the start." });
const OFFSET = queryNumber({ name: "offset", says: "Where in the texts to begin, in UTF-16 code units." });

/** The routes about where tokens went, what the model sees, and what is asked of single messages. */
export function promptRoutes(sessions: Sessions): readonly Route[] {
  return [
    route({
      method: "GET",
      path: "/v1/sessions/{id}/calls",
      operationId: "listCalls",
      summary:
        "Lists the model calls of a session, the oldest first: what each took, what resending everything " +
        "would have taken, and what was rewritten before it and why. Costs are in token units, and in US dollars where prices are known.",
      parameters: [MOST_CALLS.parameter, AFTER.parameter],
      responses: {
        200: json(CALL_LIST, "The calls, and whether there are more behind them."),
        ...errorResponses({ 400: "A number isn't one.", 404: "There is no such session." }),
      },
      async answer({ path: { id = "" }, request }) {
        const doing = "list calls";
        const limit = MOST_CALLS.read(request, doing);
        const after = AFTER.read(request, doing);
        return { json: pageOfCalls(await sessions.calls(id), { limit, after }) };
      },
    }),
    route({
      method: "GET",
      path: "/v1/sessions/{id}/prompt",
      operationId: "getPrompt",
      summary:
        "Shows what the model sees, without the texts: a block for each tool and message, those that left " +
        "included, and for each line that stands for several.",
      parameters: [MOST_BLOCKS.parameter, FROM.parameter],
      responses: {
        200: json(PROMPT_REPORT, "The blocks, and whether there are more behind them."),
        ...errorResponses({ 400: "A number isn't one.", 404: "There is no such session." }),
      },
      async answer({ path: { id = "" }, request }) {
        const doing = "show the prompt";
        const limit = MOST_BLOCKS.read(request, doing);
        const from = FROM.read(request, doing);
        return { json: reportPrompt(await seenIn(await sessions.get(id)), { limit, from }) };
      },
    }),
    route({
      method: "GET",
      path: "/v1/sessions/{id}/prompt/{block}",
      operationId: "getPromptBlock",
      summary:
        "Shows a block of the prompt: what stands there now, and what was said. Long texts come in stretches.",
      parameters: [OFFSET.parameter],
      responses: {
        200: json(BLOCK_REPORT, "The block with at most 100,000 characters of each text."),
        ...errorResponses({ 400: "The offset isn't one.", 404: "There is no such session or block." }),
      },
      async answer({ path: { id = "", block = "" }, request }) {
        const offset = OFFSET.read(request, "show the block");
        const found = reportBlock(await seenIn(await sessions.get(id)), block, { offset });
        if (found) return { json: found };
        throw new HttpError(
          404,
          "not_found",
          `Cannot find ${block}: the prompt of session ${id} has no such block.`,
        );
      },
    }),
    route({
      method: "GET",
      path: "/v1/sessions/{id}/pins",
      operationId: "listPins",
      summary:
        "Lists what is asked of single messages, by their places, and whether the prompt is already so.",
      responses: {
        200: json(PIN_LIST, "The pins."),
        ...errorResponses({ 404: "There is no such session." }),
      },
      async answer({ path: { id = "" } }) {
        return { json: { pins: reportPins(await seenIn(await sessions.get(id))) } };
      },
    }),
    route({
      method: "POST",
      path: "/v1/sessions/{id}/pins",
      operationId: "setPin",
      summary:
        "Asks that a message comes back at the next rewrite and stays (`keep`), or that a result leaves at the " +
        "next one (`let_go`), in place of what was asked for it before. By itself that rewrites nothing.",
      body: Type.Unsafe<NewPin>(NEW_PIN),
      responses: {
        200: json(PIN_REPORT, "The pin."),
        ...errorResponses({
          400: "That can't be asked of this message, or the body isn't valid.",
          404: "There is no such session.",
          501: "The server's policy takes no pins.",
        }),
      },
      async answer({ path: { id = "" }, body, keep }) {
        const session = await sessions.get(id);
        const seen = await seenIn(session);
        const pin = session.prompt.makePin(seen.history.messages, body);
        const answer = { json: reportPins({ ...seen, pins: [pin] })[0] };
        await session.changePins({ set: pin }, keep({ sessionId: id, answer }));
        return answer;
      },
    }),
    route({
      method: "DELETE",
      path: "/v1/sessions/{id}/pins/{place}",
      operationId: "removePin",
      summary: "Asks for nothing more of a message: from the next rewrite on it is weighed like any other.",
      responses: {
        204: { description: "It is gone." },
        ...errorResponses({ 404: "There is no such session, or nothing is asked of this message." }),
      },
      async answer({ path: { id = "", place = "" }, keep }) {
        const session = await sessions.get(id);
        const isThere = session.prompt.pins.some((pin) => String(pin.place) === place);
        if (isThere) {
          await session.changePins({ remove: Number(place) }, keep({ sessionId: id }));
          return new Response(null, { status: 204 });
        }
        throw new HttpError(
          404,
          "not_found",
          `Cannot remove the pin of message ${place}: session ${id} has none there.`,
        );
      },
    }),
    route({
      method: "GET",
      path: "/v1/overview",
      operationId: "getOverview",
      summary:
        "Says what the agent's sessions that are kept have saved, today and in all, and the newest warnings. " +
        "Costs are in token units, and in US dollars where prices are known.",
      responses: { 200: json(OVERVIEW, "The overview.") },
      answer: async () => ({ json: await sessions.overview() }),
    }),
  ];
}

function seenIn(session: Session): Promise<SeenConversation> {
  return session.prompt.seen(session);
}

function json(schema: object, description: string): RouteResponse {
  return { description, content: { "application/json": Type.Unsafe(schema) } };
}
