/**
 * Gives others keys to the running server, and takes them away: `deno task keys add NAME`.
 *
 * @module
 */
// deno-lint-ignore-file no-console

import type { Asker } from "@tare/conversation";
import { agentClient, serverAddress } from "./agent_client.ts";
import { commandLine } from "./command_line.ts";

/** All that a key may be for. */
const ROUTES: readonly Asker["routes"][number][] = ["gateway", "agent", "approve", "metrics"];

const HELP = `Gives others keys to the running server, and takes them away:

  deno task keys add NAME [--budget $5/day] [--routes gateway,agent] [--rate 60/min]
  deno task keys list
  deno task keys remove NAME
  deno task keys page

  add     Makes a key and prints its secret, which is shown this once
  list    Says what each is for, and what it has cost today
  remove  Nothing is answered with it any more; its sessions stay
  page    Prints the page's address with the owner's key, which signs in

  --budget $N/day  Most US dollars that its sessions may cost on a day of UTC. Default: no limit
  --routes LIST    gateway: model calls of other agents; agent: sessions of this one; approve: saying what calls in its
                   own sessions may do; metrics: reading the server's figures. Default: gateway,agent
  --rate N/min     Most requests in a minute. Default: no limit
  --url URL        The server. Default: by TARE_HOST and TARE_PORT, or the one of this folder

The owner's key is TARE_TOKEN, or that in the data folder of the server on this machine.`;

/** What a text says in the form of an option: its number. @throws {RangeError} if it has another form. */
function numberOf(
  text: string,
  { flag, form, right }: { readonly flag: string; readonly form: RegExp; readonly right: string },
) {
  const number = Number(form.exec(text)?.[1]);
  if (number > 0) return number;
  throw new RangeError(`Cannot add a key: --${flag} is ${JSON.stringify(text)}, and ${right} is wanted.`);
}

function routesOf(text: string): Asker["routes"][number][] {
  const routes = text.split(",").map((word) => word.trim());
  const known = ROUTES.filter((route) => routes.includes(route));
  if (known.length === new Set(routes).size) return known;
  const right = ROUTES.join(", ");
  throw new RangeError(
    `Cannot add a key: --routes is ${JSON.stringify(text)}, and some of ${right} are wanted.`,
  );
}

try {
  const { values, positionals: [act, name, ...more] } = commandLine({
    allowPositionals: true,
    options: {
      budget: { type: "string" },
      routes: { type: "string", default: "gateway,agent" },
      rate: { type: "string" },
      url: { type: "string" },
      help: { type: "boolean", short: "h" },
    },
  });
  const { url, token } = await serverAddress((variable) => Deno.env.get(variable), values.url);
  const client = agentClient(url, token);
  const isWhole = more.length === 0 && (act === "add" || act === "remove") === (name !== undefined);
  if (values.help || !isWhole) {
    console.error(HELP);
    Deno.exit(values.help ? 0 : 2);
  }
  switch (act) {
    case "add": {
      const { budget, rate, routes } = values;
      const secret = await client.addKey({
        name: name!,
        routes: routesOf(routes),
        ...(budget !== undefined && {
          budgetUsdPerDay: numberOf(budget, {
            flag: "budget",
            form: /^\$?(\d+(?:\.\d+)?)\/day$/,
            right: "an amount such as $5/day",
          }),
        }),
        ...(rate !== undefined && {
          perMinute: numberOf(rate, { flag: "rate", form: /^(\d+)\/min$/, right: "a number such as 60/min" }),
        }),
      });
      // Alone on standard output, so that it can be piped to where it belongs.
      console.log(secret);
      console.error(`That is the key of ${name}. It is kept nowhere: who loses it needs another one.`);
      break;
    }
    case "list": {
      for (const key of await client.keys()) {
        const { budgetUsdPerDay: budget, perMinute: rate } = key;
        const parts = [
          key.name.padEnd(16),
          key.routes.join(","),
          `$${key.spentUsd.toFixed(4)} today${budget === undefined ? "" : ` of $${budget}`}`,
          ...(rate === undefined ? [] : [`${rate}/min`]),
          `since ${key.createdAt.slice(0, 10)}`,
        ];
        console.log(parts.join("  "));
      }
      break;
    }
    case "remove":
      await client.removeKey(name!);
      console.log(`Removed the key of ${name}: nothing is answered with it any more.`);
      break;
    case "page":
      if (token === undefined) {
        throw new Error("Cannot show the address: no key of the server's owner is known here.");
      }
      console.log(`${url}/#key=${token}`);
      break;
    default:
      console.error(HELP);
      Deno.exit(2);
  }
} catch (error) {
  console.error((error as Error).message);
  Deno.exit(1);
}
