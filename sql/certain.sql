-- Whether a row's writer had certainly ended at the time of a snapshot, and the row was due then: see Query in package outbox. A number
-- of 32 bits is compared by its age: two numbers of 64 bits would have to be made from it for each row.
-- $4 the snapshot, $5 its time.
case when {txid} < (select pg_snapshot_xmax(pg_current_snapshot())) then pg_visible_in_snapshot({txid}, $4::pg_snapshot)
  else age(xmin) > (select max(age(x::xid)) from (
    select pg_snapshot_xmax($4::pg_snapshot) as x union all
    select r from pg_snapshot_xip($4::pg_snapshot) r where pg_visible_in_snapshot(r, pg_current_snapshot())) ended) end
  and ({available} is null or {available} <= $5)
