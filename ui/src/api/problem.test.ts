import { expect, test } from "vitest";
import { Problem, problemFrom } from "./problem";

test("what the server refuses is said in its own words", () => {
  const problem = problemFrom(
    { kind: "full", status: 409, detail: "It is full." },
    409,
    "Conflict",
  );
  expect(problem).toMatchObject({ kind: "full", status: 409, message: "It is full." });
});

test("what a proxy says instead of the server, also in JSON, may be tried again", () => {
  for (const body of [null, "x", { message: "bad gateway" }]) {
    const problem = problemFrom(body, 502, "Bad Gateway");
    expect(problem.message).toBe("The server answered 502 Bad Gateway.");
    expect(problem.isTransient).toBe(true);
  }
});

test("only the server itself says that something is not there for good", () => {
  expect(problemFrom("<p>Not Found</p>", 404, "Not Found").isTransient).toBe(true);
  const own = problemFrom(
    { kind: "chat_not_found", detail: "there is no such chat" },
    404,
    "Not Found",
  );
  expect(own.isTransient).toBe(false);
  expect(problemFrom(null, 413, "Content Too Large").isTransient).toBe(false);
});

test("a mistake of the page is not called a server that is away", () => {
  expect(Problem.of(new TypeError("x is undefined")).message).toBe("x is undefined");
});
