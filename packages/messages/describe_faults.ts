import type { TValidationError } from "typebox/error";

/** So many faults are told. */
const MAX_FAULTS = 20;

/** So many names or values that would be right are told. */
const MAX_NAMES = 20;

/** What the validator found wrong, with the schema that holds the keyword. */
export type FaultAt = TValidationError & { readonly holder: Readonly<Record<string, unknown>> };

/** One thing that is wrong, in words for people. */
interface Fault {
  readonly error: FaultAt;
  readonly says: string;
}

/**
 * Says in one line what is wrong with a value: where, and what would be right there. Of a choice of schemas none of
 * which fits, it says what is wrong with the one that fits best.
 *
 * @param what How the whole value is called.
 */
export function describeFaults(errors: readonly FaultAt[], what: string): string {
  const faults: Fault[] = [];
  for (const error of errors) {
    if (error.keyword === "additionalProperties" || error.keyword === "propertyNames") {
      // What a single name has wrong stands right before it, and goes where this says all of it.
      const told = back(faults, error);
      if (error.keyword === "additionalProperties" && error.holder.additionalProperties !== false) {
        faults.push(...told);
        continue;
      }
    }
    if (error.keyword === "anyOf" || error.keyword === "oneOf") {
      // What is wrong with each of a choice's schemas stands right before it.
      faults.push(...choose(back(faults, error), error));
      continue;
    }
    faults.push(...says(error).map((says) => ({ error, says })));
  }
  const told = [...new Set(faults.map(({ error, says }) => `${placeOf(error, what)} ${says}`))];
  const more = told.length > MAX_FAULTS ? `; and ${told.length - MAX_FAULTS} more` : "";
  return `${told.slice(0, MAX_FAULTS).join("; ")}${more}`;
}

function placeOf({ instancePath }: FaultAt, what: string): string {
  return instancePath === "" ? what : instancePath.slice(1).replaceAll("/", ".");
}

/** Takes the last faults that are inside a keyword's own schemas. */
function back(faults: Fault[], outer: FaultAt): readonly Fault[] {
  const inside = `${outer.schemaPath}/${outer.keyword}`;
  let start = faults.length;
  while (start > 0 && isInside(faults[start - 1]?.error)) start--;
  return faults.splice(start);

  function isInside(error: FaultAt | undefined): boolean {
    return error !== undefined && `${error.schemaPath}/`.startsWith(`${inside}/`) &&
      `${error.instancePath}/`.startsWith(`${outer.instancePath}/`);
  }
}

/** The faults of that schema of a choice that fits best; where only the kind of value is wrong, all kinds in one. */
function choose(faults: readonly Fault[], choice: FaultAt): readonly Fault[] {
  const inside = `${choice.schemaPath}/${choice.keyword}/`.length;
  const branches = Object.values(
    Object.groupBy(faults, ({ error }) => error.schemaPath.slice(inside).split("/")[0] ?? ""),
  ).filter((branch) => branch !== undefined);
  if (branches.length === 0) return [{ error: choice, says: overlap(choice) }];
  const only = branches.map(([fault, ...rest]) =>
    rest.length === 0 && isAt(fault, choice, 0) ? fault?.error : undefined
  );
  const names = only.flatMap((error) => error?.keyword === "required" ? error.params.requiredProperties : []);
  if (names.length > 0 && only.every((error) => error?.keyword === "required")) {
    return [{ error: choice, says: `must have ${either(names.map((name) => `'${name}'`))}` }];
  }
  if (only.every((error) => error?.keyword === "type")) {
    const types = only.flatMap((error) => error?.keyword === "type" ? error.params.type : []);
    return [{ error: choice, says: `must be ${either(types)}` }];
  }
  return branches.toSorted((a, b) => misfit(a, choice) - misfit(b, choice) || a.length - b.length)[0] ?? [];
}

/** What is wrong with a value that several schemas of a choice fit, though only one may. */
function overlap({ holder, keyword }: FaultAt): string {
  const names = [holder[keyword]].flat().flatMap((one) => Object(one).required ?? []);
  return names.length === 0
    ? "must fit exactly one of its kinds"
    : `must not have ${names.map((name) => `'${name}'`).join(" and ")} together`;
}

