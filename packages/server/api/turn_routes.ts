import { type Asker, Keys } from "@tare/session";
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

/** Body of `POST /tare/v1/sessions/{id}/turns`: an input, or `continue`. */
export const START_TURN = Type.Object({
  input: Type.Optional(USER_CONTENT),
  /** Goes on with a turn that ended before the model had answered. */
  continue: Type.Optional(Type.Literal(true)),
  /** If a turn runs, the input enters it before its next model call. Default: a running turn refuses another one. */
  steer: Type.Optional(Type.Boolean()),
  /** The turn waits for its time, and the answer doesn't wait for it. Default: it begins now, or is refused. */
  background: Type.Optional(Type.Boolean({
    description:
      "The turn is queued: it begins once those before it in the session have ended and there is room, on any server. The answer tells its id at once.",
  })),
  /** Nobody will answer: what has to be asked for goes by the server's setting. Default: somebody can be asked. */
  unattended: Type.Optional(Type.Boolean({
    description: "True if nobody will answer: calls that have to be asked for go by the server's setting.",
  })),
  /** What this turn may cost. */
  budget: Type.Optional(BUDGET),
  /** All that may leave the prompt leaves now. */
  leavesNow: Type.Optional(Type.Boolean({
    description:
      "True if all that may leave the prompt shall leave with this turn's first call, whatever that costs: `quote` says what. Default: what pays.",
  })),
  /** How much the model shall reason in this turn. Default: as the session says. */
  effort: Type.Optional(EFFORT),
}, {
  oneOf: [{ required: ["input"] }, { required: ["continue"] }],
  examples: [{ input: "Which files are there?" }],
  additionalProperties: false,
});

const STEER_OR_WAIT =
  "Cannot steer in the background: with steer the input enters the running turn now, with background it waits for its end.";

const LEAVES_LATER =
  "Cannot let leave now what may leave, in the background: leavesNow is for a turn that begins at once.";

const STEER_OR_CHOOSE =
  "Cannot steer with an effort: the running turn has its own. Leave effort out, or wait for the turn's end.";

const QUEUED = closed({
  id: text("The `id` of its turn_start, once it begins."),
  input: Type.Optional(USER_CONTENT),
  askedAtMs: Type.Number({ description: "In milliseconds since the epoch." }),
}, "QueuedTurn");

function queuedBody({ id, input, askedAtMs }: QueuedTurn) {
  return { id, ...(input !== undefined && { input }), askedAtMs };
}

const EVENTS = {
  description: "The events, each with its number in the session as its id.",
  content: { "text/event-stream": Type.Union([EVENT, ERROR]) },
};

/** What {@linkcode turnRoutes} work on. */
export interface TurnRoutesOptions {
  readonly sessions: Sessions;
  readonly heartbeat: Heartbeat;
  readonly onError: (error: unknown) => void;
}

/** Body of `POST /tare/v1/sessions/{id}/model`: what the next turns ask, and how. */
const CHOOSE_MODEL = closed(
  {
    model: Type.Optional(SESSION_SETTINGS.properties.model),
    effort: Type.Optional(Type.Union([EFFORT, Type.Null()])),
  },
  "ChooseModel",
  { model: "some-model", effort: "high" },
);

/** The routes that start, watch and cancel turns, and say which model the next ones ask. */
export function turnRoutes({ sessions, heartbeat, onError }: TurnRoutesOptions) {
  const stream = (events: AsyncIterable<NumberedEvent>) => sseResponse(toSse(events, onError), heartbeat);
  return [
    route({
      method: "POST",
      path: "/sessions/{id}/turns",
      operationId: "startTurn",
      isAtomic: true,
      begins: true,
      summary:
        "Starts or continues a turn and streams its events up to its end, steers the one that runs, or queues one.",
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
        409:
          "A turn runs in the session, or there is nothing to continue, or a request with this Idempotency-Key is " +
          "being worked on.",
        429: "As many turns run, and wait, as the server allows.",
      },
      async answer({ path: { id }, body, keep, asker, signal }) {
        const { input, steer, budget, effort, leavesNow, background = false, unattended = false } = body;
        if (steer && effort !== undefined) throw invalidRequest(STEER_OR_CHOOSE);
        const settings = effort === undefined ? undefined : { reasoning_effort: effort };
        const session = await sessions.load(id);
        if (background) {
          if (steer) throw invalidRequest(STEER_OR_WAIT);
          if (leavesNow) throw invalidRequest(LEAVES_LATER);
          await sessions.queue.admit();
          const asked = { input, budget, settings, ...(unattended && { unattended: unattendedOf(asker) }) };
          const answer = (turn: QueuedTurn) => ({
            status: 202,
            json: { queued: queuedBody(turn), session: sessionBody(session.row) },
          } as const);
          const queued = await session.enqueue(
            asked,
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
          leavesNow,
          settings,
          ...(unattended && { unattended: unattendedOf(asker) }),
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
        // One that runs is followed to its end, on whichever server it goes on.
        return stream(turnEvents(await sessions.events(id), Number(reference)));
      },
    }),
    route({
      method: "GET",
      path: "/sessions/{id}/queue",
      operationId: "listQueue",
      summary: "Lists the turns that wait for their time.",
      responses: {
        200: json("The turns, in their order.", closed({ queue: Type.Array(QUEUED) })),
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
      summary: "Takes away a turn that waits.",
      responses: {
        204: "It will not begin.",
        404: "There is no such session, or the turn doesn't wait in it any more.",
      },
      async answer({ path: { id, turn } }) {
        if (await (await sessions.get(id)).dequeue(turn)) return new Response(null, { status: 204 });
        throw notFound(`Cannot take away turn ${turn}: it doesn't wait, or not any more.`);
      },
    }),
    route({
      method: "GET",
      path: "/sessions/{id}/events",
      operationId: "getEvents",
      summary: "Streams the events after a number, those of a running turn included.",
      query: {
        after: Type.Optional(count("Number of the last event that isn't wanted. Default: 0.")),
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
        "Lets the next turns ask another model, or with another effort (null: as the model likes), and tells what is asked " +
        "now. What its provider caches of the session is of no use to another model, and what a model has sealed of its " +
        "reasoning is sent to that model alone. An effort that another model doesn't know isn't asked of it, and comes back with a model that does.",
      body: CHOOSE_MODEL,
      responses: {
        200: json(
          "The session, and the efforts that its model knows, where that is known.",
          closed({
            session: SESSION,
            efforts: Type.Optional(Type.Array(Type.String())),
          }, "ChosenModel"),
        ),
        404: "There is no such session.",
        409: "A turn runs in the session, or asks for an answer.",
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
      summary: "Cancels the running turn and waits for its end; of one that asks, denies what is asked.",
      responses: {
        200: json(
          "Whether a turn was running or asked, and the session.",
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

/** What becomes of a question where nobody will answer: what the setting allows, it doesn't allow just anybody. */
export function unattendedOf({ name }: Asker): "by_setting" | "deny" {
  return name === Keys.GUEST.name ? "deny" : "by_setting";
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
