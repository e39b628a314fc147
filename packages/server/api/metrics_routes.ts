import type { Store } from "@tare/session";
import type { SharedStore } from "@tare/session/internal";
import type { MetricRegistry } from "@tare/session/telemetry";
import { Type } from "typebox";
import type { HttpOptions } from "../agent_options.ts";
import type { guard } from "../http/guard.ts";
import { route } from "../http/route.ts";
import type { Sessions } from "../sessions/sessions.ts";

/** Bounds of request durations, by OpenTelemetry's conventions. */
const DURATIONS_S = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10];

const METHODS = ["GET", "HEAD", "POST", "DELETE", "OPTIONS"];

export function metricsRoutes({ metricRegistry, isOpen }: NonNullable<HttpOptions["metrics"]>) {
  return [
    route({
      method: "GET",
      path: "/metrics",
      operationId: "getMetrics",
      summary: "Returns the server's metrics in Prometheus format.",
      ...(isOpen ? { isPublic: true } : { who: "metrics" as const }),
      responses: { 200: { description: "The metrics.", content: { "text/plain": Type.String() } } },
      answer: async () =>
        new Response(await metricRegistry.text(), { headers: { "content-type": metricRegistry.mediaType } }),
    }),
  ];
}

type Observed = readonly ["sum" | "level", string, string, string, () => number | Promise<number>];

/** Adds the state of a server to its metrics: its turns, and its part in a shared store. */
export function observeServer(
  metricRegistry: MetricRegistry,
  { sessions: { slots, queue }, store }: { readonly sessions: Sessions; readonly store: Store },
): void {
  const { shared } = store;
  const observed: readonly Observed[] = [
    [
      "level",
      "tare.turns.running",
      "{turn}",
      "Turns that run here, including subagents'.",
      () => slots.taken,
    ],
    ["level", "tare.turns.slots", "{turn}", "Turns that may run here at once.", () => slots.limit],
    [
      "level",
      "tare.turns.queued",
      "{turn}",
      "Queued turns, for any server.",
      () => queue.length(),
    ],
    ...(shared ? sharedMetrics(store, shared) : []),
  ];
  for (const [kind, name, unit, description, read] of observed) {
    metricRegistry.observe({ kind, name, unit, description }, async () => [[await read()]]);
  }
  if (!shared?.metrics().connections) return;
  const state = "db.client.connection.state";
  metricRegistry.observe({
    ...{ kind: "level", name: "tare.database.connections", unit: "{connection}", labels: [state] },
    description: "Connections, by whether a statement is running.",
  }, () => {
    const { open = 0, idle = 0 } = shared.metrics().connections ?? {};
    return Promise.resolve([[idle, { [state]: "idle" }], [open - idle, { [state]: "used" }]]);
  });
}

function sharedMetrics(store: Store, shared: SharedStore): readonly Observed[] {
  const of = (name: "lostLeases" | "held" | "takenOver") => () => shared.metrics()[name];
  const leaseS = () => shared.metrics().leaseMs / 1000;
  const isGood = () => leaseS() > 0 ? 1 : 0;
  const good = "1 while no server can have taken over this one's sessions, else 0.";
  const ahead = "Difference of the store's clock from this machine's.";
  const taken = "Sessions taken over from servers that were gone.";
  const most = "Most connections for reading and writing.";
  const waiting = "Statements that wait for another on their connection.";
  return [
    ["level", "tare.lease.good", "{lease}", good, isGood],
    ["level", "tare.lease.remaining", "s", "Time until the lease expires without renewal.", leaseS],
    ["sum", "tare.lease.losses", "{lease}", "Leases that this server has lost.", of("lostLeases")],
    ["level", "tare.sessions.held", "{session}", "Sessions that this server holds.", of("held")],
    ["sum", "tare.sessions.takeovers", "{session}", taken, of("takenOver")],
    ["level", "tare.clock.ahead", "s", ahead, () => (store.now() - Date.now()) / 1000],
    ...shared.metrics().connections
      ? [
        ["level", "tare.database.connections.max", "{connection}", most, connections("most")],
        ["level", "tare.database.waiting", "{statement}", waiting, connections("waiting")],
      ] as const
      : [],
  ];

  function connections(name: "most" | "waiting") {
    return () => shared.metrics().connections?.[name] ?? 0;
  }
}

/** Records the time from a request to the start of its response, by route. */
export function measured(
  metricRegistry: MetricRegistry,
  answer: ReturnType<typeof guard>,
  placeOf: (response: Response) => string,
): ReturnType<typeof guard> {
  const duration = metricRegistry.metric({
    kind: "histogram",
    name: "http.server.request.duration",
    unit: "s",
    description: "Time from a request to the start of its response.",
    labels: ["http.request.method", "http.route", "http.response.status_code"],
    bounds: DURATIONS_S,
  });
  return async (request, client) => {
    const startMs = performance.now();
    const response = await answer(request, client);
    duration((performance.now() - startMs) / 1000, {
      "http.request.method": METHODS.includes(request.method) ? request.method : "_OTHER",
      "http.route": placeOf(response),
      "http.response.status_code": response.status,
    });
    return response;
  };
}
