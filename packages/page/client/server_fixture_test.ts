import type { Message } from "@tare/messages";
import { profileNamed } from "@tare/planner";
import { type SimulatedReply, simulator } from "@tare/simulator";
import { startServerProcess } from "../../../tests/crash/server_process.ts";

export interface PageServer extends AsyncDisposable {
  readonly url: string;
  /** Returns the page's address with the owner's key and the view to open. */
  readonly at: (path?: string) => string;
  /** Replies of the model, the next one first. Default: "No scripted reply." */
  readonly replies: SimulatedReply[];
  /** Pauses replies after a number of chunks until `go` is called, from the reply after `calls` calls. Default: the next. */
  readonly hold: (pieces: number, calls?: number) => { readonly go: () => void };
  readonly kill: () => Promise<void>;
  readonly restart: () => Promise<void>;
  readonly ask: (path: string, body?: unknown) => Promise<Response>;
  readonly write: (name: string, text: string) => Promise<void>;
  readonly import: (messages: readonly Message[]) => Promise<string>;
}

export async function startPageServer(
  { token, args = [], prepare, isGatewayOnly = false }: {
    readonly token?: string;
    readonly args?: readonly string[];
    readonly isGatewayOnly?: boolean;
    readonly prepare?: (data: string) => Promise<void>;
  } = {},
): Promise<PageServer> {
  const folder = await Deno.makeTempDir();
  const replies: SimulatedReply[] = [];
  let gate = { calls: Infinity, pieces: Infinity, opened: Promise.withResolvers<void>() };
  const reply = () => replies.shift() ?? { content: "No scripted reply." };
  const provider = simulator({
    model: { "scripted": reply, "claude-opus-4-8": reply },
    tokenizer: {
      encode: (text) => Array.from({ length: Math.ceil(text.length / 4) }, (_, at) => text.charCodeAt(at)),
    },
    profile: profileNamed("openai"),
  });
  const upstream = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, async (request) => {
    const answer = await provider.fetch(request);
    const isHeld = gate.calls-- <= 0;
    const slow = new TransformStream<Uint8Array, Uint8Array>({
      async transform(piece, controller) {
        if (isHeld && gate.pieces-- <= 0) await gate.opened.promise;
        controller.enqueue(piece);
      },
    });
    return new Response(answer.body?.pipeThrough(slow) ?? null, answer);
  });
  const [workspace, data] = [`${folder}/workspace`, `${folder}/data`];
  await Deno.mkdir(workspace);
  await Deno.writeTextFile(
    `${workspace}/notes.txt`,
    Array.from({ length: 400 }, (_, n) => `Note ${n}.\n`).join(""),
  );
  const start = (port: string) =>
    startServerProcess(
      [
        ...["--port", port, "--workspace", workspace, "--data", data, "--approvals", "allow"],
        ...[
          "--base-url",
          `http://127.0.0.1:${upstream.addr.port}/v1`,
          "--messages-url",
          `http://127.0.0.1:${upstream.addr.port}`,
          ...(isGatewayOnly ? [] : ["--model", "scripted"]),
          "--profile",
          "openai",
        ],
        ...args,
      ],
      token === undefined ? {} : { TARE_TOKEN: token },
    );
  await Deno.mkdir(data);
  await prepare?.(data);
  let server = await start("0");
  const { url } = server;
  const key = token ?? JSON.parse(await Deno.readTextFile(`${data}/owner.json`)).key;
  return {
    url,
    at: (path = "") => `${url}/#key=${key}${path}`,
    replies,
    hold(pieces, calls = 0) {
      gate = { calls, pieces, opened: Promise.withResolvers() };
      return { go: () => gate.opened.resolve() };
    },
    async kill() {
      await server.kill();
    },
    async restart() {
      server = await start(new URL(url).port);
    },
    async ask(path, body) {
      const headers = {
        "content-type": "application/json",
        authorization: `Bearer ${key}`,
      };
      const response = await fetch(`${url}${path}`, {
        headers,
        ...(body !== undefined && { method: "POST", body: JSON.stringify(body) }),
      });
      return response;
    },
    write: (name, text) => Deno.writeTextFile(`${workspace}/${name}`, text),
    async import(messages) {
      const response = await fetch(`${url}/tare/v1/sessions/import`, {
        method: "POST",
        headers: {
          "content-type": "application/x-ndjson",
          authorization: `Bearer ${key}`,
        },
        body: messages.map((message) => JSON.stringify(message)).join("\n"),
      });
      const { sessions: [session] } = await response.json();
      return session.id;
    },
    async [Symbol.asyncDispose]() {
      gate.opened.resolve();
      const output = await server.kill();
      await upstream.shutdown();
      await Deno.remove(folder, { recursive: true });
      if (output.includes("Uncaught")) throw new Error(output);
    },
  };
}

export function longHistory(length: number): Message[] {
  const messages: Message[] = [];
  for (let at = 0; messages.length < length; at++) {
    const call = {
      id: `call-${at}`,
      type: "function",
      function: { name: "read_file", arguments: `{"path":"${at}.txt"}` },
    } as const;
    messages.push(
      { role: "user", content: `Question ${at}: what is in file ${at}?` },
      { role: "assistant", content: "I look.", tool_calls: [call] },
      { role: "tool", tool_call_id: call.id, content: `Line of file ${at}.\n`.repeat(40) },
      {
        role: "assistant",
        content:
          `File **${at}** says the same thing forty times.\n\n- first\n- second\n\n\`\`\`ts\nconst file = ${at};\n\`\`\``,
      },
    );
  }
  return messages.slice(0, length);
}
