import ts from "typescript";

export interface Mutant {
  readonly start: number;
  readonly end: number;
  readonly text: string;
}

const { SyntaxKind } = ts;

const OPERATORS: ReadonlyMap<ts.SyntaxKind, readonly string[]> = new Map([
  [SyntaxKind.LessThanToken, ["<=", ">="]],
  [SyntaxKind.LessThanEqualsToken, ["<", ">"]],
  [SyntaxKind.GreaterThanToken, [">=", "<="]],
  [SyntaxKind.GreaterThanEqualsToken, [">", "<"]],
  [SyntaxKind.EqualsEqualsEqualsToken, ["!=="]],
  [SyntaxKind.ExclamationEqualsEqualsToken, ["==="]],
  [SyntaxKind.PlusToken, ["-"]],
  [SyntaxKind.MinusToken, ["+"]],
  [SyntaxKind.AsteriskToken, ["/"]],
  [SyntaxKind.SlashToken, ["*"]],
  [SyntaxKind.PercentToken, ["*"]],
  [SyntaxKind.PlusEqualsToken, ["-="]],
  [SyntaxKind.MinusEqualsToken, ["+="]],
  [SyntaxKind.AmpersandAmpersandToken, ["||"]],
  [SyntaxKind.BarBarToken, ["&&"]],
]);

/** Returns the mutants of a TypeScript file: comparisons, arithmetic, booleans, results and removed statements. */
export function mutantsOf(source: string): readonly Mutant[] {
  const file = ts.createSourceFile("file.ts", source, ts.ScriptTarget.Latest, true);
  const mutants: Mutant[] = [];
  const replace = (node: ts.Node, text: string) =>
    mutants.push({ start: node.getStart(file), end: node.getEnd(), text });
  const visit = (node: ts.Node): void => {
    if (ts.isTypeNode(node) || ts.isImportDeclaration(node) || ts.isInterfaceDeclaration(node)) return;
    if (ts.isBinaryExpression(node) && !joinsTexts(node)) {
      for (const text of OPERATORS.get(node.operatorToken.kind) ?? []) replace(node.operatorToken, text);
    }
    if (ts.isPrefixUnaryExpression(node) && node.operator === SyntaxKind.ExclamationToken) {
      replace(node, node.operand.getText(file));
    }
    if (ts.isPrefixUnaryExpression(node) || ts.isPostfixUnaryExpression(node)) {
      const { operator, operand } = node;
      const sign =
        { [SyntaxKind.PlusPlusToken]: "--", [SyntaxKind.MinusMinusToken]: "++" }[operator as number];
      const name = operand.getText(file);
      if (sign) replace(node, ts.isPrefixUnaryExpression(node) ? sign + name : name + sign);
    }
    if (node.kind === SyntaxKind.TrueKeyword) replace(node, "false");
    if (node.kind === SyntaxKind.FalseKeyword) replace(node, "true");
    if (ts.isConditionalExpression(node) || ts.isIfStatement(node)) {
      const condition = ts.isIfStatement(node) ? node.expression : node.condition;
      if (!ts.isBinaryExpression(condition) && !ts.isPrefixUnaryExpression(condition)) {
        replace(condition, `!(${condition.getText(file)})`);
      }
    }
    if (ts.isReturnStatement(node) && node.expression && !isUndefined(node.expression)) {
      replace(node.expression, "undefined");
    }
    if (ts.isExpressionStatement(node) || ts.isThrowStatement(node) || ts.isBreakOrContinueStatement(node)) {
      replace(node, ";");
    }
    ts.forEachChild(node, visit);
  };
  visit(file);
  return mutants;
}

/** Reports whether texts are joined: mutants of messages change no behavior. */
function joinsTexts({ left, right }: ts.BinaryExpression): boolean {
  return [left, right].some((side) => ts.isStringLiteralLike(side) || ts.isTemplateExpression(side));
}

function isUndefined(expression: ts.Expression): boolean {
  return ts.isIdentifier(expression) && expression.text === "undefined";
}
