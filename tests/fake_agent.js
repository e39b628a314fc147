// deno-lint-ignore-file no-console
// Stands for an agent in tests: it asks once where its environment and arguments say, and ends with the code behind
// `--exit`; with `--stay` it goes on until somebody has answered it again behind a file `go` in its folder.
import { existsSync, readFileSync } from "node:fs";
import process from "node:process";

const args = process.argv.slice(2);
const given = (name) => args[args.indexOf(name) + 1];
const { ANTHROPIC_BASE_URL, ANTHROPIC_API_KEY, OPENAI_BASE_URL, OPENAI_API_KEY } = process.env;
const config = given("--config") ?? "";
const { CLINE_PROVIDER_SETTINGS_PATH, OPENCLAW_CONFIG_PATH } = process.env;
const file = CLINE_PROVIDER_SETTINGS_PATH ?? OPENCLAW_CONFIG_PATH ??
  (config.endsWith(".yaml") ? config : undefined);
const setting = file === undefined
  ? /^openai_base_url="(.*)"$/.exec(config)?.[1]
  : /(?:baseUrl|apiBase)"?: "(.*)"/.exec(readFileSync(file, "utf8"))?.[1];

async function ask() {
  const messages = [{ role: "user", content: "Hello?" }];
  const request = setting ?? (args.includes("--chat") ? OPENAI_BASE_URL : undefined);
  const [url, key, model] = request
    ? [`${request}/chat/completions`, { authorization: `Bearer ${OPENAI_API_KEY}` }, "gpt-5"]
    : [`${ANTHROPIC_BASE_URL}/v1/messages`, { "x-api-key": ANTHROPIC_API_KEY }, "claude-opus-4-8"];
  const body = JSON.stringify({ model, max_tokens: 100, messages });
  const response = await fetch(url, {
    method: "POST",
    headers: {
      ...key,
      "content-type": "application/json",
      "anthropic-version": "2023-06-01",
      "user-agent": "claude-cli/1.2.3",
    },
    body,
  });
  await response.text();
  return response.status;
}

async function pause() {
  await new Promise((done) => setTimeout(done, 50));
}

if (args[0] === "--version") {
  console.log("1.2.3 (Fake)");
  process.exit();
}
console.log(`in ${process.cwd()}, tool search ${process.env.ENABLE_TOOL_SEARCH}`);
if (!args.includes("--quiet")) console.log(`answered ${await ask()}`);
if (args.includes("--stay")) {
  process.on("SIGTERM", () => process.exit(9));
  console.log("stays");
  while (!existsSync("go")) await pause();
  for (let status = 0; status !== 200;) {
    await pause();
    status = await ask().catch(() => 0);
  }
  console.log("answered again");
}
process.exitCode = Number(args.includes("--exit") ? given("--exit") : 0);
