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
