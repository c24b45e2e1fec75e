/** Error boundary: an error inside leaves the rest of the page working. */

import { Component, type ReactNode } from "react";
import { Button } from "./button";

interface State {
  readonly error: Error | null;
  readonly at: string | undefined;
}

interface Props {
  /** Name of the content, as the start of a sentence: "This chat". */
  readonly what: string;
  /** Rendering is retried when this changes. */
  readonly at?: string;
  readonly children: ReactNode;
}

/** Replaces content that failed to render with an error message and a retry button. */
export class ErrorBoundary extends Component<Props, State> {
  override state: State = { error: null, at: this.props.at };

  static getDerivedStateFromProps({ at }: Props, before: State): State | null {
    return at === before.at ? null : { error: null, at };
  }

  static getDerivedStateFromError(error: unknown): Partial<State> {
    return { error: error instanceof Error ? error : new Error(String(error)) };
  }

  override render() {
    const { error } = this.state;
    if (error === null) return this.props.children;
    return (
      <div className="broken" role="alert">
        <h2>{this.props.what} cannot be shown</h2>
        <p>
          The error is in this page, not in your chats: the agents keep working, and nothing is
          lost.
        </p>
        <p>
          <code>{error.message}</code>
        </p>
        <div className="broken-buttons">
          <Button onClick={() => this.setState({ error: null })}>Try again</Button>
          <Button look="main" onClick={() => location.reload()}>
            Reload the page
          </Button>
        </div>
      </div>
    );
  }
}
