-- Most answers find their chat noted already: looking costs less than trying to write it again.

DROP TRIGGER messages_unsearched;

CREATE TRIGGER messages_unsearched AFTER INSERT ON messages
WHEN NEW.kind IN ('prompt', 'answer')
    AND NOT EXISTS (SELECT 1 FROM unsearched WHERE chat_id = NEW.chat_id AND number <= NEW.number)
BEGIN
    INSERT INTO unsearched (chat_id, number, titled) VALUES (NEW.chat_id, NEW.number, 0)
    ON CONFLICT (chat_id) DO UPDATE SET number = excluded.number;
END;
