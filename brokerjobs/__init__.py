"""brokerjobs: jobs delivered by RabbitMQ, whose attempts are recorded and fenced in PostgreSQL."""
