import { gateway, type GatewayOptions, type HttpGateway } from "@tare/gateway";
import { WINDOW_TOKENS } from "./predict.ts";
import { startUpstream, type Upstream } from "./upstream.ts";

/** A gateway that listens on loopback, in front of an upstream. */
export interface RunningGateway extends AsyncDisposable {
  readonly baseURL: string;
  /** What clients don't get to read of its errors. */
  readonly errors: readonly unknown[];
  /** What its sessions came to. */
  readonly ledger: HttpGateway["sessions"]["ledger"];
}

/** Starts a gateway that goes by the upstream's rules, clock and tokenizer. */
export async function startGateway(
  upstream: Upstream,
  options: Partial<GatewayOptions> = {},
): Promise<RunningGateway> {
  const { tokenizer, profile, now, baseURL } = upstream;
  const provider = { baseURL, profile, windowTokens: WINDOW_TOKENS };
  const errors: unknown[] = [];
  const { fetch, sessions } = gateway({
    upstreams: { chat: provider, responses: provider, messages: provider },
    countTokens: () => Promise.resolve(tokenizer.count),
    now,
    onError: (error) => void errors.push(error),
    ...options,
  });
  const server = Deno.serve(
    { port: 0, hostname: "127.0.0.1", onListen() {} },
    (request) => fetch(request) ?? new Response(null, { status: 404 }),
  );
  await Promise.resolve();
  return {
    baseURL: `http://127.0.0.1:${server.addr.port}/v1`,
    errors,
    ledger: (scope) => sessions.ledger(scope),
    [Symbol.asyncDispose]: () => server.shutdown(),
  };
}

/** Starts a gateway in front of a provider whose model says hello, for the README's examples. */
export async function startGreeter(): Promise<{ readonly baseURL: string } & AsyncDisposable> {
  const upstream = await startUpstream(() => ({ content: "Hello." }));
  const gateway = await startGateway(upstream);
  return {
    baseURL: gateway.baseURL,
    async [Symbol.asyncDispose]() {
      await gateway[Symbol.asyncDispose]();
      await upstream[Symbol.asyncDispose]();
    },
  };
}
