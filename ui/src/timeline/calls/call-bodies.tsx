/** The body of a tool call, by tool. */

import { useEffect, useState } from "react";
import { Link } from "wouter";
import type { CallBlock } from "../../store/rows";
import { pretty } from "../../ui/pretty-json";
import { Attachments } from "../attachments";
import { Code } from "../code-block";
import { Diff, Written } from "../diff";
import { Markdown } from "../markdown";
import { Scroller } from "../scroller";
import { type Change, changeOf, compared } from "./call-diff";
import { stateOf } from "./call-state";
import { Output } from "./command-output";
import { executed, readLines, searched, shownOf, spawned, textOf } from "./parse-results";
import { objects, text, type Values } from "./partial-json";

export interface BodyProps {
  readonly chatId: string;
  readonly block: CallBlock;
  readonly values: Values;
}

export function Body(props: BodyProps) {
  const { block } = props;
  const isOk = block.result !== null && (block.result.outcome ?? "ok") === "ok";
  switch (block.call.tool) {
    case "execute":
      return <Executed {...props} />;
    case "write_file":
    case "edit_file":
      return <Changed {...props} />;
    case "read_file":
      return isOk ? <Read {...props} /> : <Other {...props} />;
    case "list_files":
      return isOk ? <Said label="Files" text={textOf(block.result)} /> : <Other {...props} />;
    case "search_files":
      return isOk ? <Searched block={block} /> : <Other {...props} />;
    case "ask_user":
      return <Asked {...props} />;
    case "spawn_agent":
    case "message_agent":
    case "list_agents":
    case "wait_agents":
    case "interrupt_agent":
      return <WithAgents {...props} />;
    default:
      return <Other {...props} />;
  }
}

function Executed({ block, values }: BodyProps) {
  const { live, result } = block;
  const end = executed(shownOf(result));
  const output = result === null ? (live?.output ?? "") : end.output;
  const where = text(values, "directory");
  return (
    <div className="call-terminal">
      <pre className="call-command">
        {where && <span className="call-where">{where} </span>}
        <span aria-hidden>$ </span>
        {text(values, "command")}
      </pre>
      {output !== "" && (
        <Scroller className="call-scroll" label="Output of the command" follow={result === null}>
          <Output text={output} />
        </Scroller>
      )}
      {live?.omitted && result === null && <Words of="Some of the output is not shown here." />}
      {result !== null && output === "" && <Words of="No output." />}
      <Lines of={end.notes.map((note) => `${note.charAt(0).toUpperCase()}${note.slice(1)}.`)} />
    </div>
  );
}

function Words({ of }: { readonly of: string }) {
  return <p className="call-words">{of}</p>;
}

function Lines({ of }: { readonly of: readonly string[] }) {
  // biome-ignore lint/suspicious/noArrayIndexKey: the same may be said twice
  return of.map((line, at) => <Words key={at} of={line} />);
}

function Changed({ block, values }: BodyProps) {
  const content = block.call.tool === "write_file" ? text(values, "content") : "";
  if (content !== "" && stateOf(block) === "writing") {
    return <Written path={text(values, "path")} text={content} />;
  }
  const change = changeOf(block, values);
  const said = textOf(block.result);
  if (change.is === "patch") return <Diff text={change.text} bare />;
  if (change.is === "edits") return <Compared change={change} />;
  if (said) return <Said label="Result" text={said} />;
  return <Words of="Nothing to show yet." />;
}

function Compared({ change }: { readonly change: Change & { readonly is: "edits" } }) {
  const [made, setMade] = useState<string | null>("");
  // By what it says: it is made anew each time.
  const key = JSON.stringify(change);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the key stands for the change
  useEffect(() => {
    let isGone = false;
    const show = (patch: string | null) => isGone || setMade(patch);
    compared(change.path, change.edits).then(show, () => show(null));
    return () => {
      isGone = true;
    };
  }, [key]);
  // What compares them is loaded when it is needed, and may be of an older page by then.
  if (made === null) return <Words of="The change cannot be shown. Reload the page to see it." />;
  return made === "" ? null : <Diff text={made} bare />;
}

