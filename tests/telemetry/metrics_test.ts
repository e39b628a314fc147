// deno-lint-ignore-file no-console
import { assertAlmostEquals, assertEquals, assertStringIncludes } from "@std/assert";
import { profileNamed } from "@tare/planner";
import { simulator } from "@tare/simulator";
import { startProcess } from "../../packages/app/server_process_fixture_test.ts";

const SAMPLE =
  /^([a-zA-Z_:][\w:]*)(?:\{((?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\["\\n])*"(?:,(?!\})|(?=\})))+)\})? (-?\d+(?:\.\d+)?(?:e[+-]\d+)?|\+Inf)$/;

/** Parses a text in Prometheus' format 0.0.4 strictly: values by name and labels as written. */
function readMetrics(text: string): ReadonlyMap<string, number> {
  const samples = new Map<string, number>();
  const families = new Map<string, string>();
  let family = "";
  for (const line of text.split("\n")) {
    if (line === "") continue;
    const [, kind, name = "", rest = ""] = /^# (HELP|TYPE) (\S+) (.+)$/.exec(line) ?? [];
    if (kind === "HELP") {
      if (families.has(name)) throw new Error(`${name} appears in two places`);
      families.set(family = name, "");
    } else if (kind === "TYPE") {
      if (name !== family || !/^(counter|gauge|histogram)$/.test(rest)) throw new Error(line);
      if (rest === "counter" && !name.endsWith("_total")) throw new Error(`${name} is a counter`);
      families.set(name, rest);
    } else {
      const [, sample = "", labels = "", value = ""] = SAMPLE.exec(line) ?? [];
      const base = families.get(family) === "histogram" ? sample.replace(/_(bucket|sum|count)$/, "") : sample;
      if (base !== family) throw new Error(`Cannot read ${line} below ${family}`);
      const key = labels === "" ? sample : `${sample}{${labels}}`;
      if (samples.has(key)) throw new Error(`${key} is there twice`);
      samples.set(key, Number(value));
    }
  }
  const buckets = [...samples].filter(([key]) => key.includes("_bucket{"));
  for (const [at, [key, value]] of buckets.entries()) {
    if (!key.includes('le="+Inf"')) {
      if (value > buckets[at + 1]![1]) throw new Error(`${key} is more than the next one`);
      continue;
    }
    const count = key.replace("_bucket{", "_count{").replace('le="+Inf",', "").replace('{le="+Inf"}', "");
    if (samples.get(count) !== value) throw new Error(`${key} isn't ${count}`);
  }
  return samples;
}

function hasPromtool(): boolean {
  try {
    return new Deno.Command("promtool", { args: ["--version"], stdout: "null", stderr: "null" }).outputSync()
      .success;
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
    console.warn("Without promtool: Prometheus' own parser isn't run.");
    return false;
  }
}

Deno.test("TARE_METRICS: Prometheus can read the metrics, with the same money and tokens as the overview", async () => {
  const data = await Deno.makeTempDir();
  await Deno.mkdir(`${data}/workspace`);
  const simulated = simulator({
    model: ({ messages }) =>
      JSON.stringify(messages.at(-1)).includes("refuse")
        ? { fault: { type: "error", status: 400, message: "No." } }
        : { content: "Nothing to report." },
    tokenizer: { encode: (text) => Array.from(text, (letter) => letter.charCodeAt(0)) },
    profile: profileNamed("openai"),
  });
  await using provider = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, simulated.fetch);
  const flags = ["--port", "0", "--data", `${data}/kept`, "--workspace", `${data}/workspace`];
  const server = await startProcess([
    ...flags,
    "--model",
    "own",
    "--price",
    "input=1000,output=2000,cacheRead=100",
  ], {
    TARE_METRICS: "open",
    TARE_TOKEN: "secret",
    OPENAI_BASE_URL: `http://127.0.0.1:${provider.addr.port}/v1`,
    OPENAI_API_KEY: "sk",
  });
  try {
    const headers = { authorization: "Bearer secret", "content-type": "application/json" };
    const ask = async (path: string, body?: object) => {
      const init = body && { method: "POST", body: JSON.stringify(body) };
      const response = await fetch(server.url + path, { headers, ...init });
      return await response.text();
    };
    const messageSpans = (model: string, ...texts: string[]) =>
      ask("/v1/chat/completions", {
        model,
        messages: texts.map((content, at) => ({ role: at % 2 === 0 ? "user" : "assistant", content })),
      });
    const long = "A long question. ".repeat(200);
    await messageSpans("agent", "Hello.");
    await messageSpans("theirs", long);
    await messageSpans("theirs", long, "Nothing to report.", "And now?");
    await messageSpans("theirs", "Please refuse.");
    const { all } = JSON.parse(await ask("/tare/v1/overview"));
    const response = await fetch(`${server.url}/metrics`);
    assertEquals(response.headers.get("content-type"), "text/plain; version=0.0.4; charset=utf-8");
    const text = await response.text();
    const samples = readMetrics(text);
    const sum = (name: string) =>
      [...samples].reduce((sum, [key, value]) => sum + (key.startsWith(`${name}{`) ? value : 0), 0);
    assertEquals(sum("tare_prompt_tokens_total"), all.promptTokens);
    assertEquals(sum("tare_prompt_cached_tokens_total"), all.cachedTokens);
    assertEquals(all.cachedTokens > 1_000, true);
    assertAlmostEquals(sum("tare_cost_usd_total"), all.usd, 1e-9);
    assertAlmostEquals(sum("tare_cost_baseline_usd_total"), all.baselineUsd, 1e-9);
    const called = 'gen_ai_client_operation_duration_seconds_count{gen_ai_operation_name="chat"';
    const calls = [...samples].filter(([key]) => key.startsWith(called));
    assertEquals(calls.map(([key, value]) => [/error_type="(.*?)"/.exec(key)?.[1], value]), [
      ["", 1],
      ["", 2],
      ["400", 1],
    ]);
    const route = 'http_request_method="POST",http_route="/v1/chat/completions",http_response_status_code';
    const answered = (status: number) =>
      samples.get(`http_server_request_duration_seconds_count{${route}="${status}"}`);
    assertEquals([answered(200), answered(400)], [3, 1]);
    assertStringIncludes(text, "\ntare_turns_slots 100\n");
    if (hasPromtool()) {
      const checking = new Deno.Command("promtool", {
        args: ["check", "metrics"],
        stdin: "piped",
        stdout: "piped",
        stderr: "piped",
      }).spawn();
      const writer = checking.stdin.getWriter();
      await writer.write(new TextEncoder().encode(text));
      await writer.close();
      const { code, stderr } = await checking.output();
      assertEquals([code, new TextDecoder().decode(stderr)], [0, ""]);
    }
  } finally {
    await server.end("SIGTERM");
    await Deno.remove(data, { recursive: true });
  }
});
