/**
 * Gives others keys to the running server, and takes them away: `deno task keys add NAME`.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import type { Asker } from "@tare/session";
import { connect } from "./agent_client.ts";
import { KEY_NOTE, knownWords, option, optionOr, runCommandLine, SERVER_OPTIONS } from "./command_line.ts";

const ACTS: Readonly<Record<string, number>> = { add: 1, list: 0, remove: 1, page: 0 };

const ROUTES: readonly Asker["routes"][number][] = ["gateway", "agent", "approve", "metrics"];

/** Parses an option with a number. @throws {RangeError} if it has another form. */
function numberOf(
  text: string,
  { flag, form, right }: { readonly flag: string; readonly form: RegExp; readonly right: string },
) {
  const number = Number(form.exec(text)?.[1]);
  if (number > 0) return number;
  throw new RangeError(`Cannot add a key: --${flag} is ${JSON.stringify(text)}, and ${right} is wanted.`);
}

await runCommandLine({
  call: "deno task keys",
  summary: "Gives others keys to the running server, and takes them away",
  usage: [
    "add NAME [--budget $5/day] [--routes gateway,agent] [--rate 60/min]",
    ...["list", "remove NAME", "page"],
  ],
  details: `  add     Makes a key and prints its secret, which is shown this once
  list    Says what each is for, and what it has cost today
  remove  Nothing is answered with it any more; its sessions stay
  page    Prints the page's address with the owner's key, which signs in`,
  options: {
    budget: option("$N/day", "Most US dollars that its sessions may cost on a day of UTC. Default: no limit"),
    routes: optionOr(
      "gateway,agent",
      "LIST",
      "gateway: model calls of other agents; agent: sessions of this one; approve: saying what calls in its\n" +
        "own sessions may do; metrics: reading the server's figures.",
    ),
    rate: option("N/min", "Most requests in a minute. Default: no limit"),
    ...SERVER_OPTIONS,
  },
  notes: KEY_NOTE,
  hasWords: true,
}, async ({ values, positionals: [act = "", ...names] }) => {
  if (ACTS[act] !== names.length) return "usage";
  const [name = ""] = names;
  const { url, token, client } = await connect(values.url);
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
      await client.removeKey(name);
      console.log(`Removed the key of ${name}: nothing is answered with it any more.`);
      break;
    case "page":
      if (token === undefined) {
        throw new Error("Cannot show the address: no key of the server's owner is known here.");
      }
      console.log(`${url}/#key=${token}`);
      break;
  }
  return 0;
});
