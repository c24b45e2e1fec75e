-- Tools that the client of a chat declared: JSON; NULL if there are none.

ALTER TABLE chats ADD COLUMN client_tools TEXT;
