/** The body of a tool call, by tool. */

import { useEffect, useState } from "react";
import { Link } from "wouter";
import type { CallBlock } from "../../store/rows";
import { prettyJson } from "../../ui/pretty-json";
import { Attachments } from "../attachments";
import { CodeBlock } from "../code-block";
import { Diff, WrittenFile } from "../diff";
import { Markdown } from "../markdown";
import { ScrollRegion } from "../scroller";
import { type Change, changeOf, diffOfEdits } from "./call-diff";
import { stateOf } from "./call-state";
import { Output } from "./command-output";
import {
  colouredTextOf,
  commandResult,
  readLines,
  searchMatches,
  spawnedChat,
  textOf,
} from "./parse-results";
import { objects, text, type Values } from "./partial-json";

export interface BodyProps {
  readonly chatId: string;
  readonly block: CallBlock;
  readonly values: Values;
}

export function CallBody(props: BodyProps) {
  const { block } = props;
  const isOk = block.result !== null && (block.result.outcome ?? "ok") === "ok";
  switch (block.call.tool) {
    case "execute":
      return <CommandBody {...props} />;
    case "write_file":
    case "edit_file":
      return <EditBody {...props} />;
    case "read_file":
      return isOk ? <FileBody {...props} /> : <GenericBody {...props} />;
    case "list_files":
      return isOk ? (
        <TextOutput label="Files" text={textOf(block.result)} />
      ) : (
        <GenericBody {...props} />
      );
    case "search_files":
      return isOk ? <SearchBody block={block} /> : <GenericBody {...props} />;
    case "ask_user":
      return <QuestionsBody {...props} />;
    case "spawn_agent":
    case "message_agent":
    case "list_agents":
    case "wait_agents":
    case "interrupt_agent":
      return <AgentBody {...props} />;
    default:
      return <GenericBody {...props} />;
  }
}

function CommandBody({ block, values }: BodyProps) {
  const { live, result } = block;
  const end = commandResult(colouredTextOf(result));
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
        <ScrollRegion
          className="call-scroll"
          label="Output of the command"
          follow={result === null}
        >
          <Output text={output} />
        </ScrollRegion>
      )}
      {live?.omitted && result === null && <Line of="Some of the output is not shown here." />}
      {result !== null && output === "" && <Line of="No output." />}
      <Lines of={end.notes.map((note) => `${note.charAt(0).toUpperCase()}${note.slice(1)}.`)} />
    </div>
  );
}

function Line({ of }: { readonly of: string }) {
  return <p className="call-words">{of}</p>;
}

function Lines({ of }: { readonly of: readonly string[] }) {
  // biome-ignore lint/suspicious/noArrayIndexKey: the same may be said twice
  return of.map((line, at) => <Line key={at} of={line} />);
}

function EditBody({ block, values }: BodyProps) {
  const content = block.call.tool === "write_file" ? text(values, "content") : "";
  if (content !== "" && stateOf(block) === "writing") {
    return <WrittenFile path={text(values, "path")} text={content} />;
  }
  const change = changeOf(block, values);
  const resultText = textOf(block.result);
  if (change.is === "patch") return <Diff text={change.text} bare />;
  if (change.is === "edits") return <ComparedDiff change={change} />;
  if (resultText) return <TextOutput label="Result" text={resultText} />;
  return <Line of="Nothing to show yet." />;
}

function ComparedDiff({ change }: { readonly change: Change & { readonly is: "edits" } }) {
  const [patch2, setPatch] = useState<string | null>("");
  // Compared by content: the object is new on each render.
  const key = JSON.stringify(change);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the key stands for the change
  useEffect(() => {
    let isUnmounted = false;
    const show = (patch: string | null) => isUnmounted || setPatch(patch);
    diffOfEdits(change.path, change.edits).then(show, () => show(null));
    return () => {
      isUnmounted = true;
    };
  }, [key]);
  // The diff library is loaded on demand; after an upgrade of the server it may be missing.
  if (patch2 === null) return <Line of="The change cannot be shown. Reload the page to see it." />;
  return patch2 === "" ? null : <Diff text={patch2} bare />;
}

function FileBody({ chatId, block, values }: BodyProps) {
  const { lines, words } = readLines(textOf(block.result));
  const files = block.result?.content.filter((part) => part.type === "file") ?? [];
  return (
    <>
      {lines.length > 0 && (
        <ScrollRegion className="call-scroll call-lines" label={`Lines of ${text(values, "path")}`}>
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
        </ScrollRegion>
      )}
      <Lines of={words} />
      <Attachments chatId={chatId} files={files} />
    </>
  );
}

function SearchBody({ block }: { readonly block: CallBlock }) {
  const { files, words } = searchMatches(textOf(block.result));
  return (
    <>
      {files.length > 0 && (
        <ScrollRegion className="call-scroll call-lines" label="Search results">
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
        </ScrollRegion>
      )}
      <Lines of={words} />
    </>
  );
}

/** Questions and answers: one line each, the answer after an arrow. */
function QuestionsBody({ block, values }: BodyProps) {
  const resultText = textOf(block.result);
  return (
    <div className="call-asked">
      {block.result === null &&
        objects(values, "questions").map((each, at) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: the same may be asked twice
          <p key={at}>{text(each, "question")}</p>
        ))}
      {resultText.split("\n").map((line, at) => {
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

function AgentBody({ block, values }: BodyProps) {
  const resultText = textOf(block.result);
  const child = spawnedChat(resultText);
  const prompt = text(values, "prompt") || text(values, "message");
  const ids = Array.isArray(values.agents) ? values.agents.map(String) : [];
  const agents = new Set(child === null ? [text(values, "agent"), ...ids] : [child]);
  const isChat = block.call.tool === "spawn_agent" ? child !== null : true;
  return (
    <div className="call-agents">
      {prompt && <Markdown text={prompt} />}
      {isChat &&
        [...agents]
          .filter((id) => id !== "")
          .map((id) => (
            <p key={id}>
              <Link href={`/chats/${encodeURIComponent(id)}`}>Open the subagent's chat</Link>
            </p>
          ))}
      {child === null && resultText && <TextOutput label="Result" text={prettyJson(resultText)} />}
    </div>
  );
}

interface TextOutputProps {
  readonly label: string;
  readonly text: string;
}

function TextOutput({ label, text: content }: TextOutputProps) {
  return (
    <ScrollRegion className="call-scroll" label={label}>
      <Output text={content} />
    </ScrollRegion>
  );
}

/** The body of an unknown tool: arguments, output and result. */
function GenericBody({ chatId, block }: BodyProps) {
  const { call, live, result } = block;
  const resultText = textOf(result);
  const files = result?.content.filter((part) => part.type === "file") ?? [];
  const argumentsText = call.arguments.trim();
  return (
    <>
      {call.complaint && resultText === "" && (
        <Line of={`The arguments are not valid JSON: ${call.complaint}`} />
      )}
      {argumentsText !== "" && argumentsText !== "{}" && (
        <CodeBlock text={prettyJson(argumentsText)} language="json" growing={block.writing} />
      )}
      {result === null && live?.output && <TextOutput label="Output" text={live.output} />}
      {resultText && <TextOutput label="Result" text={prettyJson(resultText)} />}
      <Attachments chatId={chatId} files={files} />
    </>
  );
}
