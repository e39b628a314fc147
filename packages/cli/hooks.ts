/**
 * Manages webhooks: `deno task hooks add URL`.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import type { ResponseOf } from "../server/client.ts";
import { connect } from "./agent_client.ts";
import { KEY_NOTE, knownWords, optionOr, runCommandLine, SERVER_OPTIONS } from "./command_line.ts";
import { counted } from "@tare/server/internal/format";
import { printableText } from "./terminal/printable_text.ts";

type Webhook = ResponseOf<"GET /webhooks">["webhooks"][number];
type Delivery = ResponseOf<"GET /webhooks/{webhook}/deliveries">["deliveries"][number];

const ACTS: Readonly<Record<string, number>> = {
  ...{ add: 1, list: 0, enable: 1, disable: 1, rotate: 1, remove: 1, deliveries: 1, redeliver: 2 },
};

const TYPES: readonly Webhook["types"][number][] = ["turn.ended", "approval.requested"];

function lineOf({ id, url, types, key, failingSince, disabled }: Webhook): string {
  const state = disabled
    ? `disabled (${disabled.reason}) since ${disabled.at}`
    : failingSince === undefined
    ? "delivering"
    : `failing since ${failingSince}`;
  return [id, url, types.join(","), ...(key === undefined ? [] : [`key ${key}`]), state].join("  ");
}

function deliveryLine({ id, type, session, createdAt, status, nextAttemptAt, attempts }: Delivery): string {
  const last = attempts.at(-1);
  const failure = last && (last.status ?? last.error);
  return [
    ...[createdAt, id, type, session ?? "", status, counted(attempts.length, "attempt")],
    ...(failure === undefined ? [] : [`last: ${failure}`]),
    ...(nextAttemptAt === undefined ? [] : [`next attempt at ${nextAttemptAt}`]),
  ].join("  ");
}

await runCommandLine({
  call: "deno task hooks",
  summary: "Manages webhooks, which report the end of turns and pending approvals (docs/operation.md)",
  usage: [
    ...["add URL [--types turn.ended,approval.requested]", "list", "enable ID", "disable ID", "rotate ID"],
    ...["remove ID", "deliveries ID", "redeliver ID DELIVERY"],
  ],
  details: `  add         Creates a webhook and prints its secret, once
  list        Prints each webhook with its state
  enable      Resumes deliveries, waiting ones included; disable stops them
  rotate      Prints a new secret; the old one also signs for a day
  remove      Deletes the webhook
  deliveries  Lists deliveries with their status
  redeliver   Repeats a delivery`,
  options: { types: optionOr("turn.ended", "LIST", "Events to report."), ...SERVER_OPTIONS },
  notes: `The server's TARE_WEBHOOK_HOSTS lists the allowed hosts. ${KEY_NOTE}`,
  hasWords: true,
}, async ({ values, positionals: [act = "", ...given] }) => {
  if (ACTS[act] !== given.length) return "usage";
  const { api } = await connect(values.url);
  const [first = "", delivery = ""] = given;
  const path = { webhook: first };
  switch (act) {
    case "add": {
      const body = {
        url: first,
        types: knownWords(values.types, { known: TYPES, what: "Cannot add a webhook: --types" }),
      };
      const { webhook, secret } = await api.json("POST /webhooks", { body });
      // The only output on stdout, so that it can be piped.
      console.log(secret);
      console.error(
        printableText(
          `This is the secret of ${webhook.id}, which reports to ${webhook.url}. Store it: it is not shown again.`,
        ),
      );
      break;
    }
    case "list":
      for (const webhook of (await api.json("GET /webhooks")).webhooks) {
        console.log(printableText(lineOf(webhook)));
      }
      break;
    case "enable":
    case "disable": {
      const body = { isEnabled: act === "enable" };
      console.log(printableText(lineOf(await api.json("POST /webhooks/{webhook}", { path, body }))));
      break;
    }
    case "rotate":
      console.log((await api.json("POST /webhooks/{webhook}/secret", { path })).secret);
      break;
    case "remove":
      await (await api.send("DELETE /webhooks/{webhook}", { path })).body?.cancel();
      console.log(`Removed webhook ${first}.`);
      break;
    case "deliveries": {
      const { deliveries } = await api.json("GET /webhooks/{webhook}/deliveries", { path });
      for (const one of deliveries) console.log(printableText(deliveryLine(one)));
      break;
    }
    case "redeliver": {
      const again = { path: { webhook: first, delivery } };
      const sent = await api.json("POST /webhooks/{webhook}/deliveries/{delivery}", again);
      console.log(printableText(deliveryLine(sent)));
      break;
    }
  }
  return 0;
});
