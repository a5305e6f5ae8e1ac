-- Probes: messages that go through a route's queue like doorbells and come back at once. One that came back says that
-- every doorbell published before it has left the queue, which nothing else tells the ledger.
create table probe (
  ticket uuid primary key,
  route text not null,
  made_at timestamptz not null,                -- before it was published: doorbells confirmed before that stand before it
  sent_at timestamptz,                         -- its publish was confirmed
  returned_at timestamptz,                     -- a worker has reported it
  returned_by text,
  settled_at timestamptz                       -- the jobs that were rung before it have been looked at
);
create index probe_of_route on probe (route, made_at);

-- The jobs that wait for a delivery, to be walked through by their ids. Not by rung_at: that would change the index with
-- every ring, and an update that changes no index is what keeps rings cheap (PostgreSQL manual, storage-hot).
create index job_state_delivery on job_state (job_id) where state = 'queued' and waiting = 'delivery';
