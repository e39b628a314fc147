import { Type } from "typebox";
import { approvalRoutes } from "./api/approval_routes.ts";
import { fileRoutes } from "./api/file_routes.ts";
import type { health } from "./api/health_routes.ts";
import { metricsRoutes } from "./api/metrics_routes.ts";
import { keyRoutes } from "./api/key_routes.ts";
import { ledgerRoutes, promptRoutes } from "./api/prompt_routes.ts";
import type { SessionKinds } from "./api/session_kinds.ts";
import { agentSessionRoutes, sessionRoutes } from "./api/session_routes.ts";
import { SEES_PICTURES } from "./api/session_body.ts";
import { transferRoutes } from "./api/transfer_routes.ts";
import { turnRoutes } from "./api/turn_routes.ts";
import { undoRoutes } from "./api/undo_routes.ts";
import { webhookRoutes } from "./api/webhook_routes.ts";
import type { AgentOptions } from "./agent_options.ts";
import { asModelRoutes } from "./as_model/as_model_routes.ts";
import { openapiDocument } from "./http/openapi_document.ts";
import { type Route, route } from "./http/route.ts";
import { closed } from "./http/schema.ts";
import type { Heartbeat } from "./http/sse_response.ts";
import type { Sessions } from "./sessions/sessions.ts";
import type { Deliverer } from "./webhooks/deliverer.ts";
import type { Webhooks } from "./webhooks/webhooks.ts";

/** What all routes work on. */
export interface TableOptions extends Omit<AgentOptions, "webhooks"> {
  readonly sessions: Sessions;
  readonly kinds: SessionKinds;
  readonly webhooks: Webhooks;
  /** Sends them. Absent: nothing may be told. */
  readonly deliverer: Deliverer | undefined;
  readonly healthRoutes: ReturnType<typeof health>["routes"];
  readonly heartbeat: Heartbeat;
  readonly onError: (error: unknown) => void;
}

/** Every route of the server. The types of its client are this table's. */
export function routeTable(options: TableOptions) {
  const { sessions, kinds, store, gateway, healthRoutes, metrics } = options;
  const agentsOwn = [
    ...agentSessionRoutes(sessions),
    ...turnRoutes(options),
    ...approvalRoutes(sessions),
    ...undoRoutes(sessions, options.checkpoints),
    ...transferRoutes(sessions, store),
  ].map((route) => kinds.agentOnly(route));
  let all: readonly Route[] = [];
  const table = [
    ...sessionRoutes(kinds, sessions),
    ...promptRoutes(kinds),
    ...agentsOwn,
    ...(gateway ? ledgerRoutes(gateway) : []),
    ...asModelRoutes(options),
    ...healthRoutes,
    ...(metrics ? metricsRoutes(metrics) : []),
    ...keyRoutes(options.keys, options.webhooks),
    ...webhookRoutes(options),
    ...fileRoutes(options),
    ...systemRoutes(options, () => all),
  ];
  all = table;
  return table;
}

/** The routes about the server itself; `routes` gives all that there are. */
function systemRoutes(
  { workspace, sandbox, defaultModel, passesOn, sessions }: TableOptions,
  routes: () => readonly Route[],
) {
  return [
    route({
      method: "GET",
      path: "/v1/agent",
      operationId: "getAgent",
      summary: "Says where the agent works, which model it asks, and how much a prompt may hold.",
      responses: {
        200: {
          description: "The agent.",
          content: {
            "application/json": closed({
              workspace: Type.Optional(
                Type.String({ description: "The folder that its tools work in, on the server's machine." }),
              ),
              sandbox: Type.Optional(closed({
                by: Type.Optional(Type.String({ description: "What makes it; absent where there is none." })),
                why: Type.Optional(Type.String({ description: "Why there is none." })),
                domains: Type.Array(Type.String(), { description: "The hosts that commands reach unasked." }),
              }, "AgentSandbox")),
              model: Type.Optional(Type.String({
                description:
                  "The model of sessions that name no other; absent where there is no agent, only a gateway.",
              })),
              passesOn: Type.Optional(closed({
                chat: Type.Optional(
                  Type.String({
                    description: "The provider of chat completions and responses, if there is one.",
                  }),
                ),
                messages: Type.Optional(Type.String({ description: "The provider of Messages." })),
              }, "PassesOn")),
              windowTokens: Type.Number({ description: "How much a prompt may hold at most." }),
              seesPictures: SEES_PICTURES,
            }, "Agent"),
          },
        },
      },
      answer: () => {
        const seesPictures = defaultModel === undefined ? undefined : sessions.seesPictures(defaultModel);
        return {
          json: {
            ...(workspace !== undefined && { workspace }),
            ...(sandbox !== undefined && { sandbox }),
            ...(defaultModel !== undefined && { model: defaultModel }),
            ...(passesOn !== undefined && { passesOn }),
            windowTokens: sessions.windowOf(defaultModel ?? ""),
            ...(seesPictures !== undefined && { seesPictures }),
          },
        };
      },
    }),
    route({
      method: "GET",
      path: "/openapi.json",
      operationId: "getOpenapiDocument",
      summary: "Describes all routes: this document.",
      responses: {
        200: { description: "An OpenAPI 3.1 document.", content: { "application/json": Type.Object({}) } },
      },
      answer: () => ({ json: openapiDocument(routes()) }),
    }),
  ];
}
