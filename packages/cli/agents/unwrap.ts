/**
 * Restores agents' configuration from before `tare wrap`: `tare unwrap`.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { dirname, join } from "@std/path";
import { flag, runCommandLine } from "../command_line.ts";
import { dataFolders, runningIn } from "../server/noted_server.ts";
import { printableText } from "../terminal/printable_text.ts";
import type { Environment } from "./agents.ts";
import { removeEmpty, unwrap, wrappedAgents } from "./wrapping.ts";
import { confirmed, writeChange } from "./write_change.ts";

async function treatData(environment: Environment, { remove, yes }: Record<"remove" | "yes", boolean>) {
  const folders = dataFolders(environment);
  if (folders.length === 0) return;
  const say = (line: string) => console.log(printableText(line));
  say(
    remove
      ? "Sessions, their costs and evicted content:"
      : "Sessions and costs are kept; tare unwrap --data removes them:",
  );
  for (const folder of folders) say(`  ${folder}  ${(bytesIn(folder) / 1e6).toFixed(1)} MB`);
  if (!remove) return;
  for (const folder of folders) {
    const server = await runningIn(folder);
    if (server) throw new Error(`Cannot remove ${folder}: its server runs at ${server.url}. Stop it first.`);
  }
  if (!confirmed(yes, "Remove them?")) return say("Nothing was removed.");
  for (const folder of folders) Deno.removeSync(folder, { recursive: true });
  removeEmpty([dirname(folders[0]!)]);
  say("Removed.");
}

function bytesIn(folder: string): number {
  return [...Deno.readDirSync(folder)].reduce((sum, { name, isDirectory }) => {
    const path = join(folder, name);
    return sum + (isDirectory ? bytesIn(path) : Deno.lstatSync(path).size);
  }, 0);
}

await runCommandLine({
  call: "tare unwrap",
  summary: "Restores agents' configuration from before tare wrap, byte for byte",
  usage: ["[AGENT] [--yes]", "--data [--yes]"],
  details: "AGENT: default: all wrapped agents",
  options: {
    data: flag(
      "Also remove the data of this machine's servers: sessions, their costs and evicted content",
    ),
    yes: flag("Write without confirmation. The change is always printed"),
  },
  notes: "In a file that was changed since, only Tare's entries are removed.",
  hasWords: true,
}, async ({ values: { yes = false, data = false }, positionals }) => {
  if (data && positionals.length > 0) {
    throw new Error("Cannot remove the data of one agent: --data removes all data. Omit AGENT.");
  }
  const environment = Deno.env.toObject();
  const names = positionals.length > 0 ? positionals : wrappedAgents(environment);
  if (names.length === 0) console.log("No agent is wrapped.");
  for (const name of names) {
    const isDone = writeChange(unwrap(name, environment), { yes });
    console.log(isDone ? `${name} no longer uses Tare.` : "Nothing was written.");
  }
  if (wrappedAgents(environment).length === 0) await treatData(environment, { remove: data, yes });
});
