import type { JsonSchema } from "@tare/messages";
import type { Pin } from "@tare/planner";
import { closedSchema, COUNT, listOf, TEXT } from "./schemas.ts";

/** A pin, and whether the prompt is already as it says. */
export interface PinReport extends Omit<Pin, "hash"> {
  /** `waiting` for the next rewrite, or `done`. */
  readonly state: "waiting" | "done";
}

/** JSON Schema of a {@linkcode PinReport}. */
export const PIN_REPORT: JsonSchema = closedSchema("Pin", {
  place: COUNT,
  wish: { enum: ["keep", "let_go"] },
  by: TEXT,
  state: { enum: ["waiting", "done"] },
});

/** JSON Schema of all pins of a session. */
export const PIN_LIST: JsonSchema = closedSchema("PinList", { pins: listOf(PIN_REPORT) });

/** JSON Schema of what is asked for. */
export const NEW_PIN: JsonSchema = {
  title: "NewPin",
  type: "object",
  properties: {
    place: { ...COUNT, description: "Position of the message in the history." },
    wish: {
      enum: ["keep", "let_go"],
      description: "`keep` brings it back at the next rewrite and keeps it; `let_go` lets the result leave.",
    },
    by: { type: "string", minLength: 1, maxLength: 100, description: "Who asks. Default: `user`." },
  },
  required: ["place", "wish"],
  additionalProperties: false,
  examples: [{ place: 12, wish: "keep", by: "ada" }],
};
