import type { CountTokens, Message, Model, Tool, ToolDefinition } from "@tare/messages";
import {
  type Conversation,
  type ForkableSession,
  makePin,
  type NewPin,
  type Pin,
  type PromptCall,
  type PromptSession,
  type Quote,
  type SessionView,
  slicer,
  withoutPin,
} from "@tare/planner";
import { promptSession } from "@tare/planner/policies";
import type { SeenConversation } from "@tare/conversation/report";
import type { Archive } from "@tare/prune";
import { HttpError } from "../http/http_error.ts";
import type { Store } from "@tare/conversation";
import { openCalls } from "../approvals/approvals.ts";
import { type OfferState, offerTools, type ToolOffer } from "../turns/session_tools.ts";
import { tracedModel } from "../turns/traced_turn.ts";
import { daysAfter } from "./calls.ts";
import {
  asked,
  NO_TURNS,
  ratesOf,
  type SessionEnvironment,
  type SessionEvent,
  type SessionTotals,
} from "./session_types.ts";
import { summariseWith } from "./summarise_with.ts";

/** What is stored of a session beside its events. */
export interface StoredPrompt extends Pick<SessionTotals, "days" | "asks"> {
  /** What a restart needs to know of the prompt. */
  readonly context: unknown;
  /** What was asked for of single messages. */
  readonly pins: readonly Pin[];
  /** What the model was told of its tools; nothing if there was nothing to tell. */
  readonly tools: OfferState | undefined;
  /** What the user said first. */
  readonly title: string;
}

/** What a fork of a session knows of its prompt, as it is stored. */
export type ForkedPrompt = Pick<StoredPrompt, "context" | "pins"> & Partial<Pick<StoredPrompt, "tools">>;

/** Reads what is stored of a session beside its events. @throws {StoreError} */
export async function readStored(id: string, store: Store): Promise<StoredPrompt> {
  const [context, pins, tools, totals, title] = await Promise.all(
    ["context", "pins", "tools", "totals", "title"].map((name) => store.readState(id, name)),
  );
  // What was stored is what a session has made.
  const { days, asks } = { ...NO_TURNS, ...totals as Partial<SessionTotals> | undefined };
  return {
    context,
    pins: (pins ?? []) as readonly Pin[],
    tools: tools as OfferState | undefined,
    days,
    asks,
    title: (title ?? "") as string,
  };
}

/** What of it changes with the prompt. */
type PromptState = Pick<StoredPrompt, "context" | "pins" | "tools">;

/** What the prompt of a session is made with. */
export interface SessionPromptOptions {
  /** Id of the session. */
  readonly id: string;
  readonly environment: SessionEnvironment;
  /** Name of the model. */
  readonly model: string;
  /** The tools that the session has now. */
  readonly tools: () => readonly Tool[];
  readonly archive: Archive;
  readonly countTokens: CountTokens;
  readonly stored: PromptState;
}

/** What else changes with events. */
export interface ChangeOptions {
  /** What all turns came to before. */
  readonly totals: SessionTotals;
  /** What else has changed of that. Default: nothing. */
  readonly ended?: Partial<SessionTotals>;
  /** Whether nothing goes on until they are stored. Default: so it is. */
  readonly settled?: boolean;
}

/** Other requests are let in while a long history is looked at. */
const inSlices = slicer({
  nowMs: () => performance.now(),
  pause: () => new Promise((resolve) => setTimeout(resolve)),
});

/** The model that summarises. @throws what the model's port throws for a model that can't be had. */
function summaryModel({ id: conversation, environment, model }: SessionPromptOptions): Model {
  const { telemetry } = environment;
  const port = environment.model(model);
  if (!telemetry?.isOn) return port;
  return tracedModel(port, { telemetry, conversation, ...asked(environment, model) });
}

/** What the model sees of a session, and what was asked for of single messages. */
export class SessionPrompt implements Pick<PromptSession, "view" | "sent"> {
  readonly #options: SessionPromptOptions;
  readonly #prompt: ForkableSession;
  #pins: readonly Pin[];
  #stored: PromptState;
  #told: OfferState | undefined;
  /** How the last turn offered its tools. */
  #offer: ToolOffer | undefined;
  /** Every tool that was offered once, by name: its results may still be there when it has gone. */
  readonly #known: Record<string, Tool> = {};
  #newest: { readonly history: Conversation; readonly view: SessionView } | undefined;

