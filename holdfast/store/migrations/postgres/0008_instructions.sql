-- Messages of the kind 'instructions': what functions of an agent's instructions returned. Rows so
-- far satisfy a stricter check, so they need not be read.

ALTER TABLE messages
    DROP CONSTRAINT messages_kind_check,
    ADD CONSTRAINT messages_kind_check CHECK (kind IN
        ('prompt', 'answer', 'results', 'checkpoint', 'injected', 'marker', 'context',
         'instructions', 'note')) NOT VALID;
