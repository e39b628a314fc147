import { join } from "@std/path";
import { callersFolder } from "../server/noted_server.ts";
import type { AgentEntry, Environment } from "./agents.ts";
import { entryIn, type FileFormat } from "./file_entries.ts";

export type ProviderProtocol = "chat" | "messages";

export interface OwnAddress {
  readonly protocol: ProviderProtocol;
  readonly address: string;
  readonly place: string;
  /** Whether it overrides the settings of a process, so that the agent can't be redirected. Default: false. */
  readonly isFixed?: boolean;
}

export interface SettingsFile {
  readonly path: string;
  readonly format: FileFormat;
  readonly isFixed?: boolean;
  /** Text of settings in a variable. Default: read from `path`. */
  readonly text?: string | null;
}

export interface OwnProviders {
  readonly addresses: readonly OwnAddress[];
  readonly login: string | undefined;
  readonly chat: string | undefined;
  readonly messages: string | undefined;
}

/**
 * Returns the providers of settings; `read` returns texts from before `tare wrap`.
 *
 * @throws {Error} for invalid settings.
 */
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
        `Cannot connect ${title} to a server: ${path} contains ${given}, which is not an HTTP address. ` +
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

/** Expands variables of opencode, Kilo Code (`{env:NAME}`) and OpenClaw (`${NAME}`). */
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
    throw new Error(`Cannot read ${path}: ${(error as Error).message}. Fix it, and retry.`);
  }
}

export function filesAbove(folder: string, names: readonly string[]): readonly string[] {
  const parent = join(folder, "..");
  return [
    ...names.map((name) => join(folder, name)),
    ...(parent === folder ? [] : filesAbove(parent, names)),
  ];
}

const BELOW = /(\/v1)?\/*$/;

export function isSameAddress(one: string, other: string): boolean {
  return one.replace(BELOW, "") === other.replace(BELOW, "");
}
