import type { CountTokens } from "@tare/messages";
import type { Price, Profile } from "@tare/planner";
import type { PolicyOptions } from "@tare/planner/policies";
import type { Keys, Store, Warmth } from "@tare/conversation";
import type { Telemetry } from "@tare/conversation/telemetry";

/** Where a gateway sends requests, and what it plans with. */
export interface GatewayOptions extends PolicyOptions {
  /** The provider of each protocol that requests are sent to, by the protocol's name. A protocol without one isn't answered. */
  readonly upstreams: Readonly<
    Record<string, {
      /** Its address, such as `https://api.openai.com/v1`. */
      readonly baseURL: string;
      /** Its key. Default: that of each client. */
      readonly apiKey?: string;
      /** Its cache rules and prices, for all its models or for each by name; asked whenever they count. */
      readonly profile: Profile | ((model: string) => Profile);
      /** What a model costs in money; nothing of one whose price isn't known. Default: the list price, by its name. */
      readonly price?: (model: string) => Price | undefined;
      /**
       * Its models' context window in tokens. A number holds for all of them, unless an error of the provider's tells a smaller
       * one; a function is asked for each by name whenever it counts, and such an error outranks it. Nothing of a model whose window isn't known,
       * which is then no limit. Default: the window that is published, by the model's name.
       */
      readonly windowTokens?: number | ((model: string) => number | undefined);
      /**
       * Whether the window that a function gave is only assumed: then what doesn't fit is sent, for the provider to refuse. What is
       * told, by a number or by an error, isn't. Default: it is.
       */
      readonly assumesWindow?: (model: string) => boolean;
      /**
       * Whether a model's tools may be deferred, since it finds them by the provider's own search. Default: at addresses, and of
       * models, of which that is known.
       */
      readonly searchesTools?: (model: string) => boolean;
    }>
  >;
  /** What conversations cost counts for the keys with which their requests come. Default: for nobody. */
  readonly keys?: Pick<Keys, "refusal" | "spent" | "paid" | "reserve"> | undefined;
  /**
   * Paths beside those that models are used with, such as `/v1/vector_stores`, that go to a provider with the key of its
   * upstream, and what is below them. With a client's own key anything under `/v1` goes. Default: none.
   */
  readonly forward?: readonly string[];
  /** Makes the requests. Default: the global `fetch`. */
  readonly fetch?: typeof fetch;
  /** Gives the token counter, once it is loaded. */
  readonly countTokens: () => Promise<CountTokens>;
  /**
   * Whether requests with tools get the recall tool too. Default: true. Without it nothing is truncated on arrival: the
   * model would never see the middle of what its agent's tools gave it.
   */
  readonly recall?: boolean;
  /** Share of sessions, from 0 to 1, that are left as they are, to compare with. Default: 0. */
  readonly control?: number;
  /** Largest request body in bytes: prompts may hold pictures and recordings. Default: 32 MiB, the most that Anthropic takes. */
  readonly maxBodyBytes?: number;
  /** Most bytes of memory that all it remembers of sessions and requests may take. Default: 512 MiB. */
  readonly maxMemoryBytes?: number;
  /**
   * Where what is known of sessions is kept, so that it survives the process, and others beside it go on with them.
   * Default: nowhere.
   */
  readonly store?: Store | undefined;
  /**
   * Whether what was said may be kept there: titles, hashes by which a conversation is found again, what left its prompt.
   * Otherwise only what sessions and their calls came to is. Default: true.
   */
  readonly keepsContent?: boolean;
  /** How long a session is kept there after its last turn, in milliseconds. Default: 30 days. */
  readonly keepMs?: () => number;
  /** Most bytes that sessions take there; those used longest ago go. Default: 1 GiB. */
  readonly keepBytes?: number;
  /**
   * How long a request waits for what is kept of its session, and the end of an answer until it is kept, in milliseconds.
   * Default: 250.
   */
  readonly keepWaitMs?: number;
  /**
   * What keeps the prompts of idle conversations warm, as far as its budget goes or somebody asks for it. It is for protocols
   * and providers where a cache lives from use to use, and for models whose price is known. It ends with the gateway.
   * Default: nothing is kept warm.
   */
  readonly warmth?: Warmth;
  /** Told of what went wrong and of what clients don't get to read. Default: nobody is. */
  readonly onError?: (error: unknown) => void;
  /** Tells of model calls. Default: one that tells whoever has been set up to hear, and not what was said. */
  readonly telemetry?: Telemetry;
  /** The time in milliseconds since the epoch. Default: by the clock of the store, else `Date.now`. */
  readonly now?: () => number;
}

/** Options in which is set what else has a default. */
export type SetOptions = GatewayOptions & Required<Pick<GatewayOptions, "telemetry" | "now">>;

/** A provider that requests are sent to. */
export type Upstream = GatewayOptions["upstreams"][string];
