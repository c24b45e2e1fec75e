-- Files are kept outside the chats, their bytes once for each content.

CREATE TABLE blobs (
    hash TEXT PRIMARY KEY,
    data BYTEA NOT NULL
);
ALTER TABLE blobs ALTER COLUMN data SET STORAGE EXTERNAL;  -- most files are compressed already

CREATE TABLE files (
    id TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    hash TEXT NOT NULL REFERENCES blobs (hash),
    size BIGINT NOT NULL CHECK (size >= 0),
    media_type TEXT NOT NULL,
    name TEXT,
    created_at BIGINT NOT NULL
);
CREATE INDEX files_owner ON files (owner, id);
CREATE INDEX files_hash ON files (hash);

-- What a chat is to one of those who see it.
CREATE TABLE marks (
    reader TEXT NOT NULL,
    chat_id TEXT NOT NULL REFERENCES chats (id) ON DELETE CASCADE,
    read BIGINT NOT NULL DEFAULT 0 CHECK (read >= 0),
    pinned BIGINT NOT NULL DEFAULT 0 CHECK (pinned IN (0, 1)),
    PRIMARY KEY (reader, chat_id)
);
CREATE INDEX marks_chat ON marks (chat_id);

-- A commit only notes where the index no longer is as the chat: whoever searches brings it up to
-- date first. Writing the index with every message would double what its commit costs.
CREATE TABLE unsearched (
    chat_id TEXT PRIMARY KEY REFERENCES chats (id) ON DELETE CASCADE,
    number BIGINT NOT NULL CHECK (number >= 1),
    titled BIGINT NOT NULL CHECK (titled IN (0, 1))
) WITH (fillfactor = 70);

-- A title has the number 0.
CREATE TABLE passages (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    chat_id TEXT NOT NULL REFERENCES chats (id) ON DELETE CASCADE,
    number BIGINT NOT NULL CHECK (number >= 0),
    UNIQUE (chat_id, number)
);

-- Words come as they are to be found. Which, and not where.
CREATE TABLE passage_words (
    id BIGINT PRIMARY KEY,
    words TSVECTOR NOT NULL
);
CREATE INDEX passage_words_found ON passage_words USING gin (words);

CREATE FUNCTION forget_words() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM passage_words WHERE id = OLD.id;
    RETURN NULL;
END $$;

CREATE TRIGGER passages_gone AFTER DELETE ON passages
FOR EACH ROW EXECUTE FUNCTION forget_words();

-- Whoever inserts or updates holds the lock of the chat, and so does whoever brings the index up to
-- date: no note is lost between the two.
CREATE FUNCTION note_unsearched() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO unsearched AS known (chat_id, number, titled) VALUES (NEW.chat_id, NEW.number, 0)
    ON CONFLICT (chat_id) DO UPDATE SET number = excluded.number
     WHERE excluded.number < known.number;
    RETURN NULL;
END $$;

CREATE TRIGGER messages_unsearched AFTER INSERT ON messages
FOR EACH ROW WHEN (NEW.kind IN ('prompt', 'answer')) EXECUTE FUNCTION note_unsearched();

CREATE TRIGGER messages_superseded AFTER UPDATE OF superseded_at ON messages
FOR EACH ROW WHEN (NEW.kind IN ('prompt', 'answer')) EXECUTE FUNCTION note_unsearched();

CREATE FUNCTION note_title() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO unsearched (chat_id, number, titled) VALUES (NEW.id, NEW.messages + 1, 1)
    ON CONFLICT (chat_id) DO UPDATE SET titled = 1;
    RETURN NULL;
END $$;

CREATE TRIGGER chats_titled AFTER INSERT ON chats
FOR EACH ROW WHEN (NEW.title IS NOT NULL) EXECUTE FUNCTION note_title();

CREATE TRIGGER chats_renamed AFTER UPDATE OF title ON chats
FOR EACH ROW WHEN (NEW.title IS DISTINCT FROM OLD.title) EXECUTE FUNCTION note_title();

-- What was there before there was a search.
INSERT INTO unsearched (chat_id, number, titled) SELECT id, 1, 1 FROM chats;
