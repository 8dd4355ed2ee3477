-- Whether a row is as it was read. Each row is compared with its own version: the transaction that has changed one row may have written
-- another one, which was read later and is settled with it. Rows are not compared by transactions, which have no order.
-- $1 the rows, $2 their versions, or null for any.
($2::xid[] is null or ({identity}, {version}::text) in (
  select row, version::text from unnest($1::{identity_type}[], $2::xid[]) as read (row, version)))
