// Made from the server's OpenAPI document by `make types`. Not to be edited.
//
// A field that may be left out stands for the value behind @default.

/** In front of every path. */
export const PREFIX = "/api/v1";

export interface Schemas {
  /** Pending actions of a chat. */
  ActionList: {
    actions: Array<Schemas["Pending"]>;
  };
  /** Data of an `actions` event: all pending actions. */
  ActionsData: {
    actions: Array<Schemas["Pending"]>;
  };
  /** The agents of the server. */
  AgentList: {
    agents: Array<Schemas["CatalogAgent"]>;
  };
  /** Approve a tool call. */
  AllowAnswer: {
    type: "allow";
    digest: string;
    /** @default null */
    arguments?: Record<string, unknown> | null;
    /** @default null */
    for_chat?: "call" | "tool" | null;
  };
  /** Calls that are approved in advance. */
  AllowedCalls: {
    tool: string;
    /** @default null */
    arguments?: string | null;
  };
  /** The answer to one action. */
  AnswerAction: {
    answer: Schemas["AllowAnswer"] | Schemas["DenyAnswer"] | Schemas["ResultAnswer"];
  };
  /** Answers to several actions, by id. */
  AnswerActions: {
    answers: Record<string, Schemas["AllowAnswer"] | Schemas["DenyAnswer"] | Schemas["ResultAnswer"]>;
    /** @default null */
    allow_for_chat?: Schemas["AllowedCalls"] | null;
  };
  /** A piece of a call's arguments as it arrives. Shown, never stored. */
  ArgumentsDelta: {
    type: "arguments_delta";
    call_id: string;
    text: string;
  };
  /** An entry of the audit log: one change, or one refused request. */
  AuditEntry: {
    id: string;
    action: "budget.set" | "chat.delete" | "refused" | "secret.remove" | "secret.rotate" | "secret.store" | "session.begin" | "session.end" | "share.create" | "share.revoke" | "token.issue" | "token.revoke" | "user.change" | "user.create";
    subject: string;
    user: string | null;
    token: string | null;
    address: string;
    /** @default {} */
    detail?: Record<string, unknown>;
    /** @default 0 */
    at?: number;
  };
  /** A page of the audit log, newest entries first. */
  AuditPage: {
    entries: Array<Schemas["AuditEntry"]>;
    /** @default null */
    next?: string | null;
  };
  /** Query of `GET /audit`. */
  AuditQuery: {
    /** @default null */
    before?: string | null;
    /** @default 100 */
    limit?: number;
    /** @default null */
    user?: string | null;
    /** @default null */
    action?: "budget.set" | "chat.delete" | "refused" | "secret.remove" | "secret.rotate" | "secret.store" | "session.begin" | "session.end" | "share.create" | "share.revoke" | "token.issue" | "token.revoke" | "user.change" | "user.create" | null;
  };
  /** The budgets of a chat and its owner, or those of a user. */
  BudgetReport: {
    chat: Schemas["BudgetState"];
    user: Schemas["BudgetState"];
    day: Schemas["BudgetState"];
  };
  /** One budget: its limits, and what was used of them. */
  BudgetState: {
    limits: Schemas["Limits"] | null;
    used: Schemas["BudgetUsage"] | null;
    /** @default false */
    is_set?: boolean;
  };
  /** Usage that a budget counts. */
  BudgetUsage: {
    steps: number;
    tokens: number;
    cost: number;
    seconds: number;
  };
  /** The model started to write a tool call. Its arguments follow. */
  CallStarted: {
    type: "call_started";
    call_id: string;
    tool: string;
    /** @default false */
    provider_executed?: boolean;
  };
  /** An agent of the server. */
  CatalogAgent: {
    name: string;
    description: string;
    model: string;
    effort: "high" | "low" | "max" | "medium" | "minimal" | "none" | "xhigh" | null;
    tools: Array<Schemas["CatalogTool"]>;
    provider_tools: Array<string>;
    window: number | null;
    threshold: number | null;
    compacts_at: number | null;
  };
  /** A model. Facts that are not known are null. */
  CatalogModel: {
    name: string;
    provider: string;
    used_by: Array<string>;
    window: number | null;
    max_output: number | null;
    efforts: Array<"high" | "low" | "max" | "medium" | "minimal" | "none" | "xhigh"> | null;
    files: Array<"audio" | "image" | "pdf" | "text" | "video"> | null;
    price: Schemas["Price"] | null;
  };
  /** A provider, and whether it can be used. */
  CatalogProvider: {
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
  /** A tool of an agent. */
  CatalogTool: {
    name: string;
    description: string;
    waits_for: "answer" | "approval" | "child" | "client" | null;
    effect: "commit" | "idempotent" | "once" | "pure";
    approval: "ask" | "depends" | "never";
    label: string;
  };
  /** Changes of a chat; absent fields keep their values. */
  ChangeChat: {
    title?: string | null;
    labels?: Record<string, string>;
    archived?: boolean;
    pinned?: boolean;
    agent?: string;
    model?: string | null;
    effort?: "high" | "low" | "max" | "medium" | "minimal" | "none" | "xhigh" | null;
    client_tools?: Array<Schemas["ClientToolBody"]>;
  };
  /** Changes of a user; None keeps a value. */
  ChangeUser: {
    /** @default null */
    role?: "admin" | "member" | "viewer" | null;
    /** @default null */
    disabled?: boolean | null;
  };
  /** A page of chats, newest first. */
  ChatPage: {
    chats: Array<Schemas["ReaderChat"]>;
    next: string | null;
    /** @default true */
    complete?: boolean;
  };
  /** The result of a chat that is idle, in error, or waiting for an action. */
  ChatResult: {
    reason: "error" | "interrupted" | "limit" | "requires_action" | "stop" | "stop_after_tool" | null;
    text: string;
    failure: Schemas["Failure"] | null;
    actions: Array<Schemas["Pending"]>;
    chat: Schemas["Snapshot"];
    /** @default [] */
    pieces?: Array<string>;
  };
  /** Query of the usage of a chat. */
  ChatUsageQuery: {
    /** @default false */
    tree?: boolean;
  };
  /** Positions in the history that a checkpoint message replaces or shortens. */
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
    /** @default [] */
    context?: Array<number>;
    /** @default 0 */
    context_tokens?: number;
  };
  /** A tool that the client runs itself, by answering actions. */
  ClientToolBody: {
    name: string;
    /** @default "" */
    description?: string;
    schema?: Record<string, unknown>;
    /** @default null */
    timeout?: number | null;
  };
  /** The history is being summarized. An empty `delta` marks a new attempt at the summary. */
  Compacting: {
    type: "compacting";
    asked_by: "overflow" | "person" | null;
    /** @default "" */
    delta?: string;
  };
  /** A chat to create. */
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
    /** @default [] */
    client_tools?: Array<Schemas["ClientToolBody"]>;
  };
  /** A share to create. */
  CreateShare: {
    /** @default null */
    user?: string | null;
    /** @default null */
    expires_in?: number | null;
  };
  /** A token to create. */
  CreateToken: {
    name: string;
    /** @default ["read", "write"] */
    scopes?: Array<"admin" | "read" | "write">;
    /** @default null */
    expires_in?: number | null;
    /** @default null */
    user?: string | null;
  };
  /** A user to create. */
  CreateUser: {
    name: string;
    /** @default "member" */
    role?: "admin" | "member" | "viewer";
  };
  /** A new browser session. */
  CreatedSession: {
    user: string;
    key: string;
    download_key: string;
  };
  /** A share that was created. */
  CreatedShare: {
    info: Schemas["Share"];
    link: string | null;
  };
  /** A token that was created. */
  CreatedToken: {
    info: Schemas["Token"];
    token: string | null;
  };
  /** The result of a chat, if it is idle. */
  CurrentResult: {
    result: Schemas["ChatResult"] | null;
    /** @default null */
    output?: unknown;
  };
  /** The authenticated caller. */
  CurrentUser: {
    user: string;
    name: string;
    role: "admin" | "member" | "viewer";
    scopes: Array<"admin" | "read" | "write">;
    mode: "local" | "team";
    /** @default null */
    download_key?: string | null;
  };
  /** Usage of one day. */
  DayUsage: {
    day: string;
    spent: Schemas["Spent"];
  };
  /** Data of a `deleted` event: id of the chat. */
  DeletedData: {
    id: string;
  };
  /** Data of a `delta` event. `epoch`, `history_version` and `attempt` identify the attempt. */
  DeltaData: {
    epoch: number;
    history_version: number;
    attempt: number;
    first: number;
    last: number;
    fragment: Schemas["TextDelta"] | Schemas["ReasoningDelta"] | Schemas["CallStarted"] | Schemas["ArgumentsDelta"] | Schemas["ToolCalled"] | Schemas["ToolStarted"] | Schemas["ToolProgressed"] | Schemas["ToolFinished"] | Schemas["Compacting"] | Schemas["Warned"] | Schemas["Omitted"];
  };
  /** Deny a tool call. */
  DenyAnswer: {
    type: "deny";
    /** @default "" */
    reason?: string;
  };
  /** The new text of a message. */
  EditMessage: {
    prompt: string | Array<Schemas["TextPart"] | Schemas["FilePart"] | Schemas["SourcePart"]>;
    /** @default null */
    model?: string | null;
    /** @default null */
    effort?: "high" | "low" | "max" | "medium" | "minimal" | "none" | "xhigh" | null;
  };
  /** The new text of a queued message. */
  EditQueued: {
    prompt: string | Array<Schemas["TextPart"] | Schemas["FilePart"] | Schemas["SourcePart"]>;
    /** @default null */
    deliver?: "queue" | "steer" | null;
  };
  /** Which functions of an agent's instructions returned the parts of a message. */
  Evaluation: {
    agent: string;
    counts: Array<number>;
    /** @default [] */
    cached?: Array<number>;
  };
  /** Query of an export. */
  ExportQuery: {
    /** @default "jsonl" */
    format?: "jsonl" | "markdown";
    /** @default true */
    files?: boolean;
  };
  /** A classified failure: what went wrong, for people and for programs. */
  Failure: {
    kind: "auth" | "budget" | "cancelled" | "config" | "content_filter" | "context_overflow" | "empty_response" | "escalated" | "internal" | "invalid_output" | "invalid_request" | "network" | "not_found" | "overloaded" | "permission" | "poison" | "prepare" | "quota" | "rate_limit" | "server" | "still_over_limit" | "stream_cut" | "stream_silent" | "stream_too_long" | "timeout" | "unknown";
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
    /** @default null */
    attempts?: number | null;
  };
  /** An image, document or other content with a media type: its bytes, or a reference. */
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
  /** A page of files, newest first. */
  FilePage: {
    files: Array<Schemas["StoredFile"]>;
    next: string | null;
    used: number;
    quota: number;
  };
  /** A file: an upload, its bytes, or a URL that the model's provider can fetch. */
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
  /** A fork to create. */
  ForkChat: {
    /** number of a message */
    number: number;
    /** @default null */
    prompt?: string | Array<Schemas["TextPart"] | Schemas["FilePart"] | Schemas["SourcePart"]> | null;
    /** @default null */
    title?: string | null;
    /** @default false */
    share_workspace?: boolean;
  };
  /** Query of an import. */
  ImportQuery: {
    /** @default null */
    agent?: string | null;
  };
  /** The limit that ended a turn: which one, how much was used, and how much was allowed. */
  LimitReached: {
    name: "cost" | "seconds" | "steps" | "tokens";
    scope: "chat" | "day" | "run" | "turn" | "user";
    used: number;
    maximum: number;
  };
  /**
   * Limits of steps, tokens, cost and time. A limit that is None does not apply.
   *
   *     They are compared with what was used before each model call.
   */
  Limits: {
    /** @default null */
    steps?: number | null;
    /** @default null */
    tokens?: number | null;
    /** @default null */
    cost?: number | null;
    /** @default null */
    seconds?: number | null;
  };
  /** Query of `GET /chats`. */
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
     * most items on a page
     * @default 50
     */
    limit?: number;
  };
  /** Query of `GET /files`. */
  ListFiles: {
    /** @default null */
    cursor?: string | null;
    /**
     * most items on a page
     * @default 50
     */
    limit?: number;
  };
  /** Query of the messages of a chat. */
  ListMessages: {
    /** @default null */
    before?: number | null;
    /** @default null */
    after?: number | null;
    /**
     * most items on a page
     * @default 100
     */
    limit?: number;
    /** @default false */
    superseded?: boolean;
  };
  /** Query of `GET /actions`. */
  ListPendingActions: {
    /** @default null */
    cursor?: string | null;
    /**
     * most items on a page
     * @default 50
     */
    limit?: number;
  };
  /** A pending action with the chat that waits for it. */
  ListedAction: {
    chat_id: string;
    root_id: string;
    title: string | null;
    root_title: string | null;
    agent: string;
    asked_at: number;
    action: Schemas["Pending"];
  };
  /** The process is alive. */
  Liveness: {
    /** @default "ok" */
    status?: "ok";
  };
  /** The state of a chat for one reader. */
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
  /** A message or a title that matches the query. */
  Match: {
    number: number | null;
    snippet: Array<Schemas["SnippetPart"]>;
  };
  /** One entry of a history. `kind` is its origin; `visibility` states who may see it. */
  Message: {
    role: "assistant" | "system" | "tool" | "user";
    parts: Array<Schemas["Text"] | Schemas["Reasoning"] | Schemas["ToolCall"] | Schemas["ToolResult"] | Schemas["File"] | Schemas["Source"]>;
    kind: "answer" | "checkpoint" | "context" | "injected" | "instructions" | "marker" | "note" | "prompt" | "results";
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
    /** @default null */
    runtime?: number | null;
    /** @default null */
    evaluation?: Schemas["Evaluation"] | null;
    /** @default null */
    limit?: Schemas["LimitReached"] | null;
  };
  /** A page of messages, in the order of the conversation. */
  MessagePage: {
    messages: Array<Schemas["Stored"]>;
    next: number | null;
  };
  /** The models that can be used. */
  ModelList: {
    models: Array<Schemas["CatalogModel"]>;
    priced_on: string;
  };
  /** Data of a `superseded` event: numbers of the superseded messages. */
  NumbersData: {
    numbers: Array<number>;
  };
  /** Marker for tool output that was omitted because it exceeded the attempt's limit. */
  Omitted: {
    type: "omitted";
    call_ids: Array<string>;
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
    attempt?: number;
    /** @default 0 */
    number?: number;
    /** @default null */
    deadline?: number | null;
  };
  /** Pending actions, newest first. */
  PendingActionPage: {
    actions: Array<Schemas["ListedAction"]>;
    next: string | null;
  };
  /** The retry that a chat waits for, after a failed attempt. */
  PendingRetry: {
    attempt: number;
    of: number;
    failure: Schemas["Failure"];
    /** @default null */
    at?: number | null;
  };
  /** Price in US dollars per million tokens. A price that is None equals that of other input. */
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
  /** Body of an error response: why a request failed. */
  ProblemDetails: {
    kind: string;
    status: number;
    title: string;
    detail: string;
    /** @default {} */
    facts?: Record<string, unknown>;
  };
  /** The key of a provider to store. */
  ProviderKey: {
    key: string;
  };
  /** The known providers. */
  ProviderList: {
    providers: Array<Schemas["CatalogProvider"]>;
    can_store: boolean;
  };
  /** Data of a `queue` event: the whole queue, in order. */
  QueueData: {
    queue: Array<Schemas["Queued"]>;
  };
  /** A new order of the queue. */
  QueueOrder: {
    order: Array<string>;
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
  /** The queue, in order of delivery. */
  QueuedMessages: {
    queue: Array<Schemas["Queued"]>;
  };
  /** How far the caller has read. */
  ReadUpTo: {
    number: number;
  };
  /** A chat with the state that is specific to one reader. */
  ReaderChat: {
    id: string;
    owner: string;
    agent: string;
    /** @default null */
    next_agent?: string | null;
    title: string | null;
    titled_by: "model" | "person" | null;
    labels: Record<string, string>;
    model: string | null;
    effort: string | null;
    workspace: string | null;
    /** @default [] */
    client_tools?: Array<string>;
    rules: Array<Schemas["Rule"]>;
    parent_id: string | null;
    root_id: string;
    status: Schemas["Status"];
    archived: boolean;
    error: Schemas["Failure"] | null;
    retry: Schemas["PendingRetry"] | null;
    outcome: Schemas["TurnOutcome"] | null;
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
    /** @default null */
    partial?: Schemas["Message"] | null;
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
  /** The server is ready. */
  Readiness: {
    status: "ready";
    workers: number;
  };
  /** The model's reasoning before its answer, where the provider exposes it. */
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
  /** Where a sent message is: in the history, or in the queue. */
  Receipt: {
    /** @default null */
    number?: number | null;
    /** @default null */
    queued?: string | null;
  };
  /** Data of a `reset` event: which state the reader has to discard. */
  ResetData: {
    what: "history" | "live";
    /** @default null */
    more_before?: number | null;
  };
  /** The result of a client tool, or the answer to a question. */
  ResultAnswer: {
    type: "result";
    result: unknown;
    /** @default false */
    failed?: boolean;
    /** @default false */
    expected?: boolean;
  };
  /** The result of an edit. */
  Revision: {
    number: number;
    superseded: Array<number>;
    dropped: Array<Schemas["Queued"]>;
  };
  /** Calls that a person allows in this chat without further approval. */
  Rule: {
    tool: string;
    /** @default null */
    arguments?: string | null;
  };
  /** A message to send. */
  SendMessage: {
    prompt: string | Array<Schemas["TextPart"] | Schemas["FilePart"] | Schemas["SourcePart"]>;
    /** @default "queue" */
    deliver?: "interrupt" | "queue" | "steer";
    /** @default null */
    model?: string | null;
    /** @default null */
    effort?: "high" | "low" | "max" | "medium" | "minimal" | "none" | "xhigh" | null;
  };
  /** The budget of a chat; null returns to that of its owner's chats. */
  SetBudget: {
    limits: Schemas["SetLimits"] | null;
  };
  /** Budgets of a user. An absent one is the configured one; one without limits limits nothing. */
  SetBudgets: {
    /** @default null */
    chat?: Schemas["SetLimits"] | null;
    /** @default null */
    user?: Schemas["SetLimits"] | null;
    /** @default null */
    day?: Schemas["SetLimits"] | null;
  };
  /** Limits to set. An absent limit does not apply. */
  SetLimits: {
    /** @default null */
    steps?: number | null;
    /** @default null */
    tokens?: number | null;
    /** @default null */
    cost?: number | null;
    /** @default null */
    seconds?: number | null;
  };
  /** Read access to a chat, for one user or by link. */
  Share: {
    id: string;
    chat: string;
    user: string | null;
    name: string | null;
    created_at: number;
    /** @default null */
    expires_at?: number | null;
  };
  /** Shares of a chat. */
  ShareList: {
    shares: Array<Schemas["Share"]>;
  };
  /** A token to sign in with. */
  SignIn: {
    token: string;
  };
  /** A chat at one version. Times are microseconds since 1970, UTC. */
  Snapshot: {
    id: string;
    owner: string;
    agent: string;
    /** @default null */
    next_agent?: string | null;
    title: string | null;
    titled_by: "model" | "person" | null;
    labels: Record<string, string>;
    model: string | null;
    effort: string | null;
    workspace: string | null;
    /** @default [] */
    client_tools?: Array<string>;
    rules: Array<Schemas["Rule"]>;
    parent_id: string | null;
    root_id: string;
    status: Schemas["Status"];
    archived: boolean;
    error: Schemas["Failure"] | null;
    retry: Schemas["PendingRetry"] | null;
    outcome: Schemas["TurnOutcome"] | null;
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
    /** @default null */
    partial?: Schemas["Message"] | null;
  };
  /** A part of a snippet: matching text, or the text around it. */
  SnippetPart: {
    text: string;
    /** @default false */
    found?: boolean;
  };
  /** A source that an answer cites. */
  Source: {
    type: "source";
    url: string;
    /** @default null */
    title?: string | null;
    /** @default null */
    metadata?: Record<string, unknown> | null;
  };
  /** A source that the message refers to. */
  SourcePart: {
    type: "source";
    url: string;
    /** @default null */
    title?: string | null;
  };
  /** Usage of answers, failed attempts, titles and summaries. */
  Spent: {
    usage: Schemas["Usage"];
    calls: number;
    unpriced: number;
  };
  /** Status of a chat: whether it runs, and what continues it. */
  Status: "error" | "idle" | "interrupting" | "requires_action" | "running";
  /** A message with the other columns of its row. */
  Stored: {
    number: number;
    revision: number;
    message: Schemas["Message"];
    author: string | null;
    created_at: number;
    /** @default null */
    superseded_at?: number | null;
  };
  /** An uploaded file, without its bytes. */
  StoredFile: {
    id: string;
    owner: string;
    hash: string;
    size: number;
    media_type: string;
    name: string | null;
    created_at: number;
  };
  /** The last event of a stream that the server ends. */
  StreamEnd: {
    reason: "deleted" | "failed" | "revoked" | "shutdown" | "slow";
    reconnect: boolean;
  };
  /** Where a stream continues. */
  StreamQuery: {
    /** @default null */
    cursor?: string | null;
  };
  /** Text of a prompt, an answer or a tool result. */
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
  /** A text. */
  TextPart: {
    type: "text";
    text: string;
  };
  /** A token's metadata, without its secret. */
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
  /** Tokens of a user. */
  TokenList: {
    tokens: Array<Schemas["Token"]>;
  };
  /** Query of `GET /tokens`. */
  TokensQuery: {
    /** @default null */
    user?: string | null;
  };
  /** A model's request to run a tool: its name and arguments. */
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
  /** The model finished writing a tool call. */
  ToolCalled: {
    type: "tool_called";
    call: Schemas["ToolCall"];
  };
  /** A tool call has its result, including one that was skipped or refused and never started. */
  ToolFinished: {
    type: "tool_finished";
    result: Schemas["ToolResult"];
    seconds: number;
  };
  /** Progress reported by a running call, or the preview of a call before it runs. */
  ToolProgressed: {
    type: "tool_progressed";
    call_id: string;
    tool: string;
    what: "preview" | "progress";
    text: string;
    /** @default null */
    data?: unknown;
  };
  /** The result of a tool call: what the model reads, and how the call ended. */
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
    /** @default false */
    expected?: boolean;
    /** @default null */
    started_at?: number | null;
    /** @default null */
    finished_at?: number | null;
    /** @default null */
    usage?: Schemas["Usage"] | null;
    /** @default 0 */
    steps?: number;
  };
  /** A tool call started to run. */
  ToolStarted: {
    type: "tool_started";
    call_id: string;
    tool: string;
    label: string;
  };
  /** How the last turn ended. */
  TurnOutcome: {
    reason: "error" | "interrupted" | "limit" | "requires_action" | "stop" | "stop_after_tool";
    /** @default 0 */
    steps?: number;
    /** @default null */
    cut_by?: "content_filter" | "length" | null;
    /** @default null */
    limit?: Schemas["LimitReached"] | null;
  };
  /** Query of an upload. */
  UploadQuery: {
    /** @default null */
    name?: string | null;
  };
  /** Tokens of one model call, or the sum of several. */
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
  /** A period of time. */
  UsageQuery: {
    /** @default 0 */
    since?: number;
    /** @default 9007199254740991 */
    until?: number;
  };
  /** Usage of the caller's chats. */
  UsageReport: {
    total: Schemas["Spent"];
    days: Array<Schemas["DayUsage"]>;
  };
  /** A user of a team server. */
  User: {
    id: string;
    name: string;
    role: "admin" | "member" | "viewer";
    created_at: number;
    /** @default null */
    disabled_at?: number | null;
  };
  /** A page of users. */
  UserPage: {
    users: Array<Schemas["User"]>;
    /** @default null */
    next?: string | null;
  };
  /** Query of `GET /users`. */
  UsersQuery: {
    /** @default "" */
    after?: string;
    /** @default 100 */
    limit?: number;
  };
  /** A warning for people; the run continues. */
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
  end: Schemas["StreamEnd"];
}

