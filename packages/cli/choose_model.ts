// deno-lint-ignore-file no-console
import { listPrice } from "@tare/planner";
import { DEFAULT_PROVIDER, MESSAGES_PROVIDER, proposedModels } from "@tare/planner/internal";
import type { Environment } from "./agents/agents.ts";
import { accessHeaders } from "./agents/installation.ts";
import { printableText } from "./terminal/printable_text.ts";

/** Most models listed; any name can be typed. */
const MAX_LISTED = 12;

const ANSWER_MS = 10_000;

/** Whether a provider is set and no model: the server would be a gateway only. */
export function lacksModel(environment: Environment): boolean {
  const { TARE_MODEL, OPENAI_API_KEY, OPENAI_BASE_URL, ANTHROPIC_API_KEY, ANTHROPIC_BASE_URL } = environment;
  return !TARE_MODEL &&
    [OPENAI_API_KEY, OPENAI_BASE_URL, ANTHROPIC_API_KEY, ANTHROPIC_BASE_URL].some(Boolean);
}

/** Returns the names of the provider's models. @throws {Error} if it doesn't list them. */
export async function listModels(environment: Environment): Promise<readonly string[]> {
  const { OPENAI_API_KEY: key, OPENAI_BASE_URL, ANTHROPIC_BASE_URL } = environment;
  const isChat = key !== undefined || OPENAI_BASE_URL !== undefined;
  const base = isChat
    ? OPENAI_BASE_URL ?? DEFAULT_PROVIDER.baseURL
    : `${(ANTHROPIC_BASE_URL ?? MESSAGES_PROVIDER.baseURL).replace(/\/+$/, "")}/v1`;
  const url = `${base.replace(/\/+$/, "")}/models`;
  const response = await fetch(isChat ? url : `${url}?limit=1000`, {
    headers: accessHeaders(isChat, environment) ?? {},
    redirect: "manual",
    signal: AbortSignal.timeout(ANSWER_MS),
  });
  const list = await response.json().catch(() => undefined);
  if (!response.ok || !Array.isArray(list?.data)) {
    const reason = list?.error?.message;
    throw new Error(
      `${url} answered ${response.status}${typeof reason === "string" ? `: ${reason.slice(0, 200)}` : ""}`,
    );
  }
  return list.data.map(({ id }: { readonly id?: unknown }) => id)
    .filter((id: unknown): id is string => typeof id === "string");
}

/** Returns a model as a row: its name, and its list price if known. */
function modelRow(name: string): string {
  const price = listPrice(name);
  return price === undefined
    ? name
    : `${name.padEnd(28)} $${price.input} in, $${price.output} out per million`;
}

/** Returns the first models as numbered rows, and the number of the others. */
export function modelRows(models: readonly string[]): readonly string[] {
  const rest = models.length - MAX_LISTED;
  return [
    ...models.slice(0, MAX_LISTED).map((name, at) => `  ${String(at + 1).padStart(2)}  ${modelRow(name)}`),
    ...(rest > 0 ? [`      and ${rest} more`] : []),
  ];
}

/**
 * Lists the provider's models and asks for one in the terminal; Enter takes the proposed one.
 *
 * @throws {Error} if the provider doesn't list its models.
 */
export async function chooseModel(environment: Environment): Promise<string | undefined> {
  let models: readonly string[];
  try {
    models = proposedModels(await listModels(environment));
  } catch (error) {
    throw new Error(
      `Cannot list the provider's models: ${(error as Error).message}. ` +
        "Check the key and the address, or name the model: tare settings TARE_MODEL=NAME.",
      { cause: error },
    );
  }
  const [proposed] = models;
  console.log("Models of your provider:");
  console.log(printableText(modelRows(models).join("\n")));
  const answer = prompt(
    printableText(`Model: number or name${proposed === undefined ? "" : ` [${proposed}]`}`),
  )?.trim();
  if (answer === undefined) return undefined;
  return answer === "" ? proposed : models[Number(answer) - 1] ?? answer;
}
