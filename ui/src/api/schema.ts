// Made from the server's OpenAPI document by `make types`. Not to be edited.
//
// A field that may be left out stands for the value behind @default.

/** In front of every path. */
export const PREFIX = "/api/v1";

export interface Schemas {
  Actions: {
    actions: Array<Schemas["Pending"]>;
  };
  ActionsData: {
    actions: Array<Schemas["Pending"]>;
  };
  AgentShown: {
    name: string;
    model: string;
    effort: "high" | "low" | "max" | "medium" | "minimal" | "none" | "xhigh" | null;
    tools: Array<Schemas["ToolShown"]>;
    provider_tools: Array<string>;
    window: number | null;
    threshold: number | null;
    compacts_at: number | null;
  };
  Agents: {
    agents: Array<Schemas["AgentShown"]>;
  };
  Alive: {
    /** @default "ok" */
    status?: "ok";
  };
  /** The call may run. */
  Allow: {
    type: "allow";
    digest: string;
    /** @default null */
    arguments?: Record<string, unknown> | null;
    /** @default null */
    for_chat?: "call" | "tool" | null;
  };
  AllowedCalls: {
    tool: string;
    /** @default null */
    arguments?: string | null;
  };
  AnswerAction: {
    answer: Schemas["Allow"] | Schemas["Refuse"] | Schemas["Result"];
  };
  AnswerActions: {
    answers: Record<string, Schemas["Allow"] | Schemas["Refuse"] | Schemas["Result"]>;
    /** @default null */
    allow_for_chat?: Schemas["AllowedCalls"] | null;
  };
  /** A piece of the arguments of a call as it arrives. */
  ArgumentsDelta: {
    type: "arguments_delta";
    call_id: string;
    text: string;
  };
  /** Something that a chat waits for, and where. */
  Asked: {
    chat_id: string;
    root_id: string;
    title: string | null;
    root_title: string | null;
    agent: string;
    asked_at: number;
    action: Schemas["Pending"];
  };
  /** What waits, the newest first. */
  AskedPage: {
    actions: Array<Schemas["Asked"]>;
    next: string | null;
  };
  AskedShare: {
    /** @default null */
    user?: string | null;
    /** @default null */
    expires_in?: number | null;
  };
  AskedToken: {
    name: string;
    /** @default ["read", "write"] */
    scopes?: Array<"admin" | "read" | "write">;
    /** @default null */
    expires_in?: number | null;
    /** @default null */
    user?: string | null;
  };
  AuditQuery: {
    /** @default null */
    before?: string | null;
    /** @default 100 */
    limit?: number;
    /** @default null */
    user?: string | null;
    /** @default null */
    action?: "chat.delete" | "refused" | "secret.remove" | "secret.rotate" | "secret.store" | "session.begin" | "session.end" | "share.create" | "share.revoke" | "token.issue" | "token.revoke" | "user.change" | "user.create" | null;
  };
  Between: {
    /** @default 0 */
    since?: number;
    /** @default 9007199254740991 */
    until?: number;
  };
  /** The model begins to write a call. Its arguments follow. */
  CallStarted: {
    type: "call_started";
    call_id: string;
    tool: string;
    /** @default false */
    provider_executed?: boolean;
  };
  ChangeChat: {
    title?: string | null;
    labels?: Record<string, string>;
    archived?: boolean;
    pinned?: boolean;
    model?: string | null;
    effort?: "high" | "low" | "max" | "medium" | "minimal" | "none" | "xhigh" | null;
  };
  /** Chats, the newest first. */
  ChatPage: {
    chats: Array<Schemas["Shown"]>;
    next: string | null;
    /** @default true */
    complete?: boolean;
  };
  /** What a chat came to, once it rests. */
  ChatResult: {
    reason: "error" | "interrupted" | "max_steps" | "requires_action" | "stop" | "stop_after_tool" | null;
    text: string;
    failure: Schemas["Failure"] | null;
    actions: Array<Schemas["Pending"]>;
    chat: Schemas["Snapshot"];
    /** @default [] */
    pieces?: Array<string>;
  };
  /** What a checkpoint message stands for, by position in the history it was appended to. */
  Checkpoint: {
    covers: number;
    trims: number;
    before: number;
    after: number;
    /** @default true */
    summarized?: boolean;
    /** @default null */
    pinned?: number | null;
    /** @default null */
    asked_by?: "overflow" | "person" | null;
  };
  /** The history is being summarized. `delta` is the next piece; an empty one begins anew. */
  Compacting: {
    type: "compacting";
    asked_by: "overflow" | "person" | null;
    /** @default "" */
    delta?: string;
  };
  CreateChat: {
    /** @default null */
    prompt?: string | Array<Schemas["TextPart"] | Schemas["FilePart"] | Schemas["SourcePart"]> | null;
    /** @default null */
    agent?: string | null;
    /** @default null */
    title?: string | null;
    /** @default {} */
    labels?: Record<string, string>;
    /** @default null */
    model?: string | null;
    /** @default null */
    effort?: "high" | "low" | "max" | "medium" | "minimal" | "none" | "xhigh" | null;
  };
  Day: {
    day: string;
    spent: Schemas["Spent"];
  };
  DeletedData: {
    id: string;
  };
  /** `epoch`, `history_version` and `attempt` name the attempt that says it. */
  DeltaData: {
    epoch: number;
    history_version: number;
    attempt: number;
    first: number;
    last: number;
    fragment: Schemas["TextDelta"] | Schemas["ReasoningDelta"] | Schemas["CallStarted"] | Schemas["ArgumentsDelta"] | Schemas["ToolCalled"] | Schemas["ToolStarted"] | Schemas["ToolProgressed"] | Schemas["ToolFinished"] | Schemas["Compacting"] | Schemas["Warned"] | Schemas["Omitted"];
  };
  EditMessage: {
    prompt: string | Array<Schemas["TextPart"] | Schemas["FilePart"] | Schemas["SourcePart"]>;
    /** @default null */
    model?: string | null;
    /** @default null */
    effort?: "high" | "low" | "max" | "medium" | "minimal" | "none" | "xhigh" | null;
  };
  EditQueued: {
    prompt: string | Array<Schemas["TextPart"] | Schemas["FilePart"] | Schemas["SourcePart"]>;
    /** @default null */
    deliver?: "queue" | "steer" | null;
  };
  /** The server ends the stream. */
  End: {
    reason: "deleted" | "failed" | "revoked" | "shutdown" | "slow";
    reconnect: boolean;
  };
  Entry: {
    id: string;
    action: "chat.delete" | "refused" | "secret.remove" | "secret.rotate" | "secret.store" | "session.begin" | "session.end" | "share.create" | "share.revoke" | "token.issue" | "token.revoke" | "user.change" | "user.create";
    subject: string;
    user: string | null;
    token: string | null;
    address: string;
    /** @default {} */
    detail?: Record<string, unknown>;
    /** @default 0 */
    at?: number;
  };
  Export: {
    /** @default "jsonl" */
    format?: "jsonl" | "markdown";
    /** @default true */
    files?: boolean;
  };
  /** What went wrong, as facts. The message is for people, the detail for operators (redacted). */
  Failure: {
    kind: "auth" | "cancelled" | "config" | "content_filter" | "context_overflow" | "empty_response" | "escalated" | "internal" | "invalid_output" | "invalid_request" | "network" | "not_found" | "overloaded" | "permission" | "poison" | "prepare" | "quota" | "rate_limit" | "server" | "still_over_limit" | "stream_cut" | "stream_silent" | "stream_too_long" | "timeout" | "unknown";
    message: string;
    /** @default "" */
    detail?: string;
    /** @default false */
    retryable?: boolean;
    /** @default false */
    failover?: boolean;
    /** @default null */
    model?: string | null;
    /** @default null */
    status?: number | null;
    /** @default null */
    retry_after?: number | null;
    /** @default null */
    window?: number | null;
  };
  /** A picture, a document or anything else with a media type: the bytes, or where they are. */
  File: {
    type: "file";
    media_type: string;
    /** @default null */
    name?: string | null;
    /** @default null */
    data?: string | null;
    /** @default null */
    ref?: string | null;
    /** @default null */
    metadata?: Record<string, unknown> | null;
  };
  /** Files, the newest first. */
  FilePage: {
    files: Array<Schemas["StoredFile"]>;
    next: string | null;
    used: number;
    quota: number;
  };
  /** A file: one that was uploaded, or its bytes, or where the model's provider finds it. */
  FilePart: {
    type: "file";
    /** @default null */
    file?: string | null;
    /** @default null */
    data?: string | null;
    /** @default null */
    url?: string | null;
    /** @default null */
    media_type?: string | null;
    /** @default null */
    name?: string | null;
  };
  ForkChat: {
    /** of a message */
    number: number;
    /** @default null */
    prompt?: string | Array<Schemas["TextPart"] | Schemas["FilePart"] | Schemas["SourcePart"]> | null;
    /** @default null */
    title?: string | null;
    /** @default false */
    share_workspace?: boolean;
  };
  Import: {
    /** @default null */
    agent?: string | null;
  };
  IssuedToken: {
    info: Schemas["Token"];
    token: string | null;
  };
  ListAsked: {
    /** @default null */
    cursor?: string | null;
    /**
     * how many at once
     * @default 50
     */
    limit?: number;
  };
  ListChats: {
    /** @default null */
    q?: string | null;
    /** @default null */
    label?: string | null;
    /** @default null */
    status?: Schemas["Status"] | null;
    /** @default null */
    agent?: string | null;
    /** @default null */
    parent?: string | null;
    /** @default false */
    archived?: boolean;
    /** @default null */
    pinned?: boolean | null;
    /** @default null */
    shared?: boolean | null;
    /** @default null */
    before?: string | null;
    /** @default null */
    cursor?: string | null;
    /**
     * how many at once
     * @default 50
     */
    limit?: number;
  };
  ListFiles: {
    /** @default null */
    cursor?: string | null;
    /**
     * how many at once
     * @default 50
     */
    limit?: number;
  };
  ListMessages: {
    /** @default null */
    before?: number | null;
    /** @default null */
    after?: number | null;
    /**
     * how many at once
     * @default 100
     */
    limit?: number;
    /** @default false */
    superseded?: boolean;
  };
  MadeShare: {
    info: Schemas["Share"];
    link: string | null;
  };
  /** How a chat stands to a reader. */
  Marks: {
    /** @default 0 */
    read?: number;
    /** @default false */
    unread?: boolean;
    /** @default false */
    pinned?: boolean;
    /** @default false */
    needs_me?: boolean;
    /** @default true */
    mine?: boolean;
    /** @default null */
    owner_name?: string | null;
  };
  /** Where something was found. */
  Match: {
    number: number | null;
    snippet: Array<Schemas["Piece"]>;
  };
  Me: {
    user: string;
    name: string;
    role: "admin" | "member" | "viewer";
    scopes: Array<"admin" | "read" | "write">;
    mode: "local" | "team";
    /** @default null */
    csrf?: string | null;
  };
  /** One entry of a history. `kind` says where it came from, `visibility` who may see it. */
  Message: {
    role: "assistant" | "system" | "tool" | "user";
    parts: Array<Schemas["Text"] | Schemas["Reasoning"] | Schemas["ToolCall"] | Schemas["ToolResult"] | Schemas["File"] | Schemas["Source"]>;
    kind: "answer" | "checkpoint" | "context" | "injected" | "marker" | "note" | "prompt" | "results";
    /** @default "both" */
    visibility?: "both" | "model" | "user";
    /** @default null */
    finish?: "content_filter" | "error" | "interrupted" | "length" | "stop" | "tool_calls" | null;
    /** @default null */
    usage?: Schemas["Usage"] | null;
    /** @default null */
    model?: string | null;
    /** @default null */
    checkpoint?: Schemas["Checkpoint"] | null;
    /** @default null */
    metadata?: Record<string, unknown> | null;
    /** @default null */
    why?: "guard" | "recovery" | "repair" | null;
  };
  /** Messages, in the order of the conversation. */
  MessagePage: {
    messages: Array<Schemas["Stored"]>;
    next: number | null;
  };
  /** What is not known of a model is null. */
  ModelShown: {
    name: string;
    provider: string;
    used_by: Array<string>;
    window: number | null;
    max_output: number | null;
    efforts: Array<"high" | "low" | "max" | "medium" | "minimal" | "none" | "xhigh"> | null;
    files: Array<"audio" | "image" | "pdf" | "text" | "video"> | null;
    price: Schemas["Price"] | null;
  };
  Models: {
    models: Array<Schemas["ModelShown"]>;
    priced_on: string;
  };
  NewUser: {
    name: string;
    /** @default "member" */
    role?: "admin" | "member" | "viewer";
  };
  NumbersData: {
    numbers: Array<number>;
  };
  OfChat: {
    /** @default false */
    tree?: boolean;
  };
  /** Stands for output of running calls that took more room than an attempt has for it. */
  Omitted: {
    type: "omitted";
    call_ids: Array<string>;
  };
  Order: {
    order: Array<string>;
  };
  Outcome: {
    result: Schemas["ChatResult"] | null;
  };
  /** Newest first. */
  Page: {
    entries: Array<Schemas["Entry"]>;
    /** @default null */
    next?: string | null;
  };
  /** An action that the chat waits for. */
  Pending: {
    kind: "answer" | "approval" | "child" | "client";
    call: Schemas["ToolCall"];
    arguments: string;
    digest: string;
    /** @default null */
    preview?: string | null;
    /** @default false */
    again?: boolean;
    /** @default 0 */
    number?: number;
    /** @default null */
    deadline?: number | null;
  };
  /** Text of a passage; `found` when it is what was looked for. */
  Piece: {
    text: string;
    /** @default false */
    found?: boolean;
  };
  /** US dollars for a million tokens. What is None costs as much as other input. */
  Price: {
    input: number;
    output: number;
    /** @default null */
    cache_read?: number | null;
    /** @default null */
    cache_write?: number | null;
    /** @default null */
    cache_write_1h?: number | null;
    /** @default 0 */
    above?: number;
    /** @default null */
    long?: Schemas["Price"] | null;
  };
  /** Why a request was not carried out. */
  Problem: {
    kind: string;
    status: number;
    title: string;
    detail: string;
    /** @default {} */
    facts?: Record<string, unknown>;
  };
  ProviderKey: {
    key: string;
  };
  ProviderShown: {
    name: string;
    usable: boolean;
    remedy: string | null;
    /** @default false */
    broken?: boolean;
    /** @default null */
    key?: "environment" | "stored" | null;
    /** @default false */
    stored?: boolean;
    /** @default null */
    stored_at?: number | null;
    /** @default true */
    needs_key?: boolean;
    variables: Array<string>;
    url: string | null;
    default: string | null;
  };
  Providers: {
    providers: Array<Schemas["ProviderShown"]>;
    can_store: boolean;
  };
  QueueData: {
    queue: Array<Schemas["Queued"]>;
  };
  /** A message that waits in the queue. */
  Queued: {
    id: string;
    deliver: "interrupt" | "queue" | "steer";
    message: Schemas["Message"];
    position: number;
    /** @default null */
    model?: string | null;
    /** @default null */
    effort?: string | null;
    /** @default null */
    author?: string | null;
    /** @default 0 */
    created_at?: number;
  };
  ReadUpTo: {
    number: number;
  };
  Ready: {
    status: "ready";
    workers: number;
  };
  /** What a model thought before it answered, where its provider shows it. */
  Reasoning: {
    type: "reasoning";
    text: string;
    /** @default null */
    signature?: string | null;
    /** @default null */
    started_at?: number | null;
    /** @default null */
    finished_at?: number | null;
    /** @default null */
    metadata?: Record<string, unknown> | null;
  };
  /** A piece of the reasoning as it arrives. Shown, never stored. */
  ReasoningDelta: {
    type: "reasoning_delta";
    text: string;
  };
  /** What became of a message: it is in the history, or it waits in the queue. */
  Receipt: {
    /** @default null */
    number?: number | null;
    /** @default null */
    queued?: string | null;
  };
  /** The call may not run. */
  Refuse: {
    type: "deny";
    /** @default "" */
    reason?: string;
  };
  /** What the caller's chats used. */
  Report: {
    total: Schemas["Spent"];
    days: Array<Schemas["Day"]>;
  };
  ResetData: {
    what: "history" | "live";
    /** @default null */
    more_before?: number | null;
  };
  /** How the last turn ended. */
  Rest: {
    reason: "error" | "interrupted" | "max_steps" | "requires_action" | "stop" | "stop_after_tool";
    /** @default 0 */
    steps?: number;
  };
  /** What the client's tool gave, or what somebody answered to a question. */
  Result: {
    type: "result";
    result: unknown;
    /** @default false */
    failed?: boolean;
  };
  Resume: {
    /** @default null */
    cursor?: string | null;
  };
  /** What is shown while the next attempt is waited for. */
  Retry: {
    attempt: number;
    of: number;
    failure: Schemas["Failure"];
    /** @default null */
    at?: number | null;
  };
  /** What an edit did. */
  Revision: {
    number: number;
    superseded: Array<number>;
    dropped: Array<Schemas["Queued"]>;
  };
  /** Calls that a person allows in this chat without being asked again. */
  Rule: {
    tool: string;
    /** @default null */
    arguments?: string | null;
  };
  SendMessage: {
    prompt: string | Array<Schemas["TextPart"] | Schemas["FilePart"] | Schemas["SourcePart"]>;
    /** @default "queue" */
    deliver?: "interrupt" | "queue" | "steer";
    /** @default null */
    model?: string | null;
    /** @default null */
    effort?: "high" | "low" | "max" | "medium" | "minimal" | "none" | "xhigh" | null;
  };
  Session: {
    user: string;
    csrf: string;
  };
  Share: {
    id: string;
    chat: string;
    user: string | null;
    name: string | null;
    created_at: number;
    /** @default null */
    expires_at?: number | null;
  };
  Shares: {
    shares: Array<Schemas["Share"]>;
  };
  /** A chat as one person sees it. */
  Shown: {
    id: string;
    owner: string;
    agent: string;
    title: string | null;
    titled_by: "model" | "person" | null;
    labels: Record<string, string>;
    model: string | null;
    effort: string | null;
    workspace: string | null;
    rules: Array<Schemas["Rule"]>;
    parent_id: string | null;
    root_id: string;
    status: Schemas["Status"];
    archived: boolean;
    error: Schemas["Failure"] | null;
    retry: Schemas["Retry"] | null;
    outcome: Schemas["Rest"] | null;
    deadline: number | null;
    compaction: "overflow" | "person" | null;
    snapshot_version: number;
    history_version: number;
    queue_version: number;
    epoch: number;
    attempt: number;
    messages: number;
    created_at: number;
    updated_at: number;
    /** @default null */
    context?: number | null;
    /** @default false */
    stranded?: boolean;
    /** @default 0 */
    read?: number;
    /** @default false */
    unread?: boolean;
    /** @default false */
    pinned?: boolean;
    /** @default false */
    needs_me?: boolean;
    /** @default true */
    mine?: boolean;
    /** @default null */
    owner_name?: string | null;
    /** @default null */
    opening?: string | null;
    /** @default [] */
    matches?: Array<Schemas["Match"]>;
  };
  SignIn: {
    token: string;
  };
  /** A chat as of one moment. Times are microseconds since 1970, UTC. */
  Snapshot: {
    id: string;
    owner: string;
    agent: string;
    title: string | null;
    titled_by: "model" | "person" | null;
    labels: Record<string, string>;
    model: string | null;
    effort: string | null;
    workspace: string | null;
    rules: Array<Schemas["Rule"]>;
    parent_id: string | null;
    root_id: string;
    status: Schemas["Status"];
    archived: boolean;
    error: Schemas["Failure"] | null;
    retry: Schemas["Retry"] | null;
    outcome: Schemas["Rest"] | null;
    deadline: number | null;
    compaction: "overflow" | "person" | null;
    snapshot_version: number;
    history_version: number;
    queue_version: number;
    epoch: number;
    attempt: number;
    messages: number;
    created_at: number;
    updated_at: number;
    /** @default null */
    context?: number | null;
    /** @default false */
    stranded?: boolean;
  };
  /** Where an answer has something from. */
  Source: {
    type: "source";
    url: string;
    /** @default null */
    title?: string | null;
    /** @default null */
    metadata?: Record<string, unknown> | null;
  };
  SourcePart: {
    type: "source";
    url: string;
    /** @default null */
    title?: string | null;
  };
  /** What was used: by answers, by attempts that failed, by titles and summaries. */
  Spent: {
    usage: Schemas["Usage"];
    calls: number;
    unpriced: number;
  };
  Status: "error" | "idle" | "interrupting" | "requires_action" | "running";
  /** A message with what its row says beside it. */
  Stored: {
    number: number;
    revision: number;
    message: Schemas["Message"];
    author: string | null;
    created_at: number;
    /** @default null */
    superseded_at?: number | null;
  };
  /** A file that somebody uploaded. */
  StoredFile: {
    id: string;
    owner: string;
    hash: string;
    size: number;
    media_type: string;
    name: string | null;
    created_at: number;
  };
  /** Text, of a prompt, an answer or a result. */
  Text: {
    type: "text";
    text: string;
    /** @default null */
    metadata?: Record<string, unknown> | null;
  };
  /** A piece of the answer as it arrives. Shown, never stored. */
  TextDelta: {
    type: "text_delta";
    text: string;
  };
  TextPart: {
    type: "text";
    text: string;
  };
  /** All that is known of a token: not the token. */
  Token: {
    id: string;
    user: string;
    name: string;
    scopes: Array<"admin" | "read" | "write">;
    created_at: number;
    /** @default null */
    expires_at?: number | null;
    /** @default null */
    revoked_at?: number | null;
    /** @default null */
    used_at?: number | null;
  };
  Tokens: {
    tokens: Array<Schemas["Token"]>;
  };
  TokensQuery: {
    /** @default null */
    user?: string | null;
  };
  /** What a model asks for: a tool, by name, with arguments. */
  ToolCall: {
    type: "call";
    id: string;
    tool: string;
    arguments: string;
    /** @default null */
    complaint?: string | null;
    /** @default null */
    called_at?: number | null;
    /** @default false */
    provider_executed?: boolean;
    /** @default null */
    metadata?: Record<string, unknown> | null;
  };
  /** The model finished writing a call. */
  ToolCalled: {
    type: "tool_called";
    call: Schemas["ToolCall"];
  };
  /** A call has its result: also one that was skipped or refused and never started. */
  ToolFinished: {
    type: "tool_finished";
    result: Schemas["ToolResult"];
    seconds: number;
  };
  /** What a running call says of itself, or what a call would do if it ran. */
  ToolProgressed: {
    type: "tool_progressed";
    call_id: string;
    tool: string;
    what: "preview" | "progress";
    text: string;
  };
  /** What the model reads about a call, and how the call ended. */
  ToolResult: {
    type: "result";
    call_id: string;
    tool: string;
    content: Array<Schemas["Text"] | Schemas["File"]>;
    /** @default "ok" */
    outcome?: "edited" | "failed" | "forked" | "interrupted" | "lost" | "ok" | "refused" | "skipped" | "timed_out";
    /** @default false */
    stops?: boolean;
    /** @default false */
    provider_executed?: boolean;
    /** @default null */
    metadata?: Record<string, unknown> | null;
  };
  ToolShown: {
    name: string;
    description: string;
    waits_for: "answer" | "approval" | "child" | "client" | null;
    effect: "commit" | "idempotent" | "once" | "pure";
    approval: "ask" | "depends" | "never";
    label: string;
  };
  /** A call has begun to run. */
  ToolStarted: {
    type: "tool_started";
    call_id: string;
    tool: string;
    label: string;
  };
  Upload: {
    /** @default null */
    name?: string | null;
  };
  /** Tokens of one model call. `input` is what was neither read from nor written to a cache. */
  Usage: {
    /** @default 0 */
    input?: number;
    /** @default 0 */
    output?: number;
    /** @default 0 */
    reasoning?: number;
    /** @default 0 */
    cache_read?: number;
    /** @default 0 */
    cache_write?: number;
    /** @default null */
    cost?: number | null;
  };
  User: {
    id: string;
    name: string;
    role: "admin" | "member" | "viewer";
    created_at: number;
    /** @default null */
    disabled_at?: number | null;
  };
  UserChange: {
    /** @default null */
    role?: "admin" | "member" | "viewer" | null;
    /** @default null */
    disabled?: boolean | null;
  };
  Users: {
    users: Array<Schemas["User"]>;
    /** @default null */
    next?: string | null;
  };
  UsersQuery: {
    /** @default "" */
    after?: string;
    /** @default 100 */
    limit?: number;
  };
  /** The queue, in the order in which it will be delivered. */
  Waiting: {
    queue: Array<Schemas["Queued"]>;
  };
  /** Something that people should know, and that does not stop the run. */
  Warned: {
    type: "warning";
    text: string;
  };
}

