import { countMessageTokens, type CountTokens, hashPiece, type Message } from "@tare/messages";
import { resultText } from "@tare/prune";

/** What a pin asks for: that a message comes back and stays, or that a result leaves. */
export type Wish = "keep" | "let_go";

/** What somebody wants of one message of a session. Plain data. */
export interface Pin {
  /** Position of the message in the history. */
  readonly place: number;
  readonly wish: Wish;
  /** Who asked for it. */
  readonly by: string;
  /** Tells the message from any other: of a history that went back and on another way it asks nothing. */
  readonly hash: number;
}

/** What is asked for. */
export interface NewPin extends Pick<Pin, "place" | "wish"> {
  /** Who asks. Default: `user`. */
  readonly by?: string;
}

/** Tokens of the line that stands for a result. */
const LINE_TOKENS = 40;

/**
 * Makes a pin for a message of a history.
 *
 * @throws {RangeError} if there is no such message, or it is one that stays anyway, or one that can't leave.
 */
export function makePin(
  history: readonly Message[],
  { place, wish, by = "user" }: NewPin,
  countTokens: CountTokens,
): Pin {
  const message = history[place];
  const refuse = (why: string) => {
    const what = wish === "keep" ? "keep" : "let go of";
    throw new RangeError(`Cannot ${what} message ${place}: ${why}.`);
  };
  if (!message) return refuse(`the session has ${history.length}, numbered from 0`);
  if (wish === "keep") {
    if (message.role === "system" || message.role === "developer") refuse("instructions never leave");
  } else {
    if (message.role !== "tool") refuse(`it is the ${message.role}'s; only results of tools can be let go`);
    if (message.role === "tool" && message.keep) refuse("the provider needs it where it stands");
    if (message.role === "tool" && resultText(message) === undefined) {
      refuse("it holds more than text, which can't be archived");
    }
    if (countMessageTokens(message, countTokens) <= LINE_TOKENS) {
      refuse("it is no longer than the line that would stand in its place");
    }
  }
  return { place, wish, by, hash: hashPiece(message) };
}

/** The pins with another for a message in place of the one before, by their places. */
export function withPin(pins: readonly Pin[], pin: Pin): readonly Pin[] {
  return [...withoutPin(pins, pin.place), pin].sort((a, b) => a.place - b.place);
}

/** The pins without that of a message. */
export function withoutPin(pins: readonly Pin[], place: number): readonly Pin[] {
  return pins.filter((one) => one.place !== place);
}

/** The pins of messages that are there. */
export function fittingPins(pins: readonly Pin[], history: readonly Message[]): readonly Pin[] {
  return pins.filter(({ place, hash }) => {
    const message = history[place];
    return message !== undefined && hashPiece(message) === hash;
  });
}
