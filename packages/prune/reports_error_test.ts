import { assertEquals } from "@std/assert";
import type { Message, ToolMessage } from "@tare/messages";
import { exitCodeIn } from "@tare/messages/internal";
import { memoryArchive, pruneResults } from "@tare/prune";
import { looksLikeError, reportsError } from "@tare/prune/internal";
import fc from "../../tests/cases.ts";

const result = (content: string, failed?: boolean): ToolMessage => ({
  role: "tool",
  tool_call_id: "1",
  content,
  ...(failed !== undefined && { failed }),
});

/** Results that report an error without a protocol's flag. */
const ERRORS = [
  "Error: x",
  "error: build failed",
  "ERROR: permission denied for table users",
  "error[E0308]: mismatched types\n --> src/main.rs:4:5",
  "error TS2304: Cannot find name 'x'.",
  "Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'x'",
  "\x1b[31merror\x1b[0m: Uncaught (in promise) TypeError",
  "\n\nError: after blank lines",
  "Error executing tool read_file: no such file",
  "Error reading file src/a.ts",
  "An error occurred while running the tool. Please try again.",
  "Cannot read a: b",
  "Failed to fetch https://example.com",
  "Unable to connect to the database",
  "Could not resolve host: example.com",
  "File does not exist.",
  "File not found: a.ts",
  "<tool_use_error>File has not been read yet.</tool_use_error>",
  "MCP error -32602: Invalid arguments",
  "Request failed with status code 404",
  "TypeError: x is not a function\n    at a.js:1:2",
  "Uncaught ReferenceError: y is not defined",
  "java.lang.NullPointerException: name",
  "requests.exceptions.ConnectionError: refused",
  "Unhandled promise rejection",
  'Traceback (most recent call last):\n  File "a.py", line 1\nValueError: no',
  'starting\nTraceback (most recent call last):\n  File "a.py", line 1\nKeyError: "x"',
  'Exception in thread "main" java.lang.Error',
  "panic: runtime error: index out of range\n\ngoroutine 1",
  "thread 'main' panicked at src/main.rs:2:5",
  "Segmentation fault (core dumped)",
  "fatal: not a git repository",
  "FATAL: password authentication failed",
  "fatal error: x.h: No such file or directory",
  "npm ERR! code ELIFECYCLE",
  "npm error code ENOENT",
  "> build\n> tsc\n\nnpm ERR! exit 2",
  "cc -c a.c\na.c:1:1: warning: x\nmake: *** [Makefile:2: all] Error 1",
  "   Compiling a v0.1.0\nerror: could not compile `a`",
  "E: Unable to locate package nope",
  "curl: (6) Could not resolve host: nope",
  "main.c:3:5: error: expected ';'",
  "src/a.ts(3,5): error TS2322: Type 'x'",
  "bash: foo: command not found",
  "/bin/sh: 1: foo: not found",
  "cat: a.txt: No such file or directory",
  "ls: cannot access 'x': No such file or directory",
  "'foo' is not recognized as an internal or external command,",
  "Get-Content : Cannot find path 'C:\\x' because it does not exist.",
  '{"error":{"message":"Not found"}}',
  '{ "error": "no such user" }',
  '{"isError": true, "content": []}',
  '{"success":false,"message":"no"}',
  // The exit code takes precedence over the form.
  "Exit code: 1\nOutput:\nfine",
  "exit code 2; output (9 bytes):\nall good",
  "Chunk ID: a6\nWall time: 0.6 seconds\nProcess exited with code 128\nOutput:\nx",
  "all good\n\nCommand exited with code 2",
  "Command: ls x\nDirectory: (root)\nOutput: (empty)\nError: (none)\nExit Code: 2\nSignal: (none)",
  "Command executed in terminal within working directory '/x'. Exit code: 1\nOutput:\nx",
  "<returncode>1</returncode>\n<output>x</output>",
  "x\n[The command completed with exit code 1.]",
  '{"output":"fine","metadata":{"exit_code":1}}',
];

