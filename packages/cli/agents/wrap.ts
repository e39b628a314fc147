/**
 * Writes into an agent's own configuration that it asks a server of Tare's: `tare wrap AGENT`.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { DEFAULT_PROVIDER, MESSAGES_PROVIDER } from "@tare/planner/internal";
import { resolve } from "@std/path";
import { agentClient, serverAddress, statedAddress } from "../agent_client.ts";
import { commandLine } from "../command_line.ts";
import { runningServer, USUAL_PORT } from "../server/noted_server.ts";
import { shownText } from "../terminal/shown_text.ts";
import { AGENTS } from "./agents.ts";
import { behind, PASSES_TO } from "./chosen_agent.ts";
import { ownAddresses } from "./own_addresses.ts";
import { assertUnwrapped, fileText, wrap } from "./wrapping.ts";
import { writeChange } from "./write_change.ts";

const WRITABLE = Object.entries(AGENTS).filter(([, { file }]) => file);

const HELP = `Writes into an agent's own configuration that it asks Tare, for each start of it from now on:

  deno task wrap AGENT [--yes] [--url URL]

${WRITABLE.map(([name, { title }]) => `  ${name.padEnd(10)}${title}`).join("\n")}

  --yes      Write without asking. What changes is shown in any case
  --url URL  The server. Default: by TARE_HOST and TARE_PORT, the one of this folder, or http://127.0.0.1:${USUAL_PORT}

tare unwrap AGENT makes it what it was, byte for byte. tare run AGENT needs no such thing.`;

const environment = Deno.env.toObject();

/** The server that is to be asked, and what it passes on, as far as one runs. */
async function server(given: string | undefined) {
  const stated = given ?? statedAddress(environment.TARE_HOST, environment.TARE_PORT);
  const isKnown = stated !== undefined || await runningServer(environment) !== undefined;
  const address = isKnown
    ? await serverAddress((name) => environment[name], stated)
    : { url: `http://127.0.0.1:${USUAL_PORT}` };
  const runs = await agentClient(address.url, address.token).agent().catch(() => undefined);
  return { url: address.url.replace(/\/+$/, ""), runs };
}

async function main(): Promise<void> {
  const { values: { yes = false, url: given, help }, positionals: [name, ...more] } = commandLine({
    allowPositionals: true,
    options: { yes: { type: "boolean" }, url: { type: "string" }, help: { type: "boolean", short: "h" } },
  });
  if (help || name === undefined || more.length > 0) {
    console.log(HELP);
    Deno.exit(help ? 0 : 2);
  }
  const entry = Object.hasOwn(AGENTS, name) ? AGENTS[name] : undefined;
  const file = entry?.file?.(environment);
  if (!entry || !file) {
    const why = entry
      ? `${entry.title} has no file for it; tare run ${name} starts it behind Tare`
      : `there are ${WRITABLE.map(([name]) => name).join(", ")}`;
    throw new Error(`Cannot wrap ${name}: ${why}.`);
  }
  assertUnwrapped(name, environment);
  const { url, runs } = await server(given);
  const login = entry.loginProvider?.(environment);
  const folder = resolve(environment.INIT_CWD || ".", environment.TARE_WORKSPACE || ".");
  const own = ownAddresses(entry, { environment, folder, read: fileText });
  const addressOf = (wanted: string) => own.find(({ protocol }) => protocol === wanted)?.address;
  // As a server is that is started as is said below.
  const usual = {
    chat: login ?? addressOf("chat") ?? DEFAULT_PROVIDER.baseURL,
    messages: addressOf("messages")?.replace(/(\/v1)?\/*$/, "") ?? MESSAGES_PROVIDER.baseURL,
  };
  const at = behind(entry, { url, login, passesOn: runs?.passesOn ?? usual, own });
  if (!writeChange(wrap(name, { file, behind: at, environment }), { yes })) {
    console.log("Nothing was written.");
    return;
  }
  const { port } = new URL(url);
  const start = [
    ...(entry.needs === "messages" || at.chat === undefined ? [] : [`${PASSES_TO.chat}=${at.chat}`]),
    ...(entry.needs === "chat" || at.messages === MESSAGES_PROVIDER.baseURL
      ? []
      : [`${PASSES_TO.messages}=${at.messages}`]),
    ...(port === String(USUAL_PORT) ? [] : [`TARE_PORT=${port}`]),
    "tare start",
  ].join(" ");
  console.log(shownText([
    `${entry.title} asks ${url} from now on; tare unwrap ${name} undoes it.`,
    runs ? `It has to run whenever ${entry.title} does: ${start}` : `Nothing listens there yet: ${start}`,
  ].join("\n")));
}

try {
  await main();
  Deno.exit(0);
} catch (error) {
  console.error(shownText((error as Error).message));
  Deno.exit(1);
}
