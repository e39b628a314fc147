/**
 * Shows the start of the agent's prompt in a folder: `deno task prompt`.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { printableText, table } from "@tare/cli/parts";
import { contentText } from "@tare/messages";
import { countMessageTokens, countToolTokens } from "@tare/messages/internal";
import { memoryArchive } from "@tare/prune";
import { loadTokenizer } from "@tare/tiktoken";
import { BackgroundCommands } from "@tare/tools/shell";
import { environmentText, findPlaces, inspectEnvironment, realPath } from "@tare/tools/internal/instructions";
import { serverSandbox } from "../server_sandbox.ts";
import { readSettings, settingsFiles, VARIABLES } from "../settings/settings.ts";
import { agentTools } from "../workspace.ts";
import INSTRUCTIONS from "./instructions.md" with { type: "text" };

const HELP = `Shows the start of the agent's prompt in this folder, and the tokens of each part:

  deno task prompt [--workspace FOLDER] [--instructions FILE]

Uses the server's settings, from variables and flags, without a server. Tools of MCP servers aren't counted.`;

try {
  if (Deno.args.includes("--help") || Deno.args.includes("-h")) {
    console.log(HELP);
    Deno.exit(0);
  }
  const environment = Object.fromEntries(VARIABLES.map((name) => [name, Deno.env.get(name)]));
  const settings = readSettings(Deno.args, environment, settingsFiles(Deno.args, environment));
  const { workspace, data: hidden, model, instructions, allowDomains } = settings;
  const home = environment.HOME;
  // Nothing is requested here, whatever hosts are allowed.
  const found = await serverSandbox({ ...settings, allowDomains: [] }, { home, temporary: "/tmp" });
  const sandbox = "by" in found ? found : undefined;
  const places = findPlaces(workspace, home);
  const { tools, shell } = agentTools(settings, {
    ...{ sandbox, places, archive: memoryArchive(), background: new BackgroundCommands() },
    // Nothing is fetched; the definition is that of the server.
    ...(sandbox && allowDomains.length > 0 && { web: { domains: allowDomains, socket: "" } }),
  });
  const described = await inspectEnvironment({ places, hidden: realPath(hidden), shell });
  const first = instructions?.text ?? INSTRUCTIONS.trim();
  const { count } = await loadTokenizer(model === undefined ? {} : { model });
  const system = {
    role: "system",
    content: [first, environmentText(described)].filter(Boolean).join("\n\n"),
  } as const;
  const rows = [
    [instructions?.path ?? "instructions", count(first)] as const,
    ...described.files.map(({ path, text }) => [path, count(text)] as const),
    ...described.skills.map(({ path, text }) => [path, count(text)] as const),
    ["environment", count(described.where)] as const,
    ["whole message", countMessageTokens(system, count)] as const,
    [
      `${tools.length} tools`,
      tools.reduce((sum, { definition }) => sum + countToolTokens(definition, count), 0),
    ] as const,
  ];
  console.log(printableText(contentText(system.content)));
  console.log(
    `\n${
      printableText(
        table(["part", "tokens"], rows.map(([part, tokens]) => [part, tokens.toLocaleString("en")])),
      )
    }`,
  );
} catch (error) {
  if (!(error instanceof RangeError)) throw error;
  console.error(printableText(error.message));
  Deno.exit(1);
}
