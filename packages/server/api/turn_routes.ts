import { type Caller, Keys } from "@tare/session";
import type { SseMessage } from "@tare/wire/internal/sse";
import { Type } from "typebox";
import { ERROR, HttpError, httpErrorBody, invalidRequest, notFound } from "../http/http_error.ts";
import { json, route } from "../http/route.ts";
import { closed, count, text } from "../http/schema.ts";
import { type Heartbeat, sseResponse } from "../http/dispatcher.ts";
import type { EventLog } from "../sessions/event_log.ts";
import type { NumberedEvent } from "../sessions/session_types.ts";
import { BUDGET, EFFORT, SESSION_SETTINGS } from "../sessions/session_settings.ts";
import type { Sessions } from "../sessions/sessions.ts";
import type { QueuedTurn } from "../turns/turn_queue.ts";
import { EVENT } from "./event_schema.ts";
import { USER_CONTENT } from "./message_schemas.ts";
import { SESSION, sessionBody } from "./session_body.ts";

export const START_TURN = Type.Object({
  input: Type.Optional(USER_CONTENT),
  continue: Type.Optional(Type.Literal(true)),
  /**
   * Whether the input enters a running turn before its next model call. Default: a running turn refuses another one.
   */
  steer: Type.Optional(Type.Boolean()),
  background: Type.Optional(Type.Boolean({
    description:
      "True to queue the turn: it begins after earlier ones of the session, once a slot is free, on any " +
      "server. The response returns its id immediately.",
  })),
  unattended: Type.Optional(Type.Boolean({
    description: "True if no user will answer: the server's setting decides calls that need approval.",
  })),
  budget: Type.Optional(BUDGET),
  evictNow: Type.Optional(Type.Boolean({
    description:
      "True to evict everything that may be evicted with this turn's first call, at any cost: `quote` " +
      "returns it. Default: evict if it pays.",
  })),
  effort: Type.Optional(EFFORT),
}, {
  oneOf: [{ required: ["input"] }, { required: ["continue"] }],
  examples: [{ input: "Which files are there?" }],
  additionalProperties: false,
});

const STEER_OR_WAIT =
  "Cannot steer in the background: with steer the input enters the running turn, with background it " +
  "waits for its end. Use one of them.";

const EVICT_OR_WAIT =
  "Cannot evict now in the background: evictNow is for a turn that begins immediately. Use one of them.";

const STEER_OR_CHOOSE =
  "Cannot steer with an effort: the running turn has its own. Omit effort, or wait for the turn's end.";

const QUEUED = closed({
  id: text("The `id` of its turn_start, once it begins."),
  input: Type.Optional(USER_CONTENT),
  requestedAtMs: Type.Number({ description: "In milliseconds since the epoch." }),
}, "QueuedTurn");

function queuedBody({ id, input, requestedAtMs }: QueuedTurn) {
  return { id, ...(input !== undefined && { input }), requestedAtMs };
}

const EVENTS = {
  description: "The events, each with its number in the session as its id.",
  content: { "text/event-stream": Type.Union([EVENT, ERROR]) },
};

export interface TurnRoutesOptions {
  readonly sessions: Sessions;
  readonly heartbeat: Heartbeat;
  readonly onError: (error: unknown) => void;
}

const CHOOSE_MODEL = closed(
  {
    model: Type.Optional(SESSION_SETTINGS.properties.model),
    effort: Type.Optional(Type.Union([EFFORT, Type.Null()])),
  },
  "ChooseModel",
  { model: "some-model", effort: "high" },
);

