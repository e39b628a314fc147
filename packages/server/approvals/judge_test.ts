import { assertEquals } from "@std/assert";
import type { Judge } from "@tare/loop";
import { pinOf } from "@tare/loop/internal";
import type { Tool } from "@tare/messages";
import fc from "../../../tests/cases.ts";
import { ALLOW_EVERYTHING, type ApprovalRule, faultOfRules, judgeBy } from "./rules.ts";

function tool(name: string, stance: NonNullable<Tool["stance"]> = "once"): Tool {
  return { definition: { type: "function", function: { name } }, stance, run: () => "" };
}

function decide(
  lists: readonly (readonly ApprovalRule[])[],
  { name = "shell", args = {}, stance = "once" }: {
    readonly name?: string;
    readonly args?: Readonly<Record<string, unknown>>;
    readonly stance?: NonNullable<Tool["stance"]>;
  },
): Promise<string> {
  return decisionOf(judgeBy({ lists, always: [], workspace: "/work" })({ tool: tool(name, stance), args }));
}

async function decisionOf(judgement: ReturnType<Judge>): Promise<string> {
  return (await judgement).decision;
}

Deno.test("judgeBy() without a rule allows read-only calls, and asks for all others", async () => {
  assertEquals(await decide([[], []], { stance: "rederivable" }), "allow");
  assertEquals(await decide([[], []], { stance: "once" }), "ask");
  assertEquals(await decide([[], []], { stance: "keep" }), "ask");
  assertEquals(await decide([ALLOW_EVERYTHING, []], {}), "allow");
});

Deno.test("judgeBy() uses the first matching rule of a list, and names with stars", async () => {
  const rules: ApprovalRule[] = [
    { tool: "mail_*_send", decision: "deny" },
    { tool: "mail_*", decision: "allow" },
    { tool: "*", decision: "ask" },
  ];
  const names = ["mail_a_send", "mail_read", "mail", "read"];
  assertEquals(await Promise.all(names.map((name) => decide([rules], { name, stance: "rederivable" }))), [
    "deny",
    "allow",
    "ask",
    "ask",
  ]);
});

Deno.test("judgeBy() compares paths after links, not as written", async () => {
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
    assertEquals([path, await decided(allow, path), await decided(deny, path)], [path, allowed, denied]);
  }
  assertEquals(await decided([{ tool: "*", paths: ["**"], decision: "allow" }], "../x"), "ask");
});

Deno.test("judgeBy() compares commands by their first words, and asks for those that run others", async () => {
  const allow: ApprovalRule[] = [{ tool: "shell", prefixes: ["git log", "ls"], decision: "allow" }];
  const deny: ApprovalRule[] = [
    { tool: "shell", prefixes: ["rm"], decision: "deny" },
    { tool: "shell", decision: "allow" },
  ];
  const decided = (rules: ApprovalRule[], command: string) => decide([rules], { args: { command } });
  const cases = [
    ["git log", "allow", "allow"],
    ["  git \t log -5 --stat", "allow", "allow"],
    ["git log --output=x", "ask", "allow"],
    ["git log -- --output=x", "allow", "allow"],
    ["git log a -- --output=x", "allow", "allow"],
    ["git logs", "ask", "allow"],
    ["git", "ask", "allow"],
    ["lsof", "ask", "allow"],
    ["rm -r a", "ask", "deny"],
    ["ls; rm -r a", "ask", "ask"],
    ["ls 'a;b'", "allow", "allow"],
    ["ls *.ts 'a'\\''b' \"c d\" e\\ f", "allow", "allow"],
    ["l's' a", "allow", "allow"],
    ["ls a\nrm b", "ask", "ask"],
    ["ls $a", "ask", "ask"],
    ["ls ~", "ask", "ask"],
    ["ls ''~ \"\"~", "allow", "allow"],
    ["ls {a,b}", "ask", "ask"],
    ["A=1 ls", "ask", "ask"],
    ["ls 'a", "ask", "ask"],
    ["ls & ", "ask", "ask"],
    ["! ls", "ask", "ask"],
    ["r''m -r a", "ask", "deny"],
    ["/bin/rm -r a", "ask", "deny"],
    ["env rm -r a", "ask", "ask"],
    ["", "ask", "ask"],
  ] as const;
  for (const [command, allowed, denied] of cases) {
    const both = [await decided(allow, command), await decided(deny, command)];
    assertEquals([command, ...both], [command, allowed, denied]);
  }
});

