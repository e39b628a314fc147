import { type Asker, Keys, type Store, type Warmth } from "@tare/session";
import type {
  ListedSession,
  OpenSession,
  SessionChange,
  SessionKind,
  SessionRegistry,
  StoreRecord,
} from "@tare/session/internal";
import type { CallReport, SeenSession, SpendingSession, ToldWarnings } from "@tare/session/internal/report";
import type { Message } from "@tare/messages";
import { describeCall, planAfter, type WorkPlan } from "@tare/messages/internal";
import type { Static } from "typebox";
import { HttpError } from "../http/http_error.ts";
import type { Reads } from "../http/route.ts";
import type { AgentSession } from "../sessions/agent_session.ts";
import { readTranscript } from "../sessions/history.ts";
import { storedSettings } from "../sessions/session_settings.ts";
import { NO_TURNS, OWN_AGENT, sessionNotFound, type SessionTotals } from "../sessions/session_types.ts";
import type { Sessions } from "../sessions/sessions.ts";
import { approvalBodies } from "./approval_routes.ts";
import { type ANY_SESSION, type ANY_SESSION_DETAILS, sessionBody } from "./session_body.ts";

type Summary = Reads<Static<typeof ANY_SESSION>>;
type Details = Reads<Static<typeof ANY_SESSION_DETAILS>>;

/** The sessions of a server: the agent's, and with a gateway those that pass through it. */
export type ServerSessions = SessionRegistry<Summary, Details>;

/** Opens a session of either kind. @throws {HttpError} 404 if there is none. */
export async function openSession(
  registry: ServerSessions,
  id: string,
): Promise<OpenSession<Summary, Details>> {
  const session = await registry.open(id);
  if (!session) throw sessionNotFound(id);
  return session;
}

/** @throws {HttpError} 404 if there is no such session, or the asker may not see it. */
export async function assertSees(registry: ServerSessions, id: string, asker: Asker): Promise<void> {
  const found = await registry.find(id);
  if (!found || !Keys.sees(asker, found.by)) throw sessionNotFound(id);
}

/** The agent's sessions as a kind of the registry. */
export class AgentKind implements SessionKind<AgentSession, Summary, Details> {
  readonly kind = "agent";
  readonly store: Store;
  readonly warmth: Warmth | undefined;
  readonly warnings: ToldWarnings;
  readonly #sessions: Sessions;

  constructor(sessions: Sessions) {
    this.#sessions = sessions;
    this.store = sessions.store;
    this.warmth = sessions.warmth;
    this.warnings = sessions.warnings;
  }

  now(): number {
    return this.store.now();
  }

  find(id: string): AgentSession | undefined {
    return this.#sessions.held.find(id);
  }

  async open(id: string): Promise<AgentSession | undefined> {
    try {
      return await this.#sessions.get(id);
    } catch (error) {
      if (error instanceof HttpError && error.status === 404) return undefined;
      throw error;
    }
  }

  row(session: AgentSession): ListedSession {
    return session.row;
  }

  known(row: ListedSession): ListedSession {
    return this.find(row.id)?.isPlayed ? { ...row, isHeld: true } : row;
  }

  summary(row: ListedSession): Summary {
    return sessionBody(row);
  }

  async details(session: AgentSession): Promise<Details> {
    const { row, totals: { promptTokens: tokens = 0 }, settings: { model } } = session;
    const helpers = await this.#sessions.helpers(session);
    const transcript = await readTranscript(session, this.store);
    const plan = planIn(transcript.messages);
    const seesPictures = this.#sessions.seesPictures(model);
    return {
      ...sessionBody(row),
      ...{ helpers, approvals: approvalBodies(session.questions) },
      prompt: { tokens, windowTokens: this.#sessions.windowOf(model) },
      ...(plan && { plan }),
      ...(seesPictures !== undefined && { seesPictures }),
      ...transcript,
    };
  }

  spending({ settings, totals }: ListedSession): Pick<SpendingSession, "model" | "agent" | "days"> {
    const { days, chosen } = { ...NO_TURNS, ...totals as SessionTotals | undefined };
    return { model: storedSettings(settings, chosen).model, agent: OWN_AGENT, days };
  }

  seen(session: AgentSession): Promise<SeenSession> {
    return session.prompt.seen(session);
  }

  calls(session: AgentSession): Promise<readonly CallReport[]> {
    return this.#sessions.calls(session);
  }

  change(
    session: AgentSession,
    change: SessionChange,
    records: () => readonly StoreRecord[],
  ): Promise<void> {
    return session.change(change, records());
  }

  delete({ id }: AgentSession): Promise<void> {
    return this.#sessions.delete(id);
  }
}

/** Returns the plan that the model keeps. */
function planIn(messages: readonly Message[]): WorkPlan | undefined {
  let plan: WorkPlan | undefined;
  for (const message of messages) {
    const calls = message.role === "assistant" ? message.tool_calls ?? [] : [];
    for (const call of calls) plan = planAfter(plan, describeCall(call));
  }
  return plan;
}
