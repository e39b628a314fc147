import type { Sandbox } from "@tare/loop/tools";
import { type ChildProcess, spawn } from "node:child_process";
import type { InstructionPlaces } from "./prompt/workplace.ts";
import { VARIABLES } from "./settings/settings.ts";

/**
 * What the start command hands over to the server's process, by its standard input: an environment can be read by every
 * program of the same user as long as the process runs, and holds keys.
 */
export interface HandedOver {
  /** The variables that the settings are read from. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** The sandbox that commands run in, or why there is none. */
  readonly sandbox: Sandbox | { readonly why: string };
  /** Where stands what sessions are told of their workplace. Default: of the workspace alone, as far as may be read. */
  readonly places?: InstructionPlaces;
  /** Where the folder's server has listened before. Default: nobody knows. */
  readonly lastPort?: number | undefined;
}

/** The one variable that says that something is handed over. */
export const HANDED_OVER = "TARE_HANDED_OVER";

/**
 * Variables that Deno itself goes by: where its cache is, how it reaches a network, what it exports. The server's process gets these
 * and no others.
 */
const DENO_VARIABLES: readonly string[] = [
  ...["PATH", "HOME", "XDG_CACHE_HOME", "TMPDIR", "LANG", "NO_COLOR", "TZ"],
  ...["SystemRoot", "USERPROFILE", "LOCALAPPDATA", "APPDATA", "TEMP", "TMP"],
  ...[
    "DENO_DIR",
    "DENO_NO_UPDATE_CHECK",
    "DENO_CERT",
    "DENO_TLS_CA_STORE",
    "DENO_NO_PACKAGE_JSON",
    "DENO_V8_FLAGS",
  ],
  ...[
    "NODE_EXTRA_CA_CERTS",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NPM_CONFIG_REGISTRY",
    "JSR_URL",
    "DENO_COVERAGE_DIR",
  ],
  ...["HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"],
  ...["OTEL_DENO", "OTEL_DENO_CONSOLE", "OTEL_DENO_METRICS", "OTEL_DENO_TRACING"],
  ...["OTEL_RESOURCE_ATTRIBUTES", "OTEL_SERVICE_NAME", "OTEL_PROPAGATORS", "OTEL_METRIC_EXPORT_INTERVAL"],
  ...["OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG"],
  ...["", "TRACES_", "METRICS_", "LOGS_"].flatMap((signal) =>
    ["ENDPOINT", "PROTOCOL", "HEADERS", "TIMEOUT", "COMPRESSION"].map((of) =>
      `OTEL_EXPORTER_OTLP_${signal}${of}`
    )
  ),
  ...["CERTIFICATE", "CLIENT_CERTIFICATE", "CLIENT_KEY"].map((of) => `OTEL_EXPORTER_OTLP_${of}`),
];

/**
 * Starts the server's process with what it is handed over, and an environment without keys. `environment` is added to that.
 * It can send messages to this process.
 */
export function startWith(
  handed: HandedOver,
  { args, environment }: {
    readonly args: readonly string[];
    readonly environment: Readonly<Record<string, string>>;
  },
): ChildProcess {
  const kept = DENO_VARIABLES.flatMap((name) => {
    const value = Deno.env.get(name);
    return value === undefined ? [] : [[name, value] as const];
  });
  const child = spawn(Deno.execPath(), [...args], {
    env: { ...Object.fromEntries(kept), ...environment, [HANDED_OVER]: "stdin" },
    stdio: ["pipe", "inherit", "inherit", "ipc"],
  });
  // One that ended before it has heard all says itself why.
  child.stdin!.on("error", () => {});
  child.stdin!.end(JSON.stringify(handed));
  return child;
}

/** What this process was handed over; without a start command its own environment, and no sandbox. */
export async function handedOver(): Promise<HandedOver> {
  if (Deno.env.get(HANDED_OVER) === "stdin") return await new Response(Deno.stdin.readable).json();
  return {
    // One by one: the server may read no others.
    environment: Object.fromEntries(VARIABLES.map((name) => [name, Deno.env.get(name)])),
    sandbox: { why: "the server's process wasn't started by start.ts, which makes it" },
  };
}
