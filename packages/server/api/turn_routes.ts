import { type Asker, GUEST } from "@tare/conversation";
import { Type } from "typebox";
import { ERROR, errorResponses, HttpError, httpErrorBody } from "../http/http_error.ts";
import { route } from "../http/route.ts";
import { closed } from "../http/schema.ts";
import { type Heartbeat, type SseMessage, sseResponse } from "../http/sse_response.ts";
import type { EventLog } from "../sessions/event_log.ts";
import type { NumberedEvent } from "../sessions/session_types.ts";
import { BUDGET } from "../sessions/session_settings.ts";
import type { Sessions } from "../sessions/sessions.ts";
import { EVENT } from "./event_schema.ts";
import { USER_CONTENT } from "./message_schemas.ts";
import { SESSION, sessionBody } from "./session_body.ts";

/** Body of `POST /v1/sessions/{id}/turns`: an input, or `continue`. */
export const START_TURN = Type.Object({
  input: Type.Optional(USER_CONTENT),
  /** Goes on with a turn that ended before the model had answered. */
  continue: Type.Optional(Type.Literal(true)),
  /** If a turn runs, the input enters it before its next model call. Default: a running turn refuses another one. */
  steer: Type.Optional(Type.Boolean()),
  /** Nobody will answer: what has to be asked for goes by the server's setting. Default: somebody can be asked. */
  unattended: Type.Optional(Type.Boolean({
    description: "True if nobody will answer: calls that have to be asked for go by the server's setting.",
  })),
  /** What this turn may cost. */
  budget: Type.Optional(BUDGET),
}, {
  oneOf: [{ required: ["input"] }, { required: ["continue"] }],
  examples: [{ input: "Which files are there?" }],
  additionalProperties: false,
});

const EVENTS = {
  description: "The events, each with its number in the session as its id.",
  content: { "text/event-stream": Type.Union([EVENT, ERROR]) },
};

/** What {@linkcode turnRoutes} work on. */
export interface TurnRoutesOptions {
  readonly sessions: Sessions;
  /** How streams show that they are alive. */
  readonly heartbeat: Heartbeat;
  /** Told of every error that clients don't get to read. */
  readonly onError: (error: unknown) => void;
}

/** The routes that start, watch and cancel turns. */
export function turnRoutes({ sessions, heartbeat, onError }: TurnRoutesOptions) {
  const stream = (events: AsyncIterable<NumberedEvent>) => sseResponse(toSse(events, onError), heartbeat);
  return [
    route({
      method: "POST",
      path: "/v1/sessions/{id}/turns",
      operationId: "startTurn",
      isAtomic: true,
      begins: true,
      summary:
        "Starts or continues a turn and streams its events up to its end, or steers the one that runs.",
      body: START_TURN,
      responses: {
        200: EVENTS,
        202: {
          description: "The input enters the running turn before its next model call.",
          content: { "application/json": closed({ steered: Type.Literal(true), session: SESSION }) },
        },
        ...errorResponses({
          404: "There is no such session.",
          409:
            "A turn runs in the session, or there is nothing to continue, or a request with this Idempotency-Key is " +
            "being worked on.",
          429: "As many turns run as the server allows.",
        }),
      },
      async answer({ path: { id }, body: { input, steer, budget, unattended = false }, keep, asker }) {
        const session = await sessions.open(id);
        const steered = () => ({
          status: 202,
          json: { steered: true as const, session: sessionBody(session) },
        });
        const request = {
          input,
          budget,
          ...(unattended && { unattended: unattendedOf(asker) }),
          keep: (effect: "starts" | "steers") =>
            keep({
              sessionId: id,
              ...(effect === "steers" ? { answer: steered() } : { reference: String(session.lastEvent) }),
            }),
        };
        const turn = steer && input !== undefined
          ? await session.steerOrStart({ ...request, input })
          : await session.start(request);
        return turn ? stream(turnEvents(session.events, turn.before)) : steered();
      },
      async replay({ path: { id } }, reference) {
        const events = await sessions.events(id);
        const before = Number(reference);
        if (await turnHasEnded(events, before)) return stream(turnEvents(events, before));
        throw new HttpError(
          409,
          "idempotency_key_in_use",
          `Cannot answer again yet: the turn is running. GET /v1/sessions/${id}/events?after=${before} follows it.`,
          { "retry-after": "1" },
        );
      },
    }),
    route({
      method: "GET",
      path: "/v1/sessions/{id}/events",
      operationId: "getEvents",
      summary: "Streams the events after a number, those of a running turn included.",
      query: {
        after: Type.Optional(Type.Integer({
          minimum: 0,
          description: "Number of the last event that isn't wanted. Default: 0.",
        })),
      },
      headers: {
        "Last-Event-ID": Type.Integer({
          minimum: 0,
          default: 0,
          description: "The same, as browsers send it when they connect again; the query outranks it.",
        }),
      },
      responses: {
        200: EVENTS,
        ...errorResponses({ 404: "There is no such session." }),
      },
      async answer({ path: { id }, query: { after }, headers }) {
        return stream((await sessions.events(id)).read(after ?? headers["Last-Event-ID"]));
      },
    }),
    route({
      method: "POST",
      path: "/v1/sessions/{id}/cancel",
      operationId: "cancelTurn",
      summary: "Cancels the running turn and waits for its end; of one that asks, denies what is asked.",
      responses: {
        200: {
          description: "Whether a turn was running or asked, and the session.",
          content: { "application/json": closed({ cancelled: Type.Boolean(), session: SESSION }) },
        },
        ...errorResponses({ 404: "There is no such session." }),
      },
      async answer({ path: { id }, keep }) {
        const session = await sessions.get(id);
        const cancelled = await session.cancel() || await session.withdraw();
        keep({ sessionId: id });
        return { json: { cancelled, session: sessionBody(session) } };
      },
    }),
  ];
}

/** What becomes of a question where nobody will answer: what the setting allows, it doesn't allow just anybody. */
export function unattendedOf({ name }: Asker): "by_setting" | "deny" {
  return name === GUEST.name ? "deny" : "by_setting";
}

/** Each event's number is its `id`, its JSON the `data`. An error is told by an event without a number, at the end. */
async function* toSse(
  events: AsyncIterable<NumberedEvent>,
  onError: (error: unknown) => void,
): AsyncGenerator<SseMessage> {
  try {
    for await (const { number, event } of events) yield { id: number, data: JSON.stringify(event) };
  } catch (error) {
    if (!(error instanceof HttpError)) onError(error);
    // Too late for a status.
    yield { event: "error", data: JSON.stringify(httpErrorBody(error)) };
  }
}

/** The events of the one turn that began after number `after`, those to come included. */
async function* turnEvents(log: EventLog, after: number): AsyncGenerator<NumberedEvent, void> {
  for await (const numbered of log.read(after)) {
    yield numbered;
    if (numbered.event.type === "turn_end") return;
  }
}

/** Whether the turn that began after number `after` has ended. */
async function turnHasEnded(log: EventLog, after: number): Promise<boolean> {
  const { last } = log;
  // Reading on at the end of the log would wait for what is still to come.
  if (last <= after) return false;
  for await (const { number, event } of log.read(after)) {
    if (event.type === "turn_end") return true;
    if (number >= last) return false;
  }
  return false;
}
