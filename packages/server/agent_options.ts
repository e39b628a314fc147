import type { Keys } from "@tare/session";
import type { MetricRegistry } from "@tare/session/telemetry";
import type { HttpGateway } from "@tare/gateway";
import { checkGiven, type NeededOptions } from "@tare/messages/internal";
import type { RunLimits } from "@tare/loop";
import type { PolicyOptions } from "@tare/planner/policies";
import type { Heartbeat } from "./http/dispatcher.ts";
import type {
  AdvancedOptions,
  ApprovalOptions,
  ModelOptions,
  ServerLimits,
  SessionOptions,
  WorkspaceOptions,
} from "./sessions/session_options.ts";

/** Options of an agent server. */
export interface AgentOptions extends SessionOptions {
  /** Keys of the requests, with their permissions and spending. Default: every request is the owner's. */
  readonly keys?: Keys | undefined;
  /** Options of HTTP access. */
  readonly http?: HttpOptions | undefined;
  /** Allowed hosts of webhooks. Default: none. */
  readonly webhooks?: WebhookOptions | undefined;
  /**
   * A gateway that handles models other than the agent, and stores its sessions in this `store` or nowhere. Default:
   * the agent is the only model.
   */
  readonly gateway?: HttpGateway | undefined;
}

/** Options of an agent server's HTTP access. */
export interface HttpOptions {
  /** Whether requests without a key are allowed, as a guest's. Default: no. */
  readonly guests?: boolean;
  /** Host names that requests may contain, as in URLs; `*` is every IP address. Default: loopback's. */
  readonly hosts?: readonly string[];
  /** Origins whose pages may use the server, such as `https://chat.example`. Default: only its own. */
  readonly origins?: readonly string[];
  /** Most bytes of a request's headers together. Default: 16 KiB. */
  readonly maxHeaderBytes?: number;
  /** Largest request body in bytes. Default: 10 MiB. */
  readonly maxBodyBytes?: number;
  /** Heartbeat of event streams. Default: a comment after each 15 s of silence. */
  readonly heartbeat?: Heartbeat;
  /** Content besides the routes, such as a page, by path, for `GET` and `HEAD`, without a key. Default: none. */
  readonly files?: ReadonlyMap<string, (request: Request) => Response>;
  /** Metrics that `GET /metrics` returns. Default: none. */
  readonly metrics?: {
    readonly metricRegistry: MetricRegistry;
    /** Whether they are public; otherwise the owner and permitted keys may read them. */
    readonly isOpen: boolean;
  };
  /** Id of this start of the server, for clients. Default: none. */
  readonly instance?: string;
  /** Addresses of the gateway's providers by protocol, as clients see them. Default: hidden. */
  readonly forwardsTo?: {
    readonly chat?: string;
    readonly messages?: string;
  };
}

/** Allowed hosts of webhooks, and their connections. */
export interface WebhookOptions {
  /**
   * Hosts as `host` or `host:port`, also over plain HTTP and at any address. `*`: all others, over HTTPS at
   * public addresses.
   */
  readonly hosts: readonly string[];
  /** Returns the addresses of a host that isn't listed by name. Default: the system's. */
  readonly lookup?: (host: string) => Promise<readonly string[]>;
  /**
   * Connects by TLS with such a host at this address only, as its name could lead elsewhere by then. Default: these
   * hosts can't be reached.
   */
  readonly connect?: (to: {
    readonly host: string;
    readonly address: string;
    readonly port: number;
  }) => Promise<{
    readonly readable: ReadableStream<Uint8Array<ArrayBuffer>>;
    readonly writable: WritableStream<Uint8Array<ArrayBuffer>>;
    readonly close: () => void;
  }>;
  /** Timer: calls back after `ms` milliseconds; returns a function that cancels it. Default: the real time. */
  readonly after?: (ms: number, work: () => void) => () => void;
  /** Returns a random number from 0 to 1. Default: `Math.random`. */
  readonly random?: () => number;
}

const NEEDED: NeededOptions<AgentOptions> = {
  store: "object",
  tools: "array",
  models: {
    model: "function",
    "defaultModel?": "string",
    profile: ["object", "function"],
    "price?": "function",
    windowTokens: ["positive", "function"],
    "assumesWindow?": "function",
    countTokens: "function",
    "list?": "function",
    "efforts?": "function",
    "effort?": "string",
    "supportsImages?": "function",
    "address?": "function",
    "notice?": "string",
  } satisfies NeededOptions<ModelOptions>,
  "instructions?": "string",
  "prompt?": {
    "policy?": "string",
    "mechanisms?": "object",
    "evict?": "string",
    "truncateTokens?": "count",
    "alwaysFull?": "array",
    "triggers?": "object",
  } satisfies NeededOptions<PolicyOptions>,
  "approvals?": {
    "rules?": "array",
    "workspace?": "string",
    "unattended?": "string",
    "answerWithinMs?": "count",
    "unknownOutcome?": "string",
  } satisfies NeededOptions<ApprovalOptions>,
  "limits?": {
    "maxSessions?": "count",
    "maxRunningTurns?": "count",
    "maxQueuedTurns?": "count",
    "turn?": {
      "maxSteps?": "positive",
      "maxOutputTokens?": "positive",
      "maxParallelTools?": "positive",
      "toolTimeoutMs?": "count",
      "idleTimeoutMs?": "count",
    } satisfies NeededOptions<RunLimits>,
  } satisfies NeededOptions<ServerLimits>,
  "workspace?": {
    "folder?": "string",
    "sandbox?": "object",
    "place?": "object",
    "checkpoints?": "object",
    "background?": "object",
  } satisfies NeededOptions<WorkspaceOptions>,
  "advanced?": {
    "toolSource?": "object",
    "delegates?": "boolean",
    "keepAlive?": ["object", "string"],
    "clock?": "object",
    "after?": "function",
  } satisfies NeededOptions<AdvancedOptions>,
  "http?": {
    "guests?": "boolean",
    "hosts?": "array",
    "origins?": "array",
    "maxHeaderBytes?": "positive",
    "maxBodyBytes?": "positive",
    "heartbeat?": "object",
    "files?": "object",
    "metrics?": "object",
    "instance?": "string",
    "forwardsTo?": "object",
  } satisfies NeededOptions<HttpOptions>,
  "webhooks?": {
    hosts: "array",
    "lookup?": "function",
    "connect?": "function",
    "after?": "function",
    "random?": "function",
  } satisfies NeededOptions<WebhookOptions>,
  "gateway?": "object",
  "keys?": "object",
  "telemetry?": "object",
  "onError?": "function",
};

/**
 * Checks the options, for callers without TypeScript. @throws {TypeError} for unknown, missing or mistyped options.
 */
export function checkAgentOptions(options: AgentOptions): void {
  checkGiven("agentHandler()", { options }, { options: NEEDED });
}
