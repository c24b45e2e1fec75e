-- Who may ask. A secret that somebody shows is here as its SHA-256 only.

CREATE TABLE users (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    role TEXT NOT NULL CHECK (role IN ('admin', 'member', 'viewer')),
    created_at INTEGER NOT NULL,
    disabled_at INTEGER
) STRICT, WITHOUT ROWID;

CREATE TABLE tokens (
    id TEXT PRIMARY KEY,
    user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    hash TEXT NOT NULL UNIQUE,
    scopes TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER,
    used_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX tokens_user ON tokens (user_id, id);

-- A browser's, made from a token: it ends with the token.
CREATE TABLE sessions (
    id TEXT PRIMARY KEY,
    token_id TEXT NOT NULL REFERENCES tokens (id) ON DELETE CASCADE,
    hash TEXT NOT NULL UNIQUE,
    created_at INTEGER NOT NULL,
    used_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX sessions_token ON sessions (token_id, id);
CREATE INDEX sessions_expires ON sessions (expires_at);

-- With a user, or with whoever has a link.
CREATE TABLE shares (
    id TEXT PRIMARY KEY,
    chat_id TEXT NOT NULL REFERENCES chats (id) ON DELETE CASCADE,
    user_id TEXT REFERENCES users (id) ON DELETE CASCADE,
    hash TEXT UNIQUE,
    created_by TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    UNIQUE (chat_id, user_id),
    CHECK ((user_id IS NULL) <> (hash IS NULL))
) STRICT, WITHOUT ROWID;
CREATE INDEX shares_user ON shares (user_id, chat_id) WHERE user_id IS NOT NULL;

-- No foreign keys: what was done stays when those who did it are gone.
CREATE TABLE audit (
    id TEXT PRIMARY KEY,
    at INTEGER NOT NULL,
    user_id TEXT,
    token_id TEXT,
    address TEXT NOT NULL,
    action TEXT NOT NULL,
    subject TEXT NOT NULL,
    detail TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX audit_at ON audit (at, id);

CREATE TABLE secrets (
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    key_id TEXT NOT NULL,
    sealed TEXT NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (kind, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX secrets_key ON secrets (key_id);

-- What was done stays as it was told.
CREATE TRIGGER audit_kept BEFORE UPDATE ON audit
BEGIN SELECT RAISE(ABORT, 'an entry of the audit log does not change'); END;
