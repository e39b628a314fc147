import { AGENT_MODEL } from "@tare/server";
import type { Policy } from "@tare/planner";

/** A setting: where it is told, what it means, how it is read. */
export interface Option<T> {
  readonly variable: string;
  /** The same by flag; a key has none, since other users of the machine can read a command line. */
  readonly flag?: string;
  readonly fallback?: string;
  readonly help: string;
  /** True if no message may show the value. */
  readonly isSecret?: boolean;
  /** The only policy that goes by it. Default: each does. */
  readonly policy?: Policy;
  /** The value, or nothing for a wrong one. */
  readonly read: (text: string) => T | undefined;
  /** What would be right. */
  readonly right?: string;
}

/** How a value is read, and what would be right. */
type Reader<T> = Required<Pick<Option<T>, "read" | "right">>;

/** A text as it is. */
export function text(value: string): string {
  return value;
}

/** Reads a list with commas between its members. */
export function list(isRight: (member: string) => boolean): (text: string) => readonly string[] | undefined {
  return (text) => {
    const members = text.split(",").map((member) => member.trim()).filter(Boolean);
    return members.every(isRight) ? members : undefined;
  };
}

/** Reads a whole number within these limits. */
export function wholeNumber(least: number, most: number): Reader<number> {
  return {
    read: (digits) => {
      const isRight = /^\d+$/.test(digits) && Number(digits) >= least && Number(digits) <= most;
      return isRight ? Number(digits) : undefined;
    },
    right: `a whole number from ${least} to ${most}`,
  };
}

/** Reads a number from 0 to 1. */
export function share(): Reader<number> {
  return {
    read: (text) => /^\d*\.?\d+$/.test(text) && Number(text) <= 1 ? Number(text) : undefined,
    right: "a number from 0 to 1, such as 0.1",
  };
}

/** Whether a folder is there. */
export function isDirectory(path: string): boolean {
  try {
    return Deno.statSync(path).isDirectory;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound || error instanceof Deno.errors.NotADirectory) return false;
    throw error;
  }
}

/** The name of a provider's model, which isn't the server's own agent. */
export const providersModel: Pick<Option<string>, "read" | "right"> = {
  read: (name) => name === AGENT_MODEL ? undefined : text(name),
  right: `the provider's name for the model that the agent asks (${AGENT_MODEL} is the agent itself)`,
};
