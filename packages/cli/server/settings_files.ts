import { dirname, isAbsolute, join } from "@std/path";
import { createHash } from "node:crypto";
import { folderName } from "./data_folder.ts";
import type { Environment } from "../agents/agents.ts";
import { callersFolder } from "./noted_server.ts";

export interface StoredVariables {
  readonly path: string;
  /** Values by the name of their environment variable. */
  readonly values: Readonly<Record<string, string>>;
}

/** Variables that determine which files apply, so that no file can set them. */
const UNSTORED: readonly string[] = ["TARE_WORKSPACE", "TARE_DATA", "INIT_CWD"];

/** Variables that a server of one user depends on. */
const STORED = /^(TARE_[A-Z_]+|(OPENAI|ANTHROPIC)_(API_KEY|BASE_URL)|AWS_(ACCESS_KEY_ID|SECRET_ACCESS_KEY))$/;

/**
 * Returns the paths of the user's settings file and of the one for a folder, the default one the caller's. Neither is in
 * the folder, whose files may come from others. Undefined without a home folder.
 */
export function settingsPaths(
  environment: Environment,
  folder: string = callersFolder(environment),
): { readonly user: string; readonly folder: string } | undefined {
  const { HOME, XDG_CONFIG_HOME, LOCALAPPDATA } = environment;
  const config = Deno.build.os === "windows"
    ? LOCALAPPDATA
    : XDG_CONFIG_HOME && isAbsolute(XDG_CONFIG_HOME)
    ? XDG_CONFIG_HOME
    : HOME && join(HOME, ".config");
  if (!config) return undefined;
  const all = join(config, "tare");
  return { user: join(all, "settings.json"), folder: join(all, "folders", `${folderName(folder)}.json`) };
}

/** Returns the settings files that exist, the one with precedence first. @throws {RangeError} if one is invalid. */
export function readSettingsFiles(environment: Environment, folder?: string): readonly StoredVariables[] {
  const paths = settingsPaths(environment, folder);
  if (paths === undefined) return [];
  return [paths.folder, paths.user].flatMap((path) => {
    const values = readValues(path);
    return values === undefined ? [] : [{ path, values }];
  });
}

/** Returns the environment with the values of files for the variables that it doesn't set. */
export function withSettingsFiles(environment: Environment, files: readonly StoredVariables[]): Environment {
  const set = Object.entries(environment).filter(([, value]) => value);
  const stored = files.toReversed().map(({ values }) => values);
  return Object.assign({}, environment, ...stored, Object.fromEntries(set));
}

/** Variables that a server which uses only its clients' keys doesn't get, and the flag that starts such a server. */
export const CLIENT_KEYS: { readonly flag: string; readonly omitted: readonly string[] } = {
  flag: "--client-keys",
  omitted: ["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "TARE_MODEL", "TARE_TOKEN"],
};

/** Returns files without the variables of {@linkcode CLIENT_KEYS}. */
export function withoutKeys(files: readonly StoredVariables[]): readonly StoredVariables[] {
  return files.map(({ path, values }) => ({
    path,
    values: Object.fromEntries(
      Object.entries(values).filter(([name]) => !CLIENT_KEYS.omitted.includes(name)),
    ),
  }));
}

/** Sets variables in a file, created for its user only; an empty value removes one. */
export async function storeSettings(path: string, values: Readonly<Record<string, string>>): Promise<void> {
  const all = Object.entries({ ...readValues(path), ...values }).filter(([, value]) => value !== "");
  await Deno.mkdir(dirname(path), { recursive: true, mode: 0o700 });
  const part = `${path}.${crypto.randomUUID()}.part`;
  await Deno.writeTextFile(part, `${JSON.stringify(Object.fromEntries(all), null, 2)}\n`, { mode: 0o600 });
  await Deno.rename(part, path);
}

function readValues(path: string): StoredVariables["values"] | undefined {
  let text: string;
  try {
    text = Deno.readTextFileSync(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound || error instanceof Deno.errors.NotADirectory) return undefined;
    throw new RangeError(`Cannot read the settings in ${path}: ${(error as Error).message}.`, {
      cause: error,
    });
  }
  let values: unknown;
  try {
    values = JSON.parse(text);
  } catch (error) {
    throw new RangeError(`Cannot read the settings in ${path}: ${(error as Error).message}.`, {
      cause: error,
    });
  }
  if (typeof values !== "object" || values === null || Array.isArray(values)) {
    throw new RangeError(
      `Cannot read the settings in ${path}: it isn't an object. Use variables and values, such as ` +
        '{ "TARE_MODEL": "gpt-5.5" }.',
    );
  }
  return Object.fromEntries(
    Object.entries(values).map(([name, value]) => {
      const fault = faultOfStored(name, value);
      if (fault === undefined) return [name, String(value)];
      throw new RangeError(`Cannot use the settings in ${path}: ${fault}`);
    }),
  );
}

/** Returns why a file can't set this variable to this value. */
export function faultOfStored(name: string, value: unknown): string | undefined {
  if (UNSTORED.includes(name)) return `${name} determines which files apply. Set it in the environment.`;
  if (!STORED.test(name)) return `${name} is no variable of a setting. tare start --help all lists them.`;
  if (typeof value === "string" || typeof value === "number") return undefined;
  return `${name} is ${JSON.stringify(value)}. Use a string or a number.`;
}

/** Returns a keyed digest per variable that a server's settings are read from, without their values. */
export function settingsDigests(environment: Environment, key: string): Readonly<Record<string, string>> {
  const set = Object.entries(environment).filter(([name, value]) =>
    value && STORED.test(name) && !UNSTORED.includes(name)
  );
  return Object.fromEntries(
    set.map(([name, value]) => {
      const digest = createHash("sha256").update(`${key}\n${value}`).digest("hex");
      return [name, digest.slice(0, 16)];
    }),
  );
}
