import { schemaChecker } from "@tare/messages/arguments";
import type { NewPin, Pin } from "@tare/planner";
import {
  BLOCKS_PAGE,
  CALLS_PAGE,
  NEW_PIN,
  pageOfCalls,
  reportBlock,
  reportPins,
  reportPrompt,
  type SeenConversation,
} from "@tare/conversation/report";
import { ApiError } from "@tare/wire";
import { readBytes } from "../decode_request.ts";
import type { GatewaySession } from "./session.ts";
import { knownSession, sessionDetails, sessionList } from "./session_report.ts";

/** What the routes about sessions work on. */
export interface SessionRoutesOptions {
  /** All that are known, the newest first. */
  readonly sessions: readonly GatewaySession[];
  /** Told of a session in which something was asked for. */
  readonly changed: (session: GatewaySession) => Promise<void>;
}

const MAX_PIN_BYTES = 10_000;

/**
 * Answers a request about sessions, whose path goes on with `path` behind `/v1/gateway/sessions`.
 *
 * @throws {ApiError} what was wrong; 404 if there is no such route.
 */
export async function answerAboutSessions(
  request: Request,
  path: string,
  { sessions, changed }: SessionRoutesOptions,
): Promise<Response> {
  const { searchParams: query } = new URL(request.url);
  const [, id = "", what, which, ...rest] = path.split("/");
  const route = [request.method, [what, which && "…", ...rest].filter((part) => part !== undefined).join("/")]
    .join(" ");
  if (path === "" && request.method === "GET") return sessionList(sessions, query);
  const seen = ({ conversation }: GatewaySession) => conversation.see();
  switch (route) {
    case "GET ":
      return sessionDetails(sessions, id);
    case "GET calls": {
      const { conversation: { calls } } = knownSession(sessions, id);
      const limit = readNumber(query, "limit", { usual: CALLS_PAGE.usual, least: 1, most: CALLS_PAGE.most });
      return Response.json(pageOfCalls(calls, { limit, after: readNumber(query, "after", {}) }));
    }
    case "GET prompt": {
      const session = knownSession(sessions, id);
      const limit = readNumber(query, "limit", {
        usual: BLOCKS_PAGE.usual,
        least: 1,
        most: BLOCKS_PAGE.most,
      });
      const from = readNumber(query, "from", {});
      return Response.json(reportPrompt(await seen(session), { limit, from }));
    }
    case "GET prompt/…": {
      const session = knownSession(sessions, id);
      const block = reportBlock(await seen(session), which!, { offset: readNumber(query, "offset", {}) });
      if (block) return Response.json(block);
      throw notFound(`Cannot find ${which}: the prompt of session ${id} has no such block.`);
    }
    case "GET pins":
      return Response.json({ pins: reportPins(await seen(knownSession(sessions, id))) });
    case "POST pins": {
      const session = knownSession(sessions, id);
      const wanted = await readPin(request);
      const now = await seen(session);
      const pin = pinOf(session, now, wanted);
      session.conversation.pin({ set: pin });
      await changed(session);
      return Response.json(reportPins({ ...now, pins: [pin] })[0]);
    }
    case "DELETE pins/…": {
      const session = knownSession(sessions, id);
      const { conversation } = session;
      const place = Number(which);
      if (!conversation.state.pins.some((pin) => pin.place === place)) {
        throw notFound(`Cannot remove the pin of message ${which}: session ${id} has none there.`);
      }
      conversation.pin({ remove: place });
      await changed(session);
      return new Response(null, { status: 204 });
    }
    default:
      throw notFound(`Cannot ${request.method} /v1/gateway/sessions${path}: there is no such route.`);
  }
}

const checkPin = schemaChecker(NEW_PIN, "the body");

async function readPin(request: Request): Promise<NewPin> {
  const type = request.headers.get("content-type") ?? "none";
  if (!/^application\/json\b/i.test(type)) {
    const message = `Cannot read the body: its content-type is ${type}, and application/json is wanted.`;
    throw new ApiError(415, message, { code: "unsupported_media_type" });
  }
  let body: unknown;
  try {
    body = JSON.parse(new TextDecoder().decode(await readBytes(request, MAX_PIN_BYTES)));
  } catch (error) {
    if (error instanceof ApiError) throw error;
    throw new ApiError(400, "Cannot read the body: it is no JSON.", { code: "invalid_body" });
  }
  const fault = checkPin(body);
  if (fault !== undefined) {
    throw new ApiError(400, `Cannot read the body: ${fault}.`, { code: "invalid_request" });
  }
  return body as NewPin;
}

function pinOf({ conversation }: GatewaySession, { history }: SeenConversation, wanted: NewPin): Pin {
  const { noPins } = conversation;
  if (noPins !== undefined) {
    const message = `Cannot pin message ${wanted.place}: ${noPins}.`;
    throw new ApiError(501, message, { code: "not_supported" });
  }
  try {
    return conversation.makePin(history.messages, wanted);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    throw new ApiError(400, error.message, { code: "invalid_request", param: "place" });
  }
}

function notFound(message: string): ApiError {
  return new ApiError(404, message, { code: "not_found" });
}

function readNumber(
  query: URLSearchParams,
  name: string,
  { usual = 0, least = 0, most = Number.MAX_SAFE_INTEGER }: {
    readonly usual?: number;
    readonly least?: number;
    readonly most?: number;
  },
): number {
  const text = query.get(name) ?? String(usual);
  const number = Number(text);
  if (/^\d{1,15}$/.test(text) && number >= least && number <= most) return number;
  const right = most === Number.MAX_SAFE_INTEGER ? `from ${least}` : `from ${least} to ${most}`;
  throw new ApiError(
    400,
    `Cannot answer: ${name} is ${JSON.stringify(text)}, but it must be a whole number ${right}.`,
    { code: "invalid_request", param: name },
  );
}
