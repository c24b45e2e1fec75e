/** Errors of the API: the server's problem details, or that it could not be reached. */

/** The kind of an answer that is not the server's own: of a proxy, or of another program at its
 * port. That nothing is there says nothing of the server. */
const FOREIGN = "http";

export class Problem extends Error {
  /** Stable error code; does not change with the message. */
  readonly kind: string;
  /** HTTP status; 0 without a response. */
  readonly status: number;
  readonly facts: Readonly<Record<string, unknown>>;

  constructor(kind: string, status: number, message: string, facts: Record<string, unknown> = {}) {
    super(message);
    this.kind = kind;
    this.status = status;
    this.facts = facts;
  }

  /** Whether the same request may succeed later. */
  get isTransient(): boolean {
    if (this.status === 404 && this.kind === FOREIGN) return true;
    return this.status === 0 || this.status === 429 || this.status >= 500;
  }

  static of(error: unknown): Problem {
    if (error instanceof Problem) return error;
    return new Problem("page", 0, error instanceof Error ? error.message : String(error));
  }
}

/** The error of a response: the server's problem details, or the status if a proxy responded. */
export function problemFrom(body: unknown, status: number, statusText: string): Problem {
  const { kind, detail, facts } = (body ?? {}) as Record<string, unknown>;
  if (typeof kind === "string" && typeof detail === "string") {
    return new Problem(kind, status, detail, (facts ?? {}) as Record<string, unknown>);
  }
  return new Problem(
    FOREIGN,
    status,
    `${`The server responded with ${status} ${statusText}`.trim()}.`,
  );
}

export function unreachable(): Problem {
  return new Problem("unreachable", 0, "The server cannot be reached. Try again when it is back.");
}