Deno.test("judgeBy() lets always apply to the same call, and not override a rule that denies", async () => {
  const call = (id: string, name: string, args: unknown) => ({
    ...{ id, name, arguments: JSON.stringify(args), pin: pinOf(tool(name)) },
  });
  const judge = judgeBy({
    lists: [[{ tool: "shell", prefixes: ["ls secret"], decision: "deny" }]],
    always: [
      call("1", "shell", { command: "ls" }),
      call("2", "shell", { command: "a | b" }),
      call("3", "write", { path: "a" }),
    ],
    workspace: "/",
  });
  const decided = (name: string, args: Readonly<Record<string, unknown>>) =>
    decisionOf(judge({ tool: tool(name), args }));
  assertEquals(
    await Promise.all(
      ["ls", "ls -l", "lsof", "ls; rm a", "a | b", "a | b | c", "ls secret"]
        .map((command) => decided("shell", { command })),
    ),
    ["allow", "ask", "ask", "ask", "allow", "ask", "deny"],
  );
  assertEquals(
    [await decided("write", { path: "b" }), await decided("writer", { path: "a" })],
    ["allow", "ask"],
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
  stance: fc.constantFrom<NonNullable<Tool["stance"]>>("rederivable", "once", "keep"),
});

Deno.test("Property: the stricter of two lists wins in any order, and a single list decides alone", async () => {
  const strictness = ["allow", "ask", "deny"];
  const lists = fc.array(rule, { maxLength: 4 });
  await fc.assert(fc.asyncProperty(lists, lists, called, async (file, session, call) => {
    const both = await decide([file, session], call);
    assertEquals(await decide([session, file], call), both);
    // A list's own decision; without one the other decides.
    const [first, second] = await Promise.all([file, session].map(async (list) => {
      const [strict, loose] = await Promise.all(
        ["deny", "allow"].map((decision) =>
          decide([[...list, { tool: "*", decision } as ApprovalRule]], call)
        ),
      );
      return strict === loose ? strict : undefined;
    }));
    const parts = [first, second].filter((one) => one !== undefined);
    const usual = await decide([[]], call);
    const strictest = strictness.findLast((one) => parts.includes(one)) ?? usual;
    assertEquals(both, strictest);
  }));
});

Deno.test("faultOfRules() returns what is wrong, and refuses an argument without paths or prefixes", () => {
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

Deno.test("judgeBy() allows sandboxed calls, and their approval doesn't apply outside", async () => {
  const shell: Tool = { ...tool("shell"), isContained: ({ outside }) => outside === undefined };
  const command = "make";
  const outside = { command, outside: "network" };
  const decided = async (
    rules: readonly ApprovalRule[],
    always: readonly object[],
    args: Record<string, unknown>,
  ) =>
    (await judgeBy({
      lists: [rules],
      always: always.map((given, at) => ({
        ...{ id: `${at}`, name: "shell", arguments: JSON.stringify(given), pin: pinOf(shell) },
      })),
      workspace: "/work",
    })({ tool: shell, args })).decision;
  assertEquals([await decided([], [], { command }), await decided([], [], outside)], ["allow", "ask"]);
  const ask: ApprovalRule[] = [{ tool: "shell", decision: "ask" }];
  assertEquals([await decided(ask, [], { command }), await decided(ask, [{ command }], { command })], [
    "ask",
    "allow",
  ]);
  assertEquals(await decided(ask, [{ command }], outside), "ask");
  assertEquals(await decided(ask, [outside], { ...outside, outside: "another reason" }), "allow");
  const deny: ApprovalRule[] = [{ tool: "shell", prefixes: ["make"], decision: "deny" }];
  assertEquals([await decided(deny, [], { command }), await decided(deny, [], outside)], ["deny", "deny"]);
});
