import { gateway, type GatewayOptions, type HttpGateway } from "@tare/gateway";
import { WINDOW_TOKENS } from "./predict.ts";
import { startUpstream, type Upstream } from "./upstream.ts";

export interface RunningGateway extends AsyncDisposable {
  readonly baseURL: string;
  readonly errors: readonly unknown[];
  readonly ledger: HttpGateway["sessions"]["ledger"];
}

/** Starts a gateway with the upstream's profile, clock and tokenizer. */
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
