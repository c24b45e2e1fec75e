-- Trace contexts of the callers that made a chat work, until it is idle; NULL without traces.

ALTER TABLE chats ADD COLUMN causes TEXT;
