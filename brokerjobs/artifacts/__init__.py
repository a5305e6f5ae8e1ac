"""Large outputs: staged by attempts in a store, handed over to consumers.  Only here is a store spoken to."""
