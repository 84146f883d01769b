import { InvalidArgumentError } from "../../../core/errors.ts";
import { check, checkEqual, checkRejects } from "../check.ts";
import type { TckCase, TckContext } from "../context.ts";

/** Reserves from each key and checks that none shares its values with another. */
async function checkDistinct(context: TckContext, keys: readonly string[]): Promise<void> {
  const { ranges } = await context.open();
  for (const [index, key] of keys.entries()) {
    const size = BigInt(index + 1);
    checkEqual(await ranges.reserve(key, size), { start: 1n, end: 1n + size }, JSON.stringify(key));
  }
  for (const [index, key] of keys.entries()) {
    const nextValue = BigInt(index + 2);
    checkEqual(await ranges.read(key), { nextValue, sealed: false }, JSON.stringify(key));
  }
}

/** What counts as one key. */
export const keyCases: readonly TckCase[] = [
  {
    name: "keys that differ only in case or accent are different",
    run: (context) => checkDistinct(context, ["Order", "order", "ordér", "ORDER", "ORDÉR"]),
  },
  {
    name:
      "keys that differ only in spaces around them are different, or refused where they cannot be",
    async run(context) {
      if (!context.dialect.ignoresTrailingSpace) {
        return await checkDistinct(context, ["order", "order ", "order  ", " order", " order "]);
      }
      await checkDistinct(context, ["order", " order", "  order"]);
      const { ranges } = await context.open();
      for (const key of ["order ", " "]) {
        for (
          const refused of [
            ranges.reserve(key, 1),
            ranges.seal(key),
            ranges.advance(key, 9),
            ranges.read(key),
          ]
        ) {
          const { message } = await checkRejects(refused, InvalidArgumentError);
          check(message.includes("must not end in a space"), message);
        }
      }
    },
  },
  {
    name: "keys that differ only in normalisation form are different",
    run: (context) => checkDistinct(context, ["é", "e\u0301", "ﬁ", "fi", "Å", "\u212b", "A\u030a"]),
  },
  {
    name: "keys that differ only in control characters and kinds of space are different",
    run: (context) =>
      checkDistinct(context, [
        "a",
        "a\t",
        "a\n",
        "a\r\n",
        "a\u00a0",
        "a\u200b",
        "a\u0001",
        "a\u007f",
      ]),
  },
  {
    name: "keys beyond the basic plane are different",
    run: (context) => checkDistinct(context, ["😀", "😁", "𝒳", "X", "😀😀", "👩‍💻", "👩"]),
  },
  {
    name: "keys of 255 UTF-16 units of any script are kept whole",
    run: (context) =>
      checkDistinct(context, [
        "k".repeat(254) + "a",
        "k".repeat(254) + "b",
        "字".repeat(255),
        "字".repeat(254) + "学",
        "😀".repeat(127) + "a",
        "😀".repeat(127) + "b",
        "\u0301".repeat(255),
      ]),
  },
  {
    name: "keys that look like SQL, patterns, placeholders or numbers are data",
    run: (context) =>
      checkDistinct(context, [
        "'; drop table cosid_range; --",
        '"',
        "'",
        "`",
        "\\",
        "\\'",
        "%",
        "_",
        "$1",
        "?",
        ":key",
        "@p1",
        "null",
        "1",
        "01",
        "1.0",
        "0x1",
        "true",
        "${key}",
        "--",
        "/*",
      ]),
  },
];
