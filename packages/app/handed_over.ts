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
 * What the start command hands over to the server's process, by its standard input: an environment can be read by every
 * program of the same user as long as the process runs, and holds keys.
 */
export interface HandedOver {
  /** The variables that the settings are read from. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** The sandbox that commands run in, or why there is none. */
  readonly sandbox?: Sandbox | { readonly why: string } | undefined;
  /** Where stands what sessions are told of their workplace. Default: of the workspace alone, as far as may be read. */
  readonly places?: InstructionPlaces;
  /** Port on which the folder's server listened before. */
  readonly lastPort?: number | undefined;
  /** Most connections at once: the server's process can't find out how many descriptors it has. */
  readonly maxConnections?: number;
}

/** The one variable that says that something is handed over. */
const HANDED_OVER = "TARE_HANDED_OVER";

/**
 * Variables of Deno and its system: the cache, access to the network, exported telemetry. The server's process gets only
 * these.
 */
const DENO_VARIABLES = new RegExp(
  "^(PATH|HOME|XDG_CACHE_HOME|TMPDIR|LANG|NO_COLOR|TZ" +
    "|SystemRoot|USERPROFILE|LOCALAPPDATA|APPDATA|TEMP|TMP" +
    "|DENO_(DIR|NO_UPDATE_CHECK|CERT|TLS_CA_STORE|NO_PACKAGE_JSON|V8_FLAGS|COVERAGE_DIR)" +
    "|NODE_EXTRA_CA_CERTS|SSL_CERT_FILE|SSL_CERT_DIR|NPM_CONFIG_REGISTRY|JSR_URL" +
    "|HTTPS?_PROXY|NO_PROXY|https?_proxy|no_proxy|OTEL_(?!INSTRUMENTATION_)\\w+)$",
);

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
  const passed = Object.entries(Deno.env.toObject()).filter(([name]) => DENO_VARIABLES.test(name));
  const child = spawn(Deno.execPath(), [...args], {
    env: { ...Object.fromEntries(passed), ...environment, [HANDED_OVER]: "stdin" },
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
  };
}

/**
 * How the server's process uses memory: a small young generation, and an old one that grows by half before it is
 * looked through. What the server allocates is mostly short-lived text, and V8 would keep room for more and more of it:
 * three times what is in use, never given back.
 */
export const V8_FLAGS = "--v8-flags=--max-semi-space-size=8,--heap-growing-percent=50";

/**
 * Variables that the providers' SDKs look for, and would take headers from, and one that Node's way to start programs
 * would hand on to them.
 */
const SOUGHT_VARIABLES: readonly string[] = [
  "OPENAI_CUSTOM_HEADERS",
  "ANTHROPIC_CUSTOM_HEADERS",
  "NODE_V8_COVERAGE",
];

/** Variables that a database's client looks for: the address says it all. */
const DATABASE_VARIABLES: readonly string[] = ["PG*", "NODE_PG_FORCE_NATIVE", "USER", "USERNAME"];

/**
 * The permissions that a server with these settings needs, as flags for `deno run`, and no others: to read and write
 * its workspace and data folder, to read the files of its profile, its rules, its instructions and its MCP servers, to
 * listen where it is told and to reach its providers, such servers, its database, its bucket, the sandbox's proxy and the
 * hosts that its webhooks tell (the whole network, where these may tell any), to read the variables that the settings come from. Where the system ends all
 * that is in a sandbox, it may run what makes sandboxes and nothing else. Without one running programs can't be
 * narrowed: the shell tool and MCP servers may be any, and ending all that a command started takes the whole permission.
 */
export function serverPermissions(
  settings: Settings,
  { sandbox = { why: "" }, places, lastPort = USUAL_PORT }: Partial<
    Pick<HandedOver, "sandbox" | "places" | "lastPort">
  > = {},
): string[] {
  const { host, port, workspace, data, baseUrl, messagesUrl, profile, instructions, mcp, approvals } =
    settings;
  const { database, webhookHosts, archive } = settings;
  const folders = [workspace, data].flatMap((folder) => withRealPath(resolve(folder))).map(escapeCommas);
  const told = places ? filesOf(places) : [];
  const named = [instructions?.path, profile?.path, mcp?.path, approvals?.path, ...database?.files ?? []];
  const files = [...named.filter((path) => path !== undefined), ...told]
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
    `--allow-env=${[...VARIABLES, HANDED_OVER].join(",")}`,
    `--ignore-env=${[...SOUGHT_VARIABLES, ...(database ? DATABASE_VARIABLES : [])].join(",")}`,
    "by" in sandbox && sandbox.by === "bubblewrap"
      ? `--allow-run=${escapeCommas(sandbox.program)}`
      : "--allow-run",
  ];
}

/** A folder, and where it really is if a link leads there: the tools go by that. */
function withRealPath(folder: string): string[] {
  return [...new Set([folder, realPath(folder)])];
}

/** Commas stand between paths; a doubled one is part of a path. */
function escapeCommas(path: string): string {
  return path.replaceAll(",", ",,");
}

function hostAndPort({ hostname, port, protocol }: URL): string {
  return `${hostname}:${port || (protocol === "https:" ? 443 : 80)}`;
}
