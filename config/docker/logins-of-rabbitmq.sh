#!/bin/sh
# Gives each kind of process its user at RabbitMQ, with the rights of docs/how-to/deploy.md; safe to repeat.
# It shares RabbitMQ's volume, and so the cookie by which rabbitmqctl is let in.
set -eu

user() { # name, password, configure, write, read
  rabbitmqctl -q -n rabbit@rabbitmq add_user "$1" "$2" >/dev/null 2>&1 ||
    rabbitmqctl -q -n rabbit@rabbitmq change_password "$1" "$2"
  rabbitmqctl -q -n rabbit@rabbitmq set_permissions "$1" "$3" "$4" "$5"
}

ours="^$(printf %s "$NAMESPACE" | sed 's/[.]/\\./g')\."
user jobs_owner "$OWNER_PASSWORD" "$ours" "$ours" "$ours"
user jobs_coordinator_1 "$COORDINATOR_1_PASSWORD" "$ours" "$ours" "$ours"
user jobs_coordinator_2 "$COORDINATOR_2_PASSWORD" "$ours" "$ours" "$ours"
user jobs_worker "$WORKER_PASSWORD" '^$' '^$' "${ours}q\."
user orders "$PRODUCER_PASSWORD" '^$' "${ours}jobs\$" '^$'
