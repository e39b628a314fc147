import { MAX_FIELDS } from "./json_spans.ts";

/** How deep and how wide JSON may be. */
export interface JsonLimits {
  /** Most lists and objects inside one another. Default: 200. */
  readonly maxDepth?: number;
  /** Most members of all lists and objects together. Default: 100,000. */
  readonly maxMembers?: number;
  /** Most fields of one object. Default: 5,000. */
  readonly maxFields?: number;
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/**
 * What of a JSON text is too much for whoever works through it value by value, as a sentence goes on: `it is nested more
 * than …`. Nothing of one that is within the limits, or is no JSON. Takes a moment for megabytes, whatever they hold.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { jsonExcess } from "@tare/wire";
 *
 * const nested = new TextEncoder().encode("[".repeat(201));
 * assertEquals(jsonExcess(nested), "it is nested more than 200 levels deep");
 * ```
 */
export function jsonExcess(
  bytes: Uint8Array<ArrayBuffer>,
  { maxDepth = 200, maxMembers = 100_000, maxFields = MAX_FIELDS }: JsonLimits = {},
): string | undefined {
  let depth = 0;
  let members = 0;
  /** How many fields the object at each level has so far; -1 of a list. */
  const fields: number[] = [];
  for (let at = 0; at < bytes.length; at++) {
    switch (bytes[at]) {
      case QUOTE:
        at = endOfText(bytes, at);
        break;
      case 0x5b: // [
      case 0x7b: // {
        members++;
        fields[depth] = bytes[at] === 0x7b ? 1 : -1;
        if (++depth > maxDepth) return `it is nested more than ${maxDepth} levels deep`;
        break;
      case 0x5d: // ]
      case 0x7d: // }
        depth--;
        break;
      case 0x2c: // ,
        members++;
        if (fields[depth - 1]! > 0 && ++fields[depth - 1]! > maxFields) {
          return `one of its objects has more than ${maxFields} fields`;
        }
    }
    if (members > maxMembers) return `it holds more than ${maxMembers} values`;
  }
  return undefined;
}

/** Where the text that begins here ends. */
function endOfText(bytes: Uint8Array<ArrayBuffer>, start: number): number {
  let end = bytes.indexOf(QUOTE, start + 1);
  while (end > 0 && isEscaped(bytes, end)) end = bytes.indexOf(QUOTE, end + 1);
  return end < 0 ? bytes.length : end;
}

function isEscaped(bytes: Uint8Array<ArrayBuffer>, at: number): boolean {
  let before = at;
  while (bytes[before - 1] === BACKSLASH) before--;
  return (at - before) % 2 === 1;
}
