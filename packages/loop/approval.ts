import type { ResolvedCall, ToolCall } from "@tare/messages";

/** Says of a call, once its arguments are valid and before anything of it runs, whether it may. Must not throw. */
export type Judge = (call: ResolvedCall) =>
  | { readonly decision: "allow" }
  /** `reason` is a sentence for the model. */
  | { readonly decision: "deny"; readonly reason: string }
  /** Somebody has to be asked first. */
  | { readonly decision: "ask" };

/** What somebody is asked to allow: the tool that would run, and the JSON of what it would run with. */
export interface AskedCall {
  /** The call's. */
  readonly id: string;
  readonly name: string;
  readonly arguments: string;
}

/** A call that an earlier turn left open to ask for it, and the answer. */
export interface AnsweredCall {
  /** As it stands at the history's end. */
  readonly call: ToolCall;
  /** What was asked: if the call has come to mean anything else since, it doesn't run. */
  readonly asked: AskedCall;
  /** Why it may not run, in a sentence for the model. Absent: it may. */
  readonly denied?: string;
}
