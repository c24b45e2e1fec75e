-- Most answers find their chat noted already: looking costs less than trying to write it again,
-- which locks the note.

CREATE OR REPLACE FUNCTION note_unsearched() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (
        SELECT 1 FROM unsearched WHERE chat_id = NEW.chat_id AND number <= NEW.number
    ) THEN
        INSERT INTO unsearched (chat_id, number, titled) VALUES (NEW.chat_id, NEW.number, 0)
        ON CONFLICT (chat_id) DO UPDATE SET number = excluded.number;
    END IF;
    RETURN NULL;
END $$;
