-- Why a route could not be declared: a queue or exchange of its name exists with another argument than wanted. A worker
-- has no right to declare, and so no way to ask the broker; it is told by whoever tried.
alter table route add column trouble jsonb;    -- {queue, argument, existing, wanted}; null: none is known
