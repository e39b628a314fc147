import { assertEquals } from "@std/assert";
import type { Stance, Tool } from "@tare/messages";
import fc from "fast-check";
import { ALLOW_EVERYTHING, type ApprovalRule, faultOfRules, judgeBy } from "./rules.ts";

function tool(name: string, stance: Stance = "once"): Tool {
  return { definition: { type: "function", function: { name } }, stance, run: () => "" };
}

/** What these lists of rules say of a call. */
function decide(
  lists: readonly (readonly ApprovalRule[])[],
  { name = "shell", args = {}, stance = "once" }: {
    readonly name?: string;
    readonly args?: Readonly<Record<string, unknown>>;
    readonly stance?: Stance;
  },
): string {
  return judgeBy({ lists, always: [], workspace: "/work" })({ tool: tool(name, stance), args }).decision;
}

Deno.test("judgeBy() without a rule allows what only reads, and asks for all else", () => {
  assertEquals(decide([[], []], { stance: "rederivable" }), "allow");
  assertEquals(decide([[], []], { stance: "once" }), "ask");
  assertEquals(decide([[], []], { stance: "keep" }), "ask");
  assertEquals(decide([ALLOW_EVERYTHING, []], {}), "allow");
});

Deno.test("judgeBy() goes by the first rule of a list that fits, and by names with stars", () => {
  const rules: ApprovalRule[] = [
    { tool: "mail_*_send", decision: "deny" },
    { tool: "mail_*", decision: "allow" },
    { tool: "*", decision: "ask" },
  ];
  const names = ["mail_a_send", "mail_read", "mail", "read"];
  assertEquals(names.map((name) => decide([rules], { name, stance: "rederivable" })), [
    "deny",
    "allow",
    "ask",
    "ask",
  ]);
});

Deno.test("judgeBy() knows paths by where they lead, not by how they are written", () => {
  const allow: ApprovalRule[] = [{
    tool: "write",
    paths: ["src/**", "*.md", "/tmp/out/*"],
    decision: "allow",
  }];
  const deny: ApprovalRule[] = [{ tool: "*", paths: ["secret/**", "**/.env"], decision: "deny" }];
  const decided = (rules: ApprovalRule[], path: unknown) =>
    decide([rules], { name: "write", args: { path }, stance: "once" });
  const cases: readonly (readonly [unknown, string, string])[] = [
    ["src/a/b.ts", "allow", "ask"],
    ["./src//a.ts", "allow", "ask"],
    ["/work/src/a.ts", "allow", "ask"],
    ["README.md", "allow", "ask"],
    ["docs/README.md", "ask", "ask"],
    ["src/../secret/a", "ask", "deny"],
    ["/work/secret", "ask", "deny"],
    ["SECRET/a", "ask", "deny"],
    ["a/b/.env", "ask", "deny"],
    ["../src/a.ts", "ask", "ask"],
    ["/tmp/out/a", "allow", "ask"],
    ["/tmp/out/../a", "ask", "ask"],
    ["/work/../work/secret/a", "ask", "deny"],
    [["src/a", "secret/b"], "ask", "deny"],
    [["src/a", "src/b"], "allow", "ask"],
    [[], "ask", "ask"],
    [3, "ask", "ask"],
    [undefined, "ask", "ask"],
  ];
  for (const [path, allowed, denied] of cases) {
    assertEquals([path, decided(allow, path), decided(deny, path)], [path, allowed, denied]);
  }
  // What lies outside is nobody's who means the workspace.
  assertEquals(decided([{ tool: "*", paths: ["**"], decision: "allow" }], "../x"), "ask");
});

Deno.test("judgeBy() knows commands by their first words, and asks for what an operator may begin", () => {
  const allow: ApprovalRule[] = [{ tool: "shell", prefixes: ["git log", "ls"], decision: "allow" }];
  const deny: ApprovalRule[] = [
    { tool: "shell", prefixes: ["rm"], decision: "deny" },
    { tool: "shell", decision: "allow" },
  ];
  const decided = (rules: ApprovalRule[], command: string) => decide([rules], { args: { command } });
  const cases = [
    ["git log", "allow", "allow"],
    ["  git \t log -5 --stat", "allow", "allow"],
    ["git logs", "ask", "allow"],
    ["git", "ask", "allow"],
    ["lsof", "ask", "allow"],
    ["rm -r a", "ask", "deny"],
    ["ls; rm -r a", "ask", "ask"],
    ["ls 'a;b'", "ask", "ask"],
    ["", "ask", "allow"],
  ] as const;
  for (const [command, allowed, denied] of cases) {
    assertEquals([command, decided(allow, command), decided(deny, command)], [command, allowed, denied]);
  }
});

