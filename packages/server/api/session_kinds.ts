import type { Store, StoreRecord } from "@tare/conversation";
import {
  addOverviews,
  type CallReport,
  type Overview,
  type PinReport,
  reportPins,
  type SeenConversation,
} from "@tare/conversation/report";
import type { Gateway, ShownConversation } from "@tare/gateway";
import type { NewPin } from "@tare/planner";
import type { Static } from "typebox";
import { errorResponses, HttpError } from "../http/http_error.ts";
import type { Reads, Route, RouteCall } from "../http/route.ts";
import type { Session } from "../sessions/session.ts";
import { type SessionInfo, sessionNotFound } from "../sessions/session_options.ts";
import type { Sessions } from "../sessions/sessions.ts";
import { approvalBodies } from "./approval_routes.ts";
import { type ANY_SESSION, type ANY_SESSION_DETAILS, sessionBody } from "./session_body.ts";

/** Whose loop runs in a session: the agent's here, or another agent's, whose model calls pass through the gateway. */
export type SessionKind = "agent" | "gateway";

/** A session in a list. */
type Listed = Reads<Static<typeof ANY_SESSION>>;

/** Which sessions are listed. */
export interface ListQuery {
  /** Default: both. */
  readonly kind?: SessionKind | undefined;
  readonly limit: number;
  /** Id of the last one of the page before. Default: the list begins with the newest. */
  readonly after?: string | undefined;
  /** Only those whose title holds this, A to Z in either case. */
  readonly search: string;
  /** Whether those of the agent's helpers are among them. */
  readonly helpers: boolean;
}

/** A session of either kind, as the routes see it that are the same for both. */
export interface AnySession {
  /** All that is told of it. */
  readonly describe: () => Promise<Reads<Static<typeof ANY_SESSION_DETAILS>>>;
  /** Its model calls, the oldest first. */
  readonly calls: () => Promise<readonly CallReport[]>;
  /** What its model sees. */
  readonly seen: () => Promise<SeenConversation>;
  /**
   * Asks for something of a message. `keep` gives records that are stored with that.
   *
   * @throws {HttpError} 400 if it can't be asked for of this one, 501 if of none.
   */
  readonly setPin: (wanted: NewPin, keep: (pin: PinReport) => readonly StoreRecord[]) => Promise<PinReport>;
  /** Asks for nothing more of a message. Gives whether anything was asked for. */
  readonly removePin: (place: number, keep: () => readonly StoreRecord[]) => Promise<boolean>;
  /** The original of what left the prompt, if it is archived. */
  readonly archived: (ref: string) => Promise<string | undefined>;
  /** Ends and forgets it. */
  readonly delete: () => Promise<void>;
}

/** Agents' sessions that are looked through together. */
const PAGE = 500;

/** The sessions of both kinds: the agent's, and if there is a gateway those that pass through it. */
export class SessionKinds {
  readonly #sessions: Sessions;
  readonly #store: Pick<Store, "getSession">;
  readonly #gateway: Pick<Gateway, "conversations" | "overview"> | undefined;

  /** The sessions of both. */
  constructor(
    { sessions, store, gateway }: {
      readonly sessions: Sessions;
      /** What keeps the agent's. */
      readonly store: Pick<Store, "getSession">;
      readonly gateway?: Pick<Gateway, "conversations" | "overview"> | undefined;
    },
  ) {
    this.#sessions = sessions;
    this.#store = store;
    this.#gateway = gateway;
  }

