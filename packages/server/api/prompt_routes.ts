import { type CacheKeepAlive, Keys } from "@tare/session";
import { reportBlock, reportPins, reportPrompt, usageTotals } from "@tare/session/internal/report";
import { HttpError, invalidRequest, notFound, notSupported } from "../http/http_error.ts";
import { json, route } from "../http/route.ts";
import {
  BLOCK_QUERY,
  BLOCK_REPORT,
  CALL_LIST,
  CALLS_QUERY,
  KEEP_ALIVE,
  KEEP_ALIVE_RESPONSE,
  LEDGER_REPORT,
  MISSES_QUERY,
  NEW_PIN,
  OVERVIEW,
  PIN_LIST,
  PIN_REPORT,
  PROMPT_QUERY,
  PROMPT_REPORT,
  SPEND_QUERY,
  SPEND_REPORT,
} from "./report_schemas.ts";
import { assertSees, openSession, type ServerSessions } from "./session_body.ts";
import { MISSES_REPORT, reportMisses } from "./misses.ts";
import { KIND } from "./session_routes.ts";
import { reportSessionSpend, SESSION_SPEND } from "./session_spend.ts";

const UNITS =
  "Costs are in cost units (one unit is the price of one uncached input token), and in US dollars if " +
  "prices are known.";
const NO_SESSION = { 404: "There is no such session." };

