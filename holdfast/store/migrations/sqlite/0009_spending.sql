-- What each chat has spent, since ever and on its last day (days since 1970, UTC), so that budgets
-- read sums of few rows. Written by the UPDATE of the chat that a step does anyway.

ALTER TABLE chats ADD COLUMN spent_steps INTEGER NOT NULL DEFAULT 0;
ALTER TABLE chats ADD COLUMN spent_tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE chats ADD COLUMN spent_cost REAL NOT NULL DEFAULT 0;
ALTER TABLE chats ADD COLUMN spent_time INTEGER NOT NULL DEFAULT 0;
ALTER TABLE chats ADD COLUMN spent_unpriced INTEGER NOT NULL DEFAULT 0;
ALTER TABLE chats ADD COLUMN spent_day INTEGER;
ALTER TABLE chats ADD COLUMN day_steps INTEGER NOT NULL DEFAULT 0;
ALTER TABLE chats ADD COLUMN day_tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE chats ADD COLUMN day_cost REAL NOT NULL DEFAULT 0;
ALTER TABLE chats ADD COLUMN day_time INTEGER NOT NULL DEFAULT 0;

-- Its column changes once a day.
CREATE INDEX chats_spent_day ON chats (owner, spent_day) WHERE spent_day IS NOT NULL;

-- A deleted chat has been paid for all the same.
CREATE TABLE deleted_spending (
    chat_id TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    root_id TEXT NOT NULL,
    spent_steps INTEGER NOT NULL,
    spent_tokens INTEGER NOT NULL,
    spent_cost REAL NOT NULL,
    spent_time INTEGER NOT NULL,
    spent_unpriced INTEGER NOT NULL,
    spent_day INTEGER,
    day_steps INTEGER NOT NULL,
    day_tokens INTEGER NOT NULL,
    day_cost REAL NOT NULL,
    day_time INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX deleted_spending_owner ON deleted_spending (owner, spent_day);
CREATE INDEX deleted_spending_root ON deleted_spending (root_id);

-- Limits that were set for a user or a chat, as JSON, instead of the configured ones.
CREATE TABLE budgets (
    scope TEXT NOT NULL CHECK (scope IN ('chat', 'user')),
    id TEXT NOT NULL,
    limits TEXT NOT NULL,
    PRIMARY KEY (scope, id)
) STRICT, WITHOUT ROWID;

-- Chats so far. The time of their tool calls is not counted: it is inside of JSON.
UPDATE chats
   SET spent_steps = s.steps, spent_tokens = s.tokens, spent_cost = s.cost, spent_time = s.time,
       spent_unpriced = s.unpriced, spent_day = s.day
  FROM (SELECT chat_id, sum(steps) AS steps, sum(tokens) AS tokens,
               COALESCE(sum(cost), 0.0) AS cost, sum(time) AS time, sum(unpriced) AS unpriced,
               max(day) AS day
          FROM (SELECT chat_id, created_at / 86400000000 AS day,
                       CASE WHEN kind = 'answer' AND visibility <> 'user' THEN 1 ELSE 0 END AS steps,
                       COALESCE(input + output + cache_read + cache_write, 0) AS tokens, cost,
                       1000 * COALESCE(runtime, 0) AS time,
                       CASE WHEN input IS NOT NULL AND cost IS NULL THEN 1 ELSE 0 END AS unpriced
                  FROM messages WHERE epoch IS NOT NULL
                UNION ALL
                SELECT chat_id, created_at / 86400000000, 0,
                       input + output + cache_read + cache_write, cost, 0,
                       CASE WHEN cost IS NULL THEN 1 ELSE 0 END
                  FROM usage) AS each
         GROUP BY chat_id) AS s
 WHERE s.chat_id = chats.id;

UPDATE chats
   SET day_steps = s.steps, day_tokens = s.tokens, day_cost = s.cost, day_time = s.time
  FROM (SELECT chat_id, day, sum(steps) AS steps, sum(tokens) AS tokens,
               COALESCE(sum(cost), 0.0) AS cost, sum(time) AS time
          FROM (SELECT chat_id, created_at / 86400000000 AS day,
                       CASE WHEN kind = 'answer' AND visibility <> 'user' THEN 1 ELSE 0 END AS steps,
                       COALESCE(input + output + cache_read + cache_write, 0) AS tokens, cost,
                       1000 * COALESCE(runtime, 0) AS time
                  FROM messages WHERE epoch IS NOT NULL
                UNION ALL
                SELECT chat_id, created_at / 86400000000, 0,
                       input + output + cache_read + cache_write, cost, 0
                  FROM usage) AS each
         GROUP BY chat_id, day) AS s
 WHERE s.chat_id = chats.id AND s.day = chats.spent_day;
