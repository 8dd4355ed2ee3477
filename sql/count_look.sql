-- Looks at the first rows in some state. Part of count.sql.
(select '{state}' as state, coalesce({topic}::text, '') as topic, {taker} as taker, {last_error} is not null as retried, {due_at} as due_at
from {table} where {rows} {ordering} limit {limit})
