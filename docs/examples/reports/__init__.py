"""A report that is too large for a result: staged by a handler, fetched and acknowledged by a consumer."""
