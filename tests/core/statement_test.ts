import { assertEquals, assertStrictEquals, assertThrows } from "@std/assert";
import {
  doubleQuoted,
  Identifier,
  Renderer,
  scriptText,
  show,
  sql,
  type SqlPart,
} from "../../core/sql/statement.ts";
import { InvalidArgumentError } from "../../core/errors.ts";

const a = Identifier.parse("a", "rangeTable");
const b = Identifier.parse("shop.Order", "rangeTable");

function textRenderer(): Renderer<{ text: string }> {
  return new Renderer({
    quote: doubleQuoted,
    make: (pieces) => ({ text: pieces.reduce((text, piece, at) => `${text}$${at}${piece}`) }),
  });
}

Deno.test("values bind in order and are never part of the text", () => {
  const values: SqlPart[] = ["x'; drop table a; --", 7, 2n ** 62n, true, null];
  const [first, second, third, fourth, fifth] = values;
  const rendered = textRenderer().render(
    sql`select ${first ?? null}, ${second ?? null}, ${third ?? null}, ${fourth ?? null}, ${
      fifth ?? null
    }`,
  );
  assertEquals(rendered.text.text, "select $1, $2, $3, $4, $5");
  assertEquals([...rendered.values], values);
});

Deno.test("identifiers are spliced in quotes, with their schema before them", () => {
  const { text, values } = textRenderer().render(sql`select * from ${a} join ${b} on ${1} = 1`);
  assertEquals(text.text, 'select * from "a" join "shop"."Order" on $1 = 1');
  assertEquals([...values], [1]);
});

Deno.test("fragments nest to any depth, and their values keep their place", () => {
  const inner = sql`(${2} + ${3})`;
  const middle = sql`(${inner} * ${4} from ${a})`;
  const { text, values } = textRenderer().render(sql`${1}, ${middle}${sql``}, ${5}`);
  assertEquals(text.text, '$1, (($2 + $3) * $4 from "a"), $5');
  assertEquals([...values], [1, 2, 3, 4, 5]);
});

Deno.test("a statement without parts is its text", () => {
  assertEquals(textRenderer().render(sql`commit`), { text: { text: "commit" }, values: [] });
});

Deno.test("the same template with other values of the same types gives the identical text", () => {
  const renderer = textRenderer();
  const render = (value: SqlPart) => renderer.render(sql`select ${value} from ${a}`).text;
  for (const [one, other] of [[1, 2], ["one", "two"], [1n, 2n], [true, false], [null, null]]) {
    assertStrictEquals(render(one ?? null), render(other ?? null));
  }
});

Deno.test("a text may depend on the types of its values, also where a fragment holds them", () => {
  const renderer = new Renderer({
    quote: doubleQuoted,
    make: (pieces, types) =>
      pieces.reduce((text, piece, at) => `${text}<${types[at - 1]}>${piece}`),
  });
  const render = (value: SqlPart) => renderer.render(sql`${sql`${a} = ${value}`}, ${"x"}`).text;
  assertEquals(
    [1, "one", 1n, true, null, 2n].map(render),
    ["number", "string", "bigint", "boolean", "null", "bigint"]
      .map((type) => `"a" = <${type}>, <string>`),
  );
});

Deno.test("the same template with another identifier or fragment gives another text", () => {
  const renderer = textRenderer();
  const render = (part: SqlPart) => renderer.render(sql`select ${part} from t`).text;
  const texts = [
    render(1),
    render(a),
    render(b),
    render(sql`x`),
    render(sql`y`),
    render(sql`${1}`),
  ];
  assertEquals(
    texts.map(({ text }) => text),
    [
      "select $1 from t",
      'select "a" from t',
      'select "shop"."Order" from t',
      "select x from t",
      "select y from t",
      "select $1 from t",
    ],
  );
  assertEquals(new Set(texts).size, texts.length);
});

Deno.test("fragments in different places give different texts", () => {
  const renderer = textRenderer();
  const [one, two] = [sql`one`, sql`two`];
  const render = (first: SqlPart, second: SqlPart) =>
    renderer.render(sql`${first}, ${second}`).text.text;
  assertEquals(render(one, two), "one, two");
  assertEquals(render(two, one), "two, one");
  assertEquals(render(one, 1), "one, $1");
  assertEquals(render(1, one), "$1, one");
  assertEquals(render(a, one), '"a", one');
  assertEquals(render(one, a), 'one, "a"');
});

Deno.test("equal templates at different places of the source are different statements", () => {
  const renderer = textRenderer();
  assertEquals(new Set([renderer.render(sql`x`).text, renderer.render(sql`x`).text]).size, 2);
});

Deno.test("a text is made once, however often its statement is rendered", () => {
  let made = 0;
  const renderer = new Renderer({ quote: doubleQuoted, make: () => ++made });
  const render = (value: number) => renderer.render(sql`select ${value} from ${a}`).text;
  for (let count = 0; count < 5; count++) assertEquals(render(count), 1);
});

Deno.test("names of letters, digits and underscores are identifiers, whatever their case", () => {
  for (
    const name of ["a", "_a1", "Order", "select", "USER", "x".repeat(63), "s.t", "Shop.select"]
  ) {
    const identifier = Identifier.parse(name, "rangeTable");
    assertEquals(identifier.toString(), name);
    assertEquals(identifier.parts.join("."), name);
  }
});

Deno.test("an identifier tells its name and its schema", () => {
  assertEquals([a.schema, a.name], [undefined, "a"]);
  assertEquals([b.schema, b.name], ["shop", "Order"]);
});

Deno.test("what is not a name is refused, with the option and what was received", () => {
  const refused: unknown[] = [
    "",
    " ",
    "a b",
    "a-b",
    'a"b',
    "a'b",
    "a`b",
    "a]b",
    "a;b",
    "1a",
    "a.b.c",
    ".a",
    "a.",
    ".",
    "a.1b",
    "größe",
    "a\0",
    "a\n",
    "x".repeat(64),
    `s.${"x".repeat(64)}`,
    `${"x".repeat(64)}.t`,
    5,
    null,
    undefined,
    {},
    ["a"],
  ];
  for (const name of refused) {
    const error = assertThrows(
      () => Identifier.parse(name as string, "rangeTable"),
      InvalidArgumentError,
      "Cannot use rangeTable",
    );
    assertEquals(error.message.endsWith(`received ${show(name)}`), true, error.message);
  }
});

Deno.test("a script has no bound values", () => {
  assertEquals(scriptText(sql`create table ${b} (x int)`, doubleQuoted), createdOrder);
  assertThrows(() => scriptText(sql`select ${1}`, doubleQuoted), TypeError);
});

const createdOrder = 'create table "shop"."Order" (x int)';

Deno.test("a value is shown in bounds, and readable whatever it is", () => {
  assertEquals(
    ["a\nb", 5, 5n, true, null, undefined, NaN, [1], { a: 1 }, () => {}, Symbol("s")].map(show),
    [
      '"a\\nb"',
      "5",
      "5n",
      "true",
      "null",
      "undefined",
      "NaN",
      "an array",
      "an object",
      "a function",
      "Symbol(s)",
    ],
  );
  assertEquals(show("x".repeat(1_000)).length, 80);
  assertEquals(show(10n ** 200n).length, 80);
});
