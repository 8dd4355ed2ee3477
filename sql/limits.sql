-- Limits the statements that follow, in the session or only in the same implicit transaction and nothing later: that works through a
-- transaction pooler too, and also when the client no longer waits for the answer.
-- $1 how long a statement may take, in milliseconds, $2 how long it may wait for a lock, null for no limit, $3 off to make the
-- planner follow an index in its order, otherwise null, $4 force_custom_plan: each statement is planned again, because the outbox may
-- have been empty at the time of the last plan, or force_generic_plan for reads whose plan can only be one, $5 true for the
-- transaction only. A page in order needs no parallel workers either: for a condition without
-- statistics the planner expects so few rows that workers seem to pay, and they fetch far more than the page. A null as the value
-- of a setting would bring back that of the role or the database.
select set_config('plan_cache_mode', $4, $5),
  set_config('statement_timeout', coalesce($1, '0'), $5), set_config('lock_timeout', coalesce($2, '0'), $5),
  set_config('enable_seqscan', coalesce($3, 'on'), $5), set_config('enable_bitmapscan', coalesce($3, 'on'), $5),
  set_config('enable_sort', coalesce($3, 'on'), $5),
  set_config('max_parallel_workers_per_gather', case when $3 is null then '2' else '0' end, $5)
