import type { CountTokens, Tool } from "@tare/messages";
import { type Archive, RECALL_TOOL } from "@tare/prune";
import { recallTool } from "@tare/tools";
import { EMPTY_LEDGER } from "@tare/loop";
import { classicContext, type ClassicOptions } from "./classic_context.ts";
import { EventLog } from "./event_log.ts";
import { HttpError } from "./http_error.ts";
import type { CreateSession } from "./request_schemas.ts";
import type { Session } from "./session.ts";

/** An archive for each session, so that none can read what another archived. */
export interface SessionArchives {
  /** The session's archive, empty at first. */
  readonly open: (sessionId: string) => Promise<Archive> | Archive;
  /** Removes it with all that it holds. */
  readonly remove: (sessionId: string) => Promise<void> | void;
}

/** What new sessions are made of. */
export interface SessionOptions extends Omit<ClassicOptions, "archive" | "tools" | "countTokens"> {
  /** Model of sessions that name none. */
  readonly defaultModel: string;
  /** System message of sessions that bring none. Default: {@linkcode DEFAULT_INSTRUCTIONS}. */
  readonly instructions?: string;
  /** Tools that sessions may use, beside `recall`, which each session gets for its own archive. */
  readonly tools: readonly Tool[];
  /** Where the originals of what leaves the prompts go. */
  readonly archives: SessionArchives;
  /** Gives the token counter, once it is loaded. */
  readonly countTokens: () => Promise<CountTokens>;
}

/** The system message of sessions that bring none. */
export const DEFAULT_INSTRUCTIONS: string =
  "You are an agent that works in a folder of files, the workspace, with tools. " +
  "Find out what you need to know with the tools instead of guessing; make independent calls in one step. " +
  "When you are done, answer briefly, and name the files that your answer rests on.";

/** The sessions of a server, in memory. */
export class Sessions {
  readonly #options: SessionOptions;
  readonly #sessions = new Map<string, Session>();

  /** An empty set of sessions. */
  constructor(options: SessionOptions) {
    this.#options = options;
  }

  /** Makes a session. @throws {HttpError} 400 if it names a tool that isn't there. */
  async create({ instructions, model, tools: names, metadata = {} }: CreateSession): Promise<Session> {
    const options = this.#options;
    const id = crypto.randomUUID();
    checkNames(names, [...options.tools.map(nameOf), RECALL_TOOL.function.name]);
    const archive = await options.archives.open(id);
    const recall = recallTool(archive, { countTokens: await options.countTokens() });
    const tools = [...options.tools, recall].filter((tool) => names?.includes(nameOf(tool)) ?? true);
    const system = instructions ?? options.instructions ?? DEFAULT_INSTRUCTIONS;
    const session: Session = {
      id,
      createdAtMs: (options.now ?? Date.now)(),
      settings: {
        instructions: system,
        model: model ?? options.defaultModel,
        tools: tools.map(nameOf),
        metadata,
      },
      tools,
      events: new EventLog(),
      archive,
      context: classicContext({ ...options, archive, tools }),
      history: system === "" ? [] : [{ role: "system", content: system }],
      ledger: EMPTY_LEDGER,
      turns: 0,
    };
    this.#sessions.set(session.id, session);
    return session;
  }

  /** The session of this id. @throws {HttpError} 404 if there is none. */
  get(id: string): Session {
    const session = this.#sessions.get(id);
    if (session) return session;
    throw new HttpError(404, "not_found", `Cannot find session ${id}: there is no such session.`);
  }

  /** All sessions, the oldest first. */
  list(): readonly Session[] {
    return [...this.#sessions.values()];
  }

  /** Cancels what runs in the session and forgets it, its archive included. */
  async delete(session: Session): Promise<void> {
    this.#sessions.delete(session.id);
    await stop(session);
    await this.#options.archives.remove(session.id);
  }

  /** Cancels every running turn and waits until they have ended. */
  async close(): Promise<void> {
    await Promise.all(this.list().map(stop));
  }
}

async function stop({ running }: Session): Promise<void> {
  running?.cancel();
  await running?.done;
}

function nameOf(tool: Tool): string {
  return tool.definition.function.name;
}

function checkNames(names: readonly string[] = [], offered: readonly string[]): void {
  for (const name of names) {
    if (offered.includes(name)) continue;
    throw new HttpError(
      400,
      "invalid_request",
      `Cannot use tool ${JSON.stringify(name)}: there are ${offered.join(", ")}.`,
    );
  }
}
