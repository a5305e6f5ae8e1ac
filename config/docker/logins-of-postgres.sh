# Run once by the image of PostgreSQL, when its volume is new: a login for each kind of process.
# `brokerjobs setup` grants them their roles; the table is the example application's.
psql -v ON_ERROR_STOP=1 -U "$POSTGRES_USER" -d "$POSTGRES_DB" \
  -v database="$POSTGRES_DB" -v owner="$OWNER_PASSWORD" -v coordinator_1="$COORDINATOR_1_PASSWORD" \
  -v coordinator_2="$COORDINATOR_2_PASSWORD" -v worker="$WORKER_PASSWORD" -v orders="$PRODUCER_PASSWORD" \
  -v reader="$READER_PASSWORD" -v operator="$OPERATOR_PASSWORD" <<'SQL'
create role jobs_owner login createrole password :'owner';
create role jobs_coordinator_1 login password :'coordinator_1';
create role jobs_coordinator_2 login password :'coordinator_2';
create role jobs_worker login password :'worker';
create role orders login password :'orders';
create role dashboard login password :'reader';
create role oncall login password :'operator';
alter database :"database" owner to jobs_owner;
create table made (job_id uuid not null, attempt integer not null, what text not null, data jsonb not null);
grant select, insert on made to jobs_worker;
grant select on made to dashboard;
SQL