export function turnRoutes({ sessions, heartbeat, onError }: TurnRoutesOptions) {
  const stream = (events: AsyncIterable<NumberedEvent>) => sseResponse(toSse(events, onError), heartbeat);
  return [
    route({
      method: "POST",
      path: "/sessions/{id}/turns",
      operationId: "startTurn",
      isAtomic: true,
      begins: true,
      summary: "Starts or continues a turn and streams its events to its end, steers the running one, or " +
        "queues one.",
      body: START_TURN,
      responses: {
        200: EVENTS,
        202: json(
          "The input enters the running turn before its next model call, or the turn is queued.",
          Type.Union([
            closed({ steered: Type.Literal(true), session: SESSION }),
            closed({ queued: QUEUED, session: SESSION }),
          ]),
        ),
        404: "There is no such session.",
        409: "Conflict: a turn is running in the session, there is nothing to continue, or a request with " +
          "this Idempotency-Key is in progress.",
        429: "The limit of running or queued turns is reached.",
      },
      async answer({ path: { id }, body, keep, caller, signal }) {
        const { input, steer, budget, effort, evictNow, background = false, unattended = false } = body;
        if (steer && effort !== undefined) throw invalidRequest(STEER_OR_CHOOSE);
        const settings = effort === undefined ? undefined : { reasoning_effort: effort };
        const session = await sessions.load(id);
        if (background) {
          if (steer) throw invalidRequest(STEER_OR_WAIT);
          if (evictNow) throw invalidRequest(EVICT_OR_WAIT);
          await sessions.queue.admit();
          const requested = {
            input,
            budget,
            settings,
            ...(unattended && { unattended: unattendedOf(caller) }),
          };
          const answer = (turn: QueuedTurn) => ({
            status: 202,
            json: { queued: queuedBody(turn), session: sessionBody(session.row) },
          } as const);
          const queued = await session.enqueue(
            requested,
            (turn) => keep({ sessionId: id, answer: answer(turn) }),
          );
          return answer(queued);
        }
        const steered = () => ({
          status: 202,
          json: { steered: true as const, session: sessionBody(session.row) },
        });
        const request = {
          input,
          budget,
          evictNow,
          settings,
          ...(unattended && { unattended: unattendedOf(caller) }),
          keep: (effect: "starts" | "steers") =>
            keep({
              sessionId: id,
              ...(effect === "steers" ? { answer: steered() } : { reference: String(session.lastEvent) }),
            }),
        };
        const begin = (giveBack?: () => void) =>
          steer && input !== undefined
            ? session.steerOrStart({ ...request, input, giveBack })
            : session.start({ ...request, giveBack });
        const turn = await begin().catch(async (error) => {
          if (!(error instanceof HttpError && error.code === "too_many_turns")) throw error;
          const giveBack = await sessions.slots.wait(signal);
          return await begin(giveBack).catch((error) => {
            giveBack();
            throw error;
          });
        });
        return turn ? stream(turnEvents(session.events, turn.before)) : steered();
      },
      async replay({ path: { id } }, reference) {
        // A running turn is followed to its end, on any server.
        return stream(turnEvents(await sessions.events(id), Number(reference)));
      },
    }),
    route({
      method: "GET",
      path: "/sessions/{id}/queue",
      operationId: "listQueue",
      summary: "Lists the queued turns.",
      responses: {
        200: json("The turns, in order.", closed({ queue: Type.Array(QUEUED) })),
        404: "There is no such session.",
      },
      async answer({ path: { id } }) {
        return { json: { queue: (await sessions.get(id)).queued.map(queuedBody) } };
      },
    }),
    route({
      method: "DELETE",
      path: "/sessions/{id}/queue/{turn}",
      operationId: "dequeueTurn",
      summary: "Removes a queued turn.",
      responses: {
        204: "The turn is removed.",
        404: "There is no such session, or the turn isn't queued in it.",
      },
      async answer({ path: { id, turn } }) {
        if (await (await sessions.get(id)).dequeue(turn)) return new Response(null, { status: 204 });
        throw notFound(`Cannot remove turn ${turn}: it isn't queued.`);
      },
    }),
    route({
      method: "GET",
      path: "/sessions/{id}/events",
      operationId: "getEvents",
      summary: "Streams the events after a number, including those of a running turn.",
      query: {
        after: Type.Optional(count("Number of the last event to skip. Default: 0.")),
      },
      headers: {
        "Last-Event-ID": Type.Integer({
          minimum: 0,
          default: 0,
          description: "The same, as browsers send it on reconnection; the query overrides it.",
        }),
      },
      responses: {
        200: EVENTS,
        404: "There is no such session.",
      },
      async answer({ path: { id }, query: { after }, headers }) {
        return stream((await sessions.events(id)).read(after ?? headers["Last-Event-ID"]));
      },
    }),
    route({
      method: "POST",
      path: "/sessions/{id}/model",
      operationId: "chooseModel",
      summary:
        "Sets the model or effort of the next turns (null: the model's own), and returns the current " +
        "ones. Another model can't use the session's provider cache, and sealed reasoning is only sent " +
        "to its own model. An effort that the model doesn't support isn't requested, and returns with a " +
        "model that supports it.",
      body: CHOOSE_MODEL,
      responses: {
        200: json(
          "The session, and the efforts that its model supports, if known.",
          closed({
            session: SESSION,
            efforts: Type.Optional(Type.Array(Type.String())),
          }, "ChosenModel"),
        ),
        404: "There is no such session.",
        409: "Conflict: a turn is running in the session, or an approval is pending.",
      },
      async answer({ path: { id }, body, keep }) {
        const session = await sessions.get(id);
        if (body.model !== undefined || body.effort !== undefined) await session.choose(body);
        const efforts = sessions.effortsOf(session.settings.model);
        keep({ sessionId: id });
        return { json: { session: sessionBody(session.row), ...(efforts && { efforts: [...efforts] }) } };
      },
    }),
    route({
      method: "POST",
      path: "/sessions/{id}/cancel",
      operationId: "cancelTurn",
      summary: "Cancels the running turn and waits for its end, or denies pending approvals.",
      responses: {
        200: json(
          "Whether a turn was running or an approval pending, and the session.",
          closed({ cancelled: Type.Boolean(), session: SESSION }),
        ),
        404: "There is no such session.",
      },
      async answer({ path: { id }, keep }) {
        const session = await sessions.get(id);
        const cancelled = await session.cancel() || await session.withdraw();
        keep({ sessionId: id });
        return { json: { cancelled, session: sessionBody(session.row) } };
      },
    }),
  ];
}

/** Returns the decision about calls that no user can approve: the server's setting doesn't apply to guests. */
export function unattendedOf({ name }: Caller): "by_setting" | "deny" {
  return name === Keys.GUEST.name ? "deny" : "by_setting";
}

/**
 * Yields server-sent events with the number as `id` and the JSON as `data`. An error is the last event, without a
 * number.
 */
async function* toSse(
  events: AsyncIterable<NumberedEvent>,
  onError: (error: unknown) => void,
): AsyncGenerator<SseMessage> {
  try {
    for await (const { number, event } of events) yield { id: number, data: JSON.stringify(event) };
  } catch (error) {
    if (!(error instanceof HttpError)) onError(error);
    yield { event: "error", data: JSON.stringify(httpErrorBody(error)) };
  }
}

/** Yields the events of the turn that began after number `after`, to its end. */
async function* turnEvents(log: EventLog, after: number): AsyncGenerator<NumberedEvent, void> {
  for await (const numbered of log.read(after)) {
    yield numbered;
    if (numbered.event.type === "turn_end") return;
  }
}
