-- Times are microseconds since 1970, UTC; documents are JSON text; ids are text.

CREATE TABLE workers (
    id TEXT PRIMARY KEY,
    url TEXT,
    agents TEXT NOT NULL,
    started_at BIGINT NOT NULL,
    beat_at BIGINT NOT NULL
);

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
    depth BIGINT NOT NULL DEFAULT 0,
    status TEXT NOT NULL
        CHECK (status IN ('idle', 'running', 'interrupting', 'requires_action', 'error')),
    archived BIGINT NOT NULL DEFAULT 0 CHECK (archived IN (0, 1)),
    error TEXT,
    retry TEXT,
    retry_at BIGINT,
    outcome TEXT,
    deadline BIGINT,
    compaction TEXT CHECK (compaction IN ('person', 'overflow')),
    runnable_since BIGINT,
    crashes BIGINT NOT NULL DEFAULT 0 CHECK (crashes >= 0),
    snapshot_version BIGINT NOT NULL DEFAULT 1,
    history_version BIGINT NOT NULL,
    queue_version BIGINT NOT NULL,
    attempt BIGINT NOT NULL DEFAULT 1 CHECK (attempt >= 1),
    messages BIGINT NOT NULL DEFAULT 0 CHECK (messages >= 0),
    worker_id TEXT,
    epoch BIGINT NOT NULL DEFAULT 0 CHECK (epoch >= 0),
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    CHECK (history_version <= snapshot_version AND queue_version <= snapshot_version),
    CHECK (archived = 0 OR status IN ('idle', 'error')),
    CHECK ((status = 'error') = (error IS NOT NULL)),
    CHECK (worker_id IS NULL OR status IN ('running', 'interrupting', 'requires_action')),
    CHECK ((parent_id IS NULL) = (root_id = id))
) WITH (fillfactor = 70);

-- No column that a step changes: an index on one would be written with every step.
CREATE INDEX chats_busy ON chats (status, runnable_since, id)
    WHERE status IN ('running', 'interrupting', 'requires_action');
CREATE INDEX chats_owner ON chats (owner, id);
CREATE INDEX chats_root ON chats (root_id, id);
CREATE INDEX chats_parent ON chats (parent_id, id) WHERE parent_id IS NOT NULL;

CREATE TABLE messages (
    chat_id TEXT NOT NULL REFERENCES chats (id) ON DELETE CASCADE,
    number BIGINT NOT NULL CHECK (number >= 1),
    revision BIGINT NOT NULL,
    role TEXT NOT NULL CHECK (role IN ('user', 'assistant', 'tool', 'system')),
    kind TEXT NOT NULL CHECK (kind IN
        ('prompt', 'answer', 'results', 'checkpoint', 'injected', 'marker', 'context', 'note')),
    visibility TEXT NOT NULL CHECK (visibility IN ('both', 'user', 'model')),
    body TEXT NOT NULL,
    author TEXT,
    epoch BIGINT,
    runtime BIGINT,
    input BIGINT,
    output BIGINT,
    reasoning BIGINT,
    cache_read BIGINT,
    cache_write BIGINT,
    cost DOUBLE PRECISION,
    created_at BIGINT NOT NULL,
    superseded_at BIGINT,
    PRIMARY KEY (chat_id, number)
);

CREATE TABLE queue (
    chat_id TEXT NOT NULL REFERENCES chats (id) ON DELETE CASCADE,
    id TEXT NOT NULL,
    position BIGINT NOT NULL,
    deliver TEXT NOT NULL CHECK (deliver IN ('interrupt', 'steer', 'queue')),
    body TEXT NOT NULL,
    model TEXT,
    effort TEXT,
    author TEXT,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (chat_id, id),
    UNIQUE (chat_id, deliver, position)
);

CREATE TABLE tool_calls (
    chat_id TEXT NOT NULL REFERENCES chats (id) ON DELETE CASCADE,
    call_id TEXT NOT NULL,
    number BIGINT NOT NULL,
    tool TEXT NOT NULL,
    effect TEXT NOT NULL CHECK (effect IN ('pure', 'idempotent', 'once', 'commit')),
    state TEXT NOT NULL CHECK (state IN ('waiting', 'approved', 'started', 'finished')),
    action TEXT CHECK (action IN ('client', 'approval', 'answer', 'child')),
    asked TEXT,
    deadline BIGINT,
    approved TEXT,
    epoch BIGINT,
    started_at BIGINT,
    finished_at BIGINT,
    result TEXT,
    outcome TEXT,
    PRIMARY KEY (chat_id, call_id),
    FOREIGN KEY (chat_id, number) REFERENCES messages (chat_id, number),
    CHECK (state <> 'waiting' OR (action IS NOT NULL AND asked IS NOT NULL)),
    CHECK (state <> 'approved' OR approved IS NOT NULL),
    CHECK (state <> 'started' OR (started_at IS NOT NULL AND epoch IS NOT NULL)),
    CHECK ((state = 'finished') = (outcome IS NOT NULL)),
    CHECK (result IS NULL OR state = 'finished')
);
-- A chat has any number of calls behind it, and few that still matter.
CREATE INDEX tool_calls_open ON tool_calls (chat_id, call_id)
    WHERE state <> 'finished' OR result IS NOT NULL;

