import type { KeptWarm, ListedSession, StoreRecord } from "@tare/session/internal";
import type {
  CallReport,
  PinReport,
  SeenSession,
  SpendingSession,
  Sums,
} from "@tare/session/internal/report";
import type { Rewrite } from "@tare/messages";
import type { Mechanisms } from "@tare/planner";
import type { NewPin } from "@tare/planner/internal";
import type { SessionSummary } from "./session.ts";

/** A conversation that passes through the gateway, as it is shown to people, and what they may ask of it. */
export interface ShownConversation {
  readonly id: string;
  /** Name of the key with which it was begun; absent: the owner's. */
  readonly by?: string | undefined;
  /** Why nothing can be asked for of its messages; absent if it can. */
  readonly noPins?: string;
  /** Its calls, the oldest first; where none are kept the newest of them. @throws {StoreError} */
  readonly calls: () => Promise<readonly CallReport[]>;
  readonly details: () => ConversationDetails;
  /** What its model saw last. */
  readonly seen: () => Promise<SeenSession>;
  /**
   * Asks for something of a message. What `keep` gives is stored with that; it isn't asked where nothing is kept.
   *
   * @throws {RangeError} if that can't be asked for of this one. @throws {StoreError}
   */
  readonly setPin: (wanted: NewPin, keep?: (pin: PinReport) => readonly StoreRecord[]) => Promise<PinReport>;
  /** Asks for nothing more of a message. Gives whether anything was asked for. */
  readonly removePin: (place: number) => Promise<boolean>;
  /** Gives it a title, which it keeps, and tells of it as it is then. `keep` as with a pin. @throws {StoreError} */
  readonly rename: (
    title: string,
    keep?: (renamed: ConversationSummary) => readonly StoreRecord[],
  ) => Promise<ConversationSummary>;
  /** Keeps its newest prompt in the provider's cache for at most so many milliseconds; nothing if none is kept warm here. */
  readonly keepWarm: (ms: number) => KeptWarm | "nothing held" | "no price" | undefined;
  /** The original of what left its prompt; nothing if nothing is archived under this reference. */
  readonly archived: (ref: string) => Promise<string | undefined>;
  /** Forgets what is known of it. What its client still says is a new conversation. @throws {StoreError} */
  readonly forget: () => Promise<void>;
}

/** What is shown of a conversation in a list. */
export interface ConversationSummary extends Sums {
  readonly id: string;
  /** Name of the key with which it was begun; absent: the owner's. */
  readonly key?: string;
  /** What the user said first, in one line. */
  readonly title: string;
  /** Name of its protocol. */
  readonly protocol: string;
  /** The model that was asked last. */
  readonly model: string;
  /** Name of the program whose loop it is, as its requests tell it; null if they don't. */
  readonly agent: string | null;
  /** When its first request came, and its newest one. */
  readonly createdAt: string;
  readonly lastAt: string;
  /** Whether it is left as it is, to compare with; likewise because the upstream refused what was made of it. */
  readonly control: boolean;
  readonly reverted: boolean;
  /** How many times its prompt was rewritten. */
  readonly epoch: number;
  /** Token units that it has saved so far. */
  readonly savedTokenUnits: number;
}

/** The newest prompt of a conversation. */
export interface PromptFigures {
  readonly tokens: number;
  /** How much it may hold; null where that is unknown. */
  readonly windowTokens: number | null;
  /** Tokens that each mechanism kept out of it. */
  readonly left: Readonly<Record<keyof Mechanisms, number>>;
}

/** A rewrite, and when it was made. */
export interface RewriteReport extends Rewrite {
  readonly at: string;
}

/** A call by which a client had its conversation summarized. */
export interface CompactionReport
  extends Pick<Sums, "promptTokens" | "cachedTokens" | "outputTokens" | "tokenUnits"> {
  readonly at: string;
  /** Absent: its price is unknown. */
  readonly usd?: number;
}

/** What is shown of a conversation by itself. */
export interface ConversationDetails extends ConversationSummary {
  /** What its archive takes. */
  readonly archiveBytes: number;
  /** The newest view; null before there is one. */
  readonly prompt: PromptFigures | null;
  /** The newest changes of what its model sees, the oldest first. */
  readonly rewrites: readonly RewriteReport[];
  /** The newest calls by which its client had it summarized, the oldest first. */
  readonly compactionCalls: readonly CompactionReport[];
}

/** Which conversations a list holds. */
export interface ConversationListing {
  /** Most in a page. */
  readonly limit: number;
  /** Id of the last one of the page before. Default: the list begins with the newest. */
  readonly after?: string | undefined;
  /** Text that the title contains, letters in either case. Default: any title. */
  readonly search?: string | undefined;
  /** Name of the key with which they were begun. Default: every key. */
  readonly by?: string | undefined;
}

/** A page of a list. */
export interface ConversationPage {
  readonly conversations: readonly ConversationSummary[];
  readonly hasMore: boolean;
}

/** Which spending is read. */
export interface SpendingDays {
  /** First and last day, by UTC, such as `2026-01-31`. Default: any. */
  readonly from?: string | undefined;
  readonly to?: string | undefined;
  /** Name of the key with which conversations were begun. Default: every key. */
  readonly by?: string | undefined;
}

/** The newest conversations, at most so many. */
export type NewestConversations = Pick<ConversationListing, "limit" | "by">;

/** The conversations of a gateway: those that are kept, or that it knows where none are. */
export interface Conversations {
  /** A page of them, the newest first; nothing if there is none `after` which it begins. @throws {StoreError} */
  readonly list: (listing: ConversationListing) => Promise<ConversationPage | undefined>;
  /** What all came to, those that are gone too where they are kept, by day, model and agent. @throws {StoreError} */
  readonly spending: (which: SpendingDays) => Promise<readonly SpendingSession[]>;
  /** What each of the newest came to, by day and model. @throws {StoreError} */
  readonly newestSpending: (which: NewestConversations) => Promise<readonly SpendingSession[]>;
  /** What is told of one that stands in a list of the store which keeps them. */
  readonly summary: (row: ListedSession) => ConversationSummary;
  /** The one of this id, if there is one. @throws {StoreError} */
  readonly get: (id: string) => Promise<ShownConversation | undefined>;
}

/** What a session came to. */
export function spendingOf({ id, facts, conversation: { state } }: SessionSummary): SpendingSession {
  const { title, model, days } = state;
  return { id, kind: "gateway", title, model, agent: facts.agent ?? null, days };
}
