import type { Keys } from "@tare/conversation";
import type { Figures } from "@tare/conversation/telemetry";
import type { HttpGateway } from "@tare/gateway";
import type { Heartbeat } from "./http/sse_response.ts";
import type { SessionOptions } from "./sessions/session_types.ts";

/** What an agent server is made of. */
export interface AgentOptions extends SessionOptions {
  /** Who may use it. Default: whoever reaches it under a name of loopback. */
  readonly guard?: {
    /** Whether requests may come without a key, as a guest's. Default: no. */
    readonly guests?: boolean;
    /**
     * Host names that requests may name, as URLs write them; `*` stands for every IP address. Default: those of loopback.
     */
    readonly hosts?: readonly string[];
    /** Origins whose pages may use the server, such as `https://chat.example`. Default: none but its own. */
    readonly origins?: readonly string[];
    /** Most bytes that a request's headers may have together. Default: 16 KiB. */
    readonly maxHeaderBytes?: number;
  };
  /** Who asks, what they may, and what they have spent. Default: whoever asks is the owner. */
  readonly keys?: Keys;
  /** Where webhooks may go, and how time goes by for them. Default: there are none. */
  readonly webhooks?: {
    /**
     * Hosts that may be told, as `host` or `host:port`: what leads there may be plain HTTP, and the address any. `*` stands
     * for all others, by HTTPS and at a public address.
     */
    readonly hosts: readonly string[];
    /** Looks up the addresses of a host that isn't listed by name. Default: as the system does. */
    readonly lookup?: (host: string) => Promise<readonly string[]>;
    /**
     * Connects by TLS with such a host at this address, and no other: else its name could lead elsewhere by then. Default:
     * none of these hosts can be reached.
     */
    readonly connect?: (
      to: { readonly host: string; readonly address: string; readonly port: number },
    ) => Promise<{
      readonly readable: ReadableStream<Uint8Array<ArrayBuffer>>;
      readonly writable: WritableStream<Uint8Array<ArrayBuffer>>;
      readonly close: () => void;
    }>;
    /** Calls back after so many milliseconds, until the function that it returns is called. Default: the real time. */
    readonly after?: (ms: number, work: () => void) => () => void;
    /** A number from 0 to 1, for the time until a next attempt. Default: `Math.random`. */
    readonly random?: () => number;
  };
  /** The figures that `GET /metrics` gives: to the owner and keys for that, or if `isOpen` to all. Default: none. */
  readonly metrics?: { readonly figures: Figures; readonly isOpen: boolean };
  /** How event streams show that they are alive. Default: a comment after each 15 s of silence. */
  readonly heartbeat?: Heartbeat;
  /** Largest request body in bytes. Default: 10 MiB. */
  readonly maxBodyBytes?: number;
  /**
   * What is served beside the routes, such as a page, by path: whoever comes with `GET` or `HEAD` gets it, without a key.
   * Default: nothing.
   */
  readonly files?: ReadonlyMap<string, (request: Request) => Response>;
  /** The folder that its tools work in, as clients are told it. Default: they aren't. */
  readonly workspace?: string;
  /** Which start this is, so that whoever has noted it knows it again. Default: nobody is told. */
  readonly instance?: string;
  /** What its commands are kept in, as clients are told it. Default: they aren't. */
  readonly sandbox?: {
    /** What makes it; absent where there is none. */
    readonly by?: string;
    /** Why there is none. */
    readonly why?: string;
    /** The hosts that commands reach unasked. */
    readonly domains: readonly string[];
  };
  /**
   * Answers for other models than the agent, and has sessions of its own kind, which it keeps in this `store` or
   * nowhere. Default: the agent is the only model.
   */
  readonly gateway?: HttpGateway;
  /** Where that passes requests on to, by protocol, as clients are told it. Default: they aren't. */
  readonly passesOn?: { readonly chat?: string; readonly messages?: string };
}