/** How many of the faults say that another of the schemas was meant: the kind of value, or the name of its kind. */
function misfit(branch: readonly Fault[], choice: FaultAt): number {
  return branch.filter((fault) => {
    const { keyword } = fault.error;
    return keyword === "type"
      ? isAt(fault, choice, 0)
      : keyword === "const" || keyword === "enum"
      ? isAt(fault, choice, 1)
      : false;
  }).length;
}

/** Whether a fault is at the choice's own place, or at most so many steps inside. */
function isAt(fault: Fault | undefined, { instancePath }: FaultAt, steps: number): boolean {
  const inside = fault?.error.instancePath.slice(instancePath.length) ?? "";
  return inside.split("/").length - 1 <= steps;
}

function says(error: FaultAt): readonly string[] {
  const { holder } = error;
  switch (error.keyword) {
    case "required":
      return error.params.requiredProperties.map((name) => `must have required property '${name}'`);
    case "additionalProperties":
    case "unevaluatedProperties": {
      const known = Object.keys(Object(holder.properties));
      const right = known.length === 0 ? "" : ` (it takes ${shorten(known).join(", ")})`;
      const names = error.keyword === "additionalProperties"
        ? error.params.additionalProperties
        : error.params.unevaluatedProperties;
      return names.map((name) => `must not have '${String(name)}'${right}`);
    }
    case "propertyNames":
      return error.params.propertyNames.map((name) =>
        `must not have a property named '${name}' (names must fit ${JSON.stringify(holder.propertyNames)})`
      );
    case "dependencies":
    case "dependentRequired":
      return [
        `must have ${error.params.dependencies.map((name) => `'${name}'`).join(" and ")} ` +
        `where it has '${error.params.property}'`,
      ];
    default:
      return [saysOnce(error)];
  }
}

function saysOnce(error: FaultAt): string {
  const { keyword, params, holder } = error;
  switch (keyword) {
    case "type":
      return `must be ${either([params.type].flat())}`;
    case "enum":
      return `must be ${either(shorten(params.allowedValues.map((value) => JSON.stringify(value))))}`;
    case "const":
      return `must be ${JSON.stringify(params.allowedValue)}`;
    case "minimum":
    case "maximum":
    case "exclusiveMinimum":
    case "exclusiveMaximum":
      return `must be ${params.comparison} ${params.limit}`;
    case "multipleOf":
      return `must be multiple of ${params.multipleOf}`;
    case "minLength":
    case "minItems":
    case "minProperties":
      return params.limit === 1
        ? "must not be empty"
        : `must have at least ${params.limit} ${unitOf(keyword)}`;
    case "maxLength":
    case "maxItems":
    case "maxProperties":
      return `must have at most ${params.limit} ${unitOf(keyword)}`;
    case "pattern":
      return `must match pattern "${params.pattern}"`;
    case "format":
      return `must be a valid ${params.format}`;
    case "contains": {
      const { minContains = 1, maxContains } = holder;
      const most = maxContains === undefined ? "" : ` and at most ${maxContains}`;
      return `must have at least ${minContains}${most} items that fit ${JSON.stringify(holder.contains)}`;
    }
    case "~refine":
      return params.message;
    case "unevaluatedItems":
      return `must not have item ${params.unevaluatedItems[0]}`;
    case "not": {
      const { required } = Object(holder.not) as { readonly required?: readonly string[] };
      if (required) return `must not have ${required.map((name) => `'${name}'`).join(" and ")} together`;
      return `must not fit ${JSON.stringify(holder.not)}`;
    }
    case "boolean":
      return "must not be there";
    default:
      return `must fit ${keyword}`;
  }
}

function unitOf(keyword: string): string {
  return keyword.endsWith("Length") ? "characters" : keyword.endsWith("Items") ? "items" : "properties";
}

function shorten(names: readonly string[]): readonly string[] {
  return names.length > MAX_NAMES ? [...names.slice(0, MAX_NAMES), "…"] : names;
}

function either(names: readonly string[]): string {
  return [names.slice(0, -1).join(", "), names.at(-1)].filter(Boolean).join(" or ");
}
