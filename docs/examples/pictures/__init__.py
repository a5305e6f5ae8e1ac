"""An application: thumbnails of a folder of pictures, then a report of a file of sales.

contracts     what producers and workers share: payloads, results, job types
thumbnail     the work itself, which knows nothing of jobs: one picture
sales         the work itself, which knows nothing of jobs: one file
worker        the handlers, and how their effects are kept from happening twice
journal       a file that nothing protects, to see the difference
checkpoints   where `brokerjobs demo` may stop a handler
producer      submits the jobs and waits for their results
"""
