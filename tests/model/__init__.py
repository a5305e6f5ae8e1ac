"""The protocol as models whose every state is looked at: what the ledger's SQL is held to by replaying their traces."""
