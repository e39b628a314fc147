import type { CountTokens } from "@tare/messages";
import { seeded } from "../../tests/seeded.ts";
import { pick, word } from "../../tests/words.ts";

export function nonce(seed: number, name: string): string {
  return `${seed.toString(36)} ${name}`;
}

/** Returns a generator of pseudo-random numbers from 0 to 1, determined by the name. */
export function randomOf(name: string): () => number {
  let hash = 0;
  for (const character of name) hash = Math.imul(hash ^ character.charCodeAt(0), 0x01000193);
  return seeded(hash);
}

export function prose(
  tokens: number,
  { random, countTokens }: { readonly random: () => number; readonly countTokens: CountTokens },
): string {
  const lines: string[] = [];
  for (let left = tokens; left > 0;) {
    const line = `The ${word(random)} of ${word(random)} ${pick(VERBS, random)} the ${word(random)} at ${
      Math.floor(random() * 1_000)
    }.`;
    lines.push(line);
    left -= countTokens(`${line}\n`);
  }
  return lines.join("\n");
}

const VERBS = ["carries", "follows", "leaves", "meets", "passes", "reaches", "waits for"];
