import { assertEquals } from "@std/assert";
import { prometheus } from "./prometheus.ts";

const onError = (error: unknown) => {
  throw error;
};

const about = { unit: "{call}", description: "Calls." };

Deno.test("prometheus() names metrics as OpenTelemetry's exporters do", async () => {
  const { metric, observe, text, mediaType } = prometheus({ onError });
  const calls = metric({ kind: "sum", name: "tare.calls", ...about, labels: ["gen_ai.request.model"] });
  calls(1, { "gen_ai.request.model": 'a "quoted"\nname', "session.id": "left out" });
  calls(2.5, { "gen_ai.request.model": 'a "quoted"\nname' });
  calls(1);
  metric({ kind: "sum", name: "tare.calls", ...about, labels: ["gen_ai.request.model"] })(1);
  const level = metric({ kind: "level", name: "tare.saved", unit: "usd", description: "Saved." });
  level(3);
  level(-5);
  const duration = metric({
    kind: "histogram",
    name: "a.b",
    unit: "s",
    description: "Took.",
    bounds: [0.5, 1],
  });
  for (const seconds of [0.1, 0.5, 0.7, 3]) duration(seconds);
  let held = 2;
  observe({ kind: "level", name: "tare.held", ...about, labels: ["state"] }, () =>
    Promise.resolve([
      [held, { state: "idle" }],
      [1, { state: "used" }],
    ]));
  observe({ kind: "sum", name: "tare.losses", ...about }, () => Promise.resolve([[held]]));
  const written = (held: number) =>
    `# HELP tare_calls_total Calls.
# TYPE tare_calls_total counter
tare_calls_total{gen_ai_request_model="a \\"quoted\\"\\nname"} 3.5
tare_calls_total{gen_ai_request_model=""} 2

# HELP tare_saved_usd Saved.
# TYPE tare_saved_usd gauge
tare_saved_usd -2

# HELP a_b_seconds Took.
# TYPE a_b_seconds histogram
a_b_seconds_bucket{le="0.5"} 2
a_b_seconds_bucket{le="1"} 3
a_b_seconds_bucket{le="+Inf"} 4
a_b_seconds_sum 4.3
a_b_seconds_count 4

# HELP tare_held Calls.
# TYPE tare_held gauge
tare_held{state="idle"} ${held}
tare_held{state="used"} 1

# HELP tare_losses_total Calls.
# TYPE tare_losses_total counter
tare_losses_total ${held}
`;
  assertEquals(await text(), written(2));
  held = 3;
  assertEquals(await text(), written(3));
  assertEquals(mediaType, "text/plain; version=0.0.4; charset=utf-8");
});

Deno.test("prometheus() limits a metric to 500 series and merges the others", async () => {
  const { metric, text } = prometheus({ onError });
  const calls = metric({ kind: "sum", name: "c", ...about, labels: ["model", "kind"] });
  for (let at = 0; at < 600; at++) calls(1, { model: `m${at}`, kind: "k" });
  calls(1, { model: "m3", kind: "k" });
  const long = metric({ kind: "sum", name: "l", ...about, labels: ["model"] });
  long(1, { model: "m".repeat(100_000) });
  assertEquals((await text()).includes(`{model="${"m".repeat(200)}"} 1`), true);
  const lines = (await text()).split("\n").filter((line) => line.startsWith("c_total"));
  assertEquals([lines.length, lines[3], lines.at(-1)], [
    501,
    'c_total{model="m3",kind="k"} 2',
    'c_total{model="_OTHER",kind="_OTHER"} 100',
  ]);
});

Deno.test("prometheus() omits a metric that can't be read, and returns the others", async () => {
  const errors: unknown[] = [];
  const { observe, text } = prometheus({ onError: (error) => errors.push(error) });
  let isAway = false;
  const depth = () => isAway ? Promise.reject("away") : Promise.resolve([[7] as const]);
  observe({ kind: "level", name: "depth", ...about }, depth);
  observe({ kind: "level", name: "running", ...about }, () => Promise.resolve([[1]]));
  const samples = async () => (await text()).split("\n").filter((line) => /^[a-z]/.test(line));
  assertEquals(await samples(), ["depth 7", "running 1"]);
  isAway = true;
  assertEquals([await samples(), errors], [["running 1"], ["away"]]);
  isAway = false;
  assertEquals(await samples(), ["depth 7", "running 1"]);
});