Deno.test("judgeBy() lets an answer for ever hold for the same call, and outrank no rule that denies", () => {
  const judge = judgeBy({
    lists: [[{ tool: "shell", prefixes: ["ls secret"], decision: "deny" }]],
    always: [
      { id: "1", name: "shell", arguments: '{"command":"ls"}' },
      { id: "2", name: "shell", arguments: '{"command":"a | b"}' },
      { id: "3", name: "write", arguments: '{"path":"a"}' },
    ],
    workspace: "/",
  });
  const decided = (name: string, args: Readonly<Record<string, unknown>>) =>
    judge({ tool: tool(name), args }).decision;
  assertEquals(
    ["ls", "ls -l", "lsof", "ls; rm a", "a | b", "a | b | c", "ls secret"]
      .map((command) => decided("shell", { command })),
    ["allow", "ask", "ask", "ask", "allow", "ask", "deny"],
  );
  assertEquals([decided("write", { path: "b" }), decided("writer", { path: "a" })], ["allow", "ask"]);
});

const OPERATORS = [";", "&&", "||", "|", "&", "`", "$(", ">", ">>", "<", "<<", "\n", "\r", "(", ")"] as const;

Deno.test("Property: a prefix never lets a command through that holds an operator, wherever it stands", () => {
  const piece = fc.string({ maxLength: 12 });
  fc.assert(
    fc.property(piece, piece, fc.constantFrom(...OPERATORS), piece, (prefix, before, operator, behind) => {
      const words = `${prefix} x`.trim();
      const rules: ApprovalRule[] = [{ tool: "*", prefixes: [words], decision: "allow" }];
      const command = `${words} ${before}${operator}${behind}`;
      assertEquals(decide([rules], { args: { command } }), "ask");
    }),
  );
});

const rule: fc.Arbitrary<ApprovalRule> = fc.record({
  tool: fc.constantFrom("*", "shell", "write", "sh*"),
  decision: fc.constantFrom("allow", "ask", "deny"),
}, { requiredKeys: ["tool", "decision"] }).chain((plain) =>
  fc.constantFrom<ApprovalRule>(
    plain,
    { ...plain, paths: ["src/**"] },
    { ...plain, prefixes: ["git log"] },
    { ...plain, paths: ["**"], argument: "file" },
  )
);

const called = fc.record({
  name: fc.constantFrom("shell", "write", "read"),
  args: fc.record({
    command: fc.constantFrom("git log", "git log; rm a", "rm a"),
    path: fc.constantFrom("src/a", "../a", "b"),
    file: fc.constantFrom("a", "/etc/a"),
  }),
  stance: fc.constantFrom<Stance>("rederivable", "once", "keep"),
});

Deno.test("Property: the stricter of two lists wins, whatever their order, and one alone decides as ever", () => {
  const strictness = ["allow", "ask", "deny"];
  const lists = fc.array(rule, { maxLength: 4 });
  fc.assert(fc.property(lists, lists, called, (file, session, call) => {
    const both = decide([file, session], call);
    assertEquals(decide([session, file], call), both);
    // What a list says by itself; one that says nothing leaves it to the other.
    const [first, second] = [file, session].map((list) => {
      const [strict, loose] = ["deny", "allow"].map((decision) =>
        decide([[...list, { tool: "*", decision } as ApprovalRule]], call)
      );
      return strict === loose ? strict : undefined;
    });
    const said = [first, second].filter((one) => one !== undefined);
    const usual = decide([[]], call);
    const strictest = strictness.findLast((one) => said.includes(one)) ?? usual;
    assertEquals(both, strictest);
  }));
});

Deno.test("faultOfRules() names what is wrong, and takes no argument that nothing is looked for in", () => {
  assertEquals(faultOfRules(ALLOW_EVERYTHING), undefined);
  assertEquals(faultOfRules([{ tool: "a", paths: ["b"], argument: "c", decision: "ask" }]), undefined);
  for (
    const wrong of [
      {},
      [{ tool: "a" }],
      [{ tool: "a", decision: "maybe" }],
      [{ tool: "", decision: "ask" }],
      [{ tool: "a", paths: [], decision: "ask" }],
      [{ tool: "a", more: 1, decision: "ask" }],
      [{ tool: "shell", argument: "git status", decision: "allow" }],
    ]
  ) assertEquals([wrong, typeof faultOfRules(wrong)], [wrong, "string"]);
});
