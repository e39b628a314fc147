/**
 * Plays one long session three times, to see what Tare saves: `deno task demo`.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { resolve } from "@std/path";
import { loadTokenizer } from "@tare/messages/tiktoken";
import {
  DEFAULT_PROVIDER,
  EXAMPLE_MODELS,
  listPrice,
  PRICES_DATE,
  profileNamed,
  PROFILES,
} from "@tare/planner";
import { parseArgs } from "node:util";
import { isDirectory } from "../settings/option.ts";
import { demoQuestions } from "./play_demo.ts";
import { demoTable } from "./play_demo.ts";
import { playDemo, WAYS } from "./play_demo.ts";
import { progressBars } from "./play_demo.ts";

const HELP =
  `Plays one long session three times side by side, to see what Tare saves; it needs no key and costs nothing:

  deno task demo [--workspace FOLDER] [--profile NAME] [--model NAME]

  --workspace FOLDER  The folder that the session is about. Default: this one
  --profile NAME      Whose cache rules and prices: ${Object.keys(PROFILES).join(", ")}.
                      Default: ${DEFAULT_PROVIDER.profile}
  --model NAME        Whose list price. Default: by profile`;

try {
  const { values } = parseArgs({
    options: {
      workspace: { type: "string" },
      profile: { type: "string", default: DEFAULT_PROVIDER.profile },
      model: { type: "string" },
      help: { type: "boolean", short: "h" },
    },
  });
  if (values.help) {
    console.log(HELP);
    Deno.exit(0);
  }
  const profile = profileNamed(values.profile);
  const model = values.model ?? EXAMPLE_MODELS[profile.name];
  const price = model === undefined ? undefined : listPrice(model);
  if (values.model !== undefined && price === undefined) {
    throw new RangeError(
      `Cannot play the demonstration: no list price of ${values.model} is known; leave --model out.`,
    );
  }
  // A task runs in the project's folder, wherever it was started.
  const workspace = values.workspace === undefined
    ? Deno.cwd()
    : resolve(Deno.env.get("INIT_CWD") ?? ".", values.workspace);
  if (!isDirectory(workspace)) {
    throw new RangeError(
      `Cannot play the demonstration: ${workspace} is no folder; --workspace names one that exists.`,
    );
  }
  const questions = await demoQuestions(workspace);
  console.log(
    `One session of ${questions.length} questions about ${workspace}, played three times. Loop and tools are
real. The model is a rehearsal model, which only follows fixed rules, and the provider is simulated:
cache and prices of ${profile.name}${model ? `, in money as ${model} cost on ${PRICES_DATE}` : ""}.
`,
  );
  const tokenizer = await loadTokenizer();
  const bars = progressBars(WAYS.map(({ name }) => name), {
    total: questions.length,
    ...(Deno.stdout.isTerminal() && {
      write: (text: string) => void Deno.stdout.writeSync(new TextEncoder().encode(text)),
    }),
  });
  const played = await Promise.all(WAYS.map(async (way, at) => ({
    name: way.name,
    ...await playDemo(way, {
      ...{ workspace, questions, profile, price, tokenizer },
      onEvent: (event) => bars.follow(at, event),
    }),
  })));
  bars.close();
  console.log(demoTable(played, { model }));
  console.log(`
Next: tare start, or deno task start, and http://127.0.0.1:8787/ shows where the tokens of your own sessions went.`);
} catch (error) {
  if (!(error instanceof RangeError || error instanceof TypeError)) throw error;
  console.error((error as Error).message);
  Deno.exit(1);
}
