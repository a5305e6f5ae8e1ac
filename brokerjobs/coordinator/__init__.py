"""What time and failure demand: small services, each safe in any number of copies.

    service       the one shape `run_once() -> delay`, and who runs one: by a lead that saves statements, not lives
    relay         rings what the ledger owes: doorbells and dead letters from the outbox to the broker
    reaper        gives up attempts whose lease is over
    scheduler     ends the waiting of jobs that are due
    routes        declares new routes at the broker
    reconcile     finds doorbells that the broker lost
    partitions    makes the months of the event table ahead of time
    retention     removes what ended long ago
    coordinator   all of them in one process
    process       the program behind `brokerjobs coordinator`

Nothing depends on who leads.  Two relays ring a job twice, which the claim answers; two reapers skip each other's rows.
"""
