import { type Asker, Keys, type Store, type Warmth } from "@tare/session";
import type { StoreRecord } from "@tare/session/internal";
import {
  Accounts,
  type CallReport,
  type Overview,
  type PinReport,
  reportPins,
  reportSpend,
  type SeenSession,
  sumsOf,
} from "@tare/session/internal/report";
import type { HttpGateway } from "@tare/gateway";
import type { ShownConversation } from "@tare/gateway/internal";
import type { Message } from "@tare/messages";
import { describeCall, planAfter, type WorkPlan } from "@tare/messages/internal";
import type { NewPin } from "@tare/planner/internal";
import type { Static } from "typebox";
import { API_PATH } from "../http/api_path.ts";
import { HttpError, invalidRequest, notSupported } from "../http/http_error.ts";
import type { Reads, Route, RouteCall } from "../http/route.ts";
import type { AgentSession } from "../sessions/agent_session.ts";
import { sessionNotFound } from "../sessions/session_types.ts";
import type { Sessions } from "../sessions/sessions.ts";
import { approvalBodies } from "./approval_routes.ts";
import { type MissesReport, reportMisses } from "./misses.ts";
import { reportSessionSpend, type SessionSpend } from "./session_spend.ts";
import { type ANY_SESSION, type ANY_SESSION_DETAILS, sessionBody } from "./session_body.ts";

/** Whose loop runs in a session: the agent's here, or another agent's, whose model calls pass through the gateway. */
export type SessionKind = "agent" | "gateway";

type Listed = Reads<Static<typeof ANY_SESSION>>;

/** Which sessions are listed. */
export interface ListQuery {
  /** Default: both. */
  readonly kind?: SessionKind | undefined;
  readonly limit: number;
  /** Id of the last one of the page before. Default: the list begins with the newest. */
  readonly after?: string | undefined;
  /** Only those whose title holds this, letters in either case. */
  readonly search: string;
  /** Whether those of the agent's helpers are among them. */
  readonly helpers: boolean;
  /** Only those that were made with the key of this name. Default: all. */
  readonly by: string | undefined;
}

/** A session of either kind, as the routes see it that are the same for both. */
export interface AnySession {
  /** All that is told of it. */
  readonly describe: () => Promise<Reads<Static<typeof ANY_SESSION_DETAILS>>>;
  /** Its model calls, the oldest first. */
  readonly calls: () => Promise<readonly CallReport[]>;
  readonly seen: () => Promise<SeenSession>;
  readonly spend: () => Promise<SessionSpend>;
  /**
   * Asks for something of a message. `keep` gives records that are stored with that.
   *
   * @throws {HttpError} 400 if it can't be asked for of this one, 501 if of none.
   */
  readonly setPin: (wanted: NewPin, keep: (pin: PinReport) => readonly StoreRecord[]) => Promise<PinReport>;
  /** Asks for nothing more of a message. Gives whether anything was asked for. */
  readonly removePin: (place: number, keep: () => readonly StoreRecord[]) => Promise<boolean>;
  /** Gives it a title, which it keeps. `keep` gives records that are stored with that. */
  readonly rename: (title: string, keep: (renamed: Listed) => readonly StoreRecord[]) => Promise<Listed>;
  /** Keeps its newest prompt in the provider's cache for at most so many milliseconds; nothing if this server keeps none. */
  readonly keepWarm: (ms: number) => ReturnType<Warmth["keepFor"]> | undefined;
  /** The original of what left the prompt, if it is archived. */
  readonly archived: (ref: string) => Promise<string | undefined>;
  readonly delete: () => Promise<void>;
}

/** So many of the newest sessions of each kind stand in a report of what sessions have cost one by one. */
const SPENDING_SESSIONS = 1_000;

/** The sessions of both kinds: the agent's, and if there is a gateway those that pass through it. */
export class SessionKinds {
  readonly #sessions: Sessions;
  readonly #store: Pick<Store, "getSession" | "listSessions">;
  readonly #gateway: Pick<HttpGateway, "conversations" | "overview"> | undefined;

  constructor(
    { sessions, store, gateway }: {
      readonly sessions: Sessions;
      /** What keeps the agent's, and the gateway's if it keeps any. */
      readonly store: Pick<Store, "getSession" | "listSessions">;
      readonly gateway?: Pick<HttpGateway, "conversations" | "overview"> | undefined;
    },
  ) {
    this.#sessions = sessions;
    this.#store = store;
    this.#gateway = gateway;
  }

