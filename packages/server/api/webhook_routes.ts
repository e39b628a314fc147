import type { StoredDelivery } from "@tare/session/internal";
import { type Static, Type } from "typebox";
import { notSupported } from "../http/http_error.ts";
import { json, route } from "../http/route.ts";
import { closed, limitOf, optionalText, text } from "../http/schema.ts";
import type { Deliverer } from "../webhooks/deliverer.ts";
import {
  DISABLED_REASONS,
  valueOf,
  type Webhook,
  WEBHOOK_TYPES,
  type Webhooks,
} from "../webhooks/webhooks.ts";

const TIME = Type.String({ format: "date-time" });

const SETTINGS = {
  url: Type.String({
    maxLength: 2_000,
    description: "Address of the `POST` requests. The server's TARE_WEBHOOK_HOSTS lists the allowed hosts.",
  }),
  types: Type.Array(Type.Enum([...WEBHOOK_TYPES]), {
    minItems: 1,
    uniqueItems: true,
    description:
      "`turn.ended`: a turn has ended, for any reason; `approval.requested`: an approval is pending.",
  }),
};

const SECRET = text(
  "Signing secret, as in https://www.standardwebhooks.com. It is only in this response.",
);

const WEBHOOK = closed(
  {
    id: Type.String(),
    ...SETTINGS,
    key: optionalText(
      "Name of the key that it belongs to, for that key's sessions; absent: the owner's, for all sessions.",
    ),
    createdAt: TIME,
    failingSince: Type.Optional(Type.String({
      format: "date-time",
      description: "Time since all attempts have failed; absent if the newest one succeeded.",
    })),
    disabled: Type.Optional(closed({
      reason: Type.Enum([...DISABLED_REASONS], {
        description:
          "`gone`: the receiver responded with 410; `failing`: all attempts failed for about a day; " +
          "`requested`: disabled on request.",
      }),
      at: TIME,
    }, "WebhookDisabled")),
  },
  "Webhook",
  {
    id: "wh_5f0c1c3e-4f0e-4c8f-9d0a-0d5b0a9f5a11",
    url: "https://hooks.example/tare",
    types: ["turn.ended"],
    createdAt: "2026-01-02T03:04:05.678Z",
  },
);

const DELIVERY = closed({
  id: text("The `webhook-id` of each attempt."),
  type: Type.Enum([...WEBHOOK_TYPES]),
  session: optionalText("Id of its session."),
  createdAt: TIME,
  status: Type.Enum(["waiting", "delivered", "failed"], {
    description: "`failed`: there are no more attempts, unless requested.",
  }),
  nextAttemptAt: Type.Optional(Type.String({
    format: "date-time",
    description:
      "Time of the next attempt of a waiting delivery; if it is being attempted, the time at which " +
      "another server would.",
  })),
  attempts: Type.Array(closed({
    at: TIME,
    status: Type.Optional(Type.Integer({ description: "HTTP status of the receiver." })),
    error: optionalText("Reason why there was no response."),
  }, "DeliveryAttempt")),
}, "WebhookDelivery");

const NONE = { 501: "This server sends no webhooks." };
const NO_WEBHOOK = { 404: "There is no such webhook.", ...NONE };
const BAD_URL = "The URL's host isn't allowed, or the body isn't valid.";

