"""What is allowed: pure rules over values, without time, randomness, files or network of their own.

    states     which moves a job may make, and how an attempt is shown
    verdicts   what the ledger answers to a claim, start, renewal, report or submission
    retries    how often and after what delay a job is tried again
    failures   what an exception of a handler means
    leases     when to renew, and how long to trust a lease

Only the standard library and `brokerjobs.errors` are imported here.
"""
