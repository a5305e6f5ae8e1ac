"""Ringing and delivering: the only AMQP in brokerjobs.

    publisher ──doorbell──▶ exchange {ns}.jobs ──routing key = route──▶ queue {ns}.q.{queue} ──▶ consumer
                                                                             │ rejected, or delivered too often
                                                                             ▼
                                                         {ns}.quarantine          {ns}.dead ◀── publisher (failed jobs)

`brokers` chooses between RabbitMQ and the broker of `memory`, which does the same in one process, by the URL.

A delivery is a doorbell, never the truth: losing, repeating, reordering, forging or delaying one costs time, never a
job and never a second accepted result.
"""
