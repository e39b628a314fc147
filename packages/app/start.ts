/**
 * Starts the agent server with the permissions that its settings need and no others: `deno task start`.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { fromFileUrl, resolve } from "@std/path";
import {
  CLIENT_KEYS,
  lastPortIn,
  launchers,
  printableText,
  type StoredVariables,
  whenLeft,
  withoutKeys,
  withSettingsFiles,
} from "@tare/cli/parts";
import { serverPermissions, startWith, V8_FLAGS } from "./bootstrap.ts";
import { usualMaxConnections } from "./listen.ts";
import { findPlaces } from "@tare/tools/internal/instructions";
import { serverSandbox } from "./server_sandbox.ts";
import {
  readSettings,
  type Settings,
  settingsFiles,
  settingsHelp,
  strangeVariables,
  VARIABLES,
} from "./settings/settings.ts";
import { supervise } from "./supervise.ts";

/** Set by a parent process that exits while the server continues. */
const STAYS = "--stays";
const args = Deno.args.filter((arg) => arg !== STAYS && arg !== CLIENT_KEYS.flag);

if (args.includes("--help") || args.includes("-h")) {
  console.log(settingsHelp({ all: args.includes("all") }));
  Deno.exit(0);
}

const variables = Object.fromEntries(VARIABLES.map((name) => [name, Deno.env.get(name)]));

function settings(): { readonly given: Settings; readonly files: readonly StoredVariables[] } {
  try {
    const all = settingsFiles(args, variables);
    const files = Deno.args.includes(CLIENT_KEYS.flag) ? withoutKeys(all) : all;
    return { given: readSettings(args, variables, files), files };
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    console.error(printableText(error.message));
    Deno.exit(1);
  }
}

/**
 * Returns OpenTelemetry defaults: a unique service instance, no console lines, and a short timeout for collectors that
 * hang.
 */
function exporterEnvironment(): Record<string, string> {
  if (!Deno.env.get("OTEL_DENO")) return {};
  const given = (name: string) => Deno.env.get(name) || undefined;
  const attributes = given("OTEL_RESOURCE_ATTRIBUTES") ?? "";
  const more = [
    ...(given("OTEL_SERVICE_NAME") || attributes.includes("service.name=") ? [] : ["service.name=tare"]),
    ...(attributes.includes("service.instance.id=") ? [] : [`service.instance.id=${crypto.randomUUID()}`]),
  ];
  return {
    OTEL_RESOURCE_ATTRIBUTES: [...(attributes ? [attributes] : []), ...more].join(","),
    OTEL_DENO_CONSOLE: given("OTEL_DENO_CONSOLE") ?? "ignore",
    OTEL_EXPORTER_OTLP_TIMEOUT: given("OTEL_EXPORTER_OTLP_TIMEOUT") ?? "1000",
  };
}

/** Creates the link, and the data folder for the owner only. */
const LINK_DESCRIPTORS =
  'umask 077; mkdir -p "$1" && { test -L "$1/fd" || ln -s /proc/self/fd "$1/fd"; } 2>/dev/null || true';

/**
 * Lets the server's process list its open files through a link in the data folder: it verifies with them that no path
 * leads out of the workspace. Deno denies access to /proc.
 */
async function linkDescriptors(data: string): Promise<void> {
  if (Deno.build.os !== "linux") return;
  await new Deno.Command("/bin/sh", {
    args: ["-c", LINK_DESCRIPTORS, "sh", resolve(data)],
    ...{ stdin: "null", stdout: "null", stderr: "null" },
  }).output();
}

const { given, files } = settings();
const environment = withSettingsFiles(variables, files);
for (const sentence of strangeVariables(Object.keys(Deno.env.toObject()))) {
  console.error(printableText(sentence));
}
const home = Deno.env.get("HOME");
const sandbox = await serverSandbox(given, { home, temporary: Deno.env.get("TMPDIR") || "/tmp" });
const places = findPlaces(given.workspace, home);
if (given.sandbox === "strict" && "why" in sandbox) {
  console.error(`Cannot start: TARE_SANDBOX is strict, but there is no sandbox, because ${sandbox.why}.`);
  Deno.exit(1);
}
/**
 * Without MCP servers their client isn't installed. `--quiet` suppresses a warning about two configurations with links.
 */
const program = given.mcp
  ? [
    "--quiet",
    "--config",
    new URL("mcp/deno.json", import.meta.url),
    new URL("mcp/main.ts", import.meta.url),
  ]
  : [new URL("main.ts", import.meta.url)];
const paths = program.map((part) => typeof part === "string" ? part : fromFileUrl(part));
const maxConnections = await usualMaxConnections();
await linkDescriptors(given.data);
const { code, end } = supervise({
  start: () => {
    const stored = Object.keys(environment).filter((name) => environment[name] && !variables[name]);
    const runsAlone = Deno.args.includes(STAYS);
    const handed = { sandbox, places, maxConnections, lastPort: lastPortIn(given.data), runsAlone, stored };
    return startWith({ environment, ...handed }, {
      args: [
        ...["run", "--frozen", V8_FLAGS, ...serverPermissions(given, handed)],
        ...paths,
        ...args,
      ],
      environment: exporterEnvironment(),
    });
  },
  log: console.error,
});

for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
  Deno.addSignalListener(signal, () => end(signal));
}
if (!Deno.args.includes(STAYS)) launchers().then((pids) => whenLeft(() => end("SIGTERM"), pids));
Deno.exit(await code);
