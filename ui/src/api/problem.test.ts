import { expect, test } from "vitest";
import { Problem, problemFrom } from "./problem";

test("a refusal has the server's message", () => {
  const problem = problemFrom(
    { kind: "full", status: 409, detail: "It is full." },
    409,
    "Conflict",
  );
  expect(problem).toMatchObject({ kind: "full", status: 409, message: "It is full." });
});

test("a response of a proxy, also in JSON, may be retried", () => {
  for (const body of [null, "x", { message: "bad gateway" }]) {
    const problem = problemFrom(body, 502, "Bad Gateway");
    expect(problem.message).toBe("The server responded with 502 Bad Gateway.");
    expect(problem.isTransient).toBe(true);
  }
});

test("a 404 is final only if it comes from the server itself", () => {
  expect(problemFrom("<p>Not Found</p>", 404, "Not Found").isTransient).toBe(true);
  const own = problemFrom(
    { kind: "chat_not_found", detail: "there is no such chat" },
    404,
    "Not Found",
  );
  expect(own.isTransient).toBe(false);
  expect(problemFrom(null, 413, "Content Too Large").isTransient).toBe(false);
});

test("an error of the page is not reported as an unreachable server", () => {
  expect(Problem.of(new TypeError("x is undefined")).message).toBe("x is undefined");
});
