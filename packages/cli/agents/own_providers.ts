import { join } from "@std/path";
import { callersFolder } from "../server/noted_server.ts";
import type { AgentEntry, Environment } from "./agents.ts";
import { entryIn, type FileFormat } from "./file_entries.ts";

/** Chat completions and responses, or Messages. */
export type ProviderProtocol = "chat" | "messages";

export interface OwnAddress {
  readonly protocol: ProviderProtocol;
  readonly address: string;
  readonly place: string;
  /** Whether it overrides the settings of one process, so that the agent can't be redirected. */
  readonly isFixed?: boolean;
}

export interface SettingsFile {
  readonly path: string;
  readonly format: FileFormat;
  readonly isFixed?: boolean;
  /** Text of settings that are no file, but in a variable. Default: read from `path`. */
  readonly text?: string | null;
}

/** Providers that an agent's own settings and its login name. */
export interface OwnProviders {
  /** For each protocol the address that overrides the others. */
  readonly addresses: readonly OwnAddress[];
  readonly login: string | undefined;
  /** Where chat completions and responses have to go, if anything names that. */
  readonly chat: string | undefined;
  /** Where Messages have to go. */
  readonly messages: string | undefined;
}

/** Returns the providers that settings name, `read` before `tare wrap`. @throws {Error} if one is unreadable. */
export function ownProviders(
  { title, file, addresses: places, settings, loginProvider }: Pick<
    AgentEntry,
    "title" | "file" | "addresses" | "settings" | "loginProvider"
  >,
  { environment, read }: {
    readonly environment: Environment;
    readonly read: (path: string) => string | null;
  },
): OwnProviders {
  const own = places && file?.(environment);
  const files = settings?.(environment, callersFolder(environment)) ??
    own?.paths.map((path): SettingsFile => ({ path, format: own.format })) ?? [];
  const addresses = (["chat", "messages"] as const).flatMap((protocol): OwnAddress[] => {
    const place = places?.[protocol];
    for (const settingsFile of place ? files : []) {
      const { path, format, isFixed, text = read(path) } = settingsFile;
      const given = text === null || !place ? undefined : entryOf(path, text, { format, place });
      if (typeof given !== "string" || given === "") continue;
      const address = withVariables(given, environment);
      if (/^https?:$/.test(URL.parse(address)?.protocol ?? "")) {
        return [{ protocol, address, place: path, ...(isFixed && { isFixed }) }];
      }
      throw new Error(
        `Cannot put ${title} behind a server: ${path} names ${given}, which is no address of HTTP. ` +
          "Write the address itself there.",
      );
    }
    return [];
  });
  const login = loginProvider?.(environment);
  const addressOf = (wanted: ProviderProtocol) =>
    addresses.find(({ protocol }) => protocol === wanted)?.address;
  return {
    addresses,
    login,
    chat: login ?? addressOf("chat"),
    messages: addressOf("messages")?.replace(BELOW, ""),
  };
}

/** Replaces the variables of opencode, Kilo Code (`{env:NAME}`) and OpenClaw (`${NAME}`). */
function withVariables(text: string, environment: Environment): string {
  return text.replaceAll(
    /\{env:(\w+)\}|\$\{(\w+)\}/g,
    (whole, one, other) => environment[one ?? other] ?? whole,
  );
}

function entryOf(
  path: string,
  text: string,
  { format, place }: { readonly format: FileFormat; readonly place: readonly string[] },
): unknown {
  try {
    return entryIn(text, format, place);
  } catch (error) {
    throw new Error(`Cannot read ${path}: ${(error as Error).message}. Mend it, and try again.`);
  }
}

/** Returns paths of these names in a folder and those above it, the nearest first. */
export function filesAbove(folder: string, names: readonly string[]): readonly string[] {
  const parent = join(folder, "..");
  return [
    ...names.map((name) => join(folder, name)),
    ...(parent === folder ? [] : filesAbove(parent, names)),
  ];
}

/** End of an address that both protocols may have. */
const BELOW = /(\/v1)?\/*$/;

export function isSameAddress(one: string, other: string): boolean {
  return one.replace(BELOW, "") === other.replace(BELOW, "");
}
