"""Effects outside the ledger: a store that compares numbers, a service with idempotency keys, a plain file."""
