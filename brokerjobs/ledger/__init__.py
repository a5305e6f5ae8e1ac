"""The attempt ledger: the only truth about jobs and attempts, and the only SQL and driver of the product.

schema          tables and functions, brought up to date by `brokerjobs setup`; which code a schema serves
database        a connection that is made again after it broke, and errors translated once
calls           one typed query a ledger function: what workers ask of attempts
services        the same of processes and coordinator services
group_commit    whatever waits when a connection is free goes in its next call
guest           our functions on a user's own transaction
records         what the ledger recorded, as typed values
"""