  /** The session of this id. @throws {HttpError} 404 if there is none. */
  async get(id: string): Promise<AnySession> {
    const passing = this.#gateway?.conversations.get(id);
    return passing ? passingSession(passing) : agentSession(await this.#sessions.get(id), this.#sessions);
  }

  /** A page of sessions, the newest first. @throws {HttpError} 404 if there is no session `after`. */
  async list(
    query: ListQuery,
  ): Promise<{ readonly sessions: readonly Listed[]; readonly hasMore: boolean }> {
    const { kind, limit, after } = query;
    const last = after === undefined ? undefined : this.#gateway?.conversations.get(after);
    if (last && kind === "agent") throw sessionNotFound(last.id);
    const passing = kind === "agent" ? [] : this.#passing(query, last);
    if (kind === "gateway") {
      if (after !== undefined && !last) throw sessionNotFound(after);
      return pageOf(passing.map(passingBody), limit);
    }
    const own = last ? await this.#ownBefore(last.createdAtMs, query) : await this.#own(query);
    const since = last || after === undefined ? undefined : await this.#store.getSession(after);
    const all = [
      ...passing.filter(({ createdAtMs }) => createdAtMs < (since?.createdAtMs ?? Infinity))
        .map((one) => ({ atMs: one.createdAtMs, body: () => passingBody(one) })),
      ...own.map((one) => ({ atMs: one.createdAtMs, body: () => sessionBody(one) })),
    ].sort((a, b) => b.atMs - a.atMs);
    const { sessions, hasMore } = pageOf(all, limit);
    return { sessions: sessions.map(({ body }) => body()), hasMore };
  }

  /** What sessions of a kind have saved, or of both. */
  async overview(kind: SessionKind | undefined): Promise<Overview> {
    const theirs = this.#gateway?.overview();
    if (kind === "agent" || !theirs) return await this.#sessions.overview();
    return kind === "gateway" ? theirs : addOverviews(await this.#sessions.overview(), theirs);
  }

  /** A route that only the agent's sessions have: told of another one, it says what to do instead. */
  agentOnly<R extends Route>(route: R): R {
    if (!this.#gateway || !route.path.includes("{id}")) return route;
    return {
      ...route,
      responses: {
        ...errorResponses({ 501: "The session is another agent's, whose calls pass through." }),
        ...route.responses,
      },
      answer: (call: RouteCall) => {
        const { id = "" } = call.path;
        if (!this.#gateway?.conversations.get(id)) return route.answer(call);
        const does = `${route.method} ${route.path.replace("{id}", id)}`;
        throw new HttpError(
          501,
          "not_supported",
          `Cannot ${does}: the session is another agent's, whose calls pass through. Go on in that agent, or make a ` +
            "session of this one with POST /v1/sessions.",
        );
      },
    };
  }

  /** Conversations that pass through, behind the last one of the page before. */
  #passing({ search }: ListQuery, last: ShownConversation | undefined): readonly ShownConversation[] {
    const all = this.#gateway?.conversations.list() ?? [];
    const from = last ? all.findIndex(({ id }) => id === last.id) + 1 : 0;
    const text = search.toLowerCase();
    return all.slice(from).filter(({ title }) => title.toLowerCase().includes(text));
  }

  /** One more of the agent's sessions than a page holds. */
  async #own({ limit, after, search, helpers }: ListQuery): Promise<readonly SessionInfo[]> {
    const which = { limit: limit + 1, search, forks: helpers, ...(after !== undefined && { after }) };
    return (await this.#sessions.list(which)).sessions;
  }

  /** The same of those that aren't newer than this. */
  async #ownBefore(atMs: number, query: ListQuery): Promise<readonly SessionInfo[]> {
    const found: SessionInfo[] = [];
    let after: string | undefined;
    for (;;) {
      const page = await this.#own({ ...query, limit: PAGE, after });
      found.push(...page.filter(({ createdAtMs }) => createdAtMs <= atMs));
      if (found.length > query.limit || page.length <= PAGE) return found;
      after = page.at(-1)!.id;
    }
  }
}

function pageOf<T>(all: readonly T[], limit: number) {
  return { sessions: all.slice(0, limit), hasMore: all.length > limit };
}

function passingBody(passing: ShownConversation): Listed {
  return { kind: "gateway", ...passing.summary() };
}

function agentSession(session: Session, sessions: Sessions): AnySession {
  const seen = () => session.prompt.seen(session);
  return {
    async describe() {
      const helpers = await sessions.helpers(session);
      const approvals = approvalBodies(session.questions);
      return { ...sessionBody(session), helpers, approvals, ...await sessions.transcript(session) };
    },
    calls: () => sessions.calls(session.id),
    seen,
    async setPin(wanted, keep) {
      const now = await seen();
      const pin = session.prompt.makePin(now.history.messages, wanted);
      const report = reportPins({ ...now, pins: [pin] })[0]!;
      await session.changePins({ set: pin }, keep(report));
      return report;
    },
    async removePin(place, keep) {
      if (!session.prompt.pins.some((pin) => pin.place === place)) return false;
      await session.changePins({ remove: place }, keep());
      return true;
    },
    archived: (ref) => Promise.resolve(session.archive.get(ref)),
    delete: () => sessions.delete(session.id),
  };
}

function passingSession(passing: ShownConversation): AnySession {
  return {
    describe: () => Promise.resolve({ kind: "gateway", ...passing.details() }),
    calls: () => Promise.resolve(passing.calls),
    seen: passing.seen,
    async setPin(wanted) {
      const { noPins } = passing;
      if (noPins !== undefined) {
        throw new HttpError(501, "not_supported", `Cannot pin message ${wanted.place}: ${noPins}.`);
      }
      try {
        return await passing.setPin(wanted);
      } catch (error) {
        if (!(error instanceof RangeError)) throw error;
        throw new HttpError(400, "invalid_request", error.message);
      }
    },
    removePin: (place) => passing.removePin(place),
    archived: passing.archived,
    delete: passing.forget,
  };
}
