export const SYLLABLES: readonly string[] = [
  "ba",
  "co",
  "di",
  "fu",
  "gar",
  "lem",
  "mo",
  "nit",
  "pra",
  "quo",
  "ros",
  "sel",
  "tun",
  "vex",
];

export function word(random: () => number): string {
  return pick(SYLLABLES, random) + pick(SYLLABLES, random) + pick(SYLLABLES, random);
}

export function pick<T>(list: readonly T[], random: () => number): T {
  return list[Math.floor(random() * list.length)] as T;
}