  /** The session of this id. @throws {HttpError} 404 if there is none. */
  async get(id: string): Promise<AnySession> {
    try {
      return agentSession(await this.#sessions.get(id), this.#sessions);
    } catch (error) {
      const passing = isNotFound(error) ? await this.#gateway?.conversations.get(id) : undefined;
      if (passing) return passingSession(passing);
      throw error;
    }
  }

  /** @throws {HttpError} 404 if there is no such session, or it isn't for whoever asks. */
  async assertSees(id: string, asker: Asker): Promise<void> {
    // Of one that is in memory the record is known. Whether it is still there is seen when it is used.
    const found = this.#sessions.known(id) ?? await this.#store.getSession(id) ??
      await this.#gateway?.conversations.get(id);
    if (!found || !Keys.sees(asker, found.by)) throw sessionNotFound(id);
  }

  /**
   * A page of sessions, the newest first. Both kinds together are those that the store keeps.
   *
   * @throws {HttpError} 404 if there is no session `after`.
   */
  async list(
    { kind, limit, after, search, helpers, by }: ListQuery,
  ): Promise<{ readonly sessions: readonly Listed[]; readonly hasMore: boolean }> {
    const from = after !== undefined && { after };
    if (kind === "gateway") {
      const page = await this.#gateway?.conversations.list({ limit, search, by, ...from });
      if (!page && after !== undefined) throw sessionNotFound(after);
      const { conversations = [], hasMore = false } = page ?? {};
      return { sessions: conversations.map((one) => ({ kind, ...one })), hasMore };
    }
    if (kind === "agent" || !this.#gateway) {
      const { sessions, hasMore } = await this.#sessions.list({ limit, search, by, forks: helpers, ...from });
      return { sessions: sessions.map(sessionBody), hasMore };
    }
    const { conversations } = this.#gateway;
    if (after !== undefined && !await this.#store.getSession(after)) throw sessionNotFound(after);
    const rows = await this.#store.listSessions({ limit: limit + 1, search, by, forks: helpers, ...from });
    const sessions = rows.slice(0, limit).map((row): Listed =>
      row.kind === "gateway"
        ? { kind: row.kind, ...conversations.summary(row) }
        : sessionBody(this.#sessions.describe(row))
    );
    return { sessions, hasMore: rows.length > limit };
  }

  /** What sessions of a kind have saved, or of both. */
  async overview(kind: SessionKind | undefined, by?: string): Promise<Overview> {
    const theirs = kind === "agent" ? undefined : await this.#gateway?.overview(by);
    if (!theirs) return await this.#sessions.overview(by);
    return kind === "gateway" ? theirs : Accounts.addOverviews(await this.#sessions.overview(by), theirs);
  }

  /** What sessions of both kinds have cost, by day, model, session or agent. */
  async spend(
    query: Parameters<typeof reportSpend>[1],
    { by, signal }: { readonly by: string | undefined; readonly signal: AbortSignal },
  ): ReturnType<typeof reportSpend> {
    const { from, to } = query;
    const ours = await this.#sessions.spending({ from, to, by });
    signal.throwIfAborted();
    const theirs = await this.#gateway?.conversations.spending({ from, to, by }) ?? [];
    signal.throwIfAborted();
    const isBySession = query.by === "session";
    const report = await reportSpend([...ours, ...theirs], isBySession ? { ...query, by: "day" } : query);
    if (!isBySession) return report;
    // Each is a read of its own: what all came to stands in the sums.
    const newest = { limit: SPENDING_SESSIONS + 1, by };
    const all = [
      await this.#sessions.newestSpending(newest),
      await this.#gateway?.conversations.newestSpending(newest) ?? [],
    ];
    const { rows, hasMore } = await reportSpend(
      all.flatMap((some) => some.slice(0, SPENDING_SESSIONS)),
      query,
    );
    return {
      all: report.all,
      rows,
      hasMore: hasMore || all.some(({ length }) => length > SPENDING_SESSIONS),
    };
  }

  /**
   * Why prompts weren't read from the cache, in one session or in the newest `limit` of each kind.
   *
   * @throws {HttpError} 404 if there is no such session.
   */
  async misses(
    { session, limit, asker, signal, ...query }: {
      readonly from?: string | undefined;
      readonly to?: string | undefined;
      readonly session?: string | undefined;
      readonly limit: number;
      readonly asker: Asker;
      /** Aborted when nobody waits for it any more. */
      readonly signal: AbortSignal;
    },
  ): Promise<MissesReport> {
    if (session === undefined) {
      return await reportMisses(this.#missing({ limit, by: Keys.nameOf(asker), signal }), query);
    }
    await this.assertSees(session, asker);
    return await reportMisses(this.#callsOf(session), query);
  }

  async *#callsOf(id: string) {
    yield { id, calls: await (await this.get(id)).calls() };
  }

  async *#missing(
    { limit, by, signal }: {
      readonly limit: number;
      readonly by: string | undefined;
      readonly signal: AbortSignal;
    },
  ) {
    for (const kind of ["agent", "gateway"] as const) {
      const { sessions } = await this.list({ kind, limit, search: "", helpers: true, by });
      for (const { id } of sessions) {
        signal.throwIfAborted();
        yield* this.#callsOf(id);
      }
    }
  }

  /** A route that only the agent's sessions have: told of another one, it says what to do instead. */
  agentOnly<R extends Route>(route: R): R {
    const gateway = this.#gateway;
    if (!gateway || !route.path.includes("{id}")) return route;
    return {
      ...route,
      responses: {
        501: "The session is another agent's, whose calls pass through.",
        ...route.responses,
      },
      explain: async (error: unknown, { path: { id = "" } }: RouteCall) => {
        if (!isNotFound(error) || !await gateway.conversations.get(id)) return undefined;
        const does = `${route.method} ${API_PATH}${route.path.replace("{id}", id)}`;
        return notSupported(
          `Cannot ${does}: the session is another agent's, whose calls pass through. Go on in that agent, or ` +
            `make a session of this one with POST ${API_PATH}/sessions.`,
        );
      },
    };
  }
}

function isNotFound(error: unknown): boolean {
  return error instanceof HttpError && error.status === 404;
}

/** The plan that the model keeps. */
function planIn(messages: readonly Message[]): WorkPlan | undefined {
  let plan: WorkPlan | undefined;
  for (const message of messages) {
    const calls = message.role === "assistant" ? message.tool_calls ?? [] : [];
    for (const call of calls) plan = planAfter(plan, describeCall(call));
  }
  return plan;
}

function agentSession(session: AgentSession, sessions: Sessions): AnySession {
  const seen = () => session.prompt.seen(session);
  return {
    async describe() {
      const helpers = await sessions.helpers(session);
      const approvals = approvalBodies(session.questions);
      const { promptTokens: tokens = 0 } = session;
      const prompt = { tokens, windowTokens: sessions.windowOf(session.settings.model) };
      const transcript = await sessions.transcript(session);
      const plan = planIn(transcript.messages);
      const seesPictures = sessions.seesPictures(session.settings.model);
      return {
        ...sessionBody(session),
        ...{ helpers, approvals, prompt },
        ...(plan && { plan }),
        ...(seesPictures !== undefined && { seesPictures }),
        ...transcript,
      };
    },
    calls: () => sessions.calls(session.id),
    seen,
    // What a running turn was last shown ends with the answer to the newest call that has ended.
    spend: async () =>
      reportSessionSpend(await seen(), {
        calls: await sessions.calls(session.id),
        sums: sumsOf.days(session.days),
        isAnswered: true,
      }),
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
    async rename(title, keep) {
      const renamed = { ...sessionBody(session), title };
      await session.rename(title, keep(renamed));
      return renamed;
    },
    keepWarm: (ms) => session.warmth.keepFor(ms),
    archived: (ref) => Promise.resolve(session.archive.get(ref)),
    delete: () => sessions.delete(session.id),
  };
}

function passingSession(passing: ShownConversation): AnySession {
  return {
    describe: () => Promise.resolve({ kind: "gateway", ...passing.details() }),
    calls: passing.calls,
    seen: passing.seen,
    // Its history is what its newest request held.
    spend: async () =>
      reportSessionSpend(await passing.seen(), { calls: await passing.calls(), isAnswered: false }),
    async setPin(wanted, keep) {
      const { noPins } = passing;
      if (noPins !== undefined) {
        throw notSupported(`Cannot pin message ${wanted.place}: ${noPins}.`);
      }
      try {
        return await passing.setPin(wanted, keep);
      } catch (error) {
        if (!(error instanceof RangeError)) throw error;
        throw invalidRequest(error.message);
      }
    },
    removePin: (place) => passing.removePin(place),
    async rename(title, keep) {
      const named = await passing.rename(title, (renamed) => keep({ kind: "gateway", ...renamed }));
      return { kind: "gateway", ...named };
    },
    keepWarm: passing.keepWarm,
    archived: passing.archived,
    delete: passing.forget,
  };
}
