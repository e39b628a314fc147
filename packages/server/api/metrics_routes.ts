import type { FigureOptions, Figures, Readings } from "@tare/conversation/telemetry";
import { Type } from "typebox";
import type { AgentOptions } from "../agent_options.ts";
import { route } from "../http/route.ts";
import type { TurnSlots } from "../sessions/sessions.ts";

/** Bounds of the durations of requests, as OpenTelemetry's conventions prescribe them. */
const DURATIONS_S = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10];

const METHODS = ["GET", "HEAD", "POST", "DELETE", "OPTIONS"];

/** The route by which the figures are read. */
export function metricsRoutes({ figures, isOpen }: NonNullable<AgentOptions["metrics"]>) {
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

/** Keeps how a server is among its figures: its turns, and its part in a store that several have. */
export function observeServer(
  figures: Figures,
  { slots, store }: { readonly slots: TurnSlots } & Pick<AgentOptions, "store">,
): void {
  const observe = (
    kind: "sum" | "level",
    [name, unit, description]: readonly [string, string, string],
    read: () => number | Promise<number> | Readings,
    labels: FigureOptions["labels"] = [],
  ) =>
    figures.observe({ kind, name, unit, description, labels }, async () => {
      const value = await read();
      return typeof value === "number" ? [[value]] : value;
    });
  observe(
    "level",
    ["tare.turns.running", "{turn}", "Turns that run here, helpers' included."],
    () => slots.taken,
  );
  observe("level", ["tare.turns.slots", "{turn}", "Turns that may run here at once."], () => slots.limit);
  const { shared } = store;
  if (!shared) return;
  observe(
    "level",
    ["tare.lease.good", "{lease}", "1 while no other server can have taken this one for dead, else 0."],
    () => shared.figures().leaseMs > 0 ? 1 : 0,
  );
  observe(
    "level",
    ["tare.lease.remaining", "s", "How long that is so without another renewal."],
    () => shared.figures().leaseMs / 1000,
  );
  observe(
    "sum",
    ["tare.lease.losses", "{lease}", "Leases that this server has lost."],
    () => shared.figures().lostLeases,
  );
  observe(
    "level",
    ["tare.sessions.held", "{session}", "Sessions that this server holds."],
    () => shared.figures().held,
  );
  observe(
    "sum",
    ["tare.sessions.takeovers", "{session}", "Sessions taken over from servers that were gone."],
    () => shared.figures().takenOver,
  );
  observe(
    "level",
    ["tare.clock.ahead", "s", "By how much the database's clock is ahead of this machine's."],
    () => shared.aheadMs() / 1000,
  );
  if (!shared.figures().connections) return;
  const connections = () => shared.figures().connections ?? { most: 0, open: 0, idle: 0, waiting: 0 };
  observe(
    "level",
    [
      "tare.database.connections.max",
      "{connection}",
      "Connections for reading and writing that there may be.",
    ],
    () => connections().most,
  );
  observe(
    "level",
    [
      "tare.database.connections",
      "{connection}",
      "Connections that there are, by whether a statement is under way.",
    ],
    () => {
      const { open, idle } = connections();
      return [[idle, { "db.client.connection.state": "idle" }], [open - idle, {
        "db.client.connection.state": "used",
      }]];
    },
    ["db.client.connection.state"],
  );
  observe(
    "level",
    ["tare.database.waiting", "{statement}", "Statements that wait behind another on their connection."],
    () => connections().waiting,
  );
}

/** Keeps how long requests take until their answers begin, by the place that answered. */
export function measured(
  figures: Figures,
  answer: (request: Request) => Promise<Response>,
  placeOf: (response: Response) => string,
): (request: Request) => Promise<Response> {
  const duration = figures.figure({
    kind: "histogram",
    name: "http.server.request.duration",
    unit: "s",
    description: "Time from a request to the beginning of its answer.",
    labels: ["http.request.method", "http.route", "http.response.status_code"],
    bounds: DURATIONS_S,
  });
  return async (request) => {
    const startMs = performance.now();
    const response = await answer(request);
    duration((performance.now() - startMs) / 1000, {
      "http.request.method": METHODS.includes(request.method) ? request.method : "_OTHER",
      "http.route": placeOf(response),
      "http.response.status_code": response.status,
    });
    return response;
  };
}
