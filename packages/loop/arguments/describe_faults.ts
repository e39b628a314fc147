import { ErrorContext, ErrorSchema, Stack } from "typebox/schema";
import { Locale, Settings } from "typebox/system";
import type { TValidationError } from "typebox/error";
import type { JsonSchema } from "@tare/messages";
import { at } from "./prepare_schema.ts";

/** Faults that the validator collects, faults that are reported, and names that one of these lists. */
const [MAX_COLLECTED, MAX_FAULTS, MAX_NAMES] = [1_000, 20, 20];

interface Fault {
  readonly error: TValidationError;
  readonly message: string;
}

/** Returns in one line what is wrong with a value, and where. Of a choice it describes the branch that fits best. */
export function describeFaults(
  schema: JsonSchema,
  value: unknown,
  { what, place }: { readonly what: string; readonly place: string },
): string {
  const { maxErrors } = Settings.Get();
  Settings.Set({ maxErrors: MAX_COLLECTED });
  try {
    const instancePath = place === "" ? "" : `/${place.replaceAll(".", "/")}`;
    const faults = collect(schema, value, { root: schema, schemaPath: "#", instancePath });
    const placeOf = ({ instancePath: path }: TValidationError) => path.slice(1).replaceAll("/", ".") || what;
    const lines = [...new Set(faults.map(({ error, message }) => `${placeOf(error)} ${message}`))];
    const more = lines.length > MAX_FAULTS ? `; and ${lines.length - MAX_FAULTS} more` : "";
    return `${lines.slice(0, MAX_FAULTS).join("; ")}${more}`;
  } finally {
    Settings.Set({ maxErrors });
  }
}

function collect(
  schema: JsonSchema,
  value: unknown,
  { root, schemaPath, instancePath }: {
    readonly root: JsonSchema;
    readonly schemaPath: string;
    readonly instancePath: string;
  },
): Fault[] {
  const context = new ErrorContext();
  ErrorSchema(Stack({}, root), context, schemaPath, instancePath, schema, value);
  const faults: Fault[] = [];
  for (const error of context.GetErrors()) {
    const holder = Object(at(root, error.schemaPath));
    if (error.keyword === "if") {
      // The validator reports the faults of an `else`, and not those of a `then`.
      if (error.params.failingKeyword === "else") continue;
      const inner = at(value, error.instancePath.slice(instancePath.length));
      const place = { root, schemaPath: `${error.schemaPath}/then`, instancePath: error.instancePath };
      faults.push(...collect(holder.then, inner, place));
    } else if (error.keyword === "anyOf" || error.keyword === "oneOf") {
      faults.push(...choose(takeInside(faults, error), error, holder));
    } else if (error.keyword === "additionalProperties" && holder.additionalProperties !== false) {
      // Its faults are reported before it.
    } else {
      if (/^(?:additionalProperties|propertyNames)$/.test(error.keyword)) takeInside(faults, error);
      faults.push(...messagesOf(error, holder).map((message) => ({ error, message })));
    }
  }
  return faults;
}

/** Takes the last faults that are inside a keyword's own schemas. */
function takeInside(
  faults: Fault[],
  { schemaPath, keyword, instancePath }: TValidationError,
): readonly Fault[] {
  const isInside = ({ error }: Fault) =>
    `${error.schemaPath}/`.startsWith(`${schemaPath}/${keyword}/`) &&
    `${error.instancePath}/`.startsWith(`${instancePath}/`);
  return faults.splice(faults.findLastIndex((fault) => !isInside(fault)) + 1);
}

/** Returns the faults of the branch of a choice that fits best: its type and the constants that name its kind are right. */
function choose(faults: readonly Fault[], choice: TValidationError, holder: JsonSchema): readonly Fault[] {
  const inside = `${choice.schemaPath}/${choice.keyword}/`.length;
  const branches = [
    ...Map.groupBy(faults, ({ error }) => error.schemaPath.slice(inside).split("/")[0]).values(),
  ];
  const depth = ({ error }: Fault) =>
    error.instancePath.slice(choice.instancePath.length).split("/").length - 1;
  if (branches.length === 0) {
    const names = [holder[choice.keyword]].flat().flatMap((one) => Object(one).required ?? []);
    const message = names.length === 0 ? Locale.en_US(choice) : together(names);
    return [{ error: choice, message }];
  }
  const single = branches.flatMap((branch) =>
    branch.length === 1 && depth(branch[0]!) === 0 ? [branch[0]!.error] : []
  );
  const wanted = single.flatMap(({ keyword, params }) =>
    keyword === "type" ? params.type : keyword === "required" ? params.requiredProperties.map(quote) : []
  );
  if (
    single.length === branches.length && new Set(single.map(({ keyword }) => keyword)).size === 1 &&
    wanted.length > 0
  ) {
    return [{
      error: choice,
      message: `must ${single[0]!.keyword === "type" ? "be" : "have"} ${either(wanted)}`,
    }];
  }
  const misfits = (branch: readonly Fault[]) =>
    branch.filter((fault) =>
      depth(fault) <= ({ type: 0, const: 1, enum: 1 }[fault.error.keyword as string] ?? -1)
    ).length;
  return branches.toSorted((a, b) => misfits(a) - misfits(b) || a.length - b.length)[0]!;
}

function messagesOf(error: TValidationError, holder: JsonSchema): readonly string[] {
  const { keyword, params } = error;
  switch (keyword) {
    case "required":
      return params.requiredProperties.map((name) => `must have required property ${quote(name)}`);
    case "additionalProperties": {
      const known = Object.keys(Object(holder.properties));
      const right = known.length === 0 ? "" : ` (it takes ${shorten(known).join(", ")})`;
      return params.additionalProperties.map((name) => `must not have ${quote(name)}${right}`);
    }
    case "type":
      return [`must be ${either([params.type].flat())}`];
    case "enum":
      return [`must be ${either(shorten(params.allowedValues.map((value) => JSON.stringify(value))))}`];
    case "const":
      return [`must be ${JSON.stringify(params.allowedValue)}`];
    case "minLength":
    case "minItems":
      return [params.limit === 1 ? "must not be empty" : Locale.en_US(error)];
    case "not":
      return [
        Array.isArray(Object(holder.not).required)
          ? together(Object(holder.not).required)
          : Locale.en_US(error),
      ];
    default:
      return [Locale.en_US(error)];
  }
}

function together(names: readonly string[]): string {
  return `must not have ${names.map(quote).join(" and ")} together`;
}

function quote(name: string): string {
  return `'${name}'`;
}

function shorten(names: readonly string[]): readonly string[] {
  return names.length > MAX_NAMES ? [...names.slice(0, MAX_NAMES), "…"] : names;
}

function either(names: readonly string[]): string {
  return [names.slice(0, -1).join(", "), names.at(-1)].filter(Boolean).join(" or ");
}
