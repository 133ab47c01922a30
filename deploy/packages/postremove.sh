#!/bin/sh
# After a removal. Data and settings stay: /var/lib/private/breakwater, /etc/breakwater.
set -e
[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload
