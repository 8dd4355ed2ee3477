-- Bounds the statements behind it in the same implicit transaction, and nothing after that: it works through a
-- transaction pooler too, and holds when nobody waits for the answer any more. Tells which transactions have ended, and
-- how far it is from the first number that a transaction can have to the one that is given next, and what time it is, in microseconds.
-- Plans are made for each statement anew: the outbox may have been empty when the last one was made.
-- $1 how long a statement may take, in milliseconds, $2 how long it may wait for a lock, $3 off to let the planner
-- follow an index in its order; null for what the role's settings say. A page in order then also needs no parallel workers: from a
-- condition without statistics the planner expects so few rows that they seem to pay, and they fetch far more than the page. Nor is a page
-- compiled: what an unwanted way costs in the planner's eyes makes the statement look worth it, and compiling takes a second.
select pg_current_snapshot()::text, age('3'::xid)::text, (extract(epoch from now()) * 1000000)::bigint::text,
  set_config('plan_cache_mode', 'force_custom_plan', true),
  set_config('statement_timeout', $1, true), set_config('lock_timeout', $2, true),
  set_config('enable_seqscan', $3, true), set_config('enable_bitmapscan', $3, true), set_config('enable_sort', $3, true),
  set_config('max_parallel_workers_per_gather', case when $3 is not null then '0' end, true),
  set_config('jit', $3, true)
