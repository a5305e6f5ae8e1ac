"""Traces, metrics and logs of jobs and their attempts, on the OpenTelemetry API; called by the others, calls none."""
