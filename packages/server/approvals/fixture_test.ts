/**
 * Tools that record their arguments, and access to sessions with approvals. Contains no tests.
 *
 * @module
 */
import { ServerSentEventParseStream } from "@std/http";
import type { FunctionToolCall, Tool } from "@tare/messages";
import type { HttpAgent } from "@tare/server";
import { call, events, request, type SeenEvent, type TestOptions } from "../fixture_test.ts";

/** Returns a tool that records its arguments. */
export function recorder(
  name: string,
  more: Partial<Tool> = {},
): { readonly tool: Tool; readonly ran: unknown[] } {
  const ran: unknown[] = [];
  const definition = { type: "function", function: { name, parameters: { type: "object" } } } as const;
  const run = (args: unknown) => {
    ran.push(args);
    return `${name} ran`;
  };
  return { tool: { definition, run, ...more }, ran };
}

export function toolCall(id: string, name: string, args: unknown = {}): FunctionToolCall {
  return { id, type: "function", function: { name, arguments: JSON.stringify(args) } };
}

/** Returns events in short: the type of each, and its distinguishing fields. */
export function outline(seen: readonly { readonly event: { readonly type: string } }[]): string[] {
  return seen.map(({ event }) => {
    const { type, id, reason, decision, by, content } = event as Record<string, unknown>;
    return [type, id, reason, decision, by, content].filter((part) => part !== undefined).join(" ");
  });
}

/** Returns the events after a number, while a turn runs or an approval is pending. */
export async function follow(handler: HttpAgent, session: string, after: number): Promise<SeenEvent[]> {
  const response = await handler.fetch(request("GET", `${session}/events?after=${after}`));
  return await events(response);
}

/** Returns the arguments of pending calls. */
export async function asksFor(handler: HttpAgent, session: string): Promise<string[]> {
  const { approvals } = (await call(handler, "GET", `${session}/approvals`)).body as {
    approvals: { arguments: string }[];
  };
  return approvals.map((approval) => approval.arguments);
}

/** Returns the path of the approval of this call. */
export async function approvalOf(handler: HttpAgent, session: string, callId: string): Promise<string> {
  const { approvals } = (await call(handler, "GET", `${session}/approvals`)).body as {
    approvals: { id: string; callId: string }[];
  };
  return `${session}/approvals/${approvals.find((approval) => approval.callId === callId)?.id}`;
}

/** Answers the approval of this call. */
export async function answerCall(
  handler: HttpAgent,
  session: string,
  { callId, ...answer }: { readonly callId: string; readonly decision: string; readonly reason?: string },
): ReturnType<typeof call> {
  return await call(handler, "POST", await approvalOf(handler, session, callId), answer);
}

/** Returns the events after a number up to the next turn's end. */
export async function readTurn(handler: HttpAgent, session: string, after: number): Promise<SeenEvent[]> {
  const response = await handler.fetch(request("GET", `${session}/events?after=${after}`));
  const seen: SeenEvent[] = [];
  for await (const { id, data } of response.body!.pipeThrough(new ServerSentEventParseStream())) {
    if (data === undefined) continue;
    const event: SeenEvent["event"] = JSON.parse(data);
    seen.push({ id: Number(id), event });
    if (event.type === "turn_end") break;
  }
  return seen;
}

/** Returns options of a server with approvals. */
export function asking(options: TestOptions = {}): TestOptions {
  return { approvals: {}, ...options };
}