function Read({ chatId, block, values }: BodyProps) {
  const { lines, words } = readLines(textOf(block.result));
  const files = block.result?.content.filter((part) => part.type === "file") ?? [];
  return (
    <>
      {lines.length > 0 && (
        <Scroller className="call-scroll call-lines" label={`Lines of ${text(values, "path")}`}>
          <table>
            <tbody>
              {lines.map((line) => (
                <tr key={line.number}>
                  <td className="diff-number">{line.number}</td>
                  <td className="diff-text">{line.text}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </Scroller>
      )}
      <Lines of={words} />
      <Attachments chatId={chatId} files={files} />
    </>
  );
}

function Searched({ block }: { readonly block: CallBlock }) {
  const { files, words } = searched(textOf(block.result));
  return (
    <>
      {files.length > 0 && (
        <Scroller className="call-scroll call-lines" label="Search results">
          {files.map((file, at) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: a file may be there twice
            <table key={at}>
              <caption>{file.path}</caption>
              <tbody>
                {file.lines.map((line, place) => (
                  // biome-ignore lint/suspicious/noArrayIndexKey: a line may be there twice
                  <tr key={place} data-match={line.isMatch || undefined}>
                    <td className="diff-number">{line.number}</td>
                    <td className="diff-text">{line.text}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          ))}
        </Scroller>
      )}
      <Lines of={words} />
    </>
  );
}

/** The answers stand behind an arrow, a line for each question. */
function Asked({ block, values }: BodyProps) {
  const said = textOf(block.result);
  return (
    <div className="call-asked">
      {block.result === null &&
        objects(values, "questions").map((each, at) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: the same may be asked twice
          <p key={at}>{text(each, "question")}</p>
        ))}
      {said.split("\n").map((line, at) => {
        const [question = "", answer] = line.split(" → ");
        if (line === "") return null;
        return (
          // biome-ignore lint/suspicious/noArrayIndexKey: the same may be asked twice
          <p key={at}>
            {question}
            {answer !== undefined && <strong> {answer}</strong>}
          </p>
        );
      })}
    </div>
  );
}

function WithAgents({ block, values }: BodyProps) {
  const said = textOf(block.result);
  const child = spawned(said);
  const asked = text(values, "prompt") || text(values, "message");
  const ids = Array.isArray(values.agents) ? values.agents.map(String) : [];
  const agents = new Set(child === null ? [text(values, "agent"), ...ids] : [child]);
  const isChat = block.call.tool === "spawn_agent" ? child !== null : true;
  return (
    <div className="call-agents">
      {asked && <Markdown text={asked} />}
      {isChat &&
        [...agents]
          .filter((id) => id !== "")
          .map((id) => (
            <p key={id}>
              <Link href={`/chats/${encodeURIComponent(id)}`}>Open the agent's chat</Link>
            </p>
          ))}
      {child === null && said && <Said label="Result" text={pretty(said)} />}
    </div>
  );
}

interface SaidProps {
  readonly label: string;
  readonly text: string;
}

function Said({ label, text: said }: SaidProps) {
  return (
    <Scroller className="call-scroll" label={label}>
      <Output text={said} />
    </Scroller>
  );
}

/** Of a tool that is not known here: what it was given, what it printed, what it gave. */
function Other({ chatId, block }: BodyProps) {
  const { call, live, result } = block;
  const said = textOf(result);
  const files = result?.content.filter((part) => part.type === "file") ?? [];
  const given = call.arguments.trim();
  return (
    <>
      {call.complaint && said === "" && (
        <Words of={`The arguments are not valid JSON: ${call.complaint}`} />
      )}
      {given !== "" && given !== "{}" && (
        <Code text={pretty(given)} language="json" growing={block.writing} />
      )}
      {result === null && live?.output && <Said label="Output" text={live.output} />}
      {said && <Said label="Result" text={pretty(said)} />}
      <Attachments chatId={chatId} files={files} />
    </>
  );
}