export function webhookRoutes(
  { webhooks, deliverer }: {
    readonly webhooks: Webhooks;
    /** Absent: webhooks are off. */
    readonly deliverer: Pick<Deliverer, "wake"> | undefined;
  },
) {
  const known = () => {
    if (deliverer) return { webhooks, deliverer };
    throw notSupported(
      "Cannot send webhooks: no host is allowed. List allowed hosts in TARE_WEBHOOK_HOSTS.",
    );
  };
  return [
    route({
      method: "GET",
      path: "/webhooks",
      operationId: "listWebhooks",
      summary: "Lists the webhooks of the request's key; the owner sees all.",
      who: "key",
      responses: {
        200: json(
          "The webhooks, the oldest first, without their secrets.",
          closed({ webhooks: Type.Array(WEBHOOK) }, "WebhookList"),
        ),
        ...NONE,
      },
      answer: async ({ caller }) => ({
        json: { webhooks: (await known().webhooks.list(caller)).map(webhookBody) },
      }),
    }),
    route({
      method: "POST",
      path: "/webhooks",
      operationId: "addWebhook",
      summary: "Creates a webhook. Its secret is only in this response.",
      who: "key",
      isSentOnce: true,
      body: closed(SETTINGS, "NewWebhook", {
        url: "https://hooks.example/tare",
        types: ["turn.ended", "approval.requested"],
      }),
      responses: {
        201: json(
          "The webhook, and its secret.",
          closed({ webhook: WEBHOOK, secret: SECRET }, "AddedWebhook"),
        ),
        400: `${BAD_URL} Or there are too many webhooks.`,
        ...NONE,
      },
      async answer({ body, caller }) {
        const made = await known().webhooks.add(body, caller);
        return { status: 201, json: { webhook: webhookBody(made), secret: made.secrets[0]!.secret } };
      },
    }),
    route({
      method: "GET",
      path: "/webhooks/{webhook}",
      operationId: "getWebhook",
      summary: "Returns a webhook and its state.",
      who: "key",
      responses: {
        200: json("The webhook.", WEBHOOK),
        ...NO_WEBHOOK,
      },
      answer: async ({ path: { webhook }, caller }) => ({
        json: webhookBody(await known().webhooks.get(webhook, caller)),
      }),
    }),
    route({
      method: "POST",
      path: "/webhooks/{webhook}",
      operationId: "changeWebhook",
      summary:
        "Changes a webhook, or disables and enables it. Waiting deliveries are sent once it is enabled " +
        "again.",
      who: "key",
      body: closed(
        {
          url: Type.Optional(SETTINGS.url),
          types: Type.Optional(SETTINGS.types),
          isEnabled: Type.Optional(Type.Boolean()),
        },
        "WebhookChange",
        { isEnabled: true },
      ),
      responses: {
        200: json("The changed webhook.", WEBHOOK),
        400: BAD_URL,
        ...NO_WEBHOOK,
      },
      async answer({ path: { webhook }, body, caller }) {
        const { webhooks, deliverer } = known();
        const changed = await webhooks.change(webhook, body, caller);
        deliverer.wake();
        return { json: webhookBody(changed) };
      },
    }),
    route({
      method: "DELETE",
      path: "/webhooks/{webhook}",
      operationId: "removeWebhook",
      summary: "Removes a webhook with its deliveries. Nothing more is sent.",
      who: "key",
      responses: { 204: "The webhook is removed.", ...NO_WEBHOOK },
      async answer({ path: { webhook }, caller }) {
        await known().webhooks.remove(webhook, caller);
        return new Response(null, { status: 204 });
      },
    }),
    route({
      method: "POST",
      path: "/webhooks/{webhook}/secret",
      operationId: "rotateWebhookSecret",
      summary: "Rotates the secret of a webhook. For a day the earlier one signs too.",
      who: "key",
      isSentOnce: true,
      responses: {
        201: json("The new secret.", closed({ secret: SECRET }, "WebhookSecret")),
        ...NO_WEBHOOK,
      },
      answer: async ({ path: { webhook }, caller }) => ({
        status: 201,
        json: { secret: await known().webhooks.rotate(webhook, caller) },
      }),
    }),
    route({
      method: "GET",
      path: "/webhooks/{webhook}/deliveries",
      operationId: "listWebhookDeliveries",
      summary: "Lists the deliveries of a webhook and their results: of the last 30 days, at most 10,000.",
      who: "key",
      query: {
        limit: limitOf(500, 100, "Most deliveries in the response."),
        before: optionalText("Id of a delivery: earlier ones are listed."),
      },
      responses: {
        200: json(
          "The deliveries, the newest first.",
          closed({ deliveries: Type.Array(DELIVERY) }, "WebhookDeliveryList"),
        ),
        ...NO_WEBHOOK,
      },
      async answer({ path: { webhook }, query: { limit, before }, caller }) {
        const page = { limit, ...(before !== undefined && { before }) };
        const deliveries = await known().webhooks.deliveries(webhook, { caller, ...page });
        return { json: { deliveries: deliveries.map(deliveryBody) } };
      },
    }),
    route({
      method: "POST",
      path: "/webhooks/{webhook}/deliveries/{delivery}",
      operationId: "redeliverWebhook",
      summary: "Sends a delivery again, with the same id, and with the attempts of a new one.",
      who: "key",
      responses: {
        202: json("The delivery is sent.", DELIVERY),
        404: "There is no such webhook, or it has no such delivery.",
        409: "The webhook is disabled.",
        ...NONE,
      },
      async answer({ path: { webhook, delivery }, caller }) {
        const { webhooks, deliverer } = known();
        const again = await webhooks.redeliver(webhook, delivery, caller);
        deliverer.wake();
        return { status: 202, json: deliveryBody(again) };
      },
    }),
  ];
}

function webhookBody(
  { id, url, types, by, createdAtMs, failingSinceMs, disabled }: Webhook,
): Static<typeof WEBHOOK> {
  return {
    ...{ id, url, types: [...types] },
    ...(by !== undefined && { key: by }),
    createdAt: isoOf(createdAtMs),
    ...(failingSinceMs !== undefined && { failingSince: isoOf(failingSinceMs) }),
    ...(disabled && { disabled: { reason: disabled.reason, at: isoOf(disabled.atMs) } }),
  };
}

function deliveryBody(delivery: StoredDelivery): Static<typeof DELIVERY> {
  const { id, sessionId, createdAtMs, dueAtMs } = delivery;
  const { type, status, attempts } = valueOf(delivery);
  return {
    ...{ id, type, status },
    ...(sessionId !== undefined && { session: sessionId }),
    createdAt: isoOf(createdAtMs),
    ...(dueAtMs !== undefined && { nextAttemptAt: isoOf(dueAtMs) }),
    attempts: attempts.map(({ atMs, ...outcome }) => ({ at: isoOf(atMs), ...outcome })),
  };
}

function isoOf(ms: number): string {
  return new Date(ms).toISOString();
}
