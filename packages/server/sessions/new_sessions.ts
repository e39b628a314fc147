import { firstWords } from "@tare/messages";
import { RECALL_TOOL } from "@tare/prune";
import type { StoreRecord } from "@tare/conversation";
import { DELEGATE_TOOL } from "../helpers/helpers.ts";
import { HttpError } from "../http/http_error.ts";
import { checkBudgets } from "../turns/play_turn.ts";
import { allToolsOf, includesTool } from "../turns/session_tools.ts";
import { Queue } from "./hold.ts";
import type { CreateSession, SessionSettings } from "./session_settings.ts";
import {
  type CreateOptions,
  type NewSession,
  NO_TURNS,
  ratesOf,
  type SessionInfo,
  type SessionsOptions,
} from "./session_types.ts";

/** The system message of sessions that bring none. */
export const DEFAULT_INSTRUCTIONS: string =
  "You are an agent that works in a folder of files, the workspace, with tools. " +
  "Find out what you need to know with the tools instead of guessing; make independent calls in one step. " +
  "When you are done, answer briefly, and name the files that your answer rests on.";

/** Makes sessions. */
export class NewSessions {
  readonly #options: SessionsOptions;
  readonly #queue = new Queue();

  /** None is made yet. */
  constructor(options: SessionsOptions) {
    this.#options = options;
  }

  /** Names of the tools that sessions may have; of servers whose tools come and go `server__*`, for all of them. */
  get toolNames(): readonly string[] {
    const { tools, toolSource } = this.#options;
    return [
      ...[...tools.map(({ definition }) => definition), RECALL_TOOL, DELEGATE_TOOL].map((
        { function: { name } },
      ) => name),
      ...toolSource?.names.map(allToolsOf) ?? [],
    ];
  }

  /**
   * Makes a session of each, all or none.
   *
   * @throws {HttpError} 400 if one names a tool that isn't there or has a budget that can't be held,
   * 507 if no more sessions may be kept.
   */
  create(
    wanted: readonly NewSession[],
    { keep = () => [] }: CreateOptions = {},
  ): Promise<readonly SessionInfo[]> {
    const { store, now = Date.now } = this.#options;
    const made = wanted.map(({ messages = [], ...settings }) => ({
      id: crypto.randomUUID(),
      createdAtMs: now(),
      settings: this.#fillIn(settings),
      title: firstWords(messages.find(({ role }) => role === "user")?.content),
      messages,
    }));
    const infos = made.map(({ messages, ...record }) => ({
      ...record,
      ...NO_TURNS,
      lastEvent: messages.length,
      isRunning: false,
    }));
    return this.admit(made.length, () =>
      store.commit([
        ...made.flatMap(({ messages, title, ...record }): StoreRecord[] => [
          { type: "session", ...record },
          ...(title === ""
            ? []
            : [{ type: "state", sessionId: record.id, name: "title", value: title } as const]),
          ...(messages.length === 0 ? [] : [
            {
              type: "events",
              sessionId: record.id,
              after: 0,
              events: messages.map((message) => ({ type: "message_added", message })),
            } as const,
          ]),
        ]),
        ...keep(infos),
      ])).then(() => infos);
  }

  /** Commits so many new sessions. @throws {HttpError} 507 if no more may be kept. */
  admit(wanted: number, commit: () => Promise<void>): Promise<void> {
    const { store, maxSessions = 10_000 } = this.#options;
    return this.#queue.run(async () => {
      const count = await store.countSessions();
      if (count + wanted > maxSessions) throw tooManySessions(wanted, { count, maxSessions });
      await commit();
    });
  }

  #fillIn(
    { instructions, model, tools, metadata = {}, budget = {}, approvalRules = [] }: CreateSession,
  ): SessionSettings {
    const { defaultModel, instructions: own = DEFAULT_INSTRUCTIONS, delegates = false } = this.#options;
    const offered = this.toolNames;
    const unknown = tools?.find((name) => !includesTool(offered, name));
    if (unknown !== undefined) {
      throw new HttpError(
        400,
        "invalid_request",
        `Cannot use tool ${JSON.stringify(unknown)}: there are ${offered.join(", ")}.`,
      );
    }
    const name = model ?? defaultModel;
    checkBudgets({ session: budget }, { rates: ratesOf(this.#options, name), model: name });
    return {
      instructions: instructions ?? own,
      model: name,
      // In the order in which they are offered; single tools of servers behind that.
      tools: tools
        ? [...new Set([...offered.filter((name) => tools.includes(name)), ...tools])]
        : offered.filter((name) => delegates || name !== DELEGATE_TOOL.function.name),
      metadata,
      budget,
      approvalRules,
    };
  }
}

function tooManySessions(
  more: number,
  { count, maxSessions }: { readonly count: number; readonly maxSessions: number },
): HttpError {
  const wanted = more === 1 ? "a session" : `${more} sessions`;
  return new HttpError(
    507,
    "too_many_sessions",
    `Cannot make ${wanted}: there are ${count}, and at most ${maxSessions} may be kept. Delete some first, or let idle ones expire.`,
  );
}
