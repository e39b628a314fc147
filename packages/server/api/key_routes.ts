import { type KeyReport, Keys } from "@tare/session";
import { type Static, Type } from "typebox";
import { invalidRequest, notFound, notSupported } from "../http/http_error.ts";
import { json, route } from "../http/route.ts";
import { closed, text } from "../http/schema.ts";
import type { Webhooks } from "../webhooks/webhooks.ts";

const SETTINGS = {
  name: Type.String({
    pattern: Keys.NAME.source,
    description:
      "What the key is called: 1 to 40 of a to z, 0 to 9, `-` and `_`, other than owner and guest.",
  }),
  routes: Type.Array(Type.Enum([...Keys.OWNER.routes]), {
    minItems: 1,
    uniqueItems: true,
    description:
      "What it is for: `gateway`, model calls of other agents; `agent`, sessions of this one; `approve`, saying what " +
      "calls in its own sessions may do; `metrics`, reading the server's figures.",
  }),
  budgetUsdPerDay: Type.Optional(Type.Number({
    exclusiveMinimum: 0,
    description: "Most US dollars that its sessions may cost on a day of UTC. Default: no limit.",
  })),
  perMinute: Type.Optional(Type.Integer({
    minimum: 1,
    description: "Most requests in a minute, of each server. Default: no limit.",
  })),
};

const KEY = closed({
  ...SETTINGS,
  createdAt: Type.String({ format: "date-time" }),
  spentUsd: Type.Number({ minimum: 0, description: "What its sessions have cost since midnight of UTC." }),
}, "Key");

/** Who asks. */
const OWN_KEY = closed({
  name: text("`owner`, `guest` of whoever has no key, or what the owner has called it."),
  routes: SETTINGS.routes,
  isOwner: Type.Boolean({ description: "Whether all may be done with it, and all sessions be seen." }),
  budgetUsdPerDay: SETTINGS.budgetUsdPerDay,
  spentUsd: Type.Optional(KEY.properties.spentUsd),
}, "OwnKey");

/** The routes that say who asks, and by which the owner gives keys to others. */
export function keyRoutes(keys: Keys | undefined, webhooks: Pick<Webhooks, "removeOf">) {
  const known = () => {
    if (keys) return keys;
    throw notSupported("Cannot keep keys here: whoever asks is the owner.");
  };
  return [
    route({
      method: "GET",
      path: "/key",
      operationId: "getKey",
      summary: "Says by which key the request came, what that may, and what it has cost today.",
      responses: { 200: json("The key.", OWN_KEY) },
      async answer({ asker }) {
        const { name, routes } = asker;
        const { budgetUsdPerDay, spentUsd } = await keys?.report(asker) ?? {};
        return {
          json: {
            ...{ name, routes: [...routes], isOwner: Keys.nameOf(asker) === undefined },
            ...(budgetUsdPerDay !== undefined && { budgetUsdPerDay }),
            ...(spentUsd !== undefined && { spentUsd }),
          },
        };
      },
    }),
    route({
      method: "GET",
      path: "/keys",
      operationId: "listKeys",
      summary: "Lists the keys beside the owner's, by their names.",
      who: "owner",
      responses: {
        200: json("The keys. Nobody is told their secrets.", closed({ keys: Type.Array(KEY) }, "KeyList")),
      },
      answer: async () => ({ json: { keys: (await known().list()).map(keyBody) } }),
    }),
    route({
      method: "POST",
      path: "/keys",
      operationId: "addKey",
      summary: "Makes a key. Its secret is told here and nowhere else.",
      who: "owner",
      isToldOnce: true,
      body: closed(SETTINGS, "NewKey", { name: "alice", routes: ["gateway", "agent"], budgetUsdPerDay: 5 }),
      responses: {
        201: json("The key's secret.", closed({ name: SETTINGS.name, secret: Type.String() }, "AddedKey")),
        400: "There is one of this name, or none may have it.",
      },
      async answer({ body }) {
        const secret = await known().add(body).catch((error) => {
          if (!(error instanceof RangeError)) throw error;
          throw invalidRequest(error.message);
        });
        return { status: 201, json: { name: body.name, secret } };
      },
    }),
    route({
      method: "DELETE",
      path: "/keys/{name}",
      operationId: "removeKey",
      summary:
        "Takes a key away, with its webhooks: nothing more is answered with it. Its sessions stay, for the owner.",
      who: "owner",
      responses: { 204: "It is gone.", 404: "There is no such key." },
      async answer({ path: { name } }) {
        const isRemoved = await known().remove(name);
        // Also those that an earlier attempt has left.
        await webhooks.removeOf(name);
        if (isRemoved) return new Response(null, { status: 204 });
        const others = name === Keys.OWNER.name || name === Keys.GUEST.name ? `, and ${name} isn't one` : "";
        throw notFound(`Cannot remove key ${name}: there is none of that name${others}.`);
      },
    }),
  ];
}

function keyBody({ createdAtMs, routes, ...key }: KeyReport): Static<typeof KEY> {
  return { ...key, routes: [...routes], createdAt: new Date(createdAtMs).toISOString() };
}
