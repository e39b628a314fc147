import type { Model } from "@tare/loop";
import type { Profile } from "@tare/planner";
import { errorResponses } from "../http/error_responses.ts";
import { EVENT } from "./event_schema.ts";
import { eventStream, turnEvents, turnHasEnded } from "./event_stream.ts";
import { HttpError } from "../http/http_error.ts";
import { overBudget } from "../sessions/over_budget.ts";
import { objectSchema } from "../http/object_schema.ts";
import { START_TURN, type StartTurn } from "./request_schemas.ts";
import { ERROR, SESSION } from "./response_schemas.ts";
import type { Route, RouteResponse } from "../http/route.ts";
import { startTurn, type TurnOptions } from "../sessions/run_turn.ts";
import { type Session, sessionBody } from "../sessions/session.ts";
import type { Sessions } from "../sessions/sessions.ts";
import type { Heartbeat } from "../http/sse_response.ts";
import type { TurnSlots } from "../sessions/turn_slots.ts";

/** What {@linkcode turnRoutes} work on. */
export interface TurnRoutesOptions extends Omit<TurnOptions, "model" | "overBudget"> {
  /** The server's sessions. */
  readonly sessions: Sessions;
  /** The model port for a model's name. */
  readonly model: (name: string) => Model;
  /** The provider's prices. */
  readonly profile: Profile;
  /** The turns that may run at once. */
  readonly slots: TurnSlots;
  /** How streams show that they are alive. */
  readonly heartbeat: Heartbeat;
}

const EVENTS: RouteResponse = {
  description: "The events, each with its number in the session as its id.",
  content: { "text/event-stream": { anyOf: [EVENT, ERROR] } },
};

/** The routes that start, watch and cancel turns. */
export function turnRoutes(options: TurnRoutesOptions): readonly Route[] {
  const { sessions, model, profile, slots, heartbeat, ...turnOptions } = options;
  const streaming = { heartbeat, onError: turnOptions.onError };
  const start: Route<StartTurn> = {
    method: "POST",
    path: "/v1/sessions/{id}/turns",
    operationId: "startTurn",
    summary: "Starts or continues a turn and streams its events up to its end, or steers the one that runs.",
    body: START_TURN,
    responses: {
      200: EVENTS,
      202: {
        description: "The input enters the running turn before its next model call.",
        content: {
          "application/json": objectSchema({ steered: { const: true }, session: SESSION }),
        },
      },
      ...errorResponses({
        404: "There is no such session.",
        409:
          "A turn runs in the session, or there is nothing to continue, or a request with this Idempotency-Key is " +
          "being worked on.",
        429: "As many turns run as the server allows.",
      }),
    },
    async answer({ path: { id = "" }, body, keep }) {
      const session = await sessions.get(id);
      const { input } = body;
      if (session.running) {
        if (body.steer && input !== undefined) {
          session.running.steer(input);
          keep({ sessionId: session.id });
          return Response.json({ steered: true, session: sessionBody(session) }, { status: 202 });
        }
        throw new HttpError(
          409,
          "turn_running",
          `Cannot start a turn in session ${session.id}: one is running. Wait for its turn_end, cancel it, or send ` +
            "the input with steer.",
        );
      }
      if (body.continue && !canContinue(session)) {
        throw new HttpError(
          409,
          "nothing_to_continue",
          `Cannot continue session ${session.id}: the model has answered last. Send an input.`,
        );
      }
      const before = session.events.last;
      const giveBack = slots.take();
      try {
        startTurn(session, input, {
          ...turnOptions,
          model: model(session.settings.model),
          overBudget: overBudget({
            session: session.settings.budget,
            before: session.ledger,
            profile,
            ...(body.budget && { turn: body.budget }),
          }),
        });
      } catch (error) {
        giveBack();
        throw error;
      }
      endOf(session).then(giveBack);
      keep({ sessionId: session.id, reference: String(before) });
      return eventStream(turnEvents(session.events, before), streaming);
    },
    async replay({ path: { id = "" } }, reference) {
      const session = await sessions.get(id);
      const before = Number(reference);
      if (await turnHasEnded(session.events, before)) {
        return eventStream(turnEvents(session.events, before), streaming);
      }
      throw new HttpError(
        409,
        "idempotency_key_in_use",
        `Cannot answer again yet: the turn is running. GET /v1/sessions/${id}/events?after=${before} follows it.`,
        { "retry-after": "1" },
      );
    },
  };
  const events: Route = {
    method: "GET",
    path: "/v1/sessions/{id}/events",
    operationId: "getEvents",
    summary: "Streams the events after a number, those of a running turn included.",
    parameters: [
      {
        name: "after",
        in: "query",
        description: "Number of the last event that isn't wanted. Default: 0.",
        schema: { type: "integer", minimum: 0 },
      },
      {
        name: "Last-Event-ID",
        in: "header",
        description: "The same, as browsers send it when they connect again; the query outranks it.",
        schema: { type: "integer", minimum: 0 },
      },
    ],
    responses: {
      200: EVENTS,
      ...errorResponses({ 400: "The number isn't one.", 404: "There is no such session." }),
    },
    async answer({ path: { id = "" }, request }) {
      const session = await sessions.get(id);
      return eventStream(session.events.read(eventNumber(request)), streaming);
    },
  };
  const cancel: Route = {
    method: "POST",
    path: "/v1/sessions/{id}/cancel",
    operationId: "cancelTurn",
    summary: "Cancels the running turn and waits for its end.",
    responses: {
      200: {
        description: "Whether a turn was running, and the session.",
        content: {
          "application/json": objectSchema({ cancelled: { type: "boolean" }, session: SESSION }),
        },
      },
      ...errorResponses({ 404: "There is no such session." }),
    },
    async answer({ path: { id = "" }, keep }) {
      const session = await sessions.get(id);
      const { running } = session;
      running?.cancel();
      await running?.done;
      keep({ sessionId: session.id });
      return Response.json({ cancelled: running !== undefined, session: sessionBody(session) });
    },
  };
  return [start, events, cancel];
}

/** Whether the model still owes an answer. */
function canContinue({ history }: Session): boolean {
  const last = history.at(-1)?.role;
  return last === "user" || last === "tool";
}

/** Settles when no turn runs in the session. */
async function endOf({ running }: Session): Promise<void> {
  await running?.done;
}

function eventNumber(request: Request): number {
  const text = new URL(request.url).searchParams.get("after") ?? request.headers.get("last-event-id") ?? "0";
  if (/^\d{1,15}$/.test(text)) return Number(text);
  throw new HttpError(
    400,
    "invalid_request",
    `Cannot read events after ${JSON.stringify(text)}: a number from 0 is wanted.`,
  );
}