CREATE TABLE awaited (
    chat_id TEXT NOT NULL,
    call_id TEXT NOT NULL,
    child_id TEXT NOT NULL REFERENCES chats (id) ON DELETE CASCADE,
    PRIMARY KEY (chat_id, call_id, child_id),
    FOREIGN KEY (chat_id, call_id) REFERENCES tool_calls (chat_id, call_id) ON DELETE CASCADE
);
CREATE INDEX awaited_child ON awaited (child_id);

CREATE TABLE partials (
    chat_id TEXT PRIMARY KEY REFERENCES chats (id) ON DELETE CASCADE,
    epoch BIGINT NOT NULL,
    history_version BIGINT NOT NULL,
    attempt BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    body TEXT NOT NULL,
    updated_at BIGINT NOT NULL
);

CREATE TABLE usage (
    chat_id TEXT NOT NULL REFERENCES chats (id) ON DELETE CASCADE,
    id TEXT NOT NULL,
    purpose TEXT NOT NULL CHECK (purpose IN ('attempt', 'summary', 'title')),
    model TEXT,
    input BIGINT NOT NULL,
    output BIGINT NOT NULL,
    reasoning BIGINT NOT NULL,
    cache_read BIGINT NOT NULL,
    cache_write BIGINT NOT NULL,
    cost DOUBLE PRECISION,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (chat_id, id)
);

CREATE TABLE requests (
    caller TEXT NOT NULL,
    key TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    response TEXT NOT NULL,
    chat_id TEXT,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (caller, key)
);
CREATE INDEX requests_created ON requests (created_at);

-- A worker that lost a chat may wake up at any time. Whatever it then writes is refused here too.
CREATE FUNCTION refuse_other_epoch() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.epoch <> (SELECT epoch FROM chats WHERE id = NEW.chat_id) THEN
        RAISE EXCEPTION '% of another epoch than the chat''s', TG_ARGV[0] USING ERRCODE = 'HF001';
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER messages_epoch BEFORE INSERT ON messages
FOR EACH ROW WHEN (NEW.epoch IS NOT NULL) EXECUTE FUNCTION refuse_other_epoch('a message');

CREATE TRIGGER tool_calls_epoch BEFORE INSERT ON tool_calls
FOR EACH ROW WHEN (NEW.epoch IS NOT NULL) EXECUTE FUNCTION refuse_other_epoch('a call');

CREATE TRIGGER tool_calls_epoch_changed BEFORE UPDATE OF epoch ON tool_calls
FOR EACH ROW WHEN (NEW.epoch IS NOT NULL) EXECUTE FUNCTION refuse_other_epoch('a call');

CREATE TRIGGER partials_epoch BEFORE INSERT ON partials
FOR EACH ROW EXECUTE FUNCTION refuse_other_epoch('a partial answer');

CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '%', TG_ARGV[0] USING ERRCODE = 'HF001';
END $$;

CREATE TRIGGER messages_kept BEFORE UPDATE ON messages
FOR EACH ROW WHEN (NEW.chat_id <> OLD.chat_id OR NEW.number <> OLD.number OR NEW.body <> OLD.body
    OR NEW.role <> OLD.role OR NEW.kind <> OLD.kind OR NEW.visibility <> OLD.visibility
    OR OLD.superseded_at IS NOT NULL)
EXECUTE FUNCTION refuse_change('a committed message does not change');

CREATE TRIGGER chats_forward BEFORE UPDATE ON chats
FOR EACH ROW WHEN (NEW.epoch < OLD.epoch OR NEW.snapshot_version < OLD.snapshot_version
    OR NEW.history_version < OLD.history_version OR NEW.queue_version < OLD.queue_version
    OR NEW.messages < OLD.messages)
EXECUTE FUNCTION refuse_change('a version of a chat never goes back');
