import { assertEquals } from "@std/assert";
import { playIn } from "./in_engine.ts";

type Own = readonly [
  tools: Readonly<Record<string, (...given: readonly unknown[]) => Promise<string>>>,
  print: (...values: readonly unknown[]) => void,
  console: Pick<Console, "log">,
  time: DateConstructor,
  chance: Pick<Math, "random" | "max">,
];

async function played(program: (...own: Own) => Promise<unknown>) {
  const called: (readonly [name: string, args: string, printed: string])[] = [];
  const host = {
    async call(name: string, args: string, printed: string) {
      called.push([name, args, printed]);
      return await Promise.resolve({ content: `${name} ran`, error: name === "fails" });
    },
    rest: () => new Promise<void>((resolve) => setTimeout(resolve)),
  };
  const given = { nowMs: 17, seed: 5, mostPrinted: 40, mostArguments: 20 };
  const ended = await playIn(host, given, (...own) => program(...own as unknown as Own));
  return { ended, called };
}

Deno.test("playIn() provides a program with its tools and print, and reports the text printed before each call", async () => {
  const { ended, called } = await played(async (tools, print, console) => {
    print("one", { two: 2 });
    console.log(await tools.read!({ n: 1 }), await tools.any!());
    await tools.find_tools!({ query: "words" });
    return "over";
  });
  assertEquals(called, [
    ["read", '{"n":1}', 'one {"two":2}\n'],
    ["any", "{}", ""],
    ["find_tools", '{"query":"words"}', "read ran any ran\n"],
  ]);
  assertEquals(ended, { printed: "over\n" });
  const { ended: { failure } } = await played((_, print) => Promise.resolve(print("x".repeat(40))));
  assertEquals([failure?.name, failure?.message], [
    "RangeError",
    "Cannot print more than 40 characters: print less, or call again for the rest.",
  ]);
});

Deno.test("playIn() runs with the same time and random numbers each time, and waits for calls that are not awaited", async () => {
  const program = async (...[tools, print, , time, chance]: Own) => {
    print(
      time.now(),
      new time().getTime(),
      new time(5).getTime(),
      chance.random().toFixed(3),
      chance.max(1, 2),
    );
    void (async () => {
      await tools.read!({});
      for (let ticks = 0; ticks < 100; ticks++) await null;
      await tools.read!({ n: 2 });
    })();
    await Promise.resolve();
  };
  const first = await played(program);
  assertEquals(await played(program), first);
  assertEquals(first.called.map(([, args]) => args), ["{}", '{"n":2}']);
  assertEquals(first.called[0]![2].split(" ").slice(0, 3), ["17", "17", "5"]);
  assertEquals(first.ended, { printed: "" });
});

Deno.test("playIn() reports what a program throws, also the errors of its calls", async () => {
  const failing = async (program: (...own: Own) => Promise<unknown>) => {
    const { ended: { failure } } = await played(program);
    return [failure?.name, failure?.message];
  };
  assertEquals(await failing(async (tools) => await tools.fails!({})), ["ToolError", "fails ran"]);
  assertEquals(await failing(() => Promise.reject({ odd: 1 })), ["Error", '{"odd":1}']);
  assertEquals(await failing(async (tools) => await tools.read!({ text: "x".repeat(20) })), [
    "RangeError",
    "Cannot call read: its arguments have 31 characters of JSON; the limit is 20.",
  ]);
});
