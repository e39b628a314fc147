import { hashPiece, type Message, type ToolDefinition, type Usage } from "@tare/messages";
import {
  type LedgerEntry,
  type PlannerSession,
  plannerSession,
  type PromptSessionOptions,
  readTooLong,
  type SessionView,
} from "@tare/planner";
import { RECALL_TOOL, recallOriginal } from "@tare/prune";

/** What an adapter goes by: the options of a `plannerSession()`, and who is told what. */
export interface AdapterOptions extends PromptSessionOptions {
  /** Told sentences for people, such as that the archive could not be written and so nothing left the prompt. */
  readonly warn: (sentence: string) => void;
  /**
   * Stores the session's state, plain JSON data, for {@linkcode PromptSessionOptions.state} after a restart. Called
   * whenever it has changed: before a request is sent, and after its call was booked. Both wait for it; if it throws,
   * the framework's call fails. Default: nothing is stored.
   */
  readonly store?: (state: unknown) => void | PromiseLike<void>;
  /** The time, in milliseconds since any fixed moment. Default: the runtime's clock. */
  readonly now?: () => number;
}

/** What every adapter has beside what its framework takes. One adapter is for one conversation. */
export interface Adapter {
  /** The session that decides, call by call: its state, its quote, its profile. */
  readonly session: PlannerSession;
  /** What each call cost since the adapter was made, and why, first to last. */
  readonly ledger: readonly LedgerEntry[];
}

/** What a framework tells of a call that it is about to make, beside its messages. */
interface AdaptedCall {
  readonly tools: readonly ToolDefinition[];
  /** Whether the model can recall what left. Default: whether the recall tool is among the tools. */
  readonly recall?: boolean;
  /** Name of the model. */
  readonly model?: string | undefined;
  /** Ends the wait for a summary. */
  readonly signal?: AbortSignal | undefined;
}

/** What a call shall send, beside the history that it is of. */
export interface AdaptedView {
  readonly view: SessionView;
  /** The history as the session knows it: what is the same object in the view goes as it was. */
  readonly history: readonly Message[];
}

const { properties: PROPERTIES } = RECALL_TOOL.function.parameters;

/** A planner session for a loop that somebody else runs and whose history somebody else keeps. */
export class AdaptedSession implements Adapter {
  readonly session: PlannerSession;
  readonly #options: AdapterOptions;
  readonly #ledger: LedgerEntry[] = [];
  #history: readonly Message[] = [];
  #shown: readonly Message[] = [];
  #stored: unknown;

  constructor(options: AdapterOptions) {
    this.#options = options;
    this.session = plannerSession(options);
    this.#stored = this.session.state;
  }

  get ledger(): readonly LedgerEntry[] {
    return this.#ledger;
  }

  /** What the next call sends of the framework's whole history. */
  async view(messages: readonly Message[], call: AdaptedCall): Promise<AdaptedView> {
    const known = this.#history;
    // A framework makes its messages anew for each call; the planner knows them by identity.
    const history = messages.map((message, at) => {
      const before = known[at];
      return before && hashPiece(before) === hashPiece(message) ? before : message;
    });
    this.#history = history;
    const { warn, now = Date.now } = this.#options;
    const { tools, recall, model, signal } = call;
    const view = await this.session.view({ messages: history, tools }, {
      nowMs: now(),
      ...(recall !== undefined && { recall }),
      ...(model !== undefined && { model }),
      ...(signal && { signal }),
    });
    this.#shown = view.messages;
    for (const warning of view.warnings) warn(warning);
    await this.#store();
    return { view, history };
  }

  /** Books a call that succeeded. `usage` is what the provider reported, if it did. */
  async book(view: SessionView, usage: Usage | undefined): Promise<void> {
    const entry = this.session.sent(usage, view);
    if (entry) this.#ledger.push(entry);
    await this.#store();
  }

  /**
   * Takes note of a call that failed. Whether that is because its prompt is too long: then a view of the same history is
   * shorter.
   */
  async refused(view: SessionView, error: unknown): Promise<boolean> {
    const told = readTooLong(wordsOf(error));
    if (!told) return false;
    this.session.rejected(told.windowTokens, { promptTokens: told.promptTokens, view });
    await this.#store();
    return true;
  }

  /** Answers a call of the recall tool, whose arguments nobody has checked. */
  async recall(args: unknown): Promise<string> {
    const { ref, lines, find, offset, ...others } = Object(args) as Readonly<Record<string, unknown>>;
    const [other] = Object.keys(others);
    if (other !== undefined) {
      return `Cannot recall by ${other}: what can be given is ${Object.keys(PROPERTIES).join(", ")}.`;
    }
    if (ref != null && typeof ref !== "string") {
      return `Cannot recall: ref is ${JSON.stringify(ref)}; it must be the 16 hex digits of a placeholder.`;
    }
    const { archive, countTokens } = this.#options;
    // Some models fill in null for what they don't want.
    const request = {
      ...(ref != null && { ref }),
      ...(lines != null && { lines: String(lines) }),
      ...(find != null && { find: String(find) }),
      ...(offset != null && { offset: Number(offset) }),
    };
    const shown = () => this.#shown;
    return (await recallOriginal(archive, request, { countTokens, shown })).content;
  }

  async #store(): Promise<void> {
    const { state } = this.session;
    if (state === this.#stored) return;
    await this.#options.store?.(state);
    this.#stored = state;
  }
}

/** Asks a model; once more, for less, if it refuses what it is sent because that is too long. */
export async function askFitting<Reply>(
  adapted: AdaptedSession,
  { view, ask }: {
    readonly view: () => Promise<AdaptedView>;
    readonly ask: (made: AdaptedView) => PromiseLike<Reply>;
  },
): Promise<{ readonly made: AdaptedView; readonly reply: Reply }> {
  const made = await view();
  try {
    return { made, reply: await ask(made) };
  } catch (error) {
    if (!await adapted.refused(made.view, error)) throw error;
    const shorter = await view();
    return { made: shorter, reply: await ask(shorter) };
  }
}

/** What an error of a framework or of a provider's client says. */
function wordsOf(error: unknown): string {
  const { message, responseBody, code, error: body } = Object(error) as Readonly<Record<string, unknown>>;
  return [message, responseBody, code, body && JSON.stringify(body)]
    .filter((words) => typeof words === "string").join("\n");
}
