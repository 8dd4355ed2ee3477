-- Shows a condition on rows of the table as the planner sees it, without reading the table, so that two ways to write one
-- condition look alike.
-- Reads the catalogue only.
explain (costs off, format json) select from (select (null::{table}).* offset 0) {row} where {condition}
