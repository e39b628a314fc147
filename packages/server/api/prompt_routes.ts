import { Keys, type Warmth } from "@tare/session";
import { reportBlock, reportPins, reportPrompt, sumsOf } from "@tare/session/internal/report";
import { HttpError, invalidRequest, notFound, notSupported } from "../http/http_error.ts";
import { json, route } from "../http/route.ts";
import {
  BLOCK_QUERY,
  BLOCK_REPORT,
  CALL_LIST,
  CALLS_QUERY,
  KEEP_WARM,
  KEPT_WARM,
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

const UNITS = "Costs are in token units, and in US dollars where prices are known.";
const NO_SESSION = { 404: "There is no such session." };

/** The routes about where tokens went, what the model sees, and what is asked of single messages. */
export function promptRoutes(registry: ServerSessions) {
  return [
    route({
      method: "GET",
      path: "/sessions/{id}/calls",
      operationId: "listCalls",
      summary:
        "Lists the model calls of a session, the oldest first: what each took, what its client would have " +
        `paid without Tare, and what was rewritten before it and why. ${UNITS}`,
      query: CALLS_QUERY,
      responses: {
        200: json("The calls, and whether there are more behind them.", CALL_LIST),
        ...NO_SESSION,
      },
      async answer({ path: { id }, query: { after, limit } }) {
        const calls = await (await openSession(registry, id)).calls();
        const behind = calls.filter(({ number }) => number > after);
        return { json: { calls: behind.slice(0, limit), hasMore: behind.length > limit } };
      },
    }),
    route({
      method: "GET",
      path: "/sessions/{id}/prompt",
      operationId: "getPrompt",
      summary:
        "Shows what the model sees, without the texts: a block for each tool and message, those that left " +
        "included, and for each line that stands for several.",
      query: PROMPT_QUERY,
      responses: {
        200: json("The blocks, and whether there are more behind them.", PROMPT_REPORT),
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
      summary:
        "Shows a block of the prompt: what stands there now, and what was said. Long texts come in stretches.",
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
      summary:
        "Lists what is asked of single messages, by their places, and whether the prompt is already so.",
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
        "Asks that a message comes back at the next rewrite and stays (`keep`), or that a result leaves at the " +
        "next one (`let_go`), in place of what was asked for it before. By itself that rewrites nothing.",
      body: NEW_PIN,
      responses: {
        200: json("The pin.", PIN_REPORT),
        400: "That can't be asked of this message, or the body isn't valid.",
        404: "There is no such session.",
        501: "Nothing can be asked of the messages of this session.",
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
      summary: "Asks for nothing more of a message: from the next rewrite on it is weighed like any other.",
      responses: {
        204: "It is gone.",
        404: "There is no such session, or nothing is asked of this message.",
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
      path: "/sessions/{id}/keep_warm",
      operationId: "keepWarm",
      summary:
        "Asks that the provider's cache keeps the session's newest prompt while nobody asks anything, though that costs " +
        "pings: as often as they are worth it, and at most so long. Each request ends it; it is asked for again behind that " +
        "as long as the time isn't over.",
      body: KEEP_WARM,
      responses: {
        200: json("Until when.", KEPT_WARM),
        400: "The server keeps nothing warm, the price isn't known, or the body isn't valid.",
        404: "There is no such session.",
        409: "There is nothing to keep warm now.",
      },
      async answer({ path: { id }, body: { minutes }, keep }) {
        const session = await openSession(registry, id);
        const kept = session.keepFor(minutes * 60_000);
        if (typeof kept !== "object") throw notKept(id, kept);
        keep({ sessionId: id });
        const { untilMs, maxUsd } = kept;
        return { json: { until: new Date(untilMs).toISOString(), maxUsd } };
      },
    }),
    route({
      method: "GET",
      path: "/sessions/{id}/spend",
      operationId: "getSessionSpend",
      summary:
        "Says where a session's money went: by turn, and what its results have cost by being carried, by tool, by path " +
        `or command, and one by one the ten dearest. ${UNITS}`,
      responses: {
        200: json("The dearest turns, tools, paths or commands, and results.", SESSION_SPEND),
        ...NO_SESSION,
      },
      async answer({ path: { id } }) {
        const session = await openSession(registry, id);
        const [seen, calls] = [await session.seen(), await session.calls()];
        // The agent's history ends with the answer to the newest call that has ended; a client's with its newest request.
        const isAnswered = session.kind === "agent";
        return { json: reportSessionSpend(seen, { calls, isAnswered, sums: sumsOf.days(session.days) }) };
      },
    }),
    route({
      method: "GET",
      path: "/spend",
      who: "key",
      operationId: "getSpend",
      summary:
        "Says what calls have cost and what for (cache reads, what was new, expired, moved by an own rewrite, changed or " +
        `lost, and replies), by day, model, session or agent. Dollars are those of the calls whose price is known. ${UNITS}`,
      query: SPEND_QUERY,
      responses: {
        200: json("Days the newest first, others the dearest first.", SPEND_REPORT),
      },
      answer: async ({ query, asker, signal }) => ({
        json: await registry.spend(query, { by: Keys.nameOf(asker), signal }),
      }),
    }),
    route({
      method: "GET",
      path: "/misses",
      who: "key",
      operationId: "getMisses",
      summary:
        "Says why prompt tokens weren't read from the provider's cache, what that has cost, and what would mend it: what " +
        `need not have been first. ${UNITS}`,
      query: MISSES_QUERY,
      responses: {
        200: json("The dearest first.", MISSES_REPORT),
        ...NO_SESSION,
      },
      async answer({ query: { session, limit, ...days }, asker, signal }) {
        if (session === undefined) {
          const calls = registry.calls({ limit, by: Keys.nameOf(asker), signal });
          return { json: await reportMisses(calls, days) };
        }
        await assertSees(registry, session, asker);
        const calls = await (await openSession(registry, session)).calls();
        return { json: await reportMisses([{ id: session, calls }], days) };
      },
    }),
    route({
      method: "GET",
      path: "/overview",
      who: "key",
      operationId: "getOverview",
      summary:
        "Says what sessions have saved, today and in all, those that are gone too, how those do that are left as they are, " +
        `and the newest warnings. ${UNITS}`,
      query: { kind: KIND },
      responses: { 200: json("The overview.", OVERVIEW) },
      answer: async ({ query: { kind }, asker }) => ({
        json: await registry.overview({ kind, by: Keys.nameOf(asker) }),
      }),
    }),
  ];
}

/** Why a session isn't kept warm, by what is known of it. */
function notKept(id: string, why: Extract<ReturnType<Warmth["keepFor"]>, string> | undefined): HttpError {
  const cannot = `Cannot keep session ${id} warm: `;
  if (why === undefined) {
    const reason = "this server was started to keep nothing warm; start it with TARE_KEEP_WARM=turns.";
    return invalidRequest(cannot + reason);
  }
  if (why === "no price") {
    const reason = "the price of its model isn't known, nor what it would cost; set TARE_PRICE.";
    return invalidRequest(cannot + reason);
  }
  const reason =
    "there is nothing to keep. A request is under way, or the newest one is over five minutes ago, or its cache " +
    "isn't one that requests keep for five minutes more. Try again behind the next answer.";
  return new HttpError(409, "nothing_to_keep_warm", cannot + reason);
}

/** The comparison that a gateway makes. */
export function ledgerRoutes(registry: ServerSessions) {
  return [
    route({
      method: "GET",
      path: "/ledger",
      who: "key",
      operationId: "getLedger",
      summary: "Compares what sessions of other agents cost with and without planning.",
      responses: {
        200: json(`Both groups. ${UNITS}`, LEDGER_REPORT),
      },
      answer: async ({ asker }) => ({
        json: await registry.ledger({ kind: "gateway", by: Keys.nameOf(asker) }),
      }),
    }),
  ];
}
