import type { SharedStore, Store } from "@tare/conversation";
import type { Figures } from "@tare/conversation/telemetry";
import { Type } from "typebox";
import type { MetricsOptions } from "../agent_options.ts";
import type { guard } from "../http/guard.ts";
import { route } from "../http/route.ts";
import type { Sessions } from "../sessions/sessions.ts";

/** Bounds of the durations of requests, as OpenTelemetry's conventions prescribe them. */
const DURATIONS_S = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10];

const METHODS = ["GET", "HEAD", "POST", "DELETE", "OPTIONS"];

/** The route by which the figures are read. */
export function metricsRoutes({ figures, isOpen }: MetricsOptions) {
  return [
    route({
      method: "GET",
      path: "/metrics",
      operationId: "getMetrics",
      summary: "Gives the figures of this server as Prometheus reads them.",
      ...(isOpen ? { isPublic: true } : { who: "metrics" as const }),
      responses: { 200: { description: "The figures.", content: { "text/plain": Type.String() } } },
      answer: async () =>
        new Response(await figures.text(), { headers: { "content-type": figures.mediaType } }),
    }),
  ];
}

/** A figure that is found out when somebody reads: its kind, name, unit and description, and how. */
type Observed = readonly ["sum" | "level", string, string, string, () => number | Promise<number>];

/** Keeps how a server is among its figures: its turns, and its part in a store that several have. */
export function observeServer(
  figures: Figures,
  { sessions: { slots, queue }, store }: { readonly sessions: Sessions; readonly store: Store },
): void {
  const { shared } = store;
  const observed: readonly Observed[] = [
    ["level", "tare.turns.running", "{turn}", "Turns that run here, helpers' included.", () => slots.taken],
    ["level", "tare.turns.slots", "{turn}", "Turns that may run here at once.", () => slots.limit],
    [
      "level",
      "tare.turns.queued",
      "{turn}",
      "Turns in the background that wait, for any server.",
      () => queue.length(),
    ],
    ...(shared ? sharedFigures(store, shared) : []),
  ];
  for (const [kind, name, unit, description, read] of observed) {
    figures.observe({ kind, name, unit, description }, async () => [[await read()]]);
  }
  if (shared?.figures().connections) observeConnections(figures, shared);
}

function sharedFigures(store: Store, shared: SharedStore): readonly Observed[] {
  const of = (name: "lostLeases" | "held" | "takenOver") => () => shared.figures()[name];
  const leaseS = () => shared.figures().leaseMs / 1000;
  const isGood = () => leaseS() > 0 ? 1 : 0;
  return [
    [
      "level",
      "tare.lease.good",
      "{lease}",
      "1 while nobody can have taken this server for dead, else 0.",
      isGood,
    ],
    ["level", "tare.lease.remaining", "s", "How long that is so without another renewal.", leaseS],
    ["sum", "tare.lease.losses", "{lease}", "Leases that this server has lost.", of("lostLeases")],
    ["level", "tare.sessions.held", "{session}", "Sessions that this server holds.", of("held")],
    [
      "sum",
      "tare.sessions.takeovers",
      "{session}",
      "Sessions taken from servers that were gone.",
      of("takenOver"),
    ],
    [
      "level",
      "tare.clock.ahead",
      "s",
      "How far the store's clock is ahead of this machine's.",
      () => (store.now() - Date.now()) / 1000,
    ],
  ];
}

function observeConnections(figures: Figures, shared: SharedStore): void {
  const now = () => shared.figures().connections ?? { most: 0, open: 0, idle: 0, waiting: 0 };
  const level = { kind: "level", unit: "{connection}" } as const;
  figures.observe(
    {
      ...level,
      name: "tare.database.connections.max",
      description: "Connections for reading and writing that there may be.",
    },
    () => [[now().most]],
  );
  const state = "db.client.connection.state";
  figures.observe(
    {
      ...level,
      name: "tare.database.connections",
      description: "Those that there are, by whether a statement is under way.",
      labels: [state],
    },
    () => {
      const { open, idle } = now();
      return [[idle, { [state]: "idle" }], [open - idle, { [state]: "used" }]];
    },
  );
  figures.observe(
    {
      ...level,
      name: "tare.database.waiting",
      unit: "{statement}",
      description: "Statements that wait behind another on their connection.",
    },
    () => [[now().waiting]],
  );
}

/** Keeps how long requests take until their answers begin, by the place that answered. */
export function measured(
  figures: Figures,
  answer: ReturnType<typeof guard>,
  placeOf: (response: Response) => string,
): ReturnType<typeof guard> {
  const duration = figures.figure({
    kind: "histogram",
    name: "http.server.request.duration",
    unit: "s",
    description: "Time from a request to the beginning of its answer.",
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
