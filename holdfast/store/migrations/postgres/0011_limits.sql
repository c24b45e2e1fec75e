-- Turns that ended at the limit of steps have the reason 'limit', and say which limit it was. The
-- maximum was not stored: it was the number of steps.

UPDATE chats
   SET outcome = replace(
       '{"reason":"limit","steps":N,"limit":{"name":"steps","scope":"turn","used":N,"maximum":N}}',
       'N', COALESCE((CAST(outcome AS json) ->> 'steps'), '1'))
 WHERE outcome LIKE '{"reason":"max_steps"%';
