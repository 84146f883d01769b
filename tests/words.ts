/**
 * What an error says, for tests that look for what it must not say.
 *
 * @module
 */

/** Every text in an error, its causes and their properties. */
export function allWords(error: unknown): string {
  const seen = new Set<unknown>();
  const words: string[] = [];
  const visit = (value: unknown): void => {
    if (typeof value === "string") words.push(value);
    if (typeof value !== "object" || value === null || seen.has(value)) return;
    seen.add(value);
    for (const name of Object.getOwnPropertyNames(value)) {
      visit(Object.getOwnPropertyDescriptor(value, name)?.value);
    }
  };
  visit(error);
  return words.join("\n");
}
