import { type ChildProcess, spawn } from "node:child_process";
import { resolve } from "@std/path";
import { USUAL_PORT } from "@tare/cli/parts";
import { s3Address } from "@tare/session/internal";
import type { Sandbox } from "@tare/tools/sandbox";
import { DEFAULT_PROVIDER } from "@tare/planner/internal";
import { hasChatProvider } from "./providers.ts";
import { filesOf, type InstructionPlaces, realPath } from "@tare/tools/internal/instructions";
import { type Settings, VARIABLES } from "./settings/settings.ts";

/**
 * Data passed to the server's process by standard input, because other programs of the user can read its environment.
 */
export interface Bootstrap {
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly sandbox?: Sandbox | { readonly why: string } | undefined;
  /** Locations of instruction files. Default: the workspace. */
  readonly places?: InstructionPlaces;
  readonly lastPort?: number | undefined;
  /** Whether the server outlives the command that started it. Default: false. */
  readonly runsAlone?: boolean;
  /** Variables of `environment` that settings files set. Default: none. */
  readonly stored?: readonly string[];
  /** Set because the server's process can't read its descriptor limit. */
  readonly maxConnections?: number;
}

const BOOTSTRAP_VARIABLE = "TARE_BOOTSTRAP";

/** Variables for Deno, the system, network access and telemetry, which the server's process receives. */
const DENO_VARIABLES = new RegExp(
  "^(PATH|HOME|XDG_CACHE_HOME|TMPDIR|LANG|NO_COLOR|TZ" +
    "|SystemRoot|USERPROFILE|LOCALAPPDATA|APPDATA|TEMP|TMP" +
    "|DENO_(DIR|NO_UPDATE_CHECK|CERT|TLS_CA_STORE|NO_PACKAGE_JSON|V8_FLAGS|COVERAGE_DIR)" +
    "|NODE_EXTRA_CA_CERTS|SSL_CERT_FILE|SSL_CERT_DIR|NPM_CONFIG_REGISTRY|JSR_URL" +
    "|HTTPS?_PROXY|NO_PROXY|https?_proxy|no_proxy|OTEL_(?!INSTRUMENTATION_)\\w+)$",
);

/** Starts the server's process with an IPC channel and an environment without keys. */
export function startWith(
  bootstrap: Bootstrap,
  { args, environment }: {
    readonly args: readonly string[];
    readonly environment: Readonly<Record<string, string>>;
  },
): ChildProcess {
  const passed = Object.entries(Deno.env.toObject()).filter(([name]) => DENO_VARIABLES.test(name));
  const child = spawn(Deno.execPath(), [...args], {
    env: { ...Object.fromEntries(passed), ...environment, [BOOTSTRAP_VARIABLE]: "stdin" },
    stdio: ["pipe", "inherit", "inherit", "ipc"],
  });
  // A process that ends early reports the reason itself.
  child.stdin!.on("error", () => {});
  child.stdin!.end(JSON.stringify(bootstrap));
  return child;
}

/** Returns the passed data; without a start command this process's own environment. */
export async function readBootstrap(): Promise<Bootstrap> {
  if (Deno.env.get(BOOTSTRAP_VARIABLE) === "stdin") return await new Response(Deno.stdin.readable).json();
  return {
    // One by one, because of the permissions.
    environment: Object.fromEntries(VARIABLES.map((name) => [name, Deno.env.get(name)])),
  };
}

/**
 * A small young generation, and an old one that grows by half: by default V8 would retain three times the used memory
 * for short-lived text.
 */
export const V8_FLAGS = "--v8-flags=--max-semi-space-size=8,--heap-growing-percent=50";

/** Variables that the SDKs and `node:child_process` would read. */
const SOUGHT_VARIABLES: readonly string[] = [
  "OPENAI_CUSTOM_HEADERS",
  "ANTHROPIC_CUSTOM_HEADERS",
  "NODE_V8_COVERAGE",
];

/** Variables that the database client would read. */
const DATABASE_VARIABLES: readonly string[] = ["PG*", "NODE_PG_FORCE_NATIVE", "USER", "USERNAME"];

/**
 * Returns the minimal permissions of a server, as flags for `deno run`. With bubblewrap it may run only that program;
 * otherwise every program, since commands and MCP servers can be any, and stopping their processes requires the whole
 * permission.
 */
export function serverPermissions(
  settings: Settings,
  { sandbox = { why: "" }, places, lastPort = USUAL_PORT }: Partial<
    Pick<Bootstrap, "sandbox" | "places" | "lastPort">
  > = {},
): string[] {
  const { host, port, workspace, data, baseUrl, messagesUrl, profile, instructions, mcp, approvals } =
    settings;
  const { database, webhookHosts, archive } = settings;
  const folders = [workspace, data].flatMap((folder) => withRealPath(resolve(folder))).map(escapeCommas);
  const described = places ? filesOf(places) : [];
  const named = [instructions?.path, profile?.path, mcp?.path, approvals?.path, ...database?.files ?? []];
  const files = [...named.filter((path) => path !== undefined), ...described]
    .map((path) => escapeCommas(resolve(path)));
  const proxy = "by" in sandbox && sandbox.proxy ? [sandbox.proxy.socket] : [];
  const providers = [
    ...(hasChatProvider(settings) ? [hostAndPort(new URL(baseUrl ?? DEFAULT_PROVIDER.baseURL))] : []),
    hostAndPort(new URL(messagesUrl)),
    ...mcp?.servers.flatMap((server) => server.by === "http" ? [hostAndPort(new URL(server.url))] : []) ?? [],
    ...(database === undefined
      ? []
      : ["host" in database.at ? database.at.host : `unix:${database.at.socket}`]),
    ...(archive ? [hostAndPort(s3Address(archive))] : []),
    ...proxy.map((socket) => `unix:${socket}`),
  ];
  const sockets = [...database && "socket" in database.at ? [database.at.socket] : [], ...proxy].map(
    escapeCommas,
  );
  const ports = port === undefined ? new Set([lastPort, USUAL_PORT, 0]) : [port];
  const own = [...ports].map((port) => `${host.includes(":") ? `[${host}]` : host}:${port}`);
  return [
    "--no-prompt",
    webhookHosts.includes("*")
      ? "--allow-net"
      : `--allow-net=${[...own, ...providers, ...webhookHosts].join(",")}`,
    `--allow-read=${[...folders, ...files, ...sockets].join(",")}`,
    `--allow-write=${[...folders, ...sockets].join(",")}`,
    `--allow-env=${[...VARIABLES, BOOTSTRAP_VARIABLE].join(",")}`,
    `--ignore-env=${[...SOUGHT_VARIABLES, ...(database ? DATABASE_VARIABLES : [])].join(",")}`,
    "by" in sandbox && sandbox.by === "bubblewrap"
      ? `--allow-run=${escapeCommas(sandbox.program)}`
      : "--allow-run",
  ];
}

function withRealPath(folder: string): string[] {
  return [...new Set([folder, realPath(folder)])];
}

function escapeCommas(path: string): string {
  return path.replaceAll(",", ",,");
}

function hostAndPort({ hostname, port, protocol }: URL): string {
  return `${hostname}:${port || (protocol === "https:" ? 443 : 80)}`;
}
