/**
 * Opens the server's page in a browser, signed in: `tare page`.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { join } from "@std/path";
import { serverAddress } from "./agent_client.ts";
import { KEY_NOTE, runCommandLine, SERVER_OPTIONS } from "./command_line.ts";
import { runningServer } from "./server/noted_server.ts";
import { printableText } from "./terminal/printable_text.ts";

const PAGE_FILE = "page.html";

const OPENERS: Readonly<Partial<Record<typeof Deno.build.os, readonly string[]>>> = {
  darwin: ["open"],
  windows: ["cmd", "/c", "start", ""],
  linux: ["xdg-open"],
};

/** Whether a browser can be opened here. */
function hasDesktop(): boolean {
  if (!Deno.stdout.isTerminal()) return false;
  return Deno.build.os !== "linux" || Boolean(Deno.env.get("DISPLAY") || Deno.env.get("WAYLAND_DISPLAY"));
}

/** Opens an address by a private file that redirects to it: other users can read a command line, and the key in it. */
async function open(address: string, data: string): Promise<boolean> {
  const [program, ...args] = OPENERS[Deno.build.os] ?? [];
  if (program === undefined || !hasDesktop()) return false;
  const path = join(data, PAGE_FILE);
  const text = `<!doctype html><meta http-equiv="refresh" content="0; url=${address}">`;
  await Deno.writeTextFile(path, text, { mode: 0o600 });
  try {
    const process = new Deno.Command(program, {
      args: [...args, path],
      ...{ stdin: "null", stdout: "null", stderr: "null" },
    }).spawn();
    return (await process.status).success;
  } catch {
    return false;
  }
}

await runCommandLine({
  call: "tare page",
  summary: "Opens the page of this folder's server in the browser, signed in, and prints its address",
  options: SERVER_OPTIONS,
  notes: `The address contains the owner's key: do not share it. ${KEY_NOTE}`,
}, async ({ values }) => {
  const environment = Deno.env.toObject();
  const { url, token } = await serverAddress((name) => environment[name], values.url);
  if (token === undefined) {
    throw new Error("Cannot print the address: the owner's key is not on this machine. Set TARE_TOKEN.");
  }
  const address = `${url}/#key=${token}`;
  const found = values.url === undefined ? await runningServer(environment) : undefined;
  const isOpened = found !== undefined && await open(address, found.data);
  console.log(printableText(isOpened ? `Opened ${address}` : address));
});