export function promptRoutes(registry: ServerSessions) {
  return [
    route({
      method: "GET",
      path: "/sessions/{id}/calls",
      operationId: "listCalls",
      summary: "Lists the model calls of a session, the oldest first: usage, cost of the baseline, and the " +
        `rewrites before each call with their reasons. ${UNITS}`,
      query: CALLS_QUERY,
      responses: {
        200: json("The calls, and whether there are more.", CALL_LIST),
        ...NO_SESSION,
      },
      async answer({ path: { id }, query: { after, limit } }) {
        const calls = await (await openSession(registry, id)).calls();
        const later = calls.filter(({ number }) => number > after);
        return { json: { calls: later.slice(0, limit), hasMore: later.length > limit } };
      },
    }),
    route({
      method: "GET",
      path: "/sessions/{id}/prompt",
      operationId: "getPrompt",
      summary: "Returns the prompt without the texts: a block for each tool and message, including evicted " +
        "ones, and for each line that represents several.",
      query: PROMPT_QUERY,
      responses: {
        200: json("The blocks, and whether there are more.", PROMPT_REPORT),
        ...NO_SESSION,
      },
      async answer({ path: { id }, query }) {
        return { json: reportPrompt(await (await openSession(registry, id)).seen(), query) };
      },
    }),
    route({
      method: "GET",
      path: "/sessions/{id}/prompt/{block}",
      operationId: "getPromptBlock",
      summary: "Returns a block of the prompt: its current and its original text. Long texts are paginated.",
      query: BLOCK_QUERY,
      responses: {
        200: json("The block with at most 100,000 characters of each text.", BLOCK_REPORT),
        404: "There is no such session or block.",
      },
      async answer({ path: { id, block }, query }) {
        const found = reportBlock(await (await openSession(registry, id)).seen(), block, query);
        if (found) return { json: found };
        throw notFound(`Cannot find ${block}: the prompt of session ${id} has no such block.`);
      },
    }),
    route({
      method: "GET",
      path: "/sessions/{id}/pins",
      operationId: "listPins",
      summary: "Lists the pins of messages by position, and whether the prompt reflects them.",
      responses: {
        200: json("The pins.", PIN_LIST),
        ...NO_SESSION,
      },
      async answer({ path: { id } }) {
        return { json: { pins: reportPins(await (await openSession(registry, id)).seen()) } };
      },
    }),
    route({
      method: "POST",
      path: "/sessions/{id}/pins",
      operationId: "setPin",
      isAtomic: true,
      summary:
        "Retains or restores a message (`retain`), or evicts a result (`evict`), at the next rewrite; " +
        "replaces the message's earlier pin. Causes no rewrite by itself.",
      body: NEW_PIN,
      responses: {
        200: json("The pin.", PIN_REPORT),
        400: "The message can't be pinned so, or the body isn't valid.",
        404: "There is no such session.",
        501: "The session's messages can't be pinned.",
      },
      async answer({ path: { id }, body: { place, wish, by }, keep }) {
        const session = await openSession(registry, id);
        const { noPins } = session;
        if (noPins !== undefined) throw notSupported(`Cannot pin message ${place}: ${noPins}.`);
        const wanted = { place, wish, ...(by !== undefined && { by }) };
        try {
          return { json: await session.setPin(wanted, (json) => keep({ sessionId: id, answer: { json } })) };
        } catch (error) {
          if (!(error instanceof RangeError)) throw error;
          throw invalidRequest(error.message);
        }
      },
    }),
    route({
      method: "DELETE",
      path: "/sessions/{id}/pins/{place}",
      operationId: "removePin",
      summary: "Removes the pin of a message: later rewrites treat it like any other.",
      responses: {
        204: "The pin is removed.",
        404: "There is no such session, or the message has no pin.",
      },
      async answer({ path: { id, place }, keep }) {
        const session = await openSession(registry, id);
        const isPlace = /^\d{1,15}$/.test(place);
        if (isPlace && await session.removePin(Number(place), () => keep({ sessionId: id }))) {
          return new Response(null, { status: 204 });
        }
        throw notFound(`Cannot remove the pin of message ${place}: session ${id} has none there.`);
      },
    }),
    route({
      method: "POST",
      path: "/sessions/{id}/keep_alive",
      operationId: "keepAlive",
      summary:
        "Keeps the cache of the session's newest prompt alive while the session is idle, by paid requests: " +
        "for at most this time, also if they cost more than they save. A call interrupts this until its end.",
      body: KEEP_ALIVE,
      responses: {
        200: json("Until when.", KEEP_ALIVE_RESPONSE),
        400: "Cache keep-alive is off, the price is unknown, or the body isn't valid.",
        404: "There is no such session.",
        409: "There is no cache to keep alive now.",
      },
      async answer({ path: { id }, body: { minutes }, keep }) {
        const session = await openSession(registry, id);
        const outcome = session.keepFor(minutes * 60_000);
        if (typeof outcome !== "object") throw keepAliveRefusal(id, outcome);
        keep({ sessionId: id });
        const { untilMs, maxUsd } = outcome;
        return { json: { until: new Date(untilMs).toISOString(), maxUsd } };
      },
    }),
    route({
      method: "GET",
      path: "/sessions/{id}/spend",
      operationId: "getSessionSpend",
      summary:
        "Returns a session's cost: by turn, and the carrying cost of its results, by tool, by path or " +
        `command, and the ten most expensive. ${UNITS}`,
      responses: {
        200: json("The most expensive turns, tools, paths or commands, and results.", SESSION_SPEND),
        ...NO_SESSION,
      },
      async answer({ path: { id } }) {
        const session = await openSession(registry, id);
        const [seen, calls] = [await session.seen(), await session.calls()];
        // The agent's history ends with the newest answer; a client's with its newest request.
        const isAnswered = session.kind === "agent";
        return {
          json: reportSessionSpend(seen, { calls, isAnswered, totals: usageTotals.days(session.days) }),
        };
      },
    }),
    route({
      method: "GET",
      path: "/spend",
      who: "key",
      operationId: "getSpend",
      summary:
        "Returns the cost of calls by part (cache reads, new, expired, moved by a rewrite, changed or " +
        "lost tokens, and replies), by day, model, session or agent. Dollars include only calls with a " +
        `known price. ${UNITS}`,
      query: SPEND_QUERY,
      responses: {
        200: json("Days the newest first, others the most expensive first.", SPEND_REPORT),
      },
      answer: async ({ query, caller, signal }) => ({
        json: await registry.spend(query, { by: Keys.nameOf(caller), signal }),
      }),
    }),
    route({
      method: "GET",
      path: "/misses",
      who: "key",
      operationId: "getMisses",
      summary: `Returns the causes of cache misses, their cost and remedies: avoidable ones first. ${UNITS}`,
      query: MISSES_QUERY,
      responses: {
        200: json("The most expensive first.", MISSES_REPORT),
        ...NO_SESSION,
      },
      async answer({ query: { session, limit, ...days }, caller, signal }) {
        if (session === undefined) {
          const calls = registry.calls({ limit, by: Keys.nameOf(caller), signal });
          return { json: await reportMisses(calls, days) };
        }
        await assertSees(registry, session, caller);
        const calls = await (await openSession(registry, session)).calls();
        return { json: await reportMisses([{ id: session, calls }], days) };
      },
    }),
    route({
      method: "GET",
      path: "/overview",
      who: "key",
      operationId: "getOverview",
      summary: "Returns the estimated saving of sessions, today and in all, including deleted ones, the " +
        `holdout, and the newest warnings. ${UNITS}`,
      query: { kind: KIND },
      responses: { 200: json("The overview.", OVERVIEW) },
      answer: async ({ query: { kind }, caller }) => ({
        json: await registry.overview({ kind, by: Keys.nameOf(caller) }),
      }),
    }),
  ];
}

function keepAliveRefusal(
  id: string,
  why: Extract<ReturnType<CacheKeepAlive["keepFor"]>, string> | undefined,
): HttpError {
  const cannot = `Cannot keep the cache of session ${id} alive: `;
  if (why === undefined) {
    const reason = "cache keep-alive is off. Start the server with TARE_KEEP_ALIVE=turns.";
    return invalidRequest(cannot + reason);
  }
  if (why === "no price") {
    const reason = "the price of its model is unknown. Set TARE_PRICE.";
    return invalidRequest(cannot + reason);
  }
  const reason =
    "there is no cache. A request is running, the newest one is over five minutes old, or requests " +
    "don't extend its cache by five minutes. Retry after the next answer.";
  return new HttpError(409, "nothing_to_keep_alive", cannot + reason);
}

export function ledgerRoutes(registry: ServerSessions) {
  return [
    route({
      method: "GET",
      path: "/ledger",
      who: "key",
      operationId: "getLedger",
      summary: "Compares the cost of gateway sessions with and without planning.",
      responses: {
        200: json(`Both groups. ${UNITS}`, LEDGER_REPORT),
      },
      answer: async ({ caller }) => ({
        json: await registry.ledger({ kind: "gateway", by: Keys.nameOf(caller) }),
      }),
    }),
  ];
}
