import { expect, test } from "vitest";
import { Problem, told } from "./problem";

test("what the server refuses is said in its own words", () => {
  const problem = told({ kind: "full", status: 409, detail: "It is full." }, 409, "Conflict");
  expect(problem).toMatchObject({ kind: "full", status: 409, message: "It is full." });
});

test("what a proxy says instead of the server, also in JSON, may be tried again", () => {
  for (const body of [null, "x", { message: "bad gateway" }]) {
    const problem = told(body, 502, "Bad Gateway");
    expect(problem.message).toBe("The server answered 502 Bad Gateway.");
    expect(problem.passing).toBe(true);
  }
});

test("a mistake of the page is not called a server that is away", () => {
  expect(Problem.of(new TypeError("x is undefined")).message).toBe("x is undefined");
});
