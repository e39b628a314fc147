/**
 * Configures an agent to use Tare as its gateway: `tare wrap AGENT`.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { DEFAULT_PROVIDER, MESSAGES_PROVIDER } from "@tare/planner/internal";
import { agentClient, serverAddress, statedAddress } from "../agent_client.ts";
import { flag, option, runCommandLine } from "../command_line.ts";
import { runningServer, USUAL_PORT } from "../server/noted_server.ts";
import { printableText } from "../terminal/printable_text.ts";
import { AGENTS } from "./agents.ts";
import { gatewayAddresses, knownAgent, PASSES_TO } from "./chosen_agent.ts";
import { ownProviders } from "./own_providers.ts";
import { assertUnwrapped, fileText, wrap } from "./wrapping.ts";
import { writeChange } from "./write_change.ts";

const WRITABLE = Object.entries(AGENTS).filter(([, { file }]) => file);

const environment = Deno.env.toObject();

async function server(given: string | undefined) {
  const stated = given ?? statedAddress(environment.TARE_HOST, environment.TARE_PORT);
  const isKnown = stated !== undefined || await runningServer(environment) !== undefined;
  const address = isKnown
    ? await serverAddress((name) => environment[name], stated)
    : { url: `http://127.0.0.1:${USUAL_PORT}` };
  const runs = await agentClient(address.url, address.token).agent().catch(() => undefined);
  return { url: address.url.replace(/\/+$/, ""), runs };
}

await runCommandLine({
  call: "deno task wrap",
  summary: "Configures an agent to use Tare as its gateway from now on",
  usage: ["AGENT [--yes] [--url URL]"],
  details: WRITABLE.map(([name, { title }]) => `  ${name.padEnd(10)}${title}`).join("\n"),
  options: {
    yes: flag("Write without confirmation. The change is always printed"),
    url: option(
      "URL",
      `Server address. Default: TARE_HOST and TARE_PORT, this folder's server, or http://127.0.0.1:${USUAL_PORT}`,
    ),
  },
  notes: "tare unwrap AGENT restores the configuration byte for byte. tare run AGENT needs no configuration.",
  hasWords: true,
}, async ({ values: { yes = false, url: given }, positionals: [name, ...more] }) => {
  if (name === undefined || more.length > 0) return "usage";
  const entry = knownAgent(name);
  const file = entry?.file?.(environment);
  if (!entry || !file) {
    const why = entry
      ? `${entry.title} has no suitable configuration file. Use tare run ${name}`
      : `it is not a known agent. Use one of ${WRITABLE.map(([name]) => name).join(", ")}`;
    throw new Error(`Cannot wrap ${name}: ${why}.`);
  }
  assertUnwrapped(name, environment);
  const { url, runs } = await server(given);
  const own = ownProviders(entry, { environment, read: fileText });
  // Defaults of a server that is started as printed below.
  const { chat = DEFAULT_PROVIDER.baseURL, messages = MESSAGES_PROVIDER.baseURL } = own;
  const at = gatewayAddresses(entry, { url, own, forwardsTo: runs?.forwardsTo ?? { chat, messages } });
  if (!writeChange(wrap(name, { file, gateway: at, environment }), { yes })) {
    return console.log("Nothing was written.");
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
  console.log(printableText([
    `${entry.title} uses ${url} from now on; tare unwrap ${name} reverts this.`,
    runs
      ? `This server must run whenever ${entry.title} does: ${start}`
      : `No server runs there yet. Start it: ${start}`,
  ].join("\n")));
});
