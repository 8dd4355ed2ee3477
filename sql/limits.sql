-- Limits the statements that follow in the same implicit transaction, and nothing later. Therefore it works through a
-- transaction pooler too, and also when the client no longer waits for the answer.
-- Each statement is planned again, because the outbox may have been empty at the time of the last plan. The reads whose plan can only
-- be one ask for a generic plan instead.
-- $1 how long a statement may take, in milliseconds, $2 how long it may wait for a lock, $3 off to make the planner follow an
-- index in its order, or null to keep the role's settings. A page in order needs no parallel workers either: for a condition
-- without statistics the planner expects so few rows that workers seem to pay, and they fetch far more than the page. Nor is a
-- page compiled: the cost of a disabled plan makes the statement look worth compiling, and compiling takes a second.
select set_config('plan_cache_mode', 'force_custom_plan', true),
  set_config('statement_timeout', $1, true), set_config('lock_timeout', $2, true),
  set_config('enable_seqscan', $3, true), set_config('enable_bitmapscan', $3, true), set_config('enable_sort', $3, true),
  set_config('max_parallel_workers_per_gather', case when $3 is not null then '0' end, true),
  set_config('jit', $3, true)
