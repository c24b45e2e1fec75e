-- Times are microseconds since 1970, UTC; documents are JSON text; ids are text.

CREATE TABLE workers (
    id TEXT PRIMARY KEY,
    url TEXT,
    agents TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    beat_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE chats (
    id TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    agent TEXT NOT NULL,
    title TEXT,
    titled_by TEXT CHECK (titled_by IN ('person', 'model')),
    labels TEXT NOT NULL DEFAULT '{}',
    model TEXT,
    effort TEXT,
    workspace TEXT,
    rules TEXT NOT NULL DEFAULT '[]',
    parent_id TEXT REFERENCES chats (id),
    root_id TEXT NOT NULL,
    spawned_by TEXT,
    depth INTEGER NOT NULL DEFAULT 0,
    status TEXT NOT NULL
        CHECK (status IN ('idle', 'running', 'interrupting', 'requires_action', 'error')),
    archived INTEGER NOT NULL DEFAULT 0 CHECK (archived IN (0, 1)),
    error TEXT,
    retry TEXT,
    retry_at INTEGER,
    outcome TEXT,
    deadline INTEGER,
    compaction TEXT CHECK (compaction IN ('person', 'overflow')),
    runnable_since INTEGER,
    crashes INTEGER NOT NULL DEFAULT 0 CHECK (crashes >= 0),
    snapshot_version INTEGER NOT NULL DEFAULT 1,
    history_version INTEGER NOT NULL,
    queue_version INTEGER NOT NULL,
    attempt INTEGER NOT NULL DEFAULT 1 CHECK (attempt >= 1),
    messages INTEGER NOT NULL DEFAULT 0 CHECK (messages >= 0),
    worker_id TEXT,
    epoch INTEGER NOT NULL DEFAULT 0 CHECK (epoch >= 0),
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    CHECK (history_version <= snapshot_version AND queue_version <= snapshot_version),
    CHECK (archived = 0 OR status IN ('idle', 'error')),
    CHECK ((status = 'error') = (error IS NOT NULL)),
    CHECK (worker_id IS NULL OR status IN ('running', 'interrupting', 'requires_action')),
    CHECK ((parent_id IS NULL) = (root_id = id))
) STRICT;

-- No column that a step changes: an index on one would be written with every step.
CREATE INDEX chats_busy ON chats (status, runnable_since, id)
    WHERE status IN ('running', 'interrupting', 'requires_action');
CREATE INDEX chats_owner ON chats (owner, id);
CREATE INDEX chats_root ON chats (root_id, id);
CREATE INDEX chats_parent ON chats (parent_id, id) WHERE parent_id IS NOT NULL;

CREATE TABLE messages (
    chat_id TEXT NOT NULL REFERENCES chats (id) ON DELETE CASCADE,
    number INTEGER NOT NULL CHECK (number >= 1),
    revision INTEGER NOT NULL,
    -- Not IN: SQLite would make a table of its list, for every row.
    role TEXT NOT NULL
        CHECK (role = 'user' OR role = 'assistant' OR role = 'tool' OR role = 'system'),
    kind TEXT NOT NULL CHECK (
        kind = 'answer' OR kind = 'results' OR kind = 'prompt' OR kind = 'checkpoint'
        OR kind = 'injected' OR kind = 'marker' OR kind = 'context' OR kind = 'note'
    ),
    visibility TEXT NOT NULL
        CHECK (visibility = 'both' OR visibility = 'user' OR visibility = 'model'),
    body TEXT NOT NULL,
    author TEXT,
    epoch INTEGER,
    runtime INTEGER,
    input INTEGER,
    output INTEGER,
    reasoning INTEGER,
    cache_read INTEGER,
    cache_write INTEGER,
    cost REAL,
    created_at INTEGER NOT NULL,
    superseded_at INTEGER,
    PRIMARY KEY (chat_id, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE queue (
    chat_id TEXT NOT NULL REFERENCES chats (id) ON DELETE CASCADE,
    id TEXT NOT NULL,
    position INTEGER NOT NULL,
    deliver TEXT NOT NULL CHECK (deliver IN ('interrupt', 'steer', 'queue')),
    body TEXT NOT NULL,
    model TEXT,
    effort TEXT,
    author TEXT,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (chat_id, id),
    UNIQUE (chat_id, deliver, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE tool_calls (
    chat_id TEXT NOT NULL REFERENCES chats (id) ON DELETE CASCADE,
    call_id TEXT NOT NULL,
    number INTEGER NOT NULL,
    tool TEXT NOT NULL,
    effect TEXT NOT NULL CHECK (effect IN ('pure', 'idempotent', 'once', 'commit')),
    state TEXT NOT NULL CHECK (state IN ('waiting', 'approved', 'started', 'finished')),
    action TEXT CHECK (action IN ('client', 'approval', 'answer', 'child')),
    asked TEXT,
    deadline INTEGER,
    approved TEXT,
    epoch INTEGER,
    started_at INTEGER,
    finished_at INTEGER,
    result TEXT,
    outcome TEXT,
    PRIMARY KEY (chat_id, call_id),
    FOREIGN KEY (chat_id, number) REFERENCES messages (chat_id, number),
    CHECK (state <> 'waiting' OR (action IS NOT NULL AND asked IS NOT NULL)),
    CHECK (state <> 'approved' OR approved IS NOT NULL),
    CHECK (state <> 'started' OR (started_at IS NOT NULL AND epoch IS NOT NULL)),
    CHECK ((state = 'finished') = (outcome IS NOT NULL)),
    CHECK (result IS NULL OR state = 'finished')
) STRICT, WITHOUT ROWID;
-- A chat has any number of calls behind it, and few that still matter.
CREATE INDEX tool_calls_open ON tool_calls (chat_id, call_id)
    WHERE state <> 'finished' OR result IS NOT NULL;

CREATE TABLE awaited (
    chat_id TEXT NOT NULL,
    call_id TEXT NOT NULL,
    child_id TEXT NOT NULL REFERENCES chats (id) ON DELETE CASCADE,
    PRIMARY KEY (chat_id, call_id, child_id),
    FOREIGN KEY (chat_id, call_id) REFERENCES tool_calls (chat_id, call_id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
CREATE INDEX awaited_child ON awaited (child_id);

CREATE TABLE partials (
    chat_id TEXT PRIMARY KEY REFERENCES chats (id) ON DELETE CASCADE,
    epoch INTEGER NOT NULL,
    history_version INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    body TEXT NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE usage (
    chat_id TEXT NOT NULL REFERENCES chats (id) ON DELETE CASCADE,
    id TEXT NOT NULL,
    purpose TEXT NOT NULL CHECK (purpose IN ('attempt', 'summary', 'title')),
    model TEXT,
    input INTEGER NOT NULL,
    output INTEGER NOT NULL,
    reasoning INTEGER NOT NULL,
    cache_read INTEGER NOT NULL,
    cache_write INTEGER NOT NULL,
    cost REAL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (chat_id, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE requests (
    caller TEXT NOT NULL,
    key TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    response TEXT NOT NULL,
    chat_id TEXT,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (caller, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX requests_created ON requests (created_at);

-- A worker that lost a chat may wake up at any time. Whatever it then writes is refused here too.
CREATE TRIGGER messages_epoch BEFORE INSERT ON messages
WHEN NEW.epoch IS NOT NULL AND NEW.epoch <> (SELECT epoch FROM chats WHERE id = NEW.chat_id)
BEGIN SELECT RAISE(ABORT, 'a message of another epoch than the chat''s'); END;

CREATE TRIGGER messages_kept BEFORE UPDATE ON messages
WHEN NEW.chat_id <> OLD.chat_id OR NEW.number <> OLD.number OR NEW.body <> OLD.body
    OR NEW.role <> OLD.role OR NEW.kind <> OLD.kind OR NEW.visibility <> OLD.visibility
    OR OLD.superseded_at IS NOT NULL
BEGIN SELECT RAISE(ABORT, 'a committed message does not change'); END;

CREATE TRIGGER tool_calls_epoch BEFORE INSERT ON tool_calls
WHEN NEW.epoch IS NOT NULL AND NEW.epoch <> (SELECT epoch FROM chats WHERE id = NEW.chat_id)
BEGIN SELECT RAISE(ABORT, 'a call of another epoch than the chat''s'); END;

CREATE TRIGGER tool_calls_epoch_changed BEFORE UPDATE OF epoch ON tool_calls
WHEN NEW.epoch IS NOT NULL AND NEW.epoch <> (SELECT epoch FROM chats WHERE id = NEW.chat_id)
BEGIN SELECT RAISE(ABORT, 'a call of another epoch than the chat''s'); END;

CREATE TRIGGER partials_epoch BEFORE INSERT ON partials
WHEN NEW.epoch <> (SELECT epoch FROM chats WHERE id = NEW.chat_id)
BEGIN SELECT RAISE(ABORT, 'a partial answer of another epoch than the chat''s'); END;

CREATE TRIGGER chats_forward BEFORE UPDATE ON chats
WHEN NEW.epoch < OLD.epoch OR NEW.snapshot_version < OLD.snapshot_version
    OR NEW.history_version < OLD.history_version OR NEW.queue_version < OLD.queue_version
    OR NEW.messages < OLD.messages
BEGIN SELECT RAISE(ABORT, 'a version of a chat never goes back'); END;
