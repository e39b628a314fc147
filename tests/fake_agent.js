// deno-lint-ignore-file no-console
// Replaces an agent in tests: it sends one request to the address of its environment and arguments, and ends with the
// code after `--exit`; with `--stay` it continues until it gets another answer after a file `go` appears in its folder.
import { existsSync, readFileSync } from "node:fs";
import process from "node:process";

const args = process.argv.slice(2);
const given = (name) => args[args.indexOf(name) + 1];
const parsed = (path) => existsSync(path) ? JSON.parse(readFileSync(path, "utf8")) : {};
// As Claude Code: settings outrank the environment, and those of the command line outrank a file's.
if (args.includes("--settings")) {
  Object.assign(process.env, parsed(`${process.env.HOME}/.claude/settings.json`).env);
  Object.assign(process.env, JSON.parse(given("--settings")).env);
}
const { ANTHROPIC_BASE_URL, ANTHROPIC_API_KEY, ANTHROPIC_AUTH_TOKEN, OPENAI_BASE_URL } = process.env;
const { OPENCODE_CONFIG_CONTENT, TARE_PI_URL } = process.env;
// As opencode and pi: a configured address, and the key of their own file.
const told = OPENCODE_CONFIG_CONTENT
  ? {
    address: JSON.parse(OPENCODE_CONFIG_CONTENT).provider.openai.options.baseURL,
    key: parsed(`${process.env.XDG_CONFIG_HOME}/opencode/opencode.json`).provider?.openai.options.apiKey,
  }
  : TARE_PI_URL
  ? {
    address: `${TARE_PI_URL}/v1`,
    key: parsed(`${process.env.HOME}/.pi/agent/models.json`).providers?.openai.apiKey,
  }
  : undefined;
const OPENAI_API_KEY = told?.key ?? process.env.OPENAI_API_KEY;
const config = given("--config") ?? "";
const { CLINE_PROVIDER_SETTINGS_PATH, OPENCLAW_CONFIG_PATH } = process.env;
const file = CLINE_PROVIDER_SETTINGS_PATH ?? OPENCLAW_CONFIG_PATH ??
  (config.endsWith(".yaml") ? config : undefined);
const setting = file === undefined
  ? /^openai_base_url="(.*)"$/.exec(config)?.[1]
  : /(?:baseUrl|apiBase)"?: "(.*)"/.exec(readFileSync(file, "utf8"))?.[1];

async function ask() {
  const messages = [{ role: "user", content: "Hello?" }];
  const request = told?.address ?? setting ?? (args.includes("--chat") ? OPENAI_BASE_URL : undefined);
  const [url, key, model] = request
    ? [`${request}/chat/completions`, { authorization: `Bearer ${OPENAI_API_KEY}` }, "gpt-5"]
    : [
      `${ANTHROPIC_BASE_URL}/v1/messages`,
      ANTHROPIC_AUTH_TOKEN
        ? { authorization: `Bearer ${ANTHROPIC_AUTH_TOKEN}` }
        : { "x-api-key": ANTHROPIC_API_KEY },
      "claude-opus-4-8",
    ];
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
