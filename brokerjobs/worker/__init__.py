"""The worker: the hot path of a job, step by step.

inbox         deliveries wait for a free slot
hand_back     those that wait too long are rung for other workers
probes        messages of the ledger's own are reported at once
claims        the ledger grants attempts
leases        a thread of its own keeps them, whatever the handlers do to the event loop
runner        one attempt: decode, start, run the handler, say how it ended
running       attempts that run, and what is left of those that cannot be stopped
stopping      why and how handlers are told to stop
processes     child processes for handlers with pool="process"; child is their side of it
completions   reports to the ledger, by group commit
settlement    acknowledgements, after the commit
traces        spans of attempts, and what the ledger keeps of them; telling: what is said of reports
worker        wires them, registers the process, drains it
"""
