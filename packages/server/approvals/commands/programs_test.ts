import { assert, assertEquals } from "@std/assert";
import fc from "../../../../tests/cases.ts";
import { CURL, FIND, GIT, MAKE, needs, NPM, RSYNC, SSH, TAR, WGET } from "../../../../tests/needs.ts";
import type { Need } from "../../../../tests/needs.ts";
import { describeSideEffect, gitLetters, isRunner, judgedOf, staysInside } from "./programs.ts";
import { JUDGED_OPTIONS } from "./program_options.ts";

function elseOf(prefix: string, more: readonly string[]): string | undefined {
  const words = [...prefix.split(" "), ...more].map((text) => ({ text, isPattern: false }));
  return describeSideEffect(words, prefix.split(" ").length);
}

Deno.test("describeSideEffect() reports options that write, read or run something, in short, long and abbreviated form", () => {
  const requests: readonly (readonly [string, ...string[]])[] = [
    ["make test", "-E", "$(shell ./evil)"],
    ["make test", "--eval=$(shell ./evil)"],
    ["make test", "--ev", "x"],
    ["make test", "-kE$(shell ./evil)"],
    ["git clone", "-u", "./evil", "a"],
    ["git clone", "-c", "core.fsmonitor=./evil", "a"],
    ["git clone", "--upl=./evil", "a"],
    ["git clone", "--conf", "core.fsmonitor=./evil", "a"],
    ["git branch", "--edit-description"],
    ["git branch", "--edit-d"],
    ["git log", "-O", "/etc/passwd"],
    ["git rebase", "-x", "./evil"],
    ["git log", "--not-known-yet=f"],
    ["git", "-c", "core.pager=./evil", "log"],
    ["git unheard-of", "-x"],
    ["curl", "--hsts", "f", "https://example.com"],
    ["curl", "-H", "@secret", "https://example.com"],
    ["curl", "-H@secret", "https://example.com"],
    ["curl", "--hea", "@secret", "https://example.com"],
    ["curl", "-so", "f", "https://example.com"],
    ["curl", "--variable", "a@secret", "https://example.com"],
    ["curl", "file:///etc/passwd"],
    ["wget", "--hsts-file=f", "https://example.com"],
    ["wget", "--hsts-f", "f", "https://example.com"],
    ["wget", "-qO", "f", "https://example.com"],
    ["tar -tf", "a", "-g", "f"],
    ["tar", "tgf", "f", "a"],
    ["tar -tf", "a", "--listed=f"],
    ["npm test", "--script-shell=./evil"],
    ["npm test", "-script-shell=./evil"],
    ["npm test", "--script-sh", "./evil"],
    ["npm test", "--no-ignore-scripts"],
    ["find .", "-fls", "f"],
    ["find .", "-name", "a", "-delete"],
    ["find .", "-unheard-of"],
    ["rsync -a a b", "-e", "./evil"],
    ["rsync -a a b", "--rsync-p=./evil"],
    ["ssh host", "-oProxyCommand=./evil"],
    ["ssh host", "-o", "ProxyCommand=./evil"],
  ];
  for (const [prefix, ...more] of requests) {
    assert(elseOf(prefix, more) !== undefined, `${prefix} | ${more.join(" ")}`);
  }
  const allowed: readonly (readonly [string, ...string[]])[] = [
    ["make test", "-j4", "-k", "--silent"],
    ["git clone", "--depth", "1", "https://example.com/a.git"],
    ["git log", "--oneline", "-5", "--no-ext-diff", "--since=yesterday"],
    ["git commit", "-m", "x", "--no-verify"],
    ["git branch", "-u", "origin/main"],
    ["curl", "-sSL", "-H", "Accept: text/html", "--max-time", "5", "https://example.com"],
    ["wget", "-nv", "--tries=2", "https://example.com"],
    ["tar -tf", "a.tar", "--exclude=b", "-v"],
    ["npm test", "--silent", "--workspaces", "--no-audit", "--", "-c"],
    ["find .", "-type", "f", "-mtime", "-5", "-newermt", "2026-01-01", "-print"],
    ["rsync -a a b", "-v", "--delay-updates", "--no-times"],
    ["ssh host", "-v", "ls", "-o"],
  ];
  for (const [prefix, ...more] of allowed) assertEquals(elseOf(prefix, more), undefined, `${prefix} ${more}`);
});

