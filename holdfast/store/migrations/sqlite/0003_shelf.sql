-- Files are kept outside the chats, their bytes once for each content.

CREATE TABLE blobs (
    hash TEXT PRIMARY KEY,
    data BLOB NOT NULL
) STRICT;

CREATE TABLE files (
    id TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    hash TEXT NOT NULL REFERENCES blobs (hash),
    size INTEGER NOT NULL CHECK (size >= 0),
    media_type TEXT NOT NULL,
    name TEXT,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX files_owner ON files (owner, id);
CREATE INDEX files_hash ON files (hash);

-- What a chat is to one of those who see it.
CREATE TABLE marks (
    reader TEXT NOT NULL,
    chat_id TEXT NOT NULL REFERENCES chats (id) ON DELETE CASCADE,
    read INTEGER NOT NULL DEFAULT 0 CHECK (read >= 0),
    pinned INTEGER NOT NULL DEFAULT 0 CHECK (pinned IN (0, 1)),
    PRIMARY KEY (reader, chat_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX marks_chat ON marks (chat_id);

-- A commit only notes where the index no longer is as the chat: whoever searches brings it up to
-- date first. Writing the index with every message would double what its commit costs.
CREATE TABLE unsearched (
    chat_id TEXT PRIMARY KEY REFERENCES chats (id) ON DELETE CASCADE,
    number INTEGER NOT NULL CHECK (number >= 1),
    titled INTEGER NOT NULL CHECK (titled IN (0, 1))
) STRICT, WITHOUT ROWID;

-- A title has the number 0.
CREATE TABLE passages (
    id INTEGER PRIMARY KEY,
    chat_id TEXT NOT NULL REFERENCES chats (id) ON DELETE CASCADE,
    number INTEGER NOT NULL CHECK (number >= 0),
    UNIQUE (chat_id, number)
) STRICT;

-- Words come as they are to be found, with blanks between them. Which, and not where.
CREATE VIRTUAL TABLE passage_words
USING fts5 (words, content = '', contentless_delete = 1, detail = none, tokenize = 'ascii');

CREATE TRIGGER passages_gone AFTER DELETE ON passages
BEGIN DELETE FROM passage_words WHERE rowid = OLD.id; END;

CREATE TRIGGER messages_unsearched AFTER INSERT ON messages
WHEN NEW.kind IN ('prompt', 'answer')
BEGIN
    INSERT INTO unsearched (chat_id, number, titled) VALUES (NEW.chat_id, NEW.number, 0)
    ON CONFLICT (chat_id) DO UPDATE SET number = excluded.number WHERE excluded.number < number;
END;

CREATE TRIGGER messages_superseded AFTER UPDATE OF superseded_at ON messages
WHEN NEW.kind IN ('prompt', 'answer')
BEGIN
    INSERT INTO unsearched (chat_id, number, titled) VALUES (NEW.chat_id, NEW.number, 0)
    ON CONFLICT (chat_id) DO UPDATE SET number = excluded.number WHERE excluded.number < number;
END;

CREATE TRIGGER chats_titled AFTER INSERT ON chats WHEN NEW.title IS NOT NULL
BEGIN
    INSERT INTO unsearched (chat_id, number, titled) VALUES (NEW.id, 1, 1);
END;

CREATE TRIGGER chats_renamed AFTER UPDATE OF title ON chats WHEN NEW.title IS NOT OLD.title
BEGIN
    INSERT INTO unsearched (chat_id, number, titled) VALUES (NEW.id, NEW.messages + 1, 1)
    ON CONFLICT (chat_id) DO UPDATE SET titled = 1;
END;

-- What was there before there was a search.
INSERT INTO unsearched (chat_id, number, titled) SELECT id, 1, 1 FROM chats;
