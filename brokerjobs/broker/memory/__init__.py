"""A broker in the memory of one process, for the demo, tests and simulation.

    publisher ─┐                          ┌─ store: exchanges, sessions ── queues: order, prefetch, delivery limit
    consumer  ─┼─ links, in this process ─┤                           └── faults: lost, repeated, out of order
    setup     ─┘  │                       │
                  └ socket_link ── wire ──┴─ server, in the process that started it

It does what the rest of brokerjobs relies on, as RabbitMQ does it: both pass one conformance suite.  What it has dies
with its process.  That loses no job, since messages are doorbells and the ledger rings again.
"""
