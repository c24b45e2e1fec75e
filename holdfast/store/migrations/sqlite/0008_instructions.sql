-- Messages of the kind 'instructions': what functions of an agent's instructions returned. Rows so
-- far satisfy a stricter check, so only the text of the schema changes, and no row is written.

PRAGMA writable_schema = ON;
UPDATE sqlite_schema
   SET sql = replace(sql, 'OR kind = ''note''', 'OR kind = ''instructions'' OR kind = ''note''')
 WHERE type = 'table' AND name = 'messages';
PRAGMA writable_schema = RESET;
