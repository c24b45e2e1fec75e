-- Messages of the kind 'instructions': what functions of an agent's instructions returned. A CHECK
-- without a name cannot be dropped, so its column is replaced; the triggers that read the column are
-- made again.

DROP TRIGGER messages_kept;
DROP TRIGGER messages_unsearched;
DROP TRIGGER messages_superseded;

ALTER TABLE messages ADD COLUMN new_kind TEXT NOT NULL DEFAULT 'note' CONSTRAINT messages_kind CHECK (
    new_kind = 'answer' OR new_kind = 'results' OR new_kind = 'prompt' OR new_kind = 'checkpoint'
    OR new_kind = 'injected' OR new_kind = 'marker' OR new_kind = 'context'
    OR new_kind = 'instructions' OR new_kind = 'note'
);
UPDATE messages SET new_kind = kind WHERE kind <> 'note';
ALTER TABLE messages DROP COLUMN kind;
ALTER TABLE messages RENAME COLUMN new_kind TO kind;

CREATE TRIGGER messages_kept BEFORE UPDATE ON messages
WHEN NEW.chat_id <> OLD.chat_id OR NEW.number <> OLD.number OR NEW.body <> OLD.body
    OR NEW.role <> OLD.role OR NEW.kind <> OLD.kind OR NEW.visibility <> OLD.visibility
    OR OLD.superseded_at IS NOT NULL
BEGIN SELECT RAISE(ABORT, 'a committed message does not change'); END;

CREATE TRIGGER messages_unsearched AFTER INSERT ON messages
WHEN NEW.kind IN ('prompt', 'answer')
    AND NOT EXISTS (SELECT 1 FROM unsearched WHERE chat_id = NEW.chat_id AND number <= NEW.number)
BEGIN
    INSERT INTO unsearched (chat_id, number, titled) VALUES (NEW.chat_id, NEW.number, 0)
    ON CONFLICT (chat_id) DO UPDATE SET number = excluded.number;
END;

CREATE TRIGGER messages_superseded AFTER UPDATE OF superseded_at ON messages
WHEN NEW.kind IN ('prompt', 'answer')
BEGIN
    INSERT INTO unsearched (chat_id, number, titled) VALUES (NEW.chat_id, NEW.number, 0)
    ON CONFLICT (chat_id) DO UPDATE SET number = excluded.number WHERE excluded.number < number;
END;
