import { type KeyReport, Keys } from "@tare/session";
import { type Static, Type } from "typebox";
import { invalidRequest, notFound, notSupported } from "../http/http_error.ts";
import { json, route } from "../http/route.ts";
import { closed, text } from "../http/schema.ts";
import type { Webhooks } from "../webhooks/webhooks.ts";

const SETTINGS = {
  name: Type.String({
    pattern: Keys.NAME.source,
    description: "Name of the key: 1 to 40 of a to z, 0 to 9, `-` and `_`, other than owner and guest.",
  }),
  routes: Type.Array(Type.Enum([...Keys.OWNER.routes]), {
    minItems: 1,
    uniqueItems: true,
    description:
      "Permissions: `gateway`, model calls of other agents; `agent`, sessions of this one; `approve`, " +
      "approvals in its own sessions; `metrics`, the server's metrics.",
  }),
  budgetUsdPerDay: Type.Optional(Type.Number({
    exclusiveMinimum: 0,
    description: "Most US dollars that its sessions may cost per day (UTC). Default: no limit.",
  })),
  perMinute: Type.Optional(Type.Integer({
    minimum: 1,
    description: "Most requests per minute, on each server. Default: no limit.",
  })),
};

const KEY = closed({
  ...SETTINGS,
  createdAt: Type.String({ format: "date-time" }),
  spentUsd: Type.Number({ minimum: 0, description: "Cost of its sessions since midnight UTC." }),
}, "Key");

const OWN_KEY = closed({
  name: text("`owner`, `guest` without a key, or the key's name."),
  routes: SETTINGS.routes,
  isOwner: Type.Boolean({
    description: "Whether it is the owner's: it permits everything, and sees all sessions.",
  }),
  budgetUsdPerDay: SETTINGS.budgetUsdPerDay,
  spentUsd: Type.Optional(KEY.properties.spentUsd),
}, "OwnKey");

export function keyRoutes(keys: Keys | undefined, webhooks: Pick<Webhooks, "removeOf">) {
  const known = () => {
    if (keys) return keys;
    throw notSupported("Cannot manage keys here: every request is the owner's.");
  };
  return [
    route({
      method: "GET",
      path: "/key",
      operationId: "getKey",
      summary: "Returns the request's key, its permissions and its cost today.",
      responses: { 200: json("The key.", OWN_KEY) },
      async answer({ caller }) {
        const { name, routes } = caller;
        const { budgetUsdPerDay, spentUsd } = await keys?.report(caller) ?? {};
        return {
          json: {
            ...{ name, routes: [...routes], isOwner: Keys.nameOf(caller) === undefined },
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
      summary: "Lists all keys but the owner's, by name.",
      who: "owner",
      responses: {
        200: json("The keys, without their secrets.", closed({ keys: Type.Array(KEY) }, "KeyList")),
      },
      answer: async () => ({ json: { keys: (await known().list()).map(keyBody) } }),
    }),
    route({
      method: "POST",
      path: "/keys",
      operationId: "addKey",
      summary: "Creates a key. Its secret is only in this response.",
      who: "owner",
      isSentOnce: true,
      body: closed(SETTINGS, "NewKey", { name: "alice", routes: ["gateway", "agent"], budgetUsdPerDay: 5 }),
      responses: {
        201: json("The key's secret.", closed({ name: SETTINGS.name, secret: Type.String() }, "AddedKey")),
        400: "The name exists already, or isn't allowed.",
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
      summary: "Revokes a key, and removes its webhooks. Its sessions remain, for the owner.",
      who: "owner",
      responses: { 204: "The key is revoked.", 404: "There is no such key." },
      async answer({ path: { name } }) {
        const isRemoved = await known().remove(name);
        // Also those that an earlier attempt left.
        await webhooks.removeOf(name);
        if (isRemoved) return new Response(null, { status: 204 });
        const others = name === Keys.OWNER.name || name === Keys.GUEST.name
          ? `, and ${name} isn't a stored key`
          : "";
        throw notFound(`Cannot remove key ${name}: there is no key of that name${others}.`);
      },
    }),
  ];
}

function keyBody({ createdAtMs, routes, ...key }: KeyReport): Static<typeof KEY> {
  return { ...key, routes: [...routes], createdAt: new Date(createdAtMs).toISOString() };
}