/** The data of each event, by its name. */
export interface ListEvents {
  chat: Schemas["ReaderChat"];
  deleted: Schemas["DeletedData"];
  reset: Schemas["ResetData"];
  end: Schemas["StreamEnd"];
}

/** By method and path. */
export interface Operations {
  /** List the pending actions of all chats of the caller */
  "GET /actions": {
    path: undefined;
    query: {
      /** @default null */
      cursor?: string | null;
      /**
       * most items on a page
       * @default 50
       */
      limit?: number;
    };
    body: undefined;
    answer: Schemas["PendingActionPage"];
  };
  /** List the agents */
  "GET /agents": {
    path: undefined;
    query: undefined;
    body: undefined;
    answer: Schemas["AgentList"];
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
      action?: "budget.set" | "chat.delete" | "refused" | "secret.remove" | "secret.rotate" | "secret.store" | "session.begin" | "session.end" | "share.create" | "share.revoke" | "token.issue" | "token.revoke" | "user.change" | "user.create" | null;
    };
    body: undefined;
    answer: Schemas["AuditPage"];
  };
  /** The caller's budgets, and what was used of them */
  "GET /budgets": {
    path: undefined;
    query: undefined;
    body: undefined;
    answer: Schemas["BudgetReport"];
  };
  /** Set the caller's own budgets */
  "PUT /budgets": {
    path: undefined;
    query: undefined;
    body: Schemas["SetBudgets"] | undefined;
    answer: Schemas["BudgetReport"];
  };
  /** Create a chat */
  "POST /chats": {
    path: undefined;
    query: undefined;
    body: Schemas["CreateChat"] | undefined;
    answer: Schemas["ReaderChat"];
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
       * most items on a page
       * @default 50
       */
      limit?: number;
    };
    body: undefined;
    answer: Schemas["ChatPage"];
  };
  /** Import a chat from an export in JSONL */
  "POST /chats/import": {
    path: undefined;
    query: {
      /** @default null */
      agent?: string | null;
    };
    body: BodyInit;
    answer: Schemas["ReaderChat"];
  };
  /** Read a chat */
  "GET /chats/{chat}": {
    path: {
      chat: string;
    };
    query: undefined;
    body: undefined;
    answer: Schemas["ReaderChat"];
  };
  /** Change a chat: all given fields, or none */
  "PATCH /chats/{chat}": {
    path: {
      chat: string;
    };
    query: undefined;
    body: Schemas["ChangeChat"] | undefined;
    answer: Schemas["ReaderChat"];
  };
  /** Delete a chat permanently, with its child chats */
  "DELETE /chats/{chat}": {
    path: {
      chat: string;
    };
    query: undefined;
    body: undefined;
    answer: undefined;
  };
  /** List the pending actions of a chat */
  "GET /chats/{chat}/actions": {
    path: {
      chat: string;
    };
    query: undefined;
    body: undefined;
    answer: Schemas["ActionList"];
  };
  /** Answer several pending actions at once: all of them, or none if one is refused */
  "POST /chats/{chat}/actions": {
    path: {
      chat: string;
    };
    query: undefined;
    body: Schemas["AnswerActions"];
    answer: Schemas["Snapshot"];
  };
  /** Answer a pending action */
  "POST /chats/{chat}/actions/{id}": {
    path: {
      chat: string;
      id: string;
    };
    query: undefined;
    body: Schemas["AnswerAction"];
    answer: Schemas["Snapshot"];
  };
  /** Budgets that apply to a chat, and what was used */
  "GET /chats/{chat}/budget": {
    path: {
      chat: string;
    };
    query: undefined;
    body: undefined;
    answer: Schemas["BudgetReport"];
  };
  /** Set the budget of a chat */
  "PUT /chats/{chat}/budget": {
    path: {
      chat: string;
    };
    query: undefined;
    body: Schemas["SetBudget"];
    answer: Schemas["BudgetReport"];
  };
  /** Summarize the conversation now */
  "POST /chats/{chat}/compact": {
    path: {
      chat: string;
    };
    query: undefined;
    body: undefined;
    answer: Schemas["Snapshot"];
  };
  /** Export a chat as a file */
  "GET /chats/{chat}/export": {
    path: {
      chat: string;
    };
    query: {
      /** @default "jsonl" */
      format?: "jsonl" | "markdown";
      /** @default true */
      files?: boolean;
      download_key?: string;
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
    query: {
      download_key?: string;
    };
    body: undefined;
    answer: Blob;
  };
  /** Fork a chat: copy its history up to a message */
  "POST /chats/{chat}/fork": {
    path: {
      chat: string;
    };
    query: undefined;
    body: Schemas["ForkChat"];
    answer: Schemas["ReaderChat"];
  };
  /** Interrupt the turn and keep its output */
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
       * most items on a page
       * @default 100
       */
      limit?: number;
      /** @default false */
      superseded?: boolean;
    };
    body: undefined;
    answer: Schemas["MessagePage"];
  };
  /** Send a message */
  "POST /chats/{chat}/messages": {
    path: {
      chat: string;
    };
    query: undefined;
    body: Schemas["SendMessage"];
    answer: Schemas["Receipt"];
  };
  /** Edit a user's message: it and all messages after it are superseded */
  "PATCH /chats/{chat}/messages/{number}": {
    path: {
      chat: string;
      /** number of a message */
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
    answer: Schemas["QueuedMessages"];
  };
  /** Reorder the queue, within each kind */
  "PUT /chats/{chat}/queue": {
    path: {
      chat: string;
    };
    query: undefined;
    body: Schemas["QueueOrder"];
    answer: Schemas["QueuedMessages"];
  };
  /** Read a queued message */
  "GET /chats/{chat}/queue/{id}": {
    path: {
      chat: string;
      id: string;
    };
    query: undefined;
    body: undefined;
    answer: Schemas["Queued"];
  };
  /** Edit a queued message */
  "PATCH /chats/{chat}/queue/{id}": {
    path: {
      chat: string;
      id: string;
    };
    query: undefined;
    body: Schemas["EditQueued"];
    answer: Schemas["QueuedMessages"];
  };
  /** Remove a queued message before it is delivered */
  "DELETE /chats/{chat}/queue/{id}": {
    path: {
      chat: string;
      id: string;
    };
    query: undefined;
    body: undefined;
    answer: Schemas["Queued"];
  };
  /** Deliver a queued message now */
  "POST /chats/{chat}/queue/{id}/promote": {
    path: {
      chat: string;
      id: string;
    };
    query: undefined;
    body: undefined;
    answer: Schemas["Receipt"];
  };
  /** Record how far the caller has read */
  "PUT /chats/{chat}/read": {
    path: {
      chat: string;
    };
    query: undefined;
    body: Schemas["ReadUpTo"];
    answer: Schemas["Marks"];
  };
  /** Read the result of a chat, once it is idle */
  "GET /chats/{chat}/result": {
    path: {
      chat: string;
    };
    query: undefined;
    body: undefined;
    answer: Schemas["CurrentResult"];
  };
  /** Continue a turn that ended at a limit */
  "POST /chats/{chat}/resume": {
    path: {
      chat: string;
    };
    query: undefined;
    body: undefined;
    answer: Schemas["Snapshot"];
  };
  /** Retry after an error */
  "POST /chats/{chat}/retry": {
    path: {
      chat: string;
    };
    query: undefined;
    body: undefined;
    answer: Schemas["Snapshot"];
  };
  /** List the shares of a chat */
  "GET /chats/{chat}/shares": {
    path: {
      chat: string;
    };
    query: undefined;
    body: undefined;
    answer: Schemas["ShareList"];
  };
  /** Share a chat read-only */
  "POST /chats/{chat}/shares": {
    path: {
      chat: string;
    };
    query: undefined;
    body: Schemas["CreateShare"] | undefined;
    answer: Schemas["CreatedShare"];
  };
  /** Revoke a share of a chat */
  "DELETE /chats/{chat}/shares/{id}": {
    path: {
      chat: string;
      id: string;
    };
    query: undefined;
    body: undefined;
    answer: undefined;
  };
  /** Watch a chat, from a cursor on (Last-Event-ID or ?cursor=); also over WebSocket */
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
  /** Have a model write a new title now */
  "POST /chats/{chat}/title": {
    path: {
      chat: string;
    };
    query: undefined;
    body: undefined;
    answer: Schemas["Snapshot"];
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
       * most items on a page
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
    query: {
      download_key?: string;
    };
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
  /** Liveness: whether the process is alive */
  "GET /healthz": {
    path: undefined;
    query: undefined;
    body: undefined;
    answer: Schemas["Liveness"];
  };
  /** Read who the caller is */
  "GET /me": {
    path: undefined;
    query: undefined;
    body: undefined;
    answer: Schemas["CurrentUser"];
  };
  /** Prometheus metrics of this process */
  "GET /metrics": {
    path: undefined;
    query: undefined;
    body: undefined;
    answer: string;
  };
  /** List the models that can be used */
  "GET /models": {
    path: undefined;
    query: undefined;
    body: undefined;
    answer: Schemas["ModelList"];
  };
  /** The OpenAPI document of this API */
  "GET /openapi.json": {
    path: undefined;
    query: undefined;
    body: undefined;
    answer: Record<string, unknown>;
  };
  /** List the providers, and what the unusable ones lack */
  "GET /providers": {
    path: undefined;
    query: undefined;
    body: undefined;
    answer: Schemas["ProviderList"];
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
  /** Delete the stored key of a provider */
  "DELETE /providers/{name}": {
    path: {
      name: string;
    };
    query: undefined;
    body: undefined;
    answer: undefined;
  };
  /** Readiness: the database responds and is writable, and a worker is alive */
  "GET /readyz": {
    path: undefined;
    query: undefined;
    body: undefined;
    answer: Schemas["Readiness"];
  };
  /** Sign in: exchange a token for a cookie */
  "POST /session": {
    path: undefined;
    query: undefined;
    body: Schemas["SignIn"];
    answer: Schemas["CreatedSession"];
  };
  /** Sign out */
  "DELETE /session": {
    path: undefined;
    query: undefined;
    body: undefined;
    answer: undefined;
  };
  /** Watch the caller's chats: each one that is created or changes; also over WebSocket */
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
    answer: Schemas["TokenList"];
  };
  /** Create a token */
  "POST /tokens": {
    path: undefined;
    query: undefined;
    body: Schemas["CreateToken"];
    answer: Schemas["CreatedToken"];
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
  /** Tokens and cost of all chats of the caller, by day */
  "GET /usage": {
    path: undefined;
    query: {
      /** @default 0 */
      since?: number;
      /** @default 9007199254740991 */
      until?: number;
    };
    body: undefined;
    answer: Schemas["UsageReport"];
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
    answer: Schemas["UserPage"];
  };
  /** Create a user */
  "POST /users": {
    path: undefined;
    query: undefined;
    body: Schemas["CreateUser"];
    answer: Schemas["User"];
  };
  /** Change a user's role, or disable or enable them */
  "PATCH /users/{user}": {
    path: {
      user: string;
    };
    query: undefined;
    body: Schemas["ChangeUser"] | undefined;
    answer: Schemas["User"];
  };
  /** A user's budgets, and what was used of them */
  "GET /users/{user}/budgets": {
    path: {
      user: string;
    };
    query: undefined;
    body: undefined;
    answer: Schemas["BudgetReport"];
  };
  /** Set a user's budgets */
  "PUT /users/{user}/budgets": {
    path: {
      user: string;
    };
    query: undefined;
    body: Schemas["SetBudgets"] | undefined;
    answer: Schemas["BudgetReport"];
  };
}