Deno.test("describeSideEffect() reports each listed effect, its pairs and the beginnings of its long name", () => {
  const programs = Object.entries(JUDGED_OPTIONS).filter(([name]) => name !== "find");
  for (const [program, { effects, harmless }] of programs) {
    const lengthOf = (name: string) => name.length;
    const safe = new Set(harmless.split(/[\s,]+/).map((name) => name.replace("=", "")));
    for (const name of effects.split(/[\s,]+/)) {
      const least = lengthOf(name) === 1 ? 1 : 2;
      fc.assert(
        fc.property(fc.integer({ min: least, max: name.length }), (length) => {
          const given = name.slice(0, length);
          if (length < name.length && safe.has(given)) return;
          const option = name.length === 1 ? `-${name}` : `--${given}`;
          assert(elseOf(`${program} a`, [option, "value"]) !== undefined, `${program} ${option}`);
        }),
        { numRuns: name.length },
      );
    }
  }
});

function* optionsIn(help: string): Generator<readonly string[]> {
  for (const line of help.split("\n")) {
    const [, text] = /^ {0,8}(-\S.*)/.exec(line) ?? [];
    if (text === undefined) continue;
    // Two blanks precede the description, except after a comma.
    const [head = ""] = text.split(/(?<!,) {2,}/);
    const shorts = [...head.matchAll(/(?:^|, *|\s)-([A-Za-z0-9#])(?=[\s,=[]|$)/g)].map(([, one]) => one!);
    const longs = [...head.slice(0, 90).matchAll(/--(?:\[no-\])?([A-Za-z0-9][\w.-]*)/g)].map(([, one]) =>
      one!.replace(/[-.]+$/, "")
    );
    if (shorts.length + longs.length > 0) yield [...shorts, ...longs];
  }
}

async function helpOf(program: string, ...args: readonly string[]): Promise<string> {
  const { stdout, stderr } = await new Deno.Command(program, { args: [...args], stdin: "null" }).output();
  return new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr);
}

function unjudged(program: string, options: Iterable<readonly string[]>): readonly string[] {
  const { effects, harmless, readsAt } = judgedOf(program)!;
  return [...options].flatMap((names) => {
    const kinds = names.map((name) =>
      readsAt.has(name) ? "@" : effects.has(name) ? "!" : harmless.has(name) ? "" : "?"
    );
    const isOne = new Set(kinds).size === 1 && kinds[0] !== "?";
    return isOne ? [] : [names.map((name, at) => `${name}${kinds[at]}`).join(",")];
  });
}

const HELPS: readonly (readonly [string, Need, ...string[]])[] = [
  ["make", MAKE, "--help"],
  ["curl", CURL, "--help", "all"],
  ["tar", TAR, "--help"],
  ["wget", WGET, "--help"],
  ["rsync", RSYNC, "--help"],
];

for (const [program, need, ...args] of HELPS) {
  Deno.test(needs(need, `programs: each option of the installed ${program} is judged`), async () => {
    // Tar lists its defaults too, and rsync the form of all negated options.
    const isOption = (names: readonly string[]) =>
      !["format,quoting-style,rmt-command", "no-OPTION"].includes(`${names}`);
    const options = [...optionsIn(await helpOf(program, ...args))].filter(isOption);
    assert(options.length > 20, `${options.length} options`);
    assertEquals(unjudged(program, options), []);
  });
}

Deno.test(needs(NPM, "programs: each setting of the installed npm is judged"), async () => {
  // Under npm, the environment contains settings, which it would list.
  const env = Object.fromEntries(["PATH", "HOME"].map((name) => [name, Deno.env.get(name) ?? ""]));
  const options = { args: ["config", "ls", "-l", "--json"], clearEnv: true, env };
  const { stdout } = await new Deno.Command("npm", options).output();
  const settings = Object.keys(JSON.parse(new TextDecoder().decode(stdout)));
  assert(settings.length > 50);
  assertEquals(unjudged("npm", settings.map((name) => [name])), []);
});

Deno.test(needs(FIND, "programs: each option of the installed find is judged"), async () => {
  const help = (await helpOf("find", "-help")).split("Valid arguments")[0]!;
  const names = [...help.matchAll(/(?<=[\s(])-([A-Za-z][\w-]*)/g)].map(([, name]) => name!)
    // Stands for a number.
    .filter((name) => name !== "N");
  assert(names.length > 40);
  assertEquals(unjudged("find", names.map((name) => [name])), []);
});

Deno.test(needs(SSH, "programs: each option of the installed ssh is judged"), async () => {
  const help = await helpOf("ssh");
  const [, letters = ""] = /\[-([A-Za-z0-9]+)\]/.exec(help) ?? [];
  const others = [...help.matchAll(/\[-([A-Za-z]) /g)].map(([, letter]) => letter!);
  assert(letters.length + others.length > 20);
  assertEquals(unjudged("ssh", [...letters, ...others].map((letter) => [letter])), []);
});

/** Compared subcommands. */
const SUBCOMMANDS = (
  "add am apply archive bisect blame branch bundle cat-file check-attr check-ignore checkout cherry cherry-pick clean clone " +
  "commit count-objects describe diff diff-files diff-index diff-tree difftool fetch for-each-ref format-patch fsck gc grep " +
  "hash-object help init log ls-files ls-remote ls-tree merge merge-base mv name-rev notes prune pull push range-diff rebase " +
  "reflog remote repack replace rerere reset restore rev-list rev-parse revert rm shortlog show show-branch show-ref stash " +
  "status switch symbolic-ref tag update-index update-ref var verify-commit worktree write-tree"
).split(" ");

Deno.test(needs(GIT, "programs: each option of the installed git's subcommands is judged"), async () => {
  const { effects } = judgedOf("git")!;
  const wrong: string[] = [];
  let count = 0;
  for (const subcommand of SUBCOMMANDS) {
    for (const names of optionsIn(await helpOf("git", subcommand, "-h"))) {
      count++;
      const longs = names.filter((name) => name.length > 1);
      wrong.push(
        ...unjudged("git", longs.map((name) => [name.replace(/^no-/, "")])).map((name) =>
          `${subcommand} ${name}`
        ),
      );
      const letters = gitLetters(subcommand);
      const unlisted = names.filter((name) => name.length === 1 && !letters.includes(name));
      if (longs.some((name) => effects.has(name)) && unlisted.length > 0) {
        wrong.push(`${subcommand} -${unlisted}`);
      }
    }
  }
  assert(count > 500);
  assertEquals(wrong, []);
});

Deno.test("staysInside() returns true for programs that read files by name", () => {
  const inside = [
    ...["awk", "diff", "fd", "file", "find", "git", "grep", "jq"],
    ...["rg", "sed", "shuf", "sort", "tar", "tree", "uniq"],
  ];
  assertEquals(inside.filter((program) => !staysInside(program)), []);
  assertEquals(inside.filter((program) => !staysInside(`/usr/bin/${program}`)), []);
  assertEquals(["ls", "cat", "wc", "constructor", "", "unknown"].filter(staysInside), []);
});

Deno.test("isRunner() returns true for programs that run other commands, in any folder", () => {
  assertEquals(["env", "xargs", "/usr/bin/sudo", "sh"].map(isRunner), [true, true, true, true]);
  assertEquals(["ls", "git", "envy", ""].map(isRunner), [false, false, false, false]);
});
