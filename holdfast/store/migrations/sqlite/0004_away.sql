-- What somebody who watches a list of chats has to be told when they come back: what they read or
-- pinned elsewhere, and which chats they have no longer.

ALTER TABLE marks ADD COLUMN updated_at INTEGER NOT NULL DEFAULT 0;

-- No foreign keys: it is kept when the chat is gone.
CREATE TABLE gone (
    chat_id TEXT NOT NULL,
    reader TEXT NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (chat_id, reader)
) STRICT, WITHOUT ROWID;
CREATE INDEX gone_reader ON gone (reader, at);
