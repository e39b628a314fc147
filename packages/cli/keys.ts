/**
 * Manages keys of the running server: `deno task keys add NAME`.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import type { Caller } from "@tare/session";
import { connect } from "./agent_client.ts";
import { KEY_NOTE, knownWords, option, optionOr, runCommandLine, SERVER_OPTIONS } from "./command_line.ts";

const ACTS: Readonly<Record<string, number>> = { add: 1, list: 0, remove: 1 };

const ROUTES: readonly Caller["routes"][number][] = ["gateway", "agent", "approve", "metrics"];

function numberOf(
  text: string,
  { flag, form, right }: { readonly flag: string; readonly form: RegExp; readonly right: string },
) {
  const number = Number(form.exec(text)?.[1]);
  if (number > 0) return number;
  throw new RangeError(`Cannot add a key: --${flag} is ${JSON.stringify(text)}. Use ${right}.`);
}

await runCommandLine({
  call: "deno task keys",
  summary: "Adds, lists and removes keys of the running server",
  usage: [
    "add NAME [--budget $5/day] [--routes gateway,agent] [--rate 60/min]",
    ...["list", "remove NAME"],
  ],
  details: `  add     Creates a key and prints its secret, once
  list    Prints each key's routes, limits and cost today
  remove  Revokes a key; its sessions are kept`,
  options: {
    budget: option("$N/day", "Highest cost of its sessions per day (UTC), in US dollars. Default: no limit"),
    routes: optionOr(
      "gateway,agent",
      "LIST",
      "gateway: model calls of other agents; agent: sessions of Tare's agent; approve: answering approvals of\n" +
        "its own sessions; metrics: reading the server's metrics.",
    ),
    rate: option("N/min", "Rate limit, in requests per minute. Default: no limit"),
    ...SERVER_OPTIONS,
  },
  notes: KEY_NOTE,
  hasWords: true,
}, async ({ values, positionals: [act = "", ...names] }) => {
  if (ACTS[act] !== names.length) return "usage";
  const [name = ""] = names;
  const { client } = await connect(values.url);
  switch (act) {
    case "add": {
      const { budget, rate, routes } = values;
      const secret = await client.addKey({
        name,
        routes: knownWords(routes, { known: ROUTES, what: "Cannot add a key: --routes" }),
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
      // The only output on stdout, so that it can be piped.
      console.log(secret);
      console.error(`This is the key of ${name}. It is not stored: if it is lost, create another one.`);
      break;
    }
    case "list": {
      const keys = await client.keys();
      if (keys.length === 0) {
        console.log("There are no keys except the owner's. tare keys add NAME creates one.");
      }
      for (const key of keys) {
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
      await client.removeKey(name);
      console.log(`Removed the key of ${name}. Requests with it are refused from now on.`);
      break;
  }
  return 0;
});
