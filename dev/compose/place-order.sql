-- The order and the message about it are committed together, or neither is.
begin;

insert into orders (customer, cents)
values ('customer-' || floor(random() * 10), 100 + floor(random() * 10000))
returning id, customer, cents \gset

insert into outbox_messages (topic, key, payload)
values ('orders.placed', :'customer', jsonb_build_object('order', :id, 'customer', :'customer', 'cents', :cents));

commit;