/** The data of each event, by its name. */
export interface ChatEvents {
  chat: Schemas["Snapshot"];
  message: Schemas["Stored"];
  superseded: Schemas["NumbersData"];
  queue: Schemas["QueueData"];
  actions: Schemas["ActionsData"];
  delta: Schemas["DeltaData"];
  reset: Schemas["ResetData"];
  end: Schemas["End"];
}

/** The data of each event, by its name. */
export interface ListEvents {
  chat: Schemas["Shown"];
  deleted: Schemas["DeletedData"];
  reset: Schemas["ResetData"];
  end: Schemas["End"];
}

/** By method and path. */
export interface Operations {
  /** Read what waits for the caller, in all of their chats */
  "GET /actions": {
    path: undefined;
    query: {
      /** @default null */
      cursor?: string | null;
      /**
       * how many at once
       * @default 50
       */
      limit?: number;
    };
    body: undefined;
    answer: Schemas["AskedPage"];
  };
  /** Who can answer */
  "GET /agents": {
    path: undefined;
    query: undefined;
    body: undefined;
    answer: Schemas["Agents"];
  };
  /** Read the audit log */
  "GET /audit": {
    path: undefined;
    query: {
      /** @default null */
      before?: string | null;
      /** @default 100 */
      limit?: number;
      /** @default null */
      user?: string | null;
      /** @default null */
      action?: "chat.delete" | "refused" | "secret.remove" | "secret.rotate" | "secret.store" | "session.begin" | "session.end" | "share.create" | "share.revoke" | "token.issue" | "token.revoke" | "user.change" | "user.create" | null;
    };
    body: undefined;
    answer: Schemas["Page"];
  };
  /** Begin a chat */
  "POST /chats": {
    path: undefined;
    query: undefined;
    body: Schemas["CreateChat"] | undefined;
    answer: Schemas["Shown"];
  };
  /** List the caller's chats and those shared with them, or search them */
  "GET /chats": {
    path: undefined;
    query: {
      /** @default null */
      q?: string | null;
      /** @default null */
      label?: string | null;
      /** @default null */
      status?: Schemas["Status"] | null;
      /** @default null */
      agent?: string | null;
      /** @default null */
      parent?: string | null;
      /** @default false */
      archived?: boolean;
      /** @default null */
      pinned?: boolean | null;
      /** @default null */
      shared?: boolean | null;
      /** @default null */
      before?: string | null;
      /** @default null */
      cursor?: string | null;
      /**
       * how many at once
       * @default 50
       */
      limit?: number;
    };
    body: undefined;
    answer: Schemas["ChatPage"];
  };
  /** A new chat from an export in JSONL */
  "POST /chats/import": {
    path: undefined;
    query: {
      /** @default null */
      agent?: string | null;
    };
    body: BodyInit;
    answer: Schemas["Shown"];
  };
  /** Read a chat */
  "GET /chats/{chat}": {
    path: {
      chat: string;
    };
    query: undefined;
    body: undefined;
    answer: Schemas["Shown"];
  };
  /** Change a chat: all that is given, or nothing */
  "PATCH /chats/{chat}": {
    path: {
      chat: string;
    };
    query: undefined;
    body: Schemas["ChangeChat"] | undefined;
    answer: Schemas["Shown"];
  };
  /** Delete a chat for good, with all that it set to work */
  "DELETE /chats/{chat}": {
    path: {
      chat: string;
    };
    query: undefined;
    body: undefined;
    answer: undefined;
  };
  /** Read what the chat waits for */
  "GET /chats/{chat}/actions": {
    path: {
      chat: string;
    };
    query: undefined;
    body: undefined;
    answer: Schemas["Actions"];
  };
  /** Answer several things at once: all of them, or, when one is refused, none */
  "POST /chats/{chat}/actions": {
    path: {
      chat: string;
    };
    query: undefined;
    body: Schemas["AnswerActions"];
    answer: Schemas["Snapshot"];
  };
  /** Answer something the chat waits for */
  "POST /chats/{chat}/actions/{id}": {
    path: {
      chat: string;
      id: string;
    };
    query: undefined;
    body: Schemas["AnswerAction"];
    answer: Schemas["Snapshot"];
  };
  /** Have the conversation summarized now */
  "POST /chats/{chat}/compact": {
    path: {
      chat: string;
    };
    query: undefined;
    body: undefined;
    answer: Schemas["Snapshot"];
  };
  /** A chat as a file */
  "GET /chats/{chat}/export": {
    path: {
      chat: string;
    };
    query: {
      /** @default "jsonl" */
      format?: "jsonl" | "markdown";
      /** @default true */
      files?: boolean;
    };
    body: undefined;
    answer: string;
  };
  /** Download a file that a chat refers to */
  "GET /chats/{chat}/files/{id}": {
    path: {
      chat: string;
      id: string;
    };
    query: undefined;
    body: undefined;
    answer: Blob;
  };
  /** A new chat with the history up to a message */
  "POST /chats/{chat}/fork": {
    path: {
      chat: string;
    };
    query: undefined;
    body: Schemas["ForkChat"];
    answer: Schemas["Shown"];
  };
  /** Stop the turn and keep what it produced */
  "POST /chats/{chat}/interrupt": {
    path: {
      chat: string;
    };
    query: undefined;
    body: undefined;
    answer: Schemas["Snapshot"];
  };
  /** Read messages: the newest, or those after a number */
  "GET /chats/{chat}/messages": {
    path: {
      chat: string;
    };
    query: {
      /** @default null */
      before?: number | null;
      /** @default null */
      after?: number | null;
      /**
       * how many at once
       * @default 100
       */
      limit?: number;
      /** @default false */
      superseded?: boolean;
    };
    body: undefined;
    answer: Schemas["MessagePage"];
  };
  /** Say something */
  "POST /chats/{chat}/messages": {
    path: {
      chat: string;
    };
    query: undefined;
    body: Schemas["SendMessage"];
    answer: Schemas["Receipt"];
  };
  /** Say something else instead of a prompt: it and all behind it are superseded */
  "PATCH /chats/{chat}/messages/{number}": {
    path: {
      chat: string;
      /** of a message */
      number: number;
    };
    query: undefined;
    body: Schemas["EditMessage"];
    answer: Schemas["Revision"];
  };
  /** Read the queue */
  "GET /chats/{chat}/queue": {
    path: {
      chat: string;
    };
    query: undefined;
    body: undefined;
    answer: Schemas["Waiting"];
  };
  /** Put the queue into another order, within each kind */
  "PUT /chats/{chat}/queue": {
    path: {
      chat: string;
    };
    query: undefined;
    body: Schemas["Order"];
    answer: Schemas["Waiting"];
  };
  /** Read a message that waits */
  "GET /chats/{chat}/queue/{id}": {
    path: {
      chat: string;
      id: string;
    };
    query: undefined;
    body: undefined;
    answer: Schemas["Queued"];
  };
  /** Change a message that waits */
  "PATCH /chats/{chat}/queue/{id}": {
    path: {
      chat: string;
      id: string;
    };
    query: undefined;
    body: Schemas["EditQueued"];
    answer: Schemas["Waiting"];
  };
  /** Take a message back before it is delivered */
  "DELETE /chats/{chat}/queue/{id}": {
    path: {
      chat: string;
      id: string;
    };
    query: undefined;
    body: undefined;
    answer: Schemas["Queued"];
  };
  /** Deliver a message that waits now */
  "POST /chats/{chat}/queue/{id}/promote": {
    path: {
      chat: string;
      id: string;
    };
    query: undefined;
    body: undefined;
    answer: Schemas["Receipt"];
  };
  /** Note how far the caller has read */
  "PUT /chats/{chat}/read": {
    path: {
      chat: string;
    };
    query: undefined;
    body: Schemas["ReadUpTo"];
    answer: Schemas["Marks"];
  };
  /** What the chat came to, once it rests */
  "GET /chats/{chat}/result": {
    path: {
      chat: string;
    };
    query: undefined;
    body: undefined;
    answer: Schemas["Outcome"];
  };
  /** Try again after an error */
  "POST /chats/{chat}/retry": {
    path: {
      chat: string;
    };
    query: undefined;
    body: undefined;
    answer: Schemas["Snapshot"];
  };
  /** List whom a chat is shared with */
  "GET /chats/{chat}/shares": {
    path: {
      chat: string;
    };
    query: undefined;
    body: undefined;
    answer: Schemas["Shares"];
  };
  /** Share a chat for reading */
  "POST /chats/{chat}/shares": {
    path: {
      chat: string;
    };
    query: undefined;
    body: Schemas["AskedShare"] | undefined;
    answer: Schemas["MadeShare"];
  };
  /** Share a chat no longer */
  "DELETE /chats/{chat}/shares/{id}": {
    path: {
      chat: string;
      id: string;
    };
    query: undefined;
    body: undefined;
    answer: undefined;
  };
  /** Watch a chat, from a cursor on (Last-Event-ID, or ?cursor=). Also over WebSocket. */
  "GET /chats/{chat}/stream": {
    path: {
      chat: string;
    };
    query: {
      /** @default null */
      cursor?: string | null;
    };
    body: undefined;
    answer: ReadableStream<Uint8Array>;
  };
  /** Tokens and cost of a chat */
  "GET /chats/{chat}/usage": {
    path: {
      chat: string;
    };
    query: {
      /** @default false */
      tree?: boolean;
    };
    body: undefined;
    answer: Schemas["Spent"];
  };
  /** Upload a file: its bytes are the body */
  "POST /files": {
    path: undefined;
    query: {
      /** @default null */
      name?: string | null;
    };
    body: BodyInit;
    answer: Schemas["StoredFile"];
  };
  /** List the caller's files */
  "GET /files": {
    path: undefined;
    query: {
      /** @default null */
      cursor?: string | null;
      /**
       * how many at once
       * @default 50
       */
      limit?: number;
    };
    body: undefined;
    answer: Schemas["FilePage"];
  };
  /** Download a file */
  "GET /files/{id}": {
    path: {
      id: string;
    };
    query: undefined;
    body: undefined;
    answer: Blob;
  };
  /** Delete a file that no chat refers to */
  "DELETE /files/{id}": {
    path: {
      id: string;
    };
    query: undefined;
    body: undefined;
    answer: undefined;
  };
  /** Whether the process lives */
  "GET /healthz": {
    path: undefined;
    query: undefined;
    body: undefined;
    answer: Schemas["Alive"];
  };
  /** Who is asking */
  "GET /me": {
    path: undefined;
    query: undefined;
    body: undefined;
    answer: Schemas["Me"];
  };
  /** Numbers of this process, for Prometheus */
  "GET /metrics": {
    path: undefined;
    query: undefined;
    body: undefined;
    answer: string;
  };
  /** What can be asked */
  "GET /models": {
    path: undefined;
    query: undefined;
    body: undefined;
    answer: Schemas["Models"];
  };
  /** This description */
  "GET /openapi.json": {
    path: undefined;
    query: undefined;
    body: undefined;
    answer: Record<string, unknown>;
  };
  /** Who can be asked, and what is missing for the others */
  "GET /providers": {
    path: undefined;
    query: undefined;
    body: undefined;
    answer: Schemas["Providers"];
  };
  /** Store the key of a provider */
  "PUT /providers/{name}": {
    path: {
      name: string;
    };
    query: undefined;
    body: Schemas["ProviderKey"];
    answer: undefined;
  };
  /** Forget the key of a provider */
  "DELETE /providers/{name}": {
    path: {
      name: string;
    };
    query: undefined;
    body: undefined;
    answer: undefined;
  };
  /** Whether it can work: the database answers, and a worker lives */
  "GET /readyz": {
    path: undefined;
    query: undefined;
    body: undefined;
    answer: Schemas["Ready"];
  };
  /** Sign in: exchange a token for a cookie */
  "POST /session": {
    path: undefined;
    query: undefined;
    body: Schemas["SignIn"];
    answer: Schemas["Session"];
  };
  /** Sign out */
  "DELETE /session": {
    path: undefined;
    query: undefined;
    body: undefined;
    answer: undefined;
  };
  /** Watch all chats of the caller: each that is new or changes. Also over WebSocket. */
  "GET /stream": {
    path: undefined;
    query: {
      /** @default null */
      cursor?: string | null;
    };
    body: undefined;
    answer: ReadableStream<Uint8Array>;
  };
  /** List tokens */
  "GET /tokens": {
    path: undefined;
    query: {
      /** @default null */
      user?: string | null;
    };
    body: undefined;
    answer: Schemas["Tokens"];
  };
  /** Make a token */
  "POST /tokens": {
    path: undefined;
    query: undefined;
    body: Schemas["AskedToken"];
    answer: Schemas["IssuedToken"];
  };
  /** Revoke a token */
  "DELETE /tokens/{id}": {
    path: {
      id: string;
    };
    query: undefined;
    body: undefined;
    answer: undefined;
  };
  /** Tokens and cost of all chats of the caller, day by day */
  "GET /usage": {
    path: undefined;
    query: {
      /** @default 0 */
      since?: number;
      /** @default 9007199254740991 */
      until?: number;
    };
    body: undefined;
    answer: Schemas["Report"];
  };
  /** List the users */
  "GET /users": {
    path: undefined;
    query: {
      /** @default "" */
      after?: string;
      /** @default 100 */
      limit?: number;
    };
    body: undefined;
    answer: Schemas["Users"];
  };
  /** Make a user */
  "POST /users": {
    path: undefined;
    query: undefined;
    body: Schemas["NewUser"];
    answer: Schemas["User"];
  };
  /** Change what a user may, or whether they are let in */
  "PATCH /users/{user}": {
    path: {
      user: string;
    };
    query: undefined;
    body: Schemas["UserChange"] | undefined;
    answer: Schemas["User"];
  };
}
