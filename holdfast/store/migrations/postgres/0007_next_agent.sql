-- The agent that continues a chat once the calls of the current one have ended; NULL if none.

ALTER TABLE chats ADD COLUMN next_agent TEXT;