const NO_ERRORS = [
  "",
  "Error handling docs",
  "# Error: a guide",
  "Errors: 0",
  "error: 0",
  "Error: none",
  "error: null,",
  "error:\n  not_found: Not found",
  "error.ts\nerror_test.ts",
  "error: string;",
  "ErrorBoundary.tsx",
  "Errors are values in Go.",
  "An Error",
  "class TypeError extends Error {}",
  "export class HttpError: x",
  "TypeErrors: how to avoid them",
  "import { Error } from 'x'",
  "Cannot-do lists",
  "Cannot be beaten: our offers",
  "Failed attempts: 3",
  "fatal.md",
  "fatalities: 3",
  "Traceback handling in Python",
  "The docs say:\nTraceback (most recent call last):\nis how it begins.",
  "npm errors, explained",
  "npm notice New version",
  "panic room",
  "E: is the fifth letter",
  "make: Nothing to be done for 'all'.",
  "src/log.ts:12:  error: (text) => write(text),",
  "Exception handling: an overview",
  "not found: 3 of 20",
  '{"error":null,"data":[]}',
  '{"error":"","ok":true}',
  '{"data":[],"error":"late"}',
  "12 passed, 0 failed",
  // The exit code takes precedence over the form.
  "Exit code: 0\nOutput:\nError: none of them",
  "exit code 0; output (20 bytes):\nerror: it said so",
  '{"output":"Error: it is a log","metadata":{"exit_code":0}}',
  "Error: from the log\n\nCommand exited with code 0",
];

Deno.test("looksLikeError() returns whether a text reports an error, by its exit code or else its form", () => {
  const found = (texts: readonly string[]) => texts.filter((text) => looksLikeError(result(text)));
  assertEquals(found(ERRORS), ERRORS);
  assertEquals(found(NO_ERRORS), []);
});

Deno.test("reportsError() follows the protocol, then the caller, then the text", () => {
  for (const text of ERRORS) assertEquals(reportsError(result(text, false), 0), false);
  for (const text of NO_ERRORS) assertEquals(reportsError(result(text, true), 0), true);
  assertEquals(reportsError(result("Error: x"), 0, { isError: () => false }), false);
  assertEquals(reportsError(result("fine"), 3, { isError: (_, index) => index === 3 }), true);
});

Deno.test("pruneResults() retains each result that reports an error, whatever follows its first line", async () => {
  const countTokens = (text: string) => text.length;
  const more = fc.array(fc.constantFrom("  at a.js:1:2", "more", "", "done"), { maxLength: 3 });
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(...ERRORS, ...NO_ERRORS), more, async (text, lines) => {
      // The end decides if the exit code follows the output; JSON is read whole.
      const isWhole = text.includes("\n") || text.startsWith("{");
      const content = isWhole ? text : [text, ...lines, "x".repeat(300)].join("\n");
      const messages: Message[] = [
        { role: "user", content: "Go." },
        {
          role: "assistant",
          tool_calls: [{ id: "1", type: "function", function: { name: "shell", arguments: "{}" } }],
        },
        result(content),
        { role: "assistant", content: "Done." },
      ];
      const options = { archive: memoryArchive(), countTokens, protectTokens: 0, minBytes: 1 };
      const pruned = await pruneResults(messages, options);
      if (ERRORS.includes(text)) assertEquals(pruned.failure ? undefined : pruned.elisions, []);
      else if (!isWhole) assertEquals(pruned.failure ? undefined : pruned.elisions.length, 1);
    }),
  );
});

Deno.test("exitCodeIn() and looksLikeError() take linear time", () => {
  for (const piece of ["a:", "(", "[", "error ", "E", "x.", "Command: \n", "\\", '{"exit_code":', "'"]) {
    const text = piece.repeat(300_000);
    assertEquals(exitCodeIn(text), undefined);
    looksLikeError(result(text));
    looksLikeError(result(`Error ${text}`));
  }
});
