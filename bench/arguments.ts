/**
 * What the programs of this folder share of reading their command line.
 *
 * @module
 */

/** Why `parseArgs` refused a command line, in one line: advice on dashes of several lines follows it. */
export function refusal(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  return message.split(/\. |\.?\n/, 1).join();
}

const columns = 78;

/** Names in as many lines of a help text as they take, after so many columns. */
export function listed(names: readonly string[], indent: number): string {
  const lines = [""];
  for (const [index, name] of names.entries()) {
    const word = index < names.length - 1 ? `${name},` : name;
    const line = `${lines.at(-1)} ${word}`.trimStart();
    if (indent + line.length > columns) lines.push(word);
    else lines.splice(-1, 1, line);
  }
  return lines.join(`\n${" ".repeat(indent)}`);
}
