/**
 * What must be given: a value of this kind, or an object that has what is named. `value` is anything but undefined and
 * null, and `messages` are checked by their roles.
 */
export type Needed =
  | "function"
  | "string"
  | "number"
  | "object"
  | "array"
  | "bytes"
  | "message"
  | "messages"
  | "value"
  | { readonly [name: string]: Needed };

type NeededKind = Extract<Needed, string>;

const KINDS: Readonly<Record<NeededKind, string>> = {
  function: "a function",
  string: "a string",
  number: "a number",
  object: "an object",
  array: "an array",
  bytes: "a Uint8Array",
  message: "a chat message",
  messages: "an array of chat messages",
  value: "given",
};

const ROLES: readonly unknown[] = ["system", "developer", "user", "assistant", "tool", "function"];

/**
 * Checks what a function was given, for callers without TypeScript: what is missing is named as the parameter is.
 *
 * @param caller The function, as an error names it.
 * @param given What it was given, by the names of its parameters.
 * @param needed What it needs, by the same names, and of an object by those of its fields.
 * @throws {TypeError} at the first that isn't what is needed, and at a message whose role no chat message has.
 *
 * @example
 * ```ts
 * import { assertThrows } from "@std/assert";
 * import { checkGiven } from "@tare/messages";
 *
 * function greet(options: { readonly name: string }): string {
 *   checkGiven("greet()", { options }, { options: { name: "string" } });
 *   return `Hello, ${options.name}.`;
 * }
 * const untyped = JSON.parse("{}");
 * assertThrows(
 *   () => greet(untyped),
 *   TypeError,
 *   "Cannot run greet(): options.name is missing; it must be a string",
 * );
 * ```
 */
export function checkGiven(
  caller: string,
  given: Readonly<Record<string, unknown>>,
  needed: Readonly<Record<string, Needed>>,
): void {
  for (const name in needed) check(caller, name, { value: given[name], need: needed[name]! });
}

function check(
  caller: string,
  name: string,
  { value, need }: { readonly value: unknown; readonly need: Needed },
): void {
  if (typeof need === "string") {
    if (!isOf(need, value)) refuse(caller, name, { value, right: KINDS[need] });
    if (need === "message") checkRole(caller, name, value as MaybeMessage);
    if (need === "messages") checkRoles(caller, name, value as readonly unknown[]);
    return;
  }
  if (!isOf("object", value)) {
    refuse(caller, name, { value, right: `an object with ${Object.keys(need).join(", ")}` });
  }
  const fields = value as Readonly<Record<string, unknown>>;
  for (const field in need) check(caller, `${name}.${field}`, { value: fields[field], need: need[field]! });
}

function checkRoles(caller: string, name: string, messages: readonly unknown[]): void {
  for (let at = 0; at < messages.length; at++) {
    // Nearly all are in order: to say so of thousands must cost next to nothing.
    switch ((messages[at] as MaybeMessage | null | undefined)?.role) {
      case "assistant":
      case "tool":
      case "user":
      case "system":
      case "developer":
      case "function":
        continue;
    }
    check(caller, `${name}[${at}]`, { value: messages[at], need: "message" });
  }
}

interface MaybeMessage {
  readonly role?: unknown;
}

function checkRole(caller: string, name: string, { role }: MaybeMessage): void {
  if (!ROLES.includes(role)) {
    refuse(caller, `${name}.role`, { value: role, right: `one of ${ROLES.join(", ")}` });
  }
}

function isOf(kind: NeededKind, value: unknown): boolean {
  if (kind === "array" || kind === "messages") return Array.isArray(value);
  if (kind === "value") return value !== undefined && value !== null;
  if (kind === "bytes") return value instanceof Uint8Array;
  if (kind === "object" || kind === "message") {
    return typeof value === "object" && value !== null && !Array.isArray(value);
  }
  const type: string = typeof value;
  return type === kind;
}

function refuse(
  caller: string,
  name: string,
  { value, right }: { readonly value: unknown; readonly right: string },
): never {
  const state = value === undefined ? "missing" : describe(value);
  throw new TypeError(`Cannot run ${caller}: ${name} is ${state}; it must be ${right}`);
}

function describe(value: unknown): string {
  if (typeof value === "string") return JSON.stringify(value.length > 40 ? `${value.slice(0, 40)}…` : value);
  if (Array.isArray(value)) return KINDS.array;
  if (typeof value === "function") return KINDS.function;
  return typeof value === "object" && value !== null ? KINDS.object : String(value);
}
