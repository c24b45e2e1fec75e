/** Short names for the generated types of the API, and the envelope of stream events. */

import type { ChatEvents, ListEvents, Schemas } from "./schema";

export type Chat = Schemas["ReaderChat"];
export type Snapshot = Schemas["Snapshot"];
export type Status = Schemas["Status"];
export type Stored = Schemas["Stored"];
export type Message = Schemas["Message"];
export type Part = Message["parts"][number];
export type Text = Schemas["Text"];
export type Reasoning = Schemas["Reasoning"];
export type ToolCall = Schemas["ToolCall"];
export type ToolResult = Schemas["ToolResult"];
export type File = Schemas["File"];
export type Source = Schemas["Source"];
export type Usage = Schemas["Usage"];
export type Failure = Schemas["Failure"];
export type LimitReached = Schemas["LimitReached"];
export type Queued = Schemas["Queued"];
export type Pending = Schemas["Pending"];
export type Fragment = Schemas["DeltaData"]["fragment"];
export type Agent = Schemas["CatalogAgent"];
export type Model = Schemas["CatalogModel"];
export type Provider = Schemas["CatalogProvider"];
export type Spent = Schemas["Spent"];
export type BudgetReport = Schemas["BudgetReport"];
export type StoredFile = Schemas["StoredFile"];
export type Me = Schemas["CurrentUser"];
export type Effort = NonNullable<Schemas["SendMessage"]["effort"]>;
export type Deliver = NonNullable<Schemas["SendMessage"]["deliver"]>;
export type Prompt = Schemas["SendMessage"]["prompt"];
export type Answer = Schemas["AnswerAction"]["answer"];

/** An event of a stream. Its id is the cursor after it. */
type EventOf<Events> = {
  [Name in keyof Events]: { id: string | null; event: Name; data: Events[Name] };
}[keyof Events];

export type ChatEvent = EventOf<ChatEvents>;
export type ListEvent = EventOf<ListEvents>;