  /** The prompt as it was stored. */
  constructor(options: SessionPromptOptions) {
    const { environment, model, archive, countTokens, stored } = options;
    const { policy, mechanisms, truncateTokens, alwaysFull, triggers, windowTokens } = environment;
    this.#options = options;
    this.#prompt = promptSession({
      ...{ windowTokens, policy, mechanisms, truncateTokens, alwaysFull, triggers },
      ...{ archive, countTokens, inSlices, state: stored.context },
      profile: () => ratesOf(environment, model).profile,
      tools: this.#known,
      // A model that can't be had must not keep anybody from the session.
      summarise: async (request) => await summariseWith(summaryModel(options), countTokens)(request),
    });
    this.#pins = stored.pins;
    this.#told = stored.tools;
    this.#stored = this.#state;
  }

  /** What of the prompt a restart needs to know. */
  get state(): unknown {
    return this.#prompt.state;
  }

  /** Whether all that a restart needs to know of it is stored. */
  get isStored(): boolean {
    const { context, pins, tools } = this.#state;
    return context === this.#stored.context && pins === this.#stored.pins && tools === this.#stored.tools;
  }

  /** What was asked for of single messages. */
  get pins(): readonly Pin[] {
    return this.#pins;
  }

  /** Offers the model these tools from now on, which go on from this history; what it is to be told stands with it. */
  offerTools(tools: readonly Tool[], history: readonly Message[]): ToolOffer {
    this.#offer = this.#offerOf(tools, openCalls(history).length === 0);
    this.#told = this.#offer.state;
    return this.#offer;
  }

  async view(history: Conversation, call: PromptCall): Promise<SessionView> {
    const view = await this.#prompt.view(history, { ...call, pins: this.#pins });
    for (const { place } of view.endedPins ?? []) this.#pins = withoutPin(this.#pins, place);
    this.#newest = { history, view };
    const { id, environment } = this.#options;
    for (const warning of view.warnings) environment.warned?.(id, warning);
    return view;
  }

  /** What a session knows that goes on from the first `length` messages, with an archive that holds what this one's does. */
  fork(length: number): ForkedPrompt {
    const { state } = this.#prompt.fork(length, this.#options.archive);
    const pins = this.#pins.filter(({ place }) => place < length);
    return { context: state, pins, ...(this.#told && { tools: this.#told }) };
  }

  sent: PromptSession["sent"] = (usage, view) => this.#prompt.sent(usage, view);

  /** What the next request would cost. Nothing where the policy knows nothing of costs. */
  quote(messages: readonly Message[]): Quote | undefined {
    const call = { nowMs: this.#now(), model: this.#options.model, pins: this.#pins };
    return this.#prompt.quote?.({ messages, tools: this.#tools() }, call);
  }

  /**
   * What has changed with these events, which happen now, by name, to be stored together; what all turns come to then;
   * and what to call once it is stored. Unless all is settled, the prompt's part waits for what tells of it.
   */
  changes(
    events: readonly SessionEvent[],
    { totals: before, ended, settled = true }: ChangeOptions,
  ): {
    readonly values: Partial<PromptState & { readonly totals: SessionTotals }>;
    readonly totals: SessionTotals;
    readonly stored: () => void;
  } {
    const { environment, model } = this.#options;
    const days = daysAfter(before.days, events, { rates: ratesOf(environment, model), nowMs: this.#now() });
    const totals = { ...before, ...ended, days };
    const now = settled ? this.#state : this.#stored;
    const values = {
      ...(now.context !== this.#stored.context && { context: now.context }),
      ...(now.pins !== this.#stored.pins && { pins: now.pins }),
      ...(now.tools !== this.#stored.tools && { tools: now.tools }),
      ...((days !== before.days || ended) && { totals }),
    };
    return { values, totals, stored: () => this.#stored = now };
  }

  /**
   * A pin for a message.
   *
   * @throws {HttpError} 400 if that can't be asked for, 501 if the policy takes no pins.
   */
  makePin(messages: readonly Message[], wanted: NewPin): Pin {
    const { noPins } = this.#prompt;
    if (noPins !== undefined) {
      throw new HttpError(501, "not_supported", `Cannot pin message ${wanted.place}: ${noPins}.`);
    }
    try {
      return makePin(messages, wanted, this.#options.countTokens);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      throw new HttpError(400, "invalid_request", error.message);
    }
  }

  /** Changes what was asked for, once `store` has stored it. */
  async changePins(
    change: (pins: readonly Pin[]) => readonly Pin[],
    store: (pins: readonly Pin[]) => Promise<void>,
  ): Promise<void> {
    await store(change(this.#pins));
    // A call may have ended some meanwhile.
    this.#pins = change(this.#pins);
  }

  /** What the model saw last of a session, and what is new of that; of a running turn what it saw last. */
  async seen(
    { history: messages, isRunning }: {
      /** What was said in the turns that have ended. */
      readonly history: readonly Message[];
      readonly isRunning: boolean;
    },
  ): Promise<SeenConversation> {
    const told = { pins: this.#pins, countTokens: this.#options.countTokens };
    if (isRunning && this.#newest) return { ...this.#newest, ...told };
    const history = { messages, tools: this.#tools() };
    const call = { nowMs: this.#now(), model: this.#options.model, oneShot: true };
    return { history, view: await this.#prompt.view(history, call), ...told };
  }

  #now(): number {
    return (this.#options.environment.now ?? Date.now)();
  }

  get #state(): PromptState {
    return { context: this.#prompt.state, pins: this.#pins, tools: this.#told };
  }

  /** The definitions that requests hold. */
  #tools(): readonly ToolDefinition[] {
    const { listed } = this.#offer ?? this.#offerOf(this.#options.tools(), true);
    return listed.map(({ definition }) => definition);
  }

  #offerOf(tools: readonly Tool[], mayTell: boolean): ToolOffer {
    const { environment, model, countTokens } = this.#options;
    const { windowTokens, alwaysFull, mechanisms } = environment;
    // What is said of them is known from now on.
    for (const tool of tools) this.#known[tool.definition.function.name] = tool;
    return offerTools(tools, this.#told, {
      ...{ windowTokens, alwaysFull, countTokens, mayTell },
      mayDefer: mechanisms?.schemas,
      profile: ratesOf(environment, model).profile,
    });
  }
}
