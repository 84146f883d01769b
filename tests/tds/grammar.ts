/**
 * The grammar of T-SQL, as `antlr4ts-sql` has it: a judge of what SQL Server takes, where there is none.
 *
 * It is a grammar, not the server: it knows no table, no type, and not every rule; it takes some texts
 * that the server refuses.
 *
 * @module
 */

// That version of antlr4ts is the one that the grammar was generated for; a later one does not work.
import { CharStreams, CommonTokenStream } from "antlr4ts";
import { CaseChangingStream } from "antlr4ts-sql";
import { TSqlLexer } from "antlr4ts-sql/dist/src/grammar-output/tsql/TSqlLexer.js";
import { TSqlParser } from "antlr4ts-sql/dist/src/grammar-output/tsql/TSqlParser.js";

/** What is wrong with a batch; empty if nothing is. */
export function syntaxErrors(text: string): string[] {
  const errors: string[] = [];
  const listener = {
    syntaxError(_: unknown, __: unknown, line: number, column: number, message: string): void {
      errors.push(`${line}:${column} ${message.split(" expecting ")[0]}`);
    },
  };
  const lexer = new TSqlLexer(new CaseChangingStream(CharStreams.fromString(text), true));
  lexer.removeErrorListeners();
  lexer.addErrorListener(listener);
  const parser = new TSqlParser(new CommonTokenStream(lexer));
  parser.removeErrorListeners();
  parser.addErrorListener(listener);
  parser.tsql_file();
  return errors;
}
