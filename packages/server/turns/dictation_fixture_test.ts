/**
 * Turns with a dictated model, and their commits. Contains no tests.
 *
 * @module
 */
import type { AssistantMessage, Model, ModelEvent } from "@tare/messages";
import type { Store } from "@tare/session";
import type { StoreRecord } from "@tare/session/internal";
import { echo, FakeClock } from "../fixture_test.ts";
import { makeSession, type ScriptedOptions, scriptedSessions } from "../script_fixture_test.ts";
import { watchedStore } from "../sessions/store_fixture_test.ts";

export const USAGE = { promptTokens: 10, cachedTokens: 5, outputTokens: 2 };

/** A model whose replies the test dictates, piece by piece. */
export class Dictation {
  #pieces: { readonly event: ModelEvent; readonly taken: () => void }[] = [];
  #more = Promise.withResolvers<void>();
  #requested = Promise.withResolvers<void>();

  async requested(): Promise<void> {
    await this.#requested.promise;
    this.#requested = Promise.withResolvers();
  }

  readonly model: Model = (request) => this.#reply(request);

  async *#reply({ signal }: Parameters<Model>[0]): AsyncGenerator<ModelEvent> {
    this.#requested.resolve();
    const stopped = new Promise<never>((_, reject) =>
      signal.addEventListener("abort", () => reject(signal.reason))
    );
    stopped.catch(() => {});
    for (;;) {
      const piece = this.#pieces.shift();
      if (!piece) {
        await Promise.race([this.#more.promise, stopped]);
        this.#more = Promise.withResolvers();
        continue;
      }
      yield piece.event;
      piece.taken();
      if (piece.event.type === "completed") return;
    }
  }

  say(text: string): Promise<void> {
    return this.#tell({ type: "text_delta", text });
  }

  end(message: Partial<AssistantMessage> = {}): void {
    this.#tell({
      type: "completed",
      message: { role: "assistant", content: "said", ...message },
      finishReason: message.tool_calls ? "tool_calls" : "stop",
      usage: USAGE,
    });
  }

  #tell(event: ModelEvent): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#pieces.push({ event, taken: resolve });
    this.#more.resolve();
    return promise;
  }
}

function outline(records: readonly StoreRecord[]): string {
  return records.flatMap((record) => {
    if (record.type === "state") return [`(${record.name})`];
    if (record.type !== "events") return [record.type];
    return record.events.map((event) =>
      event.type === "text_delta" && "text" in event ? `"${event.text}"` : event.type
    );
  }).join(" ");
}

/** Returns a session with a dictated model, and its commits from its first turn on. */
export async function dictatedSession(
  options: Partial<ScriptedOptions> & {
    readonly see?: (commit: string) => Promise<void> | void;
    readonly put?: (content: string) => Promise<void> | void;
  } = {},
) {
  const { see = () => {}, put = () => {}, ...given } = options;
  const commits: string[] = [];
  const watched = watchedStore(async (records) => {
    await see(outline(records));
    commits.push(outline(records));
  });
  const store: Store = {
    ...watched,
    archive(id) {
      const archive = watched.archive(id);
      return { ...archive, put: async (content) => (await put(content), await archive.put(content)) };
    },
  };
  const clock = new FakeClock();
  const dictation = new Dictation();
  const sessions = scriptedSessions({
    ...{ store, clock, model: () => dictation.model, tools: [echo], policy: "planner" },
    ...given,
  });
  const session = await makeSession(sessions);
  commits.splice(0);
  const visible = async (number: number): Promise<void> => {
    for await (const _ of session.events.read(number - 1)) return;
  };
  return { sessions, session, store, clock, dictation, commits, visible };
}

export const call = (id: string, name = "echo") =>
  ({ id, type: "function", function: { name, arguments: '{"text":"x"}' } }) as const;
