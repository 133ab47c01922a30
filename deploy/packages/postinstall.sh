#!/bin/sh
# After an install or an upgrade. Nothing starts by itself: a person decides where
# it listens first. A server that runs is restarted and goes on where it was.
set -e
[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload
systemctl try-restart breakwater.service
if ! systemctl is-enabled --quiet breakwater.service; then
	echo "breakwater: settings are in /etc/breakwater/breakwater.yaml; start it with: systemctl enable --now breakwater"
fi
